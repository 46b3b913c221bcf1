"""Optimizers and learning-rate schedules, with PyTorch's names."""

from minigrad import explain
from minigrad.optim import lr_scheduler
from minigrad.optim.optimizer import SGD, Adam, AdamW, Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]


def __getattr__(name):
    raise explain.Missing(__name__, name)
