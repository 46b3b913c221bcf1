"""Hypotheses that write the missing term or factor as a formula of g, x and y.

These are tried last, after those of numbers.py, structure.py and rerun.py, because a formula tells what is
missing and not why. The formulas are a few dozen simple expressions; one counts only if it fits every entry.
"""

import numpy as np

from minigrad.gradcheck.diagnosis.evidence import hypothesis
from minigrad.gradcheck.diagnosis.factors import spell


@hypothesis("missing term", last_resort=True)
def term(e):
    """The difference is g times a simple expression."""
    if e.a is None or e.x.size < 4:
        return None
    for symbol, g in _incoming(e):
        for name, factor in expressions(e):
            c = _multiple(e.difference, g * factor, e.tolerance)
            if c is not None:
                why = "that term, or one that contains it, is too much" if c > 0 else "a term is missing"
                return (
                    f"it is off by {_product(c, name, symbol)}: {why}. It should be added: "
                    f"{_product(-c, name, symbol)}."
                )


@hypothesis("missing term", last_resort=True)
def term_below(e):
    """The same for the denominator, or for a root in the denominator."""
    if e.a is None or e.x.size < 4:
        return None
    for g in e.beside_x(e.one_g):
        for power, place in ((1, "in the denominator"), (2, "under the root in the denominator")):
            given, right = (g / e.a) ** power, (g / e.n) ** power
            if np.isfinite(given).all() and np.isfinite(right).all():
                for name, factor in expressions(e):
                    c = _multiple(given - right, factor, 1e-6 * np.abs(given - right).max())
                    if c is not None:
                        much = "too much" if c > 0 else "too little"
                        return (
                            f"{place}, {_product(c, name, '')} is {much}: add {_product(-c, name, '')} there."
                        )


@hypothesis("missing factor", last_resort=True)
def missing_factor(e):
    """The ratio is a simple expression."""
    if e.a is None or e.x.size < 4 or not e.n.all() or not e.a.all():
        return None
    for name, factor in expressions(e):
        c = _multiple(e.n / e.a, factor, 1e-6 * np.abs(e.n / e.a).max())
        if c is not None and name != "1":
            return (
                f"a factor is missing: multiply by {_product(c, name, '')} (the chain rule: the slope of the "
                "inner function)."
            )


@hypothesis("missing term", last_resort=True)
def two_terms(e):
    """The difference is g times a sum of two expressions: tried last, as two coefficients fit more easily."""
    if e.a is None or e.x.size < 9 or e.wrong.sum() < 6:
        return None
    for symbol, g in _incoming(e):
        columns = [
            (name, (g * factor).ravel()) for name, factor in expressions(e) if np.isfinite(factor).all()
        ]
        for i, (one, u) in enumerate(columns):
            for other, v in columns[:i]:
                basis = np.stack([u, v], 1)
                c = np.linalg.lstsq(basis, e.difference.ravel(), rcond=None)[0]
                if np.abs(basis @ c - e.difference.ravel()).max() <= e.tolerance and np.abs(c).min() > 1e-3:
                    return (
                        f"it is off by {_product(c[0], one, symbol)} + {_product(c[1], other, symbol)}: a "
                        "term like that is missing or too much."
                    )


def _incoming(e):
    """Yield (name, array) of the incoming gradients, aligned with x."""
    for k, g in enumerate(e.g):
        yield from ((f"g{k}" if len(e.g) > 1 else "g", aligned) for aligned in e.beside_x(g))


def expressions(e):
    """Yield (name, array) of expressions of the input, the output and the other arguments, simplest first."""
    names = [("x", e.x)] + [
        (f"y{k}" if len(e.y) > 1 else "y", y) for k, one in enumerate(e.y) for y in e.beside_x(one)[:1]
    ]
    names += [(name, other) for name, array in e.floats for other in e.beside_x(array)[:1]]
    yield "1", np.ones(e.x.shape)
    for name, u in names:
        yield from (
            (name, u),
            (f"{name}²", u * u),
            (f"1/{name}", 1 / u),
            (f"exp({name})", np.exp(u)),
            (f"exp(-{name})", np.exp(-u)),
        )
    for i, (one, u) in enumerate(names):
        for other, v in names[:i]:
            yield from ((f"{other}·{one}", u * v), (f"{other}/{one}", v / u), (f"{one}/{other}", u / v),
                    (f"{one}·{other}²", u * v * v), (f"{other}·{one}²", u * u * v),
                    (f"{one}²/{other}", u * u / v), (f"{other}²/{one}", v * v / u))  # fmt: skip
    for name, u in names:
        yield from ((f"{name}³", u**3), (f"1/{name}²", 1 / (u * u)), (f"log|{name}|", np.log(np.abs(u))))


def _multiple(array, of, tolerance):
    """Return c if array = c * of in every entry, else None."""
    if not np.isfinite(of).all() or not of.any() or not array.any():
        return None
    c = float(np.vdot(of, array) / np.vdot(of, of))
    return c if c and np.abs(array - c * of).max() <= tolerance else None


def _product(c, name, g="g"):
    parts = [g] * bool(g) + [name] * (name != "1" or not g)
    sign, size = "-" if c < 0 else "", spell(abs(c))
    return sign + "·".join([size] * (size != "1") + parts)
