"""Conversion of states between our names and PyTorch's. Only to_torch imports PyTorch, to make its tensors.

    theirs.load_state_dict(to_torch(ours.state_dict()))
    ours.load_state_dict(from_torch(theirs.state_dict()))

Most names agree already (Linear, LayerNorm, Embedding, LSTM ...). Converted are attention (PyTorch keeps the
three projections in one matrix), the layers around it (nn.TransformerEncoderLayer,
nn.TransformerDecoderLayer, nn.Transformer), and GPT, which becomes transformers' GPT2LMHeadModel.
"""

import re

import numpy as np

from models.attention import from_torch_state
from models.gpt import from_gpt2_state

LAYER = {  # inside a layer with self-attention: our names, PyTorch's
    "self_attention.": "self_attn.", "cross_attention.": "multihead_attn.", "feed_forward.linear1.": "linear1.",
    "feed_forward.linear2.": "linear2.", "residual1.norm.": "norm1.", "residual2.norm.": "norm2.", "residual3.norm.": "norm3.",
}  # fmt: skip
STACKS = (  # of layers in an encoder-decoder: (ours, PyTorch's), each as pattern and replacement
    ((r"\b(encoder|decoder)\.(?=\d+\.)", r"\1.layers."), (r"\b(encoder|decoder)\.layers\.(?=\d+\.)", r"\1.")),
    ((r"\b(encoder|decoder)_norm\.", r"\1.norm."), (r"\b(encoder|decoder)\.norm\.", r"\1_norm.")),
)
HEAD, TABLE = "lm_head.weight", "transformer.wte.weight"  # one matrix in GPT-2


def to_torch(state):
    """Convert a state of ours to {PyTorch's name: torch.Tensor}, copies; a tied matrix becomes one tensor."""
    import torch

    found = {
        name: torch.from_numpy(np.array(value, order="C")) for name, value in named_as_in_torch(state).items()
    }
    return found | ({HEAD: found[TABLE]} if TABLE in found else {})


def from_torch(state):
    """Convert a state of PyTorch's, of tensors or arrays, to {our name: array}."""
    state = {name: _array(value) for name, value in state.items()}
    if is_gpt(state):
        return from_gpt2_state(state)
    theirs = dict(zip(LAYER.values(), LAYER, strict=True))
    state = _split_projections(_rename_in_layers(state, theirs, "self_attn.out_proj.weight"))
    return {_rename_stack(name, 1): value for name, value in state.items()}


def named_as_in_torch(state):
    """Convert a state of ours to {PyTorch's name: array}, without PyTorch. A tied matrix has one name."""
    state = {name: _array(value) for name, value in state.items()}
    if is_gpt(state):
        return _gpt2(state)
    state = _join_projections(_rename_in_layers(state, LAYER, "self_attention.out_proj.weight"))
    return {_rename_stack(name, 0): value for name, value in state.items()}


def is_gpt(state):
    return any(name.endswith("attn.c_attn.weight") for name in state)


def _array(value):
    """Copy a tensor (ours or PyTorch's) or array to an array; bfloat16, unknown to NumPy, becomes float32."""
    value = value.detach() if hasattr(value, "detach") else value
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        value = value.float()
    found = np.array(value.cpu().numpy() if hasattr(value, "cpu") else value)
    if found.dtype.kind not in "fiub":
        raise TypeError(f"A state holds tensors or arrays by name, got {value!r:.60}.")
    return found


# ---------------------------------------------------------------- layers and stacks of them


def _rename_in_layers(state, names, mark):
    """Rename the entries inside each layer; a layer is a prefix under which the name `mark` exists."""
    layers = {name.removesuffix(mark) for name in state if name == mark or name.endswith(f".{mark}")}
    inside = re.compile("|".join(map(re.escape, names)))

    def rename(name):
        matches = (found for found in inside.finditer(name) if name[: found.start()] in layers)
        found = next(matches, None)
        return name if found is None else name[: found.start()] + names[found[0]] + name[found.end() :]

    return {rename(name): value for name, value in state.items()}


def _rename_stack(name, direction):
    for both in STACKS:
        name = re.sub(*both[direction], name)
    return name


# ---------------------------------------------------------------- attention


def _join_projections(state):
    """Join the three projections of each attention in one matrix, as PyTorch does if their shapes agree."""
    out = dict(state)
    for name in state:
        prefix = name.removesuffix("q_proj.weight")
        if prefix == name or f"{prefix}out_proj.weight" not in state:
            continue
        weights = [out.pop(f"{prefix}{part}_proj.weight") for part in "qkv"]
        _check_heads(prefix, weights)
        if len({w.shape for w in weights}) == 1:
            out[f"{prefix}in_proj_weight"] = np.concatenate(weights)
        else:
            out |= {f"{prefix}{part}_proj_weight": w for part, w in zip("qkv", weights, strict=True)}
        if f"{prefix}q_proj.bias" in state:
            out[f"{prefix}in_proj_bias"] = np.concatenate(
                [out.pop(f"{prefix}{part}_proj.bias") for part in "qkv"]
            )
    return out


def _check_heads(prefix, weights):
    rows, width = [w.shape[0] for w in weights], weights[0].shape[1]
    if set(rows) != {width}:
        raise ValueError(
            f"The attention {prefix or 'given'} projects width {width} to {', '.join(map(str, rows))} for "
            "queries, keys and values; PyTorch's nn.MultiheadAttention keeps the width, and cannot hold it."
        )


def _split_projections(state):
    """Convert each of PyTorch's attentions to ours: each prefix of an in_proj_weight or q_proj_weight."""
    prefixes = {found[1] for name in state if (found := re.fullmatch(r"(|.*\.)(?:in|q)_proj_weight", name))}
    out, attentions = {}, {prefix: {} for prefix in prefixes}
    for name, value in state.items():
        found = re.fullmatch(
            r"(|.*\.)(in_proj_(?:weight|bias)|[qkv]_proj_weight|out_proj\.(?:weight|bias)|bias_[kv])", name
        )
        inside = found is not None and found[1] in prefixes
        (attentions[found[1]] if inside else out)[found[2] if inside else name] = value
    for prefix, attention in attentions.items():
        out |= {prefix + name: value for name, value in from_torch_state(attention).items()}
    return out


# ---------------------------------------------------------------- GPT-2


def _gpt2(state):
    """Convert GPT's state to the published form: linear layers (in, out), and zeros for absent biases."""
    out = {}
    for name, value in state.items():
        is_conv1d = name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
        out[f"transformer.{name}"] = value.T if is_conv1d else value
        if name.endswith("weight") and name not in ("wte.weight", "wpe.weight"):
            out.setdefault(
                f"transformer.{name.removesuffix('weight')}bias", np.zeros(len(value), value.dtype)
            )
    return out


# ---------------------------------------------------------------- the optimizer's state


def memory_of(optimizer, model):
    """The optimizer's state by kind and name: {"exp_avg", "exp_avg_sq" ...: {name: array}}.

    Holds the parameters that have made a step; each kind converts as the weights' state does."""
    found = {}
    for name, p in model.named_parameters():
        for key, value in optimizer.state.get(p, {}).items():
            if key != "step":
                found.setdefault(key, {})[name] = value
    return found


def remember(optimizer, model, memory, steps):
    """Set the state of an optimizer of ours to `memory`, as after `steps` steps."""
    for name, p in model.named_parameters():
        known = {key: np.array(state[name], p.dtype) for key, state in memory.items() if name in state}
        if known:
            optimizer.state[p] = {"step": steps, **known}
