"""python -m minigrad.trace RECIPE|RUN: print one forward pass of a model, step by step: shapes, parameters,
FLOPs, bytes, mean and std.

viz/trace.py traces the model; model and batch come from the recipe or the run.
"""

import argparse
import json
from pathlib import Path

from minigrad import definitions, manual_seed, saving
from minigrad.cli.doors import Parser, load_models, open_door, report_errors
from minigrad.training.recipe import UsageError, settings_of
from minigrad.viz.trace import amount, kept_for_backward, trace_call

EPILOG = """
examples:
  python -m minigrad.trace                          the encoder-decoder of dates, its modules
  python -m minigrad.trace dates --module encoder.0 --depth all
                                                    every step inside the first encoder layer
  python -m minigrad.trace text --batch-size 12 --depth 2
  python -m minigrad.trace translate --pairs my.tsv
  python -m minigrad.trace runs/dates-0001 --module decoder.1.cross_attention --depth all
  python -m minigrad.trace dates --set d_model=128 --json > steps.jsonl
"""


def main(argv=None):
    options = parse(argv)
    with report_errors(
        "minigrad.trace", UsageError, saving.FileProblem, RuntimeError, ValueError, NotImplementedError
    ) as outcome:
        recipe, model = recipe_and_model(load_models(), options)
        batch = recipe.batch(0)
        trace = trace_call(lambda: recipe.loss(model, batch), model, outside="the loss")
        part = part_of(trace, options.module)
        if options.json:
            print("\n".join(map(json.dumps, part.rows())))
        else:
            print(part.text(options.depth))
            print(
                memory(recipe, model, batch) if options.module is None else memory_of(model, options.module)
            )
        return 0
    return outcome.status


def parse(argv):
    parser = Parser(
        "minigrad.trace",
        epilog=EPILOG,
        description="Show what a model computes: the forward pass of a training batch, op by op.",
    )
    parser.add_argument(
        "what",
        nargs="?",
        default="dates",
        help="a recipe's name or file (a new model), or a run's folder (default: dates)",
    )
    parser.add_argument(
        "--module", metavar="PATH", help="only the steps inside this module, such as encoder.0.self_attention"
    )
    parser.add_argument(
        "--depth",
        type=depth,
        default=1,
        help="how many levels of modules to open, counted from --module if given, or all (default: 1)",
    )
    parser.add_argument("--batch-size", type=int, default=1, help="examples in the batch (default: 1)")
    parser.add_argument("--text", metavar="FILE", help="text: a file to read instead of the recipe's own")
    parser.add_argument("--pairs", metavar="FILE", help="translate: sentence pairs, as for minigrad.train")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of the recipe (may be given again)",
    )
    parser.add_argument("--json", action="store_true", help="every step as a line of JSON")
    return parser.parse_args(argv)


def depth(text):
    """Parse a number of levels; None for all."""
    if text == "all":
        return None
    if not text.isdigit() or text == "0":
        raise argparse.ArgumentTypeError(f"needs a whole number from 1, or all; got {text!r}")
    return int(text)


def recipe_and_model(recipes, options):
    """Load a run's model, or create a new one of a recipe, in training mode (with dropout)."""
    if options.batch_size < 1:
        raise UsageError(f"--batch-size needs a whole number from 1, got {options.batch_size}.")
    given = {
        name: value for name, value in (("pairs", options.pairs), ("text", options.text)) if value is not None
    }
    if is_run(options.what, recipes):
        if options.set or given:
            raise UsageError("a run has its settings already; --set, --text and --pairs are for recipes.")
        recipe, model = recipes.load_run(options.what)
        recipe.settings["batch_size"] = options.batch_size
        return recipe, model.train()
    recipe_class = recipes.find(options.what)
    manual_seed(0)
    recipe = recipe_class(settings_of(recipe_class, {"batch_size": options.batch_size, **given}, options.set))
    return recipe, recipe.model().train()


def is_run(what, recipes):
    """Return True if `what` names a run's folder, existing or not. Recipes and recipe files come first."""
    return (
        what not in recipes.MODULES
        and not what.endswith(".py")
        and (Path(what).is_dir() or len(Path(what).parts) > 1)
    )


def part_of(trace, path):
    try:
        return trace if path is None else trace[path]
    except KeyError as problem:
        raise UsageError(problem.args[0]) from None


def memory(recipe, model, batch):
    """Message: the memory of parameters and of values kept for backward, with kernels and without."""
    with_kernels = kept_for_backward(recipe.loss(model, batch))
    with definitions():
        without = kept_for_backward(recipe.loss(model, batch))
    return (
        f"In memory: parameters {parameter_bytes(model)}; and {amount(with_kernels)}B of values that the "
        "forward pass keeps until the backward pass has used them.\nThe definitions shown would keep "
        f"{amount(without)}B: kernels are made for speed, and the values that they keep can be more or less."
    )


def memory_of(model, path):
    """Message: the memory of a module's parameters. (Kept values are only measured for the whole model.)"""
    part = dict(model.named_modules()).get(path)
    return (
        f"In memory: parameters of {path} {parameter_bytes(part)}."
        if part is not None
        else f"In memory: {path} has no parameters."
    )


def parameter_bytes(module):
    return f"{amount(sum(p.numel() * p.data.itemsize for p in module.parameters()))}B"


if __name__ == "__main__":
    open_door("minigrad.trace", main)
