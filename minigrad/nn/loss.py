"""Losses as modules: settings kept, computed by functional.py."""

from minigrad import functional as F
from minigrad.nn.module import Module


class CrossEntropyLoss(Module):
    """F.cross_entropy of logits and targets."""

    def __init__(self, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        if weight is not None:
            self.register_buffer("weight", weight)
        else:
            self.weight = None
        self.ignore_index, self.reduction, self.label_smoothing = ignore_index, reduction, label_smoothing

    def forward(self, input, target):
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class MSELoss(Module):
    """The mean of (input - target)^2."""

    def __init__(self, reduction="mean"):
        self.reduction = reduction

    def forward(self, input, target):
        return F.mse_loss(input, target, self.reduction)
