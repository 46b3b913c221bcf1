"""python -m minigrad.gradcheck: check every op, layer and model against finite differences; print a table.

--mistakes prints the diagnoses of typical mistakes; --mutations spoils every rule in turn and counts how many
are caught and diagnosed. The exit status is 1 if a gradient is wrong.
"""

import time

import numpy as np

from minigrad import Tensor, manual_seed
from minigrad.cli.doors import Parser, load_models, open_door, report_errors
from minigrad.gradcheck import TOLERANCE, GradcheckError, Result, check, mistakes
from minigrad.gradcheck.mutations import run as mutations
from minigrad.gradcheck.samples import layers, ops
from minigrad.training.recipe import UsageError

MANY = 150  # with more entries than this the second order is checked along random directions
GROUPS = ("op", "function", "kernel", "definition", "layer", "block", "model")


def all_samples():
    """List the samples of ops, layers and models."""
    return [*ops.SAMPLES, *layers.SAMPLES, *load_models("samples").SAMPLES]


def check_sample(sample, order):
    """Return the worst Result among a sample's tensors.

    Small samples are checked entry by entry, whole models along random directions.
    """
    manual_seed(0)
    fun, inputs = sample.make(np.random.default_rng(0))
    fast = sample.fast or order == 2 and count_entries(fun, inputs) > MANY
    try:
        return check(fun, inputs, order=order, fast=fast, seed=1).worst
    except GradcheckError as error:  # backward failed altogether
        return Result(sample.name, float("inf"), (), np.nan, np.nan, 0.0, problem=str(error))


def count_entries(fun, inputs):
    """Count the elements of a sample's inputs and parameters."""
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    tensors += fun.parameters() if hasattr(fun, "parameters") else []
    return sum(t.numel() for t in tensors)


def main(argv=None):
    parser = Parser("minigrad.gradcheck", description=__doc__.split("\n")[0].split(": ")[1])
    parser.add_argument(
        "names", nargs="*", help="check only samples whose name contains one of these: attention residual"
    )
    parser.add_argument(
        "--group", choices=GROUPS, action="append", help="check only this group (may be repeated)"
    )
    parser.add_argument(
        "--mistakes",
        action="store_true",
        help="print typical mistakes of a hand-written backward, with the diagnosis of each",
    )
    parser.add_argument(
        "--mutations",
        action="store_true",
        help="spoil every rule and the engine, and count the faults that are caught and diagnosed",
    )
    options = parser.parse_args(argv)
    if options.mistakes:
        return mistakes.main()
    if options.mutations:
        return mutations.main()
    with report_errors("minigrad.gradcheck", UsageError) as outcome:
        return print_table(choose_samples(parser, options))
    return outcome.status


def choose_samples(parser, options):
    """Select the samples that the command line names, or all."""
    chosen = [s for s in all_samples() if not options.group or s.group in options.group]
    if options.names:
        chosen = [s for s in chosen if any(n.lower() in s.name.lower() for n in options.names)]
    if not chosen:
        parser.error(f"no sample matches {' '.join(options.names)}; run without a name to see all names.")
    return chosen


def print_table(chosen):
    """Check the samples and print a line for each. Returns 1 if any is wrong."""
    print(f"{'':10s} {'':38s} {'1st order':>10s} {'2nd order':>10s} {'time':>8s}")
    failed, start = 0, time.perf_counter()
    for sample in chosen:
        began = time.perf_counter()
        results = check_sample(sample, 1), check_sample(sample, 2)
        wrong = [f"wrong: {r}" for r in results if not r.right()]
        failed += bool(wrong)
        figures = " ".join(f"{r.error:10.1e}" for r in results)
        notes = "; ".join(wrong or [r.note for r in results[:1] if r.note])
        ms = 1e3 * (time.perf_counter() - began)
        print(f"{sample.group:10s} {sample.name:38s} {figures} {ms:6.0f}ms  {notes}".rstrip())
    print(
        f"\n{len(chosen)} checked in {time.perf_counter() - start:.1f} s, {failed} wrong. The figures are "
        "max|backward - differences| divided by the largest gradient (at least 1e-3), in float64; up to "
        f"{TOLERANCE:g} counts as right. Each entry is moved separately, except in whole models and in "
        f"second orders of more than {MANY} entries, which are checked along random directions."
    )
    return 1 if failed else 0


if __name__ == "__main__":
    open_door("minigrad.gradcheck", main)
