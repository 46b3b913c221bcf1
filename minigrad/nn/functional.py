"""PyTorch's import path for minigrad.functional; nothing is defined here."""

from minigrad import explain
from minigrad.functional import *  # noqa: F403


def __getattr__(name):
    raise explain.Missing(__name__, name)
