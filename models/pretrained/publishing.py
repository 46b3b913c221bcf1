"""Publish a GPT of ours as a folder that Hugging Face's transformers opens as GPT2LMHeadModel.

Needs neither transformers nor PyTorch. `pretrained.load` reads the folder back.
"""

from pathlib import Path

from minigrad.saving import FileProblem, save_json, save_tensors
from models.gpt import GPT
from models.torch_states import named_as_in_torch

WEIGHTS = "model.safetensors"


def publish(model, folder):
    """Write config.json and model.safetensors into a folder, creating it. In transformers:

    GPT2LMHeadModel.from_pretrained(folder)
    """
    if not isinstance(model, GPT):
        kind = type(model).__name__
        raise ValueError(
            f"publish writes a GPT as GPT-2's folder; a {kind} has no such form. "
            "Convert its state with models.torch_states."
        )
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileProblem(f"The folder {folder} could not be created: {error.strerror}.") from None
    save_json(Path(folder) / "config.json", config_of(model))
    save_tensors(Path(folder) / WEIGHTS, named_as_in_torch(model.state_dict()), {"format": "pt"})


def config_of(model):
    """The settings of a GPT in Hugging Face's words."""
    block, dropout = model.h[0], model.drop.p
    return {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": model.wte.num_embeddings, "n_positions": model.max_len,
        "n_embd": model.wte.embedding_dim, "n_layer": len(model.h), "n_head": block.attn.num_heads, "n_inner": block.mlp.c_fc.out_features,
        "activation_function": "gelu_new", "layer_norm_epsilon": model.ln_f.eps, "tie_word_embeddings": True, "embd_pdrop": dropout,
        "attn_pdrop": block.attn.dropout, "resid_pdrop": block.dropout.p, "bos_token_id": None, "eos_token_id": None,
    }  # fmt: skip
