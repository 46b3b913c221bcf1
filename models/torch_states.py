"""Our states under PyTorch's names, and PyTorch's under ours. Knows names and how matrices lie; PyTorch is imported only to make
its tensors.

    theirs.load_state_dict(to_torch(ours.state_dict()))        ours.load_state_dict(from_torch(theirs.state_dict()))

Most names agree already (Linear, LayerNorm, Embedding, LSTM ...) and stay as they are. What is turned: attention (PyTorch's three
projections lie in one), the layers around it (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.Transformer), and GPT, which
becomes transformers' GPT2LMHeadModel.
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
    """A state of ours -> {PyTorch's name: torch.Tensor}, copies; a matrix that stands in two places is one tensor."""
    import torch

    found = {
        name: torch.from_numpy(np.array(value, order="C")) for name, value in named_as_in_torch(state).items()
    }
    return found | ({HEAD: found[TABLE]} if TABLE in found else {})


def from_torch(state):
    """A state of PyTorch's, of tensors or arrays -> {our name: array}."""
    state = {name: _array(value) for name, value in state.items()}
    if is_gpt(state):
        return from_gpt2_state(state)
    theirs = dict(zip(LAYER.values(), LAYER, strict=True))
    state = _split(_in_layers(state, theirs, "self_attn.out_proj.weight"))
    return {_in_stacks(name, 1): value for name, value in state.items()}


def named_as_in_torch(state):
    """A state of ours -> {PyTorch's name: array}, without the second name of what GPT-2 has twice. Needs no PyTorch."""
    state = {name: _array(value) for name, value in state.items()}
    if is_gpt(state):
        return _gpt2(state)
    state = _joined(_in_layers(state, LAYER, "self_attention.out_proj.weight"))
    return {_in_stacks(name, 0): value for name, value in state.items()}


def is_gpt(state):
    return any(name.endswith("attn.c_attn.weight") for name in state)


def _array(value):
    """A copy of the numbers of a tensor, ours or PyTorch's, or of an array; of bfloat16, which NumPy does not have, as float32."""
    value = value.detach() if hasattr(value, "detach") else value
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        value = value.float()
    found = np.array(value.cpu().numpy() if hasattr(value, "cpu") else value)
    if found.dtype.kind not in "fiub":
        raise TypeError(f"A state holds tensors or arrays by name, got {value!r:.60}.")
    return found


# ---------------------------------------------------------------- layers and stacks of them


def _in_layers(state, names, mark):
    """The state with other names inside each layer; a layer is where something is called `mark`."""
    layers = {name.removesuffix(mark) for name in state if name == mark or name.endswith(f".{mark}")}
    inside = re.compile("|".join(map(re.escape, names)))

    def renamed(name):
        places = (found for found in inside.finditer(name) if name[: found.start()] in layers)
        found = next(places, None)
        return name if found is None else name[: found.start()] + names[found[0]] + name[found.end() :]

    return {renamed(name): value for name, value in state.items()}


def _in_stacks(name, direction):
    for both in STACKS:
        name = re.sub(*both[direction], name)
    return name


# ---------------------------------------------------------------- attention


def _joined(state):
    """The state with the three projections of each attention as PyTorch has them: in one matrix, or, where the widths of what is
    attended to differ, in three."""
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
            f"The attention {prefix or 'given'} projects {width} numbers to {', '.join(map(str, rows))} for queries, keys and values; "
            "PyTorch's nn.MultiheadAttention projects to as many as come in each time, so it cannot hold this one."
        )


def _split(state):
    """The state with each of PyTorch's attentions as ours; an attention is where something is called in_proj_weight or q_proj_weight."""
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
    """GPT's state as the published one: its linear layers' matrices are (in, out), and it has all biases, zeros where ours has none."""
    out = {}
    for name, value in state.items():
        turned = name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
        out[f"transformer.{name}"] = value.T if turned else value
        if name.endswith("weight") and name not in ("wte.weight", "wpe.weight"):
            out.setdefault(
                f"transformer.{name.removesuffix('weight')}bias", np.zeros(len(value), value.dtype)
            )
    return out


# ---------------------------------------------------------------- what an optimizer remembers


def memory_of(optimizer, model):
    """{"exp_avg", "exp_avg_sq" ...: {name: array}} of the parameters that have made a step: states, to be turned like the weights'."""
    found = {}
    for name, p in model.named_parameters():
        for key, value in optimizer.state.get(p, {}).items():
            if key != "step":
                found.setdefault(key, {})[name] = value
    return found


def remember(optimizer, model, memory, steps):
    """Let an optimizer of ours go on from such states, as after so many steps."""
    for name, p in model.named_parameters():
        known = {key: np.array(state[name], p.dtype) for key, state in memory.items() if name in state}
        if known:
            optimizer.state[p] = {"step": steps, **known}
