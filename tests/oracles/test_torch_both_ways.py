"""States and optimizers to PyTorch and back, GPT as a folder of Hugging Face's, and a run that goes on in two processes of PyTorch.

What imports transformers is slow: that alone takes seconds.
"""

import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT
from oracle import near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad import nn, no_grad, optim
from minigrad.nn import LayerNorm
from models import pretrained
from models.attention import MultiHeadAttention, causal_mask
from models.bert import BERT
from models.blocks import DecoderLayer, EncoderLayer
from models.gpt import GPT
from models.pretrained.publishing import publish
from models.torch_states import from_torch, memory_of, named_as_in_torch, remember, to_torch
from models.transformer import Transformer
from tutorials.outgrowing import handover

ROWS = np.array([[3, 4, 5, 8], [7, 2, 1, 6]])


def pytorch():
    return pytest.importorskip(
        "torch", reason="PyTorch is not installed; it serves as an oracle only (pip install torch)."
    )


def transformers():
    pytorch()
    return pytest.importorskip(
        "transformers",
        reason="transformers is not installed; it serves as an oracle only (pip install transformers).",
    )


def shaken(model):
    """The model with numbers everywhere: no bias is 0, no norm is 1."""
    rng = np.random.default_rng(1)
    for p in model.parameters():
        p.data += rng.normal(0, 0.2, p.shape).astype(p.dtype)
    return model


def numbers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


# ---------------------------------------------------------------- layers, to PyTorch and back

PAIRS = {  # name: (ours, theirs made with torch.nn)
    "Linear": (lambda: nn.Linear(4, 3), lambda tnn: tnn.Linear(4, 3)),
    "LSTM": (lambda: nn.LSTM(4, 3, 2, bidirectional=True), lambda tnn: tnn.LSTM(4, 3, 2, bidirectional=True)),
    "GRU": (lambda: nn.GRU(4, 3), lambda tnn: tnn.GRU(4, 3)),
    "Sequential": (
        lambda: nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm(4)),
        lambda tnn: tnn.Sequential(tnn.Embedding(5, 4), tnn.LayerNorm(4)),
    ),
    "attention": (lambda: MultiHeadAttention(8, 2), lambda tnn: tnn.MultiheadAttention(8, 2)),
    "attention, no bias": (
        lambda: MultiHeadAttention(8, 2, bias=False),
        lambda tnn: tnn.MultiheadAttention(8, 2, bias=False),
    ),
    "attention, other widths": (
        lambda: MultiHeadAttention(8, 2, kv_dim=6, v_dim=5),
        lambda tnn: tnn.MultiheadAttention(8, 2, kdim=6, vdim=5),
    ),
    "attention, inside": (
        lambda: nn.Sequential(nn.Linear(8, 8), MultiHeadAttention(8, 2)),
        lambda tnn: tnn.Sequential(tnn.Linear(8, 8), tnn.MultiheadAttention(8, 2)),
    ),
    "encoder layer": (lambda: EncoderLayer(8, 2, 12), lambda tnn: tnn.TransformerEncoderLayer(8, 2, 12)),
    "decoder layer": (lambda: DecoderLayer(8, 2, 12), lambda tnn: tnn.TransformerDecoderLayer(8, 2, 12)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_state_goes_to_pytorch_and_back(name):
    torch = pytorch()
    make, their_make = PAIRS[name]
    model, theirs, again = shaken(make()), their_make(torch.nn), make()
    theirs.load_state_dict(to_torch(model.state_dict()))  # strict: all names and shapes
    again.load_state_dict(from_torch(theirs.state_dict()))
    for key, value in model.state_dict().items():
        same(again.state_dict()[key], value)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ("post", "pre"))
def test_the_encoder_decoder_is_pytorchs_transformer(norm):
    torch = pytorch()
    model = shaken(Transformer(6, 8, 2, 2, 12, 0.0, 10, norm=norm, tie_output=False))
    if norm == "post":  # PyTorch puts one more norm behind the last layer; ours has a place for it
        model.encoder_norm, model.decoder_norm = shaken(LayerNorm(8)), shaken(LayerNorm(8))
    theirs = torch.nn.Transformer(8, 2, 2, 2, 12, 0.0, batch_first=True, norm_first=norm == "pre")
    state = to_torch(model.state_dict())
    outside = {name: state.pop(name) for name in ("embedding.weight", "output.weight")}
    theirs.load_state_dict(state)
    src, tgt = np.array([[3, 1, 4], [2, 2, 5]]), np.array([[1, 3], [1, 4]])
    with no_grad(), torch.no_grad():
        embedded = (torch.tensor(model.embed(tokens, model.embedding).data) for tokens in (src, tgt))
        wanted = (
            theirs(*embedded, tgt_mask=~torch.tensor(causal_mask(2).data[0, 0])) @ outside["output.weight"].T
        )
        near(model(src, tgt), wanted, 1e-5)
    again = Transformer(6, 8, 2, 2, 12, 0.0, 10, norm=norm, tie_output=False)
    again.encoder_norm, again.decoder_norm = LayerNorm(8), LayerNorm(8)
    again.load_state_dict(from_torch(theirs.state_dict() | outside))
    for key, value in model.state_dict().items():
        same(again.state_dict()[key], value)


def test_berts_layers_are_pytorchs():
    torch = pytorch()
    model = shaken(BERT(9, 8, 2, 2, 12, 16, 0.0))
    state = to_torch(model.state_dict())
    theirs = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True),
        2,
        enable_nested_tensor=False,
    )
    theirs.load_state_dict({name: value for name, value in state.items() if name.startswith("layers.")})
    x = numbers(2, 4, 8).astype(np.float32)
    ours = mg.tensor(x)
    for layer in model.layers:
        ours = layer(ours)
    near(ours, theirs(torch.tensor(x)), 1e-5)
    for key, value in from_torch(state).items():
        same(value, model.state_dict()[key])


def test_a_nested_transformer_and_a_stranger_keep_what_is_theirs():
    names = [
        "net.encoder.layers.0.self_attn.out_proj.weight",
        "net.encoder.layers.0.norm1.bias",
        "net.encoder.norm.bias",
        "norm1.bias",
        "linear1.bias",
    ]
    state = from_torch(
        dict.fromkeys(names, np.zeros(3))
        | {"net.encoder.layers.0.self_attn.in_proj_weight": np.zeros((9, 3))}
    )
    for name in (
        "net.encoder.0.residual1.norm.bias",
        "net.encoder.0.self_attention.q_proj.weight",
        "net.encoder_norm.bias",
        "norm1.bias",
        "linear1.bias",
    ):
        assert name in state  # what is called norm1 outside of a layer is somebody else's


def test_what_pytorch_hands_out_is_its_own():
    torch = pytorch()
    model = nn.Linear(2, 2)
    state = to_torch(model.state_dict())
    assert all(type(value) is torch.Tensor and value.is_contiguous() for value in state.values())
    before = model.weight.data.copy()
    state["weight"] += 1
    same(model.weight, before)


def test_an_attention_that_pytorch_cannot_hold_is_a_sentence():
    with refuses(ValueError, "width 8 to 8, 4, 4", "nn.MultiheadAttention"):
        named_as_in_torch(MultiHeadAttention(8, 4, num_kv_heads=2).state_dict())


# ---------------------------------------------------------------- GPT as GPT-2


def gpt(**settings):
    return GPT(11, 8, 2, 2, 16, **{"dropout": 0.0, **settings})


def their_gpt(theirs):
    sizes = dict(vocab_size=11, n_positions=16, n_embd=8, n_layer=2, n_head=2)
    return theirs.GPT2LMHeadModel(theirs.GPT2Config(**sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))


@pytest.mark.slow
@pytest.mark.parametrize("settings", ({}, {"bias": False}, {"d_ff": 12}), ids=("plain", "no bias", "d_ff"))
def test_gpt_opens_in_transformers_and_comes_back(tmp_path, settings):
    theirs, torch = transformers(), pytorch()
    model = shaken(gpt(**settings)).eval()
    publish(model, tmp_path / "gpt2")
    opened = theirs.GPT2LMHeadModel.from_pretrained(tmp_path / "gpt2").eval()
    with torch.no_grad(), no_grad():
        near(model(ROWS), opened(torch.tensor(ROWS)).logits, 1e-5)
    opened.load_state_dict(to_torch(shaken(model).state_dict()))  # a state as well as a folder; strict
    opened.save_pretrained(tmp_path / "back")
    again = pretrained.load(tmp_path / "back").model
    with no_grad():
        near(again(ROWS), model(ROWS), 1e-6)
    if not settings.get("bias", True):
        return
    other = gpt(**settings)
    other.load_state_dict(from_torch(opened.state_dict()))
    for key, value in model.state_dict().items():
        same(other.state_dict()[key], value)


def test_a_published_folder_is_read_here(tmp_path):
    model = shaken(gpt(d_ff=20)).eval()
    publish(model, tmp_path)
    again = pretrained.load(tmp_path).model
    for key, value in model.state_dict().items():
        same(again.state_dict()[key], value)


def test_only_a_gpt_is_published(tmp_path):
    with refuses(ValueError, "a Linear has no such form", "models.torch_states"):
        publish(nn.Linear(2, 2), tmp_path)


@pytest.mark.slow
def test_the_gradients_of_gpt_are_those_of_transformers():
    theirs, torch = transformers(), pytorch()
    model = shaken(gpt())
    opened = their_gpt(theirs)
    opened.load_state_dict(to_torch(model.state_dict()))
    F.cross_entropy(model(ROWS[:, :-1]).reshape(-1, 11), ROWS[:, 1:].reshape(-1)).backward()
    opened(torch.tensor(ROWS), labels=torch.tensor(ROWS)).loss.backward()
    found = from_torch({name: p.grad for name, p in opened.named_parameters()})
    for name, p in model.named_parameters():
        near(p.grad, found[name], 1e-5)


# ---------------------------------------------------------------- optimizers


@pytest.mark.slow
def test_steps_begun_here_go_on_in_pytorch_and_come_back():
    """Two steps here, two there, two here: as six here."""
    theirs, torch = transformers(), pytorch()
    settings = dict(lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)

    def steps_here(model, optimizer, count):
        for _ in range(count):
            loss = F.cross_entropy(model(ROWS[:, :-1]).reshape(-1, 11), ROWS[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    # in float32 AdamW makes steps of the noise in keys' biases, whose gradient is 0
    whole, parts = shaken(gpt().double()), gpt().double()
    parts.load_state_dict(whole.state_dict())
    steps_here(whole, optim.AdamW(whole.parameters(), **settings), 6)

    before = optim.AdamW(parts.parameters(), **settings)
    steps_here(parts, before, 2)
    opened = their_gpt(theirs).double()
    opened.load_state_dict(to_torch(parts.state_dict()))
    optimizer = torch.optim.AdamW(opened.parameters(), **settings)
    memory = {key: to_torch(state) for key, state in memory_of(before, parts).items()}
    for name, p in opened.named_parameters():
        optimizer.state[p] = {
            "step": torch.tensor(2.0),
            **{key: state[name] for key, state in memory.items()},
        }
    for _ in range(2):
        optimizer.zero_grad()
        opened(torch.tensor(ROWS), labels=torch.tensor(ROWS)).loss.backward()
        optimizer.step()

    parts.load_state_dict(from_torch(opened.state_dict()))
    after = optim.AdamW(parts.parameters(), **settings)
    back = {
        key: from_torch({name: optimizer.state[p][key] for name, p in opened.named_parameters()})
        for key in memory
    }
    remember(after, parts, back, 4)
    steps_here(parts, after, 2)
    for p, q in zip(whole.parameters(), parts.parameters(), strict=True):
        near(p, q, 1e-7)


def test_states_are_turned_without_pytorch():
    code = (
        "import sys; from models.gpt import GPT; from models.torch_states import from_torch, named_as_in_torch; "
        "from_torch(named_as_in_torch(GPT(5, 4, 1, 1, 6).state_dict())); print('torch' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )


# ---------------------------------------------------------------- the page "when you outgrow NumPy"

PAGE = (ROOT / "tutorials" / "outgrowing_numpy.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```\n((?:python|torchrun) .*?)```", PAGE, re.S)
    for line in block.splitlines()
    if "FIRST_MACHINE" not in line
]


def run(command, folder):
    """A line of the page, as if it were typed in a folder; returns what it prints."""
    program, *words = shlex.split(command)
    module = [sys.executable, "-m", "torch.distributed.run"] if program == "torchrun" else [sys.executable]
    done = subprocess.run(
        [*module, *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(text):
    return [
        float(number)
        for line in re.findall(r"validation loss (.*)", text)
        for number in re.findall(r"\d\.\d{4}", line)
    ]


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_the_pages_python_runs(tmp_path, monkeypatch):
    transformers()
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "outgrowing_numpy.md", "exec"), {})


@pytest.mark.slow
def test_a_run_goes_on_in_two_processes_of_pytorch_and_comes_back(tmp_path):
    transformers()
    train, out, ddp, back, go_on, *afterwards = COMMANDS
    assert "nproc-per-node 2" in ddp and len(afterwards) == 2
    run(train, tmp_path)
    (handed,), (opened, trained), (returned,) = (
        losses(run(command, tmp_path)) for command in (out, ddp, back)
    )
    assert abs(handed - opened) < 2e-4 and abs(trained - returned) < 2e-4 and trained < opened - 0.01
    for loss, shown in zip((handed, opened, trained, returned), losses(PAGE), strict=True):
        assert abs(loss - shown) < 0.02, "the page shows other losses"

    run(go_on, tmp_path)  # the same steps, made here
    ours, theirs = (
        rows(tmp_path / "runs" / "mine" / "metrics.jsonl"),
        rows(tmp_path / "handed" / "after" / "metrics.jsonl"),
    )
    assert len(ours) == 400 and len(theirs) == 100
    for a, b in zip(ours[300:], theirs, strict=True):
        assert (
            a["step"] == b["step"]
            and abs(a["loss"] - b["loss"]) < 2e-5
            and abs(a["gradient norm"] - b["gradient norm"]) < 1e-4
        )
    for command in afterwards:
        run(command, tmp_path)
    assert len(rows(tmp_path / "runs" / "mine-on" / "metrics.jsonl")) == 500


def test_what_cannot_be_handed_over_is_a_sentence(tmp_path, capsys):
    assert handover.main(["out", str(tmp_path), str(tmp_path / "x")]) == 2
    assert "has no checkpoint to go on from" in capsys.readouterr().err
    assert handover.main(["back", str(tmp_path), str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "a run is never overwritten" in capsys.readouterr().err
    assert handover.main(["out", str(tmp_path), str(tmp_path / "x"), "--steps", "0"]) == 2
    assert "--steps needs a whole number from 1" in capsys.readouterr().err


def test_the_training_program_in_pytorch_is_short():
    lines = (ROOT / "tutorials" / "outgrowing" / "ddp.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120 and f"{len(lines)} lines" in PAGE


def test_a_state_is_copied_and_bfloat16_is_widened_and_what_is_none_is_a_sentence():
    torch = pytorch()
    theirs = {"weight": torch.ones(2, 3), "scale": torch.tensor([1.5, 2.0], dtype=torch.bfloat16)}
    state = from_torch(theirs)
    theirs["weight"].zero_()
    assert (
        state["weight"].min() == 1
        and state["scale"].dtype == np.float32
        and state["scale"].tolist() == [1.5, 2.0]
    )
    for wrong in ("x", {"a": torch.ones(1)}):
        with pytest.raises(TypeError, match="A state holds tensors or arrays by name"):
            from_torch({"weight": wrong})
