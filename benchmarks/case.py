"""What is measured: a Case is one piece of work, a Side one library's way of doing it. Knows no library and no clock."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Side:
    """build() prepares everything that is not timed and returns step; step(number) does the work of that number and returns
    a figure (the loss) by which the sides are known to do the same. `build` must pickle: it runs in another process."""

    name: str
    build: Callable
    # the module without which this side cannot run; what its import takes is not the work's memory
    needs: str = "minigrad"
    checked: bool = True  # False where there is no figure: matrix products alone
    # left out, with a sentence, where it cannot be built: a compiler that is not there
    may_fail: bool = False
    fewest_threads: int = 1  # left out where there are fewer
    # its library cannot be told how many threads to use, so its process gets that many cores
    pinned: bool = False

    def is_installed(self):
        return importlib.util.find_spec(self.needs) is not None


@dataclass(frozen=True)
class Case:
    """The first side is ours; ratios are ours / theirs. A step may hold many units, such as the 1,000 operations of a chain.

    Long steps are taken fewer times: `steps` timed ones in a turn, `rounds` turns, `checked` steps whose losses must agree.
    """

    name: str
    sides: tuple
    unit: str = "step"
    units: int = 1
    rounds: int = 15
    steps: int = 20
    warm: int = 2  # steps at the start of each turn that are not timed: they bring caches and threads back
    checked: int = 20
    tolerance: float = 1e-4  # of the losses, absolute and relative


GEMMS = "GEMMs alone"  # the side that does a step's matrix products and nothing else: the limit of all others
