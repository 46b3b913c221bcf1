"""Spoil every rule of the table and the engine, run the samples, and count the faults that are caught.

Each caught mutant is compared with the diagnosis it should get. `python -m minigrad.gradcheck --mutations`
prints the counts.
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
    mutants,
    replace_in_engine,
    replace_row,
    rows,
    unreadable,
)
from minigrad.gradcheck.samples.ops import SAMPLES, squares

# The names of the hypotheses that are right for each mutation. A dropped term has several, one for each kind
# of term; a term dropped from an exponent, such as b in exp(a - b), is a missing factor.
RIGHT = {
    "scaled by 1.001": {"factor"},
    "doubled": {"factor"},
    "sign": {"sign"},
    "zeroed": {"zero"},
    "transposed": {"transposed"},
    "through float32": {"dtype"},
    "arguments swapped": {"swapped"},
    "rules exchanged": {"swapped"},
    "arguments detached": {"values constant"},
    "g detached": {"g constant"},
    "term dropped": {"missing term", "cross terms", "mean terms", "half of two", "target entry"}
    | {"accumulation", "missing factor"},
}


def nodes_of(sample):
    """Return the nodes that a sample records."""
    manual_seed(0)
    fun, inputs = sample.make(np.random.default_rng(0))
    return nodes_behind([fun(*inputs)])


def find_functions(samples):
    """Map each function that samples record to (samples, arguments that need a gradient, nodes)."""
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
    """The outcome of one mutant."""

    mutant: object
    equivalent: str | None = None
    error: Exception | None = None  # raised by gradcheck; None if the mutant was not caught
    # "named" if the first diagnosis is right; "same" if another mistake gives the same values here; else ""
    named: str = ""

    @property
    def diagnosis(self):
        diagnoses = getattr(self.error, "diagnoses", [])
        return diagnoses[0].name if diagnoses else "nothing"


def find_error(sample, order):
    """Return the error that gradcheck raises for a sample, or None."""
    manual_seed(0)
    try:
        with np.errstate(all="ignore"):
            gradcheck(*sample.make(np.random.default_rng(0)), order=order, seed=1)
    except (AssertionError, ValueError, TypeError, IndexError) as error:
        # a wrong gradient, or one that does not even fit
        return error
    return None


def find_first_error(tried, order):
    errors = (find_error(sample, order) for sample in tried)
    return next((error for error in errors if error is not None), None)


def is_caught(mutant, tried):
    """Does any sample show that the mutant is wrong? Faster than judge, because it makes no diagnosis."""
    with replace_row(mutant.fun, mutant.row):
        return any(_is_wrong(sample, mutant.order) for sample in _in_order(mutant, tried))


def _is_wrong(sample, order):
    manual_seed(0)
    try:
        with np.errstate(all="ignore"):
            return bool(check(*sample.make(np.random.default_rng(0)), order=order, seed=1).wrong)
    except (AssertionError, ValueError, TypeError, IndexError):
        return True


def _in_order(mutant, samples):
    """Sort the samples with square matrices first if the mutant is a transpose, which only they show."""
    return sorted(samples, key=lambda s: mutant.how == "transposed" and s.group != "square")


def judge(mutant, tried, nodes):
    """Put the mutant into the table, run samples until one fails, and compare the diagnosis with RIGHT."""
    reason = why_equivalent(mutant, nodes)
    if reason:
        return Verdict(mutant, reason)
    with replace_row(mutant.fun, mutant.row):
        error = find_first_error(_in_order(mutant, tried), mutant.order)
    verdict = Verdict(mutant, error=error)
    right = verdict.diagnosis in RIGHT[mutant.how]
    verdict.named = "named" if right else "same" if _same_values(mutant, error) else ""
    return verdict


def _same_values(mutant, error):
    """Does the diagnosis name another mistake that gives the same values here?"""
    for diagnosis in getattr(error, "diagnoses", [])[:1]:
        e, name = diagnosis.evidence, diagnosis.name
        if name == "not finite" and isinstance(e.raw, np.ndarray) and not np.isfinite(e.raw).any():
            return True  # all entries are NaN: no value is left to judge by
        if name == "identity":  # that hypothesis has compared every entry with g
            return mutant.how in ("term dropped", "arguments swapped", "rules exchanged")
        return e is not None and any(
            name in RIGHT[how] and e.is_given(change(e.n)) for how, change in RESULTS.items()
        )
    return False


def run():
    """Judge all mutants. Returns the Verdicts of the rules and those of the engine."""
    found, verdicts = find_functions([*SAMPLES, *squares()]), []
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
    with replace_in_engine(name, other):
        error = find_first_error(SAMPLES, 1)
    verdict = Verdict(EngineMutant(what), error=error)
    verdict.named = "named" if verdict.diagnosis == cause else ""
    return verdict


# ---------------------------------------------------------------- the table that is printed


def main():
    """Run all mutants and print the counts. Returns 1 if a mutant was not caught."""
    began = time.perf_counter()
    wrong = [s.name for s in [*SAMPLES, *squares()] if any(find_error(s, order) for order in (1, 2))]
    if wrong:
        print(
            "Mutations cannot be judged, because these samples fail already without any: "
            f"{', '.join(wrong)}. Run python -m minigrad.gradcheck first."
        )
        return 1
    verdicts, engines = run()
    print(
        f"{'mutation':22s} {'mutants':>8s} {'change nothing':>15s} {'caught':>12s} {'right cause named':>18s}"
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
        "Counted as named, because the other mistake gives the same values",
        [v for v in verdicts if v.named == "same"],
        lambda v: f"{v.mutant} (diagnosis: {v.diagnosis})",
    )
    _list(
        "Caught, but another cause named",
        _misnamed(verdicts + engines),
        lambda v: f"{v.mutant} (diagnosis: {v.diagnosis})",
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
        f"{title:22s} {len(verdicts):8d} {len(verdicts) - len(effective):15d} "
        f"{f'{len(caught)}/{len(effective)}':>12s} {f'{len(named)} ({share})':>18s}"
    )


def _list(title, verdicts, line):
    if verdicts:
        print(f"\n{title} ({len(verdicts)}):")
        for v in verdicts:
            print(f"  {line(v)}")


def _list_by_reason(verdicts):
    print("\nMutants that change nothing, and why:")
    for reason, count in Counter(v.equivalent for v in verdicts if v.equivalent).items():
        names = sorted({name_of(v.mutant.fun) for v in verdicts if v.equivalent == reason})
        print(f"  {count:3d}  {reason}: {', '.join(names)}")


def _exclusions(verdicts):
    table = rows()
    kernel = sum(isinstance(row, KernelRow) for row in table.values())
    print("\nNot tested:")
    unreached = set(table) - {v.mutant.fun for v in verdicts}
    if unreached:
        print(f"  rows that no sample reaches: {', '.join(sorted(map(name_of, unreached)))}")
    unread = ", ".join(sorted(name_of(f) for f in table if unreadable(f))) or "none"
    print(f"  dropped terms of rules whose source cannot be compiled again: {unread}")
    print("  dropped terms of axes and indices, and of functions in other files (array_functions.py)")
    print(
        f"  the second derivatives of the {kernel} kernels, which are those of their definitions; forwards, "
        "which a gradient check cannot judge"
    )
