"""Optimizers and learning-rate schedules, with PyTorch's names."""

from minigrad.optim import lr_scheduler
from minigrad.optim.optimizer import SGD, Adam, AdamW, Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
