"""Activations as modules, to stand in a Sequential; each is one function of functional.py."""

from minigrad import functional as F
from minigrad.nn.module import Module


class ReLU(Module):
    """max(0, x)."""

    def forward(self, x):
        return F.relu(x)


class GELU(Module):
    """x Phi(x); approximate='tanh' for GPT-2's form."""

    def __init__(self, approximate="none"):
        self.approximate = approximate

    def forward(self, x):
        return F.gelu(x, self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """x sigmoid(x)."""

    def forward(self, x):
        return F.silu(x)


class Tanh(Module):
    """tanh(x)."""

    def forward(self, x):
        return F.tanh(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x):
        return F.sigmoid(x)


class Softmax(Module):
    """exp(x) / sum exp(x) along `dim`."""

    def __init__(self, dim=-1):
        self.dim = dim

    def forward(self, x):
        return F.softmax(x, self.dim)
