"""Linear: y = x W^T + b. Identity: y = x. Flatten: merge axes."""

import math

from minigrad import functional as F
from minigrad.nn import init
from minigrad.nn.module import Module, Parameter
from minigrad.ops import flatten
from minigrad.ops.creation import empty


class Linear(Module):
    """y = x W^T + b: weight (out_features, in_features) as in PyTorch, initially uniform in +-1/sqrt(in)."""

    def __init__(self, in_features, out_features, bias=True):
        if in_features < 1 or out_features < 1:
            raise ValueError(
                f"Linear needs at least one feature on each side, got {in_features} and {out_features}."
            )
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features))
        self.bias = Parameter(empty(out_features)) if bias else None
        bound = 1 / math.sqrt(in_features)
        init.uniform_(self.weight, -bound, bound)
        if bias:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x):
        """x (..., in_features) -> (..., out_features)."""
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Identity(Module):
    """Returns its input. Ignores all arguments of the constructor, so that it can replace another layer."""

    def __init__(self, *_, **__):
        pass

    def forward(self, x):
        return x


class Flatten(Module):
    """Merge the axes from start_dim to end_dim into one; by default all but the first, the batch."""

    def __init__(self, start_dim=1, end_dim=-1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        return flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
