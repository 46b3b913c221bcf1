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
    needs: str = "numpy"  # the module without which this side cannot run

    def is_installed(self):
        return importlib.util.find_spec(self.needs) is not None


@dataclass(frozen=True)
class Case:
    """The first side is ours; ratios are ours / theirs. A step may hold many units, such as the 1,000 operations of a chain."""

    name: str
    sides: tuple
    unit: str = "step"
    units: int = 1
