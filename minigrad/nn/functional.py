"""PyTorch's import path for minigrad.functional; nothing is defined here."""

from minigrad.functional import *  # noqa: F403
