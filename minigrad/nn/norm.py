"""Normalization: each example's features get mean 0 and variance 1 (or mean square 1), then a learned scale."""

from minigrad import functional as F
from minigrad.nn.module import Module, Parameter
from minigrad.ops.creation import ones, zeros


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes (Ba, Kiros & Hinton 2016)."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True):
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps = shape, eps
        self.weight = Parameter(ones(shape)) if elementwise_affine else None
        self.bias = Parameter(zeros(shape)) if elementwise_affine and bias else None

    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last axes (Zhang & Sennrich 2019).

    eps=None means the dtype's machine epsilon, as in PyTorch.
    """

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True):
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps = shape, eps
        self.weight = Parameter(ones(shape)) if elementwise_affine else None

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"
