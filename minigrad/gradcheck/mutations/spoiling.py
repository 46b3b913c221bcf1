"""Spoil a rule or a function of the engine, one at a time: the mutations of the mutation run."""

import contextlib
import functools
import math
from dataclasses import dataclass

import numpy as np

from minigrad.engine import reverse_pass
from minigrad.engine.graph import name_of, nodes_behind
from minigrad.engine.table import CONSTANT, RULES, EachRow, KernelRow, Row
from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.mutations.dropping import drop_terms, is_readable


def transpose(d):
    return d.mT if d.ndim > 1 and d.shape[-1] == d.shape[-2] else d


def round_to_float32(d):
    return d.astype(np.float32).astype(d.dtype) if isinstance(d, np.ndarray) else d


RESULTS = {  # changes to the gradient that a rule gives
    "scaled by 1.001": lambda d: d * 1.001,
    "doubled": lambda d: d * 2,
    "sign": lambda d: -d,
    "zeroed": lambda d: 0 * d,
    "transposed": transpose,
    "through float32": round_to_float32,
}


def detach(x):
    if isinstance(x, tuple):
        return tuple(map(detach, x))
    return x.detach() if isinstance(x, Tensor) else x


ARGUMENTS = {  # changes to the arguments of a rule: (g, y, args)
    "arguments swapped": lambda g, y, *args: (g, y, *args[:-2], args[-1], args[-2]),
    "arguments detached": lambda g, y, *args: (g, *detach((y, *args))),
    "g detached": lambda g, y, *args: (detach(g), y, *args),
}


def change_gradient(change, gradient):
    """Apply `change` to a gradient, or to each gradient of a tuple; None stays None."""
    if type(gradient) is tuple:
        return tuple(change_gradient(change, part) for part in gradient)
    return None if gradient is None else change(gradient)


@dataclass
class Mutant:
    """A row with one rule spoiled."""

    fun: object
    position: int  # of the argument whose rule it is
    how: str
    row: object
    term: str = ""  # the dropped term

    @property
    def order(self):
        """The lowest order of gradcheck that catches it."""
        return 2 if "detached" in self.how else 1

    def __str__(self):
        term = f": {self.term}" * bool(self.term)
        return f"{name_of(self.fun)}, argument {self.position}, {self.how}{term}"


def mutants(fun, needed):
    """List all Mutants of a row, for the arguments whose gradient the samples need."""
    row, needed = RULES[fun], sorted(needed)
    if not needed:
        return []
    hows = list(RESULTS)
    if isinstance(row, Row):  # the second derivative of a kernel is that of its definition
        hows += ["g detached", "arguments detached"]
    if type(row) is Row and len(row.rules) > 1:
        hows.append("arguments swapped")
    made = [Mutant(fun, i, how, spoil(row, i, how)) for i in needed for how in hows]
    if isinstance(row, EachRow) or len(needed) > 1 and isinstance(row, (Row, KernelRow)):
        made.append(Mutant(fun, needed[0], "rules exchanged", exchange_rules(row, needed)))
    return made + list(_without_terms(fun, row, needed))


def _without_terms(fun, row, needed):
    """Yield the Mutants that lack a term."""
    if type(row) is Row:
        for i in needed:
            for term, rule in drop_terms(row.rules[i]):
                new = Row(row.fun, row.rules[:i] + (rule,) + row.rules[i + 1 :])
                yield Mutant(fun, i, "term dropped", new, term)
    elif isinstance(row, EachRow):
        for term, rule in drop_terms(row.rules):
            yield Mutant(fun, needed[0], "term dropped", EachRow(row.fun, rule), term)
    elif isinstance(row, KernelRow):
        for term, rule in drop_terms(row.backward):
            new = KernelRow(row.definition, row.forward, rule)
            yield Mutant(fun, needed[0], "term dropped", new, term)


def unreadable(fun):
    """Does the row have a rule whose source cannot be compiled again, so that no term can be dropped?"""
    row = RULES[fun]
    if not isinstance(row, (Row, KernelRow)):
        return True
    rules = row.rules if type(row) is Row else [row.rules if isinstance(row, EachRow) else row.backward]
    return any(rule is not None and not is_readable(rule) for rule in rules)


class SpoiledRow:
    """A row of another kind, which computes all its gradients together, with the i-th gradient spoiled."""

    def __init__(self, row, i, how):
        self.row, self.i, self.how, self.reads_by_needs, self.reads = row, i, how, {}, row.reads

    def vjp(self, *given):
        gradients = enumerate(self.row.vjp(*given))
        return [change_gradient(RESULTS[self.how], d) if j == self.i else d for j, d in gradients]


def spoil(row, i, how):
    """Return the row with its i-th rule spoiled."""
    if isinstance(row, KernelRow):

        def backward(*args, **kwargs):
            gradients = enumerate(row.backward(*args, **kwargs))
            return [change_gradient(RESULTS[how], d) if j == i else d for j, d in gradients]

        return KernelRow(row.definition, row.forward, backward)
    if not isinstance(row, Row):
        return SpoiledRow(row, i, how)
    if isinstance(row, EachRow):
        return EachRow(
            row.fun,
            lambda j, g, *rest, **kwargs: _spoil_rule(functools.partial(row.rules, j), how)(
                g, *rest, **kwargs
            ),
        )
    return Row(row.fun, row.rules[:i] + (_spoil_rule(row.rules[i], how),) + row.rules[i + 1 :])


def exchange_rules(row, needed):
    """Return the row with the rules of its first two needed arguments exchanged."""
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


def _spoil_rule(rule, how):
    """Return the spoiled rule; its parameters declare that it reads everything."""
    if how in RESULTS:
        return lambda g, *rest, **kwargs: change_gradient(RESULTS[how], rule(g, *rest, **kwargs))
    return lambda g, *rest, **kwargs: rule(*ARGUMENTS[how](g, *rest), **kwargs)


@contextlib.contextmanager
def replace_row(fun, row):
    """Context manager: replace the row of `fun` in the table."""
    before = RULES[fun]
    RULES[fun] = row
    try:
        yield
    finally:
        RULES[fun] = before


def rows():
    """Return every function that has a rule, with its row."""
    return {fun: row for fun, row in RULES.items() if row is not CONSTANT}


# ---------------------------------------------------------------- the engine


def discovery_order(starts, ends=()):
    """Return all nodes in the order in which a walk from the end finds them."""
    return nodes_behind(starts)[::-1]


def take_mean(g, shape, node):
    """Undo broadcasting with a mean instead of a sum."""
    return _unbroadcast(g, shape, node) * (math.prod(shape) / g.size)


def take_first(g, shape, node):
    """Undo broadcasting by taking the first slice instead of the sum."""
    return g[(0,) * (g.ndim - len(shape))][tuple(map(slice, shape))]


_unbroadcast, _fit = reverse_pass.unbroadcast, reverse_pass.fit
# the mutations of the engine: (function of reverse_pass.py, its replacement, the diagnosis it should get)
ENGINES = {
    "accumulating, the new one wins": ("plus", lambda a, b: b, "accumulation"),
    "accumulating, the first one stays": ("plus", lambda a, b: a, "accumulation"),
    "broadcasting is not undone": ("unbroadcast", lambda g, shape, node: g, "broadcasting"),
    "broadcasting is undone by the mean": ("unbroadcast", take_mean, "broadcasting"),
    "broadcasting is undone by taking the first": ("unbroadcast", take_first, "broadcasting"),
    "nodes are visited as they are found": ("oldest_first", discovery_order, "order"),
    "nodes are visited oldest first": ("oldest_first", lambda *given: discovery_order(*given)[::-1], "order"),
    "gradients go through float32": (
        "fit",
        lambda g, *rest: change_gradient(round_to_float32, _fit(g, *rest)),
        "dtype",
    ),
    "gradients become float32": (
        "fit",
        lambda g, *rest: change_gradient(lambda d: d.astype(np.float32), _fit(g, *rest)),
        "dtype",
    ),
}


@contextlib.contextmanager
def replace_in_engine(name, other):
    """Context manager: replace one function of the engine by another."""
    before = getattr(reverse_pass, name)
    setattr(reverse_pass, name, other)
    try:
        yield
    finally:
        setattr(reverse_pass, name, before)
