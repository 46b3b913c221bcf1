"""Optimizers and learning-rate schedules, with PyTorch's names."""

from minigrad.engine import errors
from minigrad.optim import lr_scheduler
from minigrad.optim.optimizer import SGD, Adam, AdamW, Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]


def __getattr__(name):
    raise errors.Missing(__name__, name)
