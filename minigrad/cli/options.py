"""The command line of minigrad.train: the table of its options, and the Plan parsed from them."""

import argparse
from dataclasses import dataclass, fields

from minigrad.cli import configs
from minigrad.cli.doors import Parser

EPILOG = """
examples:
  python -m minigrad.train                          learn to read dates, in about a minute
  python -m minigrad.train dates --norm pre         the same with today's order of norm and residual
  python -m minigrad.train dates --layers 1 --heads 1 --steps 300
  python -m minigrad.train dates --model lstm       the same dates, with an LSTM without attention
  python -m minigrad.train recall                   how far back RNN, LSTM, GRU and Transformer remember
  python -m minigrad.train reverse                  a GPT spells words backwards; also: sort, copy, add
  python -m minigrad.train text                     a GPT learns to write like Python's manual
  python -m minigrad.train text --text my.txt --context 128
  python -m minigrad.train text --tokens bpe --vocab-size 512
  python -m minigrad.train translate --pairs my.tsv learn to translate from sentence pairs of your own
  python -m minigrad.train --resume runs/dates-0001 resume a stopped run, as if it had not been stopped
  python -m minigrad.train text --dry-run           print shapes, parameters, memory and time; train nothing
  python -m minigrad.train text --overfit-one-batch can the model overfit one batch? If not, it has a bug
  python -m minigrad.train --config runs/dates-0001/config.toml --lr 1e-3
                                                    the same run again, with another learning rate
  python -m minigrad.train my_recipe.py             a recipe of your own: a file with a class that extends
                                                    minigrad.training.Recipe

A run's folder holds config.json (settings), config.toml (to repeat the run), metrics.jsonl (a line per step),
model.safetensors, checkpoints, pictures and report.html, which shows all of it in a browser. Try other
settings and compare the folders: that is what they are for.

Ctrl-C finishes the step, saves it and prints how to resume; a second Ctrl-C stops at once.
"""


# ---------------------------------------------------------------- checks


def positive(text):
    """Parse a whole number from 1."""
    number = int(text) if text.lstrip("+-").isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number from 1, got {text!r}")
    return number


def natural(text):
    """Parse a whole number from 0."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"needs a whole number from 0, got {text!r}")
    return int(text)


def number_in(low, high, low_allowed=True, high_allowed=True):
    """Make a parser of numbers in a range."""
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


# ---------------------------------------------------------------- the options


FLAG = {"action": "store_true", "default": None}
POSITIVE, FILE, NAME = {"type": positive}, {"metavar": "FILE"}, {"metavar": "NAME"}


@dataclass(frozen=True)
class Option:
    """An option of the command line.

    check   arguments of add_argument for its values
    where   any of: "setting" of a recipe, below [settings] in config.toml; "file": above [settings] there;
            "resume": allowed with --resume; "run": about a run's folder, so not allowed with --dry-run and
            --overfit-one-batch
    """

    name: str
    check: dict
    where: str
    help: str


# fmt: off
OPTIONS = [Option(*row) for row in (
    ("recipe", {"nargs": "?"}, "file",
     "what to learn: a name from --list, or a recipe file of your own (default: dates)"),
    ("list", FLAG, "", "the recipes there are, and their settings"),
    ("steps", POSITIVE, "setting resume", "how many batches to learn from"),
    ("batch_size", POSITIVE, "setting", "examples in a batch: more is steadier and slower"),
    ("accumulate", {"type": positive, "metavar": "N"}, "setting",
     "train each step on N batches as on one that is N times as large, with the memory of one"),
    ("lr", {"type": number_in(0, 10, False)}, "setting resume",
     "the highest learning rate; if the loss explodes, try a third of it"),
    ("d_model", POSITIVE, "setting",
     "the width of the model: the size of each token's vector; a multiple of --heads"),
    ("layers", POSITIVE, "setting", "layers in the encoder, and the same number in the decoder"),
    ("heads", POSITIVE, "setting", "attention heads in a layer"),
    ("d_ff", POSITIVE, "setting", "the width inside the feed-forward network"),
    ("dropout", {"type": number_in(0, 1, high_allowed=False)}, "setting",
     "the fraction of elements dropped in training, against overfitting"),
    ("model", NAME, "setting", "the architecture, if a recipe has several: dates --model lstm"),
    ("distance", POSITIVE, "setting", "recall: how far back the answer may be"),
    ("text", FILE, "setting", "the text to learn from, in UTF-8"),
    ("pairs", FILE, "setting",
     "translate: your sentence pairs, in UTF-8, a source, a tab and its target on each line"),
    ("tokens", NAME, "setting",
     "what a token is: characters, bpe (pieces of words, learned from the text), or bytes"),
    ("vocab_size", POSITIVE, "setting", "how many tokens bpe may have, from 256"),
    ("length", POSITIVE, "setting", "reverse, sort, copy: the longest word, in letters"),
    ("digits", POSITIVE, "setting", "add: the digits of each number"),
    ("context", POSITIVE, "setting", "how many tokens the model can attend to"),
    ("norm", {"choices": ("post", "pre")}, "setting",
     "layer norm after each residual sum (the paper) or before each sublayer (today)"),
    ("label_smoothing", {"type": number_in(0, 1)}, "setting",
     "how much probability of each right answer is spread over all classes (the paper: 0.1)"),
    ("set", {"metavar": "NAME=VALUE", "action": "append"}, "",
     "any other setting of the recipe (may be given again)"),
    ("seed", {"type": natural}, "file",
     "the seed of all random numbers (default: 0); the same seed repeats the run"),
    ("threads", POSITIVE, "file", "threads to compute with (default: 1, which leaves the other cores free)"),
    ("share", {"choices": ("batch", "products", "auto")}, "file",
     "what several threads share: each batch, each matrix product, or what is faster in a trial (default)"),
    ("distributed", FLAG, "resume run",
     "share each batch among processes: mpiexec -n 2 python -m minigrad.train text --distributed"),
    ("out", {}, "run", "the run's folder, new or empty (default: the next runs/NAME-0001)"),
    ("resume", {"metavar": "RUN"}, "resume",
     "resume the run in this folder from its last checkpoint; with a larger --steps, also a finished run"),
    ("save_every", {"type": positive, "metavar": "STEPS"}, "file resume run",
     "save a checkpoint every STEPS steps (default: every minute)"),
    ("save_minutes", {"type": number_in(0, 1e6, False), "metavar": "MINUTES"}, "file resume run",
     "save a checkpoint every MINUTES minutes (default: 1)"),
    ("keep", {"type": positive, "metavar": "N"}, "file resume run",
     "keep the last N checkpoints, besides the best and the first (default: 2)"),
    ("config", FILE, "",
     "recipe and settings from a TOML file, such as a run's config.toml; the command line overrides it"),
    ("tensorboard", FLAG, "file resume run", "also write the figures for TensorBoard, into the run's folder"),
    ("dry_run", FLAG, "", "print what training would take: shapes, parameters, memory, time; train nothing"),
    ("overfit_one_batch", FLAG, "",
     "overfit the first batch, without dropout, to check that the model can learn; save nothing"),
    ("quiet", FLAG, "resume", "print the result only"),
)]
# fmt: on


def names(where):
    """List the names of the options with this word in `where`."""
    return [option.name for option in OPTIONS if where in option.where.split()]


def as_option(name):
    """Convert a name to the option as it is typed: batch_size to --batch-size."""
    return name if name == "recipe" else f"--{name.replace('_', '-')}"


# ---------------------------------------------------------------- the plan


@dataclass(frozen=True)
class Compute:
    """Threads and processes that compute; `share` is what several threads share."""

    threads: int = 1
    share: str = "auto"
    distributed: bool = False


@dataclass(frozen=True)
class Saving:
    """Options about checkpoints and TensorBoard; None for those that were not given."""

    save_every: int | None = None
    save_minutes: float | None = None
    keep: int | None = None
    tensorboard: bool = False


@dataclass(frozen=True)
class Plan:
    """A parsed command line.

    task       "train", "list", "resume", "dry_run" or "overfit_one_batch"
    settings   given settings of the recipe, by name          pairs   the NAME=VALUE strings of --set
    folder     of the run to resume or to create              show    print the progress, not only the result
    """

    task: str
    recipe: str
    settings: dict
    pairs: list
    seed: int
    folder: str | None
    saving: Saving
    compute: Compute
    show: bool

    @property
    def say(self):
        """print, or a function that prints nothing."""
        return print if self.show else lambda *_: None


def parse(argv):
    """Parse a command line, and the file of its --config, into a Plan."""
    parser = parser_of_train()
    given = given_options(parser, argv)
    if "resume" in given and (beside := sorted(given.keys() - names("resume"))):
        parser.error(
            "--resume takes all settings from the run itself; leave out "
            f"{', '.join(map(as_option, beside))} (a larger --steps trains longer; --lr can change too)"
        )
    if "dry_run" in given or "overfit_one_batch" in given:
        _refuse_run(parser, given)
    if "config" in given:
        given = _with_config(parser, given)
    return _plan(given)


def parser_of_train():
    parser = Parser(
        "minigrad.train",
        epilog=EPILOG,
        description="Train a model built on minigrad, watch it learn, and keep the result.",
    )
    for option in OPTIONS:
        parser.add_argument(as_option(option.name), help=option.help, **option.check)
    return parser


def given_options(parser, argv):
    """Parse a command line into {name: value} of the options given there."""
    return {name: value for name, value in vars(parser.parse_args(argv)).items() if value is not None}


def _refuse_run(parser, given):
    """Refuse --dry-run and --overfit-one-batch together, and either with options about a run's folder."""
    reason = "--dry-run creates no run"
    beside = [name for name in names("run") if name in given]
    if "dry_run" not in given:
        reason = "--overfit-one-batch creates no run and saves nothing"
    elif "overfit_one_batch" in given:
        beside = ["overfit_one_batch"]
    if beside:
        parser.error(f"{reason}; leave out {', '.join(map(as_option, beside))}")


def _with_config(parser, given):
    """Merge the options in the file of --config with those on the command line, which override them."""
    path = given["config"]
    recipe, words = configs.arguments(path, names("file"), names("setting"))
    parser.door += f": {path}"  # an error in a value is reported as the file's
    file = {"recipe": recipe, **given_options(parser, words)}
    return {
        **file,
        **given,
        "recipe": given.get("recipe") or recipe,
        "set": [*file.get("set", ()), *given.get("set", ())],
    }


def _plan(given):
    def part(kind):
        return kind(**{field.name: given[field.name] for field in fields(kind) if field.name in given})

    tasks = ("list", "resume", "dry_run", "overfit_one_batch")
    return Plan(
        task=next((task for task in tasks if task in given), "train"),
        recipe=given.get("recipe") or "dates",
        settings={name: given[name] for name in names("setting") if name in given},
        pairs=given.get("set", []),
        seed=given.get("seed", 0),
        folder=given.get("resume", given.get("out")),
        saving=part(Saving),
        compute=part(Compute),
        show="quiet" not in given,
    )
