"""Describe what is measured: a Case is a piece of work, a Side is one library's implementation of it."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Side:
    """One library's implementation of a case.

    build() prepares everything that is not timed and returns step. step(number) does the work of that number
    and returns a figure, the loss, which shows that the sides do the same work. `build` must pickle, because
    it runs in another process.
    """

    name: str
    build: Callable
    # the module that this side needs; the memory of its import does not count as memory of the work
    needs: str = "minigrad"
    checked: bool = True  # False if there is no figure to compare: matrix products alone
    may_fail: bool = False  # True: skipped with a message if it cannot be built, as without a compiler
    fewest_threads: int = 1  # skipped with fewer threads
    pinned: bool = (
        False  # True: the library has no thread setting, so its process is limited to as many cores
    )

    def is_installed(self):
        return importlib.util.find_spec(self.needs) is not None


@dataclass(frozen=True)
class Case:
    """A piece of work and its sides. The first side is ours; ratios are ours / theirs.

    A step may consist of many units, such as the 1,000 operations of a chain. A turn has `steps` timed steps,
    each side has `rounds` turns, and the losses of `checked` steps must agree. Cases with long steps have
    fewer.
    """

    name: str
    sides: tuple
    unit: str = "step"
    units: int = 1
    rounds: int = 15
    steps: int = 20
    warm: int = 2  # untimed steps at the start of each turn, which warm up caches and threads
    checked: int = 20
    tolerance: float = 1e-4  # of the losses, absolute and relative


GEMMS = "GEMMs alone"  # the side that computes only the matrix products of a step: the limit of all others
