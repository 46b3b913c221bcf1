"""LoRA: fine-tuning that adds a low-rank product to some matrices and trains nothing else (Hu et al. 2021).

model = lora(load("minilm").model, rank=8, where="q_proj|v_proj")      # trains 0.3 % of the parameters
merge(model)                                                           # makes it a plain model again
"""

import math
import re

from minigrad import functional as F
from minigrad.nn import Linear, Parameter, init
from minigrad.ops.creation import empty


class LoRA(Linear):
    """y = x W^T + b + (alpha / rank) (x A^T) B^T (equation 3).

    W and b are the layer's and are frozen; A (rank, in) and B (out, rank) train. B starts at 0, so that y is
    unchanged at first."""

    def __init__(self, layer, rank, alpha):
        self.in_features, self.out_features, self.weight = layer.in_features, layer.out_features, layer.weight
        self.bias = layer.bias
        bound = 1 / math.sqrt(layer.in_features)
        self.A = init.uniform_(
            Parameter(empty(rank, layer.in_features, dtype=layer.weight.dtype)), -bound, bound
        )
        self.B = init.zeros_(Parameter(empty(layer.out_features, rank, dtype=layer.weight.dtype)))
        self.scale = alpha / rank

    def forward(self, x):
        """x (..., in_features) -> (..., out_features)."""
        return super().forward(x) + F.linear(F.linear(x, self.A), self.B) * self.scale

    def to_linear(self):
        """A plain Linear that computes the same: W + (alpha / rank) B A."""
        layer = Linear(self.in_features, self.out_features, self.bias is not None)
        layer.weight = Parameter(self.weight.detach() + self.B.detach() @ self.A.detach() * self.scale)
        layer.bias = self.bias
        return layer


def lora(model, rank=8, alpha=16.0, where="q_proj|v_proj"):
    """Wrap the Linear layers whose names contain the pattern `where`, and freeze everything else.

    A layer's name is its path in the model, such as layers.0.self_attention.q_proj."""
    if rank < 1:
        raise ValueError(f"LoRA's rank is an integer from 1, got {rank}.")
    linears = [found for found in _places(model) if type(found[2]) is Linear]
    chosen = [found for found in linears if re.search(where, found[3])]
    if not chosen:
        there = ", ".join(sorted({name for _, name, *_ in linears})) or "nothing, for it has none"
        raise ValueError(f"No Linear layer's name contains {where!r}; this model's names end in {there}.")
    model.requires_grad_(False)
    for parent, name, layer, _ in chosen:
        setattr(parent, name, LoRA(layer, rank, alpha))
    return model


def merge(model):
    """Replace LoRA's layers by plain ones and make every parameter trainable. Returns the model."""
    for parent, name, layer, _ in _places(model):
        if isinstance(layer, LoRA):
            setattr(parent, name, layer.to_linear())
    return model.requires_grad_(True)


def _places(model):
    """[(parent, name in the parent, module, full name)] of every module inside the model."""
    return [
        (m, name, child, f"{path}.{name}".lstrip("."))
        for path, m in model.named_modules()
        for name, child in m.named_children()
    ]
