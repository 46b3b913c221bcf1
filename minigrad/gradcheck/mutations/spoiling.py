"""How to spoil a rule, or the engine: what the mutation run does to them, one at a time. Knows rows; no calculus."""

import contextlib
import functools
import math
from dataclasses import dataclass

import numpy as np

from minigrad.engine import reverse_pass
from minigrad.engine.graph import name_of, nodes_behind
from minigrad.engine.table import CONSTANT, RULES, EachRow, KernelRow, Row
from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.mutations.dropping import is_readable, without_a_term


def transposed(d):
    return d.mT if d.ndim > 1 and d.shape[-1] == d.shape[-2] else d


def through_float32(d):
    return d.astype(np.float32).astype(d.dtype) if isinstance(d, np.ndarray) else d


RESULTS = {  # what is done to the gradient that a rule gives
    "scaled by 1.001": lambda d: d * 1.001, "doubled": lambda d: d * 2, "sign": lambda d: -d, "zeroed": lambda d: 0 * d,
    "transposed": transposed, "through float32": through_float32,
}  # fmt: skip


def detached(x):
    if isinstance(x, tuple):
        return tuple(map(detached, x))
    return x.detach() if isinstance(x, Tensor) else x


ARGUMENTS = {  # what a rule is given: (g, y, args)
    "arguments swapped": lambda g, y, *args: (g, y, *args[:-2], args[-1], args[-2]),
    "arguments detached": lambda g, y, *args: (g, *detached((y, *args))),
    "g detached": lambda g, y, *args: (detached(g), y, *args),
}


def after(change, gradient):
    """A changed gradient; of a tuple of gradients, each changed; None stays None."""
    if type(gradient) is tuple:
        return tuple(after(change, part) for part in gradient)
    return None if gradient is None else change(gradient)


@dataclass
class Mutant:
    """A row with one rule spoiled."""

    fun: object
    position: int  # of the argument whose rule it is
    how: str
    row: object
    term: str = ""  # what was dropped

    @property
    def order(self):
        """The order of derivative that shows it."""
        return 2 if "detached" in self.how else 1

    def __str__(self):
        return f"{name_of(self.fun)}, argument {self.position}, {self.how}" + f": {self.term}" * bool(
            self.term
        )


def mutants(fun, needed):
    """Everything that is done to a row, for those arguments whose gradient the samples need."""
    row, needed = RULES[fun], sorted(needed)
    if not needed:
        return []
    made = [Mutant(fun, i, how, spoiled(row, i, how)) for i in needed for how in RESULTS]
    if isinstance(row, Row):  # a kernel's second derivative is its definition's
        made += [
            Mutant(fun, i, how, spoiled(row, i, how))
            for i in needed
            for how in ("g detached", "arguments detached")
        ]
    if type(row) is Row and len(row.rules) > 1:
        made += [Mutant(fun, i, "arguments swapped", spoiled(row, i, "arguments swapped")) for i in needed]
    if isinstance(row, EachRow) or len(needed) > 1 and isinstance(row, (Row, KernelRow)):
        made.append(Mutant(fun, needed[0], "rules exchanged", exchanged(row, needed)))
    return made + list(_dropped(fun, row, needed))


def _dropped(fun, row, needed):
    """The mutants that lack a term."""
    if type(row) is Row:
        for i in needed:
            for term, rule in without_a_term(row.rules[i]):
                yield Mutant(
                    fun, i, "term dropped", Row(row.fun, row.rules[:i] + (rule,) + row.rules[i + 1 :]), term
                )
    elif isinstance(row, (EachRow, KernelRow)):
        for term, rule in without_a_term(row.rules if isinstance(row, EachRow) else row.backward):
            new = (
                EachRow(row.fun, rule)
                if isinstance(row, EachRow)
                else KernelRow(row.definition, row.forward, rule)
            )
            yield Mutant(fun, needed[0], "term dropped", new, term)


def unreadable(fun):
    """Has the row a rule whose terms cannot be dropped, because its source cannot be compiled again?"""
    row = RULES[fun]
    rules = (
        row.rules
        if type(row) is Row
        else [row.rules]
        if isinstance(row, EachRow)
        else [getattr(row, "backward", None)]
    )
    return any(rule is not None and not is_readable(rule) for rule in rules) or not isinstance(
        row, (Row, KernelRow)
    )


class SpoiledRow:
    """A row of another kind, which computes all its gradients at once, with the i-th of them spoiled."""

    def __init__(self, row, i, how):
        self.row, self.i, self.how, self.reads_by_needs, self.reads = row, i, how, {}, row.reads

    def vjp(self, *given):
        return [after(RESULTS[self.how], d) if j == self.i else d for j, d in enumerate(self.row.vjp(*given))]


def spoiled(row, i, how):
    """The row with its i-th rule spoiled."""
    if isinstance(row, KernelRow):
        return KernelRow(row.definition, row.forward, lambda *args, **kwargs: [
            after(RESULTS[how], d) if j == i else d for j, d in enumerate(row.backward(*args, **kwargs))
        ])  # fmt: skip
    if not isinstance(row, Row):
        return SpoiledRow(row, i, how)
    if isinstance(row, EachRow):
        return EachRow(
            row.fun,
            lambda j, g, *rest, **kwargs: _spoil(functools.partial(row.rules, j), how)(g, *rest, **kwargs),
        )
    return Row(row.fun, row.rules[:i] + (_spoil(row.rules[i], how),) + row.rules[i + 1 :])


def exchanged(row, needed):
    """The row with the rules of two arguments (that need one) exchanged."""
    if isinstance(row, EachRow):
        return EachRow(
            row.fun, lambda i, g, y, *xs, **kwargs: row.rules(len(xs) - 1 - i, g, y, *xs, **kwargs)
        )
    i, j = needed[:2]

    def swap(items):
        items = list(items)
        items[i], items[j] = items[j], items[i]
        return tuple(items)

    if isinstance(row, KernelRow):

        def backward(g, y, saved, needs, *args):
            both = tuple(needed or k in (i, j) for k, needed in enumerate(needs))
            return [
                d if needed else None
                for d, needed in zip(swap(row.backward(g, y, saved, both, *args)), needs, strict=True)
            ]

        return KernelRow(row.definition, row.forward, backward)
    return Row(row.fun, swap(row.rules))


def _spoil(rule, how):
    """The rule changed; its parameters say that it reads everything."""
    if how in RESULTS:
        return lambda g, *rest, **kwargs: after(RESULTS[how], rule(g, *rest, **kwargs))
    return lambda g, *rest, **kwargs: rule(*ARGUMENTS[how](g, *rest), **kwargs)


@contextlib.contextmanager
def table_with(fun, row):
    """The table with another row for `fun`, for a while."""
    before = RULES[fun]
    RULES[fun] = row
    try:
        yield
    finally:
        RULES[fun] = before


def rows():
    """Every function with a rule, and its row."""
    return {fun: row for fun, row in RULES.items() if row is not CONSTANT}


# ---------------------------------------------------------------- the engine


def in_the_order_of_discovery(starts, ends=()):
    """All nodes, as a walk from the end meets them."""
    return nodes_behind(starts)[::-1]


def mean_over(g, shape, node):
    """Undoing broadcasting by the mean."""
    return _unbroadcast(g, shape, node) * (math.prod(shape) / g.size)


def first_of(g, shape, node):
    """Undoing broadcasting by taking the first."""
    return g[(0,) * (g.ndim - len(shape))][tuple(map(slice, shape))]


_unbroadcast, _fit = reverse_pass.unbroadcast, reverse_pass.fit
# what is done to the engine: (the name in reverse_pass.py, what stands there instead, the cause that should be named)
ENGINES = {
    "accumulating, the new one wins": ("plus", lambda a, b: b, "accumulation"),
    "accumulating, the first one stays": ("plus", lambda a, b: a, "accumulation"),
    "broadcasting is not undone": ("unbroadcast", lambda g, shape, node: g, "broadcasting"),
    "broadcasting is undone by the mean": ("unbroadcast", mean_over, "broadcasting"),
    "broadcasting is undone by taking the first": ("unbroadcast", first_of, "broadcasting"),
    "nodes are visited as they are found": ("oldest_first", in_the_order_of_discovery, "order"),
    "nodes are visited oldest first": (
        "oldest_first",
        lambda *given: in_the_order_of_discovery(*given)[::-1],
        "order",
    ),
    "gradients go through float32": ("fit", lambda g, *rest: after(through_float32, _fit(g, *rest)), "dtype"),
    "gradients become float32": (
        "fit",
        lambda g, *rest: after(lambda d: d.astype(np.float32), _fit(g, *rest)),
        "dtype",
    ),
}


@contextlib.contextmanager
def engine_with(name, other):
    """The engine with another function in the place of one of its own, for a while."""
    before = getattr(reverse_pass, name)
    setattr(reverse_pass, name, other)
    try:
        yield
    finally:
        setattr(reverse_pass, name, before)
