"""Losses as modules, with PyTorch's names and defaults; each calls one function of functional."""

from minigrad import functional as F
from minigrad.nn.module import Module


class CrossEntropyLoss(Module):
    """F.cross_entropy of logits and targets."""

    def __init__(self, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        _keep(self, weight=weight)
        self.ignore_index, self.reduction, self.label_smoothing = ignore_index, reduction, label_smoothing

    def forward(self, input, target):
        return F.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )


class NLLLoss(Module):
    """F.nll_loss of log probabilities and targets."""

    def __init__(self, weight=None, ignore_index=-100, reduction="mean"):
        _keep(self, weight=weight)
        self.ignore_index, self.reduction = ignore_index, reduction

    def forward(self, input, target):
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class BCELoss(Module):
    """F.binary_cross_entropy of probabilities and targets from 0 to 1."""

    def __init__(self, weight=None, reduction="mean"):
        _keep(self, weight=weight)
        self.reduction = reduction

    def forward(self, input, target):
        return F.binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(Module):
    """F.binary_cross_entropy_with_logits of logits and targets from 0 to 1."""

    def __init__(self, weight=None, reduction="mean", pos_weight=None):
        _keep(self, weight=weight, pos_weight=pos_weight)
        self.reduction = reduction

    def forward(self, input, target):
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class MSELoss(Module):
    """The mean of (input - target)^2."""

    def __init__(self, reduction="mean"):
        self.reduction = reduction

    def forward(self, input, target):
        return F.mse_loss(input, target, self.reduction)


class L1Loss(Module):
    """The mean of |input - target|."""

    def __init__(self, reduction="mean"):
        self.reduction = reduction

    def forward(self, input, target):
        return F.l1_loss(input, target, self.reduction)


class SmoothL1Loss(Module):
    """d^2 / (2 beta) if the distance d is below beta, else d - beta / 2."""

    def __init__(self, reduction="mean", beta=1.0):
        self.reduction, self.beta = reduction, beta

    def forward(self, input, target):
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)


class HuberLoss(Module):
    """d^2 / 2 if the distance d is at most delta, else delta (d - delta / 2)."""

    def __init__(self, reduction="mean", delta=1.0):
        self.reduction, self.delta = reduction, delta

    def forward(self, input, target):
        return F.huber_loss(input, target, self.reduction, self.delta)


class KLDivLoss(Module):
    """target (log target - input), of log probabilities and probabilities."""

    def __init__(self, reduction="mean", log_target=False):
        self.reduction, self.log_target = reduction, log_target

    def forward(self, input, target):
        return F.kl_div(input, target, self.reduction, self.log_target)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`."""

    def __init__(self, dim=1, eps=1e-8):
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class CosineEmbeddingLoss(Module):
    """1 - cos of the angle if the target is 1; if it is -1, max(0, cos - margin)."""

    def __init__(self, margin=0.0, reduction="mean"):
        self.margin, self.reduction = margin, reduction

    def forward(self, input1, input2, target):
        return F.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


def _keep(module, **weights):
    """Register weights as buffers, so that they are saved and converted with the module; None stays None."""
    for name, weight in weights.items():
        setattr(module, name, None) if weight is None else module.register_buffer(name, weight)
