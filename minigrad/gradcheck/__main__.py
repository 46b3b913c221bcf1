"""python -m minigrad.gradcheck: check every op, kernel, layer, block and model against finite differences, and print a table.

--mistakes shows what the checker says of the mistakes people make; --mutations spoils every rule in turn and counts how
many are caught and named. Knows where the samples are declared; exits with 1 if a gradient is wrong.
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
    """Every sample that any layer declares."""
    return [*ops.SAMPLES, *layers.SAMPLES, *load_models("samples").SAMPLES]


def worst(sample, order):
    """The worst Result of a sample's tensors; small ones entry by entry, whole models along random directions."""
    manual_seed(0)
    fun, inputs = sample.make(np.random.default_rng(0))
    fast = sample.fast or order == 2 and entries(fun, inputs) > MANY
    try:
        return check(fun, inputs, order=order, fast=fast, seed=1).worst
    except GradcheckError as error:  # backward failed altogether
        return Result(sample.name, float("inf"), (), np.nan, np.nan, 0.0, problem=str(error))


def entries(fun, inputs):
    """How many numbers a sample would have to move."""
    tensors = [x for x in inputs if isinstance(x, Tensor)] + list(
        fun.parameters() if hasattr(fun, "parameters") else []
    )
    return sum(t.numel() for t in tensors)


def main(argv=None):
    parser = Parser("minigrad.gradcheck", description=__doc__.split("\n")[0].split(": ")[1])
    parser.add_argument(
        "names", nargs="*", help="check only what contains one of these words, e.g. attention residual"
    )
    parser.add_argument(
        "--group", choices=GROUPS, action="append", help="check only this group (may be given again)"
    )
    parser.add_argument(
        "--mistakes",
        action="store_true",
        help="show typical mistakes of a hand-written backward, and what is said of each",
    )
    parser.add_argument(
        "--mutations",
        action="store_true",
        help="spoil every rule and the engine, and count what is caught and named",
    )
    options = parser.parse_args(argv)
    if options.mistakes:
        return mistakes.main()
    if options.mutations:
        return mutations.main()
    with report_errors("minigrad.gradcheck", UsageError) as outcome:
        return table(chosen_samples(parser, options))
    return outcome.status


def chosen_samples(parser, options):
    """The samples that were asked for, all if none was."""
    chosen = [s for s in all_samples() if not options.group or s.group in options.group]
    chosen = [
        s for s in chosen if not options.names or any(n.lower() in s.name.lower() for n in options.names)
    ]
    if not chosen:
        parser.error(f"nothing matches {' '.join(options.names)}; run without a word to see all names.")
    return chosen


def table(chosen):
    """Check the samples and print a line of each; 1 if any is wrong."""
    print(f"{'':10s} {'':38s} {'1st order':>10s} {'2nd order':>10s} {'time':>8s}")
    failed, start = 0, time.perf_counter()
    for sample in chosen:
        began = time.perf_counter()
        results = worst(sample, 1), worst(sample, 2)
        wrong = [f"wrong: {r}" for r in results if not r.right()]
        failed += bool(wrong)
        figures = " ".join(f"{r.error:10.1e}" for r in results)
        notes = "; ".join(wrong or [r.note for r in results[:1] if r.note])
        print(
            f"{sample.group:10s} {sample.name:38s} {figures} {1e3 * (time.perf_counter() - began):6.0f}ms  {notes}".rstrip()
        )
    print(
        f"\n{len(chosen)} checked in {time.perf_counter() - start:.1f} s, {failed} wrong. The figures are max|backward - "
        f"differences| over the "
        f"largest gradient (at least 1e-3), float64; up to {TOLERANCE:g} counts as right. Every entry is moved on its own, "
        f"but whole models, and second orders of more "
        f"than {MANY} entries, along random directions."
    )
    return 1 if failed else 0


if __name__ == "__main__":
    open_door("minigrad.gradcheck", main)
