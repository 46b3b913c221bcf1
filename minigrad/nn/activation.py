"""Activations as modules, for use in a Sequential; each calls one function of functional."""

from minigrad import functional as F
from minigrad.nn.module import Module


class ReLU(Module):
    """max(0, x)."""

    def forward(self, x):
        return F.relu(x)


class GELU(Module):
    """x Phi(x); approximate='tanh' is GPT-2's form."""

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


class LogSoftmax(Softmax):
    """log softmax(x) along `dim`."""

    def forward(self, x):
        return F.log_softmax(x, self.dim)


class LeakyReLU(Module):
    """x if positive, else negative_slope * x."""

    def __init__(self, negative_slope=0.01):
        self.negative_slope = negative_slope

    def forward(self, x):
        return F.leaky_relu(x, self.negative_slope)

    def extra_repr(self):
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """x if positive, else alpha (exp(x) - 1)."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def forward(self, x):
        return F.elu(x, self.alpha)

    def extra_repr(self):
        return f"alpha={self.alpha}"


class Softplus(Module):
    """log(1 + exp(beta x)) / beta."""

    def __init__(self, beta=1.0, threshold=20.0):
        self.beta, self.threshold = beta, threshold

    def forward(self, x):
        return F.softplus(x, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}"


class LogSigmoid(Module):
    """log sigmoid(x)."""

    def forward(self, x):
        return F.logsigmoid(x)


class Hardtanh(Module):
    """Limit x to at least min_val and at most max_val."""

    def __init__(self, min_val=-1.0, max_val=1.0):
        self.min_val, self.max_val = min_val, max_val

    def forward(self, x):
        return F.hardtanh(x, self.min_val, self.max_val)

    def extra_repr(self):
        return f"{self.min_val}, {self.max_val}"


class ReLU6(Module):
    """Limit x to [0, 6]."""

    def forward(self, x):
        return F.relu6(x)
