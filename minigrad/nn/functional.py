"""PyTorch's import path for minigrad.functional; nothing is defined here."""

from minigrad.engine import errors
from minigrad.functional import *  # noqa: F403


def __getattr__(name):
    raise errors.Missing(__name__, name)
