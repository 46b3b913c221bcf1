"""Dropout: in training, set each element to 0 with probability p and scale the others to keep the mean."""

from minigrad import functional as F
from minigrad.nn.module import Module


class Dropout(Module):
    """F.dropout in training (Srivastava et al. 2014); the identity in evaluation."""

    def __init__(self, p=0.5):
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p is a probability from 0 to 1, got {p}.")
        self.p = p

    def forward(self, x):
        return F.dropout(x, self.p, self.training)

    def extra_repr(self):
        return f"p={self.p}"
