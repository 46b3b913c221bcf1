"""Are wrong gradients caught, and is the right cause named?

Spoils every rule of the table and the engine, runs the samples, counts.

`python -m minigrad.gradcheck --mutations` prints it. Knows what was done to a rule (spoiling.py) and which diagnosis would
be right.
"""

import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from minigrad import manual_seed
from minigrad.engine.graph import name_of, nodes_behind
from minigrad.engine.table import KernelRow
from minigrad.gradcheck import check, gradcheck
from minigrad.gradcheck.mutations.equivalent import why_equivalent
from minigrad.gradcheck.mutations.spoiling import (
    ENGINES,
    RESULTS,
    engine_with,
    mutants,
    rows,
    table_with,
    unreadable,
)
from minigrad.gradcheck.samples.ops import SAMPLES, squares

# The names of the hypotheses that are right for what was done. A dropped term has several: each says which kind is missing;
# and a term that is dropped from an exponent, as b of exp(a - b), is a missing factor.
RIGHT = {
    "scaled by 1.001": {"factor"}, "doubled": {"factor"}, "sign": {"sign"}, "zeroed": {"zero"}, "transposed": {"transposed"},
    "through float32": {"dtype"}, "arguments swapped": {"swapped"}, "rules exchanged": {"swapped"},
    "arguments detached": {"values constant"}, "g detached": {"g constant"},
    "term dropped": {"missing term", "cross terms", "mean terms", "half of two", "target entry", "accumulation",
                     "missing factor"},
}  # fmt: skip


def nodes_of(sample):
    """The nodes that a sample records."""
    manual_seed(0)
    fun, inputs = sample.make(np.random.default_rng(0))
    return nodes_behind([fun(*inputs)])


def reached(samples):
    """For each function the samples that record it, the arguments that want a gradient there, and the nodes."""
    found = {}
    for sample in samples:
        for node in nodes_of(sample):
            by_sample, needed, nodes = found.setdefault(node.fun, ({}, set(), []))
            by_sample[sample.name, sample.group] = sample
            needed.update(i for i, need in enumerate(node.needs) if need)
            nodes.append(node)
    return {fun: (list(by_sample.values()), *rest) for fun, (by_sample, *rest) in found.items()}


@dataclass
class Verdict:
    """What became of one mutant."""

    mutant: object
    equivalent: str | None = None
    error: Exception | None = None  # what gradcheck said; None: nobody noticed
    # the right name, if it was the first that was named; "=" where the values allow no other judgement
    named: str = ""

    @property
    def said(self):
        diagnoses = getattr(self.error, "diagnoses", [])
        return diagnoses[0].name if diagnoses else "nothing"


def complaint(sample, order):
    """The error that gradcheck raises over a sample, or None."""
    manual_seed(0)
    try:
        with np.errstate(all="ignore"):
            gradcheck(*sample.make(np.random.default_rng(0)), order=order, seed=1)
    except (AssertionError, ValueError, TypeError, IndexError) as error:
        # a gradient that is wrong, or that does not even fit
        return error
    return None


def first_complaint(tried, order):
    return next(
        (error for error in (complaint(sample, order) for sample in tried) if error is not None), None
    )


def noticed(mutant, tried):
    """Does any sample show that the mutant is wrong? Without asking why, which is quicker."""
    with table_with(mutant.fun, mutant.row):
        return any(_is_wrong(sample, mutant.order) for sample in _in_order(mutant, tried))


def _is_wrong(sample, order):
    manual_seed(0)
    try:
        with np.errstate(all="ignore"):
            return bool(check(*sample.make(np.random.default_rng(0)), order=order, seed=1).wrong)
    except (AssertionError, ValueError, TypeError, IndexError):
        return True


def _in_order(mutant, samples):
    """What is square comes first where transposing is to be seen."""
    return sorted(samples, key=lambda s: mutant.how == "transposed" and s.group != "square")


def judge(mutant, tried, nodes):
    """Put the mutant into the table, run the samples until one complains, and look at what is said."""
    reason = why_equivalent(mutant, nodes)
    if reason:
        return Verdict(mutant, reason)
    with table_with(mutant.fun, mutant.row):
        error = first_complaint(_in_order(mutant, tried), mutant.order)
    verdict = Verdict(mutant, error=error)
    verdict.named = (
        "named" if verdict.said in RIGHT[mutant.how] else "same" if _same_values(mutant, error) else ""
    )
    return verdict


def _same_values(mutant, error):
    """Does the name that was given tell of something else that gives, here, the very same numbers?"""
    for diagnosis in getattr(error, "diagnoses", [])[:1]:
        e, said = diagnosis.evidence, diagnosis.name
        if said == "not finite" and isinstance(e.raw, np.ndarray) and not np.isfinite(e.raw).any():
            return True  # nothing but NaN: no number is left to judge by
        if said == "identity":  # it has compared every entry with g
            return mutant.how in ("term dropped", "arguments swapped", "rules exchanged")
        return e is not None and any(
            said in RIGHT[how] and e.is_given(change(e.n)) for how, change in RESULTS.items()
        )
    return False


def run():
    """All mutants; returns the Verdicts of the rules' and the engine's."""
    found, verdicts = reached([*SAMPLES, *squares()]), []
    for fun in rows():
        tried, needed, nodes = found.get(fun, ([], set(), []))
        verdicts += [judge(mutant, tried, nodes) for mutant in mutants(fun, needed)]
    return verdicts, [judge_engine(what) for what in ENGINES]


@dataclass
class EngineMutant:
    """The engine with one of its own functions spoiled."""

    how: str
    order: int = 1
    fun: object = field(default=None)

    def __str__(self):
        return f"engine: {self.how}"


def judge_engine(what):
    name, other, cause = ENGINES[what]
    with engine_with(name, other):
        error = first_complaint(SAMPLES, 1)
    verdict = Verdict(EngineMutant(what), error=error)
    verdict.named = "named" if verdict.said == cause else ""
    return verdict


# ---------------------------------------------------------------- the table that is printed


def main():
    """Run all mutants and print what became of them; 1 if one went unnoticed."""
    began = time.perf_counter()
    wrong = [s.name for s in [*SAMPLES, *squares()] if any(complaint(s, order) for order in (1, 2))]
    if wrong:
        print(
            f"Nothing can be said while samples fail with nothing spoiled: {', '.join(wrong)}. Run python -m "
            f"minigrad.gradcheck first."
        )
        return 1
    verdicts, engines = run()
    print(
        f"{'what was done':22s} {'mutants':>8s} {'change nothing':>15s} {'caught':>12s} {'right cause named':>18s}"
    )
    for how in RIGHT:
        _line(how, [v for v in verdicts if v.mutant.how == how])
    _line("the engine", engines)
    print()
    _line("all", verdicts + engines)
    _list_by_reason(verdicts)
    _list(
        "Not caught",
        [v for v in verdicts + engines if not v.equivalent and v.error is None],
        lambda v: str(v.mutant),
    )
    _list(
        "Counted as one, because the values are the same",
        [v for v in verdicts if v.named == "same"],
        lambda v: f"{v.mutant} (said: {v.said})",
    )
    _list(
        "Caught, but another cause named",
        _misnamed(verdicts + engines),
        lambda v: f"{v.mutant} (said: {v.said})",
    )
    _exclusions(verdicts)
    print(f"\nTime: {time.perf_counter() - began:.0f} s.")
    return 1 if any(v.error is None and not v.equivalent for v in verdicts + engines) else 0


def _misnamed(verdicts):
    return [v for v in verdicts if v.error is not None and not v.named]


def _line(title, verdicts):
    effective = [v for v in verdicts if not v.equivalent]
    caught = [v for v in effective if v.error is not None]
    named = [v for v in caught if v.named]
    share = f"{100 * len(named) / max(1, len(effective)):.0f} %"
    print(
        f"{title:22s} {len(verdicts):8d} {len(verdicts) - len(effective):15d} {f'{len(caught)}/{len(effective)}':>12s} "
        f"{f'{len(named)} ({share})':>18s}"
    )


def _list(title, verdicts, line):
    if verdicts:
        print(f"\n{title} ({len(verdicts)}):")
        for v in verdicts:
            print(f"  {line(v)}")


def _list_by_reason(verdicts):
    print("\nWhat changes nothing, and why:")
    for reason, count in Counter(v.equivalent for v in verdicts if v.equivalent).items():
        names = sorted({name_of(v.mutant.fun) for v in verdicts if v.equivalent == reason})
        print(f"  {count:3d}  {reason}: {', '.join(names)}")


def _exclusions(verdicts):
    table = rows()
    kernel = sum(isinstance(row, KernelRow) for row in table.values())
    print("\nNot done:")
    unreached = set(table) - {v.mutant.fun for v in verdicts}
    if unreached:
        print(f"  rows that no sample reaches: {', '.join(sorted(map(name_of, unreached)))}")
    print(
        f"  dropping terms where a rule's source cannot be compiled again: "
        f"{', '.join(sorted(name_of(f) for f in table if unreadable(f))) or 'none'}"
    )
    print(
        "  dropping sums that reckon with axes and places, and terms of functions in other files (array_functions.py)"
    )
    print(
        f"  the second derivative of the {kernel} kernels, which is that of their definitions; forwards, which a gradient "
        f"check cannot judge"
    )
