"""The command line of minigrad.train: its options, what they may be, and which belong together. Knows no recipes and no runs."""

import argparse
import sys

from minigrad.cli import configs
from minigrad.cli.doors import Parser
from minigrad.training.recipe import settings_of

NO_SETTINGS = ("recipe", "list", "seed", "out", "quiet", "threads", "share", "set", "resume", "save_every", "save_minutes", "keep", "distributed", "ranks", "config", "tensorboard", "dry_run", "overfit_one_batch")  # fmt: skip
BESIDE_RESUME = (
    "resume",
    "steps",
    "lr",
    "quiet",
    "save_every",
    "save_minutes",
    "keep",
    "distributed",
    "tensorboard",
)
# of no use where no run is made
WITHOUT_RUN = ("out", "save_every", "save_minutes", "keep", "tensorboard", "distributed")
NOT_IN_CONFIG = (
    "recipe",
    "list",
    "set",
    "out",
    "resume",
    "quiet",
    "distributed",
    "config",
    "dry_run",
    "overfit_one_batch",
)
EPILOG = """
examples:
  python -m minigrad.train                          learn to read dates, in about a minute
  python -m minigrad.train dates --norm pre         the same with today's order of norm and residual
  python -m minigrad.train dates --layers 1 --heads 1 --steps 300
  python -m minigrad.train dates --model lstm       what an LSTM without attention makes of the same dates
  python -m minigrad.train recall                   how far back RNN, LSTM, GRU and Transformer remember
  python -m minigrad.train reverse                  a GPT spells words backwards; also: sort, copy, add
  python -m minigrad.train text                     a GPT learns to write like Python's manual
  python -m minigrad.train text --text my.txt --context 128
  python -m minigrad.train text --tokens bpe --vocab-size 512
  python -m minigrad.train translate --pairs my.tsv learn to translate from sentence pairs of your own
  python -m minigrad.train --resume runs/dates-0001 go on with a run that was stopped, as if it had not been
  python -m minigrad.train text --dry-run           what it will take: shapes, parameters, memory, time; nothing is trained
  python -m minigrad.train text --overfit-one-batch can the model learn one batch by heart? If not, something is wrong
  python -m minigrad.train --config runs/dates-0001/config.toml --lr 1e-3     the same run again, but for what is given
  python -m minigrad.train my_recipe.py             a recipe of your own: a file with a class that extends
                                                    minigrad.training.Recipe

A run's folder holds config.json (settings), config.toml (what repeats it), metrics.jsonl (a line a step), model.safetensors, checkpoints, pictures and
report.html, which shows all of it in a browser. Try other settings and compare the folders: that is what they are for.

Ctrl-C finishes the step, saves it and says how to go on; a second one stops at once.
"""


# ---------------------------------------------------------------- what may be given


def positive(text):
    """A whole number from 1."""
    number = int(text) if text.lstrip("+-").isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number from 1, got {text!r}")
    return number


def natural(text):
    """A whole number from 0."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"needs a whole number from 0, got {text!r}")
    return int(text)


def number_in(low, high, low_allowed=True, high_allowed=True):
    """A number in a range."""
    words = f"{'from' if low_allowed else 'above'} {low:g} {'to' if high_allowed else 'to below'} {high:g}"

    def parse_number(text):
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if (
            not (low <= value <= high)
            or (value == low and not low_allowed)
            or (value == high and not high_allowed)
        ):
            raise argparse.ArgumentTypeError(f"needs a number {words}, got {text!r}")
        return value

    return parse_number


def parse(argv):
    parser = parser_of_train()
    options, given = parser.parse_args(argv), given_in(parser, argv)
    beside = sorted(set(given) - set(BESIDE_RESUME))
    if options.resume is not None and beside:
        names = ", ".join(name if name == "recipe" else option(name) for name in beside)
        parser.error(
            f"--resume takes all settings from the run itself; leave out {names} (a larger --steps makes the run longer, a smaller --lr calmer)"
        )
    if options.dry_run or options.overfit_one_batch:
        _refuse_without_run(parser, options, [name for name in WITHOUT_RUN if name in given])
    from_file = None
    if options.config is not None:
        options, from_file = _with_config(options.config, argv)
    options.recipe = options.recipe or from_file or "dates"
    return options


def option(name):
    return f"--{name.replace('_', '-')}"


def _refuse_without_run(parser, options, beside):
    """A sentence where --dry-run or --overfit-one-batch stands beside what is about a run's folder, or beside each other."""
    which = "--dry-run" if options.dry_run else "--overfit-one-batch"
    if options.dry_run and options.overfit_one_batch:
        beside = ["overfit_one_batch"]
    if beside:
        parser.error(
            f"{which} makes no run{'' if options.dry_run else ' and saves nothing'}; leave out {', '.join(map(option, beside))}"
        )


def _with_config(path, argv):
    """(the options of a file, changed by those of the command line; the file's recipe)."""
    parser = parser_of_train()
    recipe, words = configs.arguments(
        path, {name for name in vars(parser.parse_args([])) if name not in configs.TOP + NOT_IN_CONFIG}
    )
    parser.door += f": {path}"  # whose values they are, in the sentence about one
    parser.parse_args(words)
    return parser_of_train().parse_args([*words, *(sys.argv[1:] if argv is None else argv)]), recipe


def parser_of_train():
    parser = Parser(
        "minigrad.train",
        epilog=EPILOG,
        description="Train a model built on minigrad, watch it learn, and keep the result.",
    )
    parser.add_argument(
        "recipe",
        nargs="?",
        help="what to learn: a name from --list, or a recipe file of your own (default: dates)",
    )
    parser.add_argument("--list", action="store_true", help="the recipes there are, and their settings")
    parser.add_argument("--steps", type=positive, help="how many batches to learn from")
    parser.add_argument(
        "--batch-size", type=positive, help="examples in a batch: more is steadier and slower"
    )
    parser.add_argument(
        "--accumulate",
        type=positive,
        metavar="N",
        help="learn from N batches as from one that is N times as large, with the memory of one; a step is all of them",
    )
    parser.add_argument(
        "--lr",
        type=number_in(0, 10, False),
        help="the highest learning rate; if the loss explodes, try a third of it",
    )
    parser.add_argument(
        "--d-model",
        type=positive,
        help="the width of the model: numbers for each token; a multiple of --heads",
    )
    parser.add_argument("--layers", type=positive, help="layers in the encoder and as many in the decoder")
    parser.add_argument("--heads", type=positive, help="attention heads in a layer")
    parser.add_argument("--d-ff", type=positive, help="the width inside the feed-forward network")
    parser.add_argument(
        "--dropout",
        type=number_in(0, 1, high_allowed=False),
        help="the share of numbers dropped in training, against overfitting",
    )
    parser.add_argument(
        "--model", metavar="NAME", help="the architecture, where a recipe has several: dates --model lstm"
    )
    parser.add_argument("--distance", type=positive, help="recall: how far back the answer may lie")
    parser.add_argument("--text", metavar="FILE", help="the text to learn from, in UTF-8")
    parser.add_argument(
        "--pairs",
        metavar="FILE",
        help="translate: your sentence pairs, in UTF-8, a source, a tab and its target on each line",
    )
    parser.add_argument(
        "--tokens",
        metavar="NAME",
        help="what a token is: characters, bpe (pieces of words, learned from the text), or bytes",
    )
    parser.add_argument("--vocab-size", type=positive, help="how many tokens bpe may have, from 256")
    parser.add_argument("--length", type=positive, help="reverse, sort, copy: the longest word, in letters")
    parser.add_argument("--digits", type=positive, help="add: the digits of each number")
    parser.add_argument("--context", type=positive, help="how many tokens the model can look at")
    parser.add_argument(
        "--norm",
        choices=("post", "pre"),
        help="layer norm after each residual sum (the paper) or before each sublayer (today)",
    )
    parser.add_argument(
        "--label-smoothing",
        type=number_in(0, 1),
        help="how much of each right answer is spread over all (the paper: 0.1)",
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="any other setting of the recipe (may be given again)",
    )
    parser.add_argument(
        "--seed",
        type=natural,
        default=0,
        help="where all random numbers start (default: 0); the same seed repeats the run",
    )
    parser.add_argument(
        "--threads",
        type=positive,
        default=1,
        help="threads to compute with (default: 1, which disturbs nobody)",
    )
    parser.add_argument("--share", choices=("batch", "products", "auto"), default="auto", help="what several threads share: each batch, each matrix product, or what is measured to be faster at the start (default)")  # fmt: skip
    parser.add_argument("--distributed", action="store_true", help="share each batch among the processes that mpiexec has started: mpiexec -n 2 python -m minigrad.train text --distributed")  # fmt: skip
    parser.add_argument("--out", help="the run's folder, new or empty (default: the next runs/NAME-0001)")
    parser.add_argument(
        "--resume",
        metavar="RUN",
        help="go on with the run in this folder where it was left; with a larger --steps, also one that is finished",
    )
    parser.add_argument(
        "--save-every",
        type=positive,
        metavar="STEPS",
        help="save a checkpoint every so many steps (default: every minute)",
    )
    parser.add_argument(
        "--save-minutes",
        type=number_in(0, 1e6, False),
        metavar="MINUTES",
        help="save a checkpoint every so many minutes (default: 1)",
    )
    parser.add_argument(
        "--keep",
        type=positive,
        metavar="N",
        help="how many of the last checkpoints stay, besides the best one and the first (default: 2)",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="recipe and settings from a TOML file, such as a run's config.toml; what stands on the command line wins",
    )
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="write the figures for TensorBoard too, into the run's folder",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="say what training would take: shapes, parameters, memory, time; train nothing",
    )
    parser.add_argument(
        "--overfit-one-batch",
        action="store_true",
        help="learn the first batch by heart, without dropout, to see whether the model can; save nothing",
    )
    parser.add_argument("--quiet", action="store_true", help="print the result only")
    return parser


def given_in(parser, argv):
    """{option: value} of what stands on the command line, without defaults."""
    blank = argparse.Namespace(**dict.fromkeys(vars(parser.parse_args([])), None))
    return {name: value for name, value in vars(parser.parse_args(argv, blank)).items() if value is not None}


def chosen_settings(options, recipe):
    """The recipe's defaults, changed by what was given."""
    given = {k: v for k, v in vars(options).items() if v is not None and k not in NO_SETTINGS}
    return settings_of(recipe, given, options.set)
