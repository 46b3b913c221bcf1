"""python -m minigrad.train [RECIPE]: train a model and leave a run folder with the weights, the figures and a report.

Knows the command line and how a run begins; what is learned stands in the recipe, the loop in trainer.py, how a run goes on to its
end in running.py, how it is shown in showing.py, how one is taken up again in resuming.py.
"""

import argparse
import contextlib
import shlex
import sys
from pathlib import Path

from minigrad import job, manual_seed, saving
from minigrad._doors import GENERAL, Parser, UsageError, load_models, open_door, said, settings_of
from minigrad.machine import blas_threads
from minigrad.resuming import take_up
from minigrad.running import LOG, Run, carry_on
from minigrad.sharing import Sharing, cores, trial
from minigrad.trainer import Training, TrainingError

NO_SETTINGS = ("recipe", "list", "seed", "out", "quiet", "threads", "share", "set", "resume", "save_every", "save_minutes", "keep", "distributed", "ranks")  # fmt: skip
BESIDE_RESUME = ("resume", "steps", "quiet", "save_every", "save_minutes", "keep", "distributed")
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
  python -m minigrad.train my_recipe.py             a recipe of your own: a file with a class that extends
                                                    minigrad.trainer.Recipe

A run's folder holds config.json (settings), metrics.jsonl (a line a step), model.safetensors, checkpoints, pictures and
report.html, which shows all of it in a browser. Try other settings and compare the folders: that is what they are for.

Ctrl-C finishes the step, saves it and says how to go on; a second one stops at once.
"""


def main(argv=None):
    with job.one_voice(), said("minigrad.train", UsageError, saving.FileProblem, TrainingError, ValueError, NotImplementedError) as outcome:
        options = parse(argv)
        if options.threads > cores():
            raise UsageError(f"--threads {options.threads} is too many: this machine has {cores()} core{'s' * (cores() > 1)}, and more threads only wait for each other.")  # fmt: skip
        recipes = load_models()
        if options.list:
            list_recipes(recipes)
            return 0
        with job.job(options.distributed, speaker(options)) as options.ranks:
            return start(options, recipes) if options.resume is None else resume(options, recipes)
    return outcome.status


# ---------------------------------------------------------------- the command line


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
        if not (low <= value <= high) or (value == low and not low_allowed) or (value == high and not high_allowed):
            raise argparse.ArgumentTypeError(f"needs a number {words}, got {text!r}")
        return value

    return parse_number


def parse(argv):
    parser = Parser("minigrad.train", epilog=EPILOG, description="Train a model built on minigrad, watch it learn, and keep the result.")
    parser.add_argument("recipe", nargs="?", help="what to learn: a name from --list, or a recipe file of your own (default: dates)")
    parser.add_argument("--list", action="store_true", help="the recipes there are, and their settings")
    parser.add_argument("--steps", type=positive, help="how many batches to learn from")
    parser.add_argument("--batch-size", type=positive, help="examples in a batch: more is steadier and slower")
    parser.add_argument("--accumulate", type=positive, metavar="N", help="learn from N batches as from one that is N times as large, with the memory of one; a step is all of them")
    parser.add_argument("--lr", type=number_in(0, 10, False), help="the highest learning rate; if the loss explodes, try a third of it")
    parser.add_argument("--d-model", type=positive, help="the width of the model: numbers for each token; a multiple of --heads")
    parser.add_argument("--layers", type=positive, help="layers in the encoder and as many in the decoder")
    parser.add_argument("--heads", type=positive, help="attention heads in a layer")
    parser.add_argument("--d-ff", type=positive, help="the width inside the feed-forward network")
    parser.add_argument("--dropout", type=number_in(0, 1, high_allowed=False), help="the share of numbers dropped in training, against overfitting")
    parser.add_argument("--model", metavar="NAME", help="the architecture, where a recipe has several: dates --model lstm")
    parser.add_argument("--distance", type=positive, help="recall: how far back the answer may lie")
    parser.add_argument("--text", metavar="FILE", help="the text to learn from, in UTF-8")
    parser.add_argument("--pairs", metavar="FILE", help="translate: your sentence pairs, in UTF-8, a source, a tab and its target on each line")
    parser.add_argument("--tokens", metavar="NAME", help="what a token is: characters, bpe (pieces of words, learned from the text), or bytes")
    parser.add_argument("--vocab-size", type=positive, help="how many tokens bpe may have, from 256")
    parser.add_argument("--length", type=positive, help="reverse, sort, copy: the longest word, in letters")
    parser.add_argument("--digits", type=positive, help="add: the digits of each number")
    parser.add_argument("--context", type=positive, help="how many tokens the model can look at")
    parser.add_argument("--norm", choices=("post", "pre"), help="layer norm after each residual sum (the paper) or before each sublayer (today)")
    parser.add_argument("--label-smoothing", type=number_in(0, 1), help="how much of each right answer is spread over all (the paper: 0.1)")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="any other setting of the recipe (may be given again)")
    parser.add_argument("--seed", type=natural, default=0, help="where all random numbers start (default: 0); the same seed repeats the run")
    parser.add_argument("--threads", type=positive, default=1, help="threads to compute with (default: 1, which disturbs nobody)")
    parser.add_argument("--share", choices=("batch", "products", "auto"), default="auto", help="what several threads share: each batch, each matrix product, or what is measured to be faster at the start (default)")  # fmt: skip
    parser.add_argument("--distributed", action="store_true", help="share each batch among the processes that mpiexec has started: mpiexec -n 2 python -m minigrad.train text --distributed")  # fmt: skip
    parser.add_argument("--out", help="the run's folder, new or empty (default: the next runs/NAME-0001)")
    parser.add_argument("--resume", metavar="RUN", help="go on with the run in this folder where it was left; with a larger --steps, also one that is finished")
    parser.add_argument("--save-every", type=positive, metavar="STEPS", help="save a checkpoint every so many steps (default: every minute)")
    parser.add_argument("--save-minutes", type=number_in(0, 1e6, False), metavar="MINUTES", help="save a checkpoint every so many minutes (default: 1)")
    parser.add_argument("--keep", type=positive, metavar="N", help="how many of the last checkpoints stay, besides the best one and the first (default: 2)")
    parser.add_argument("--quiet", action="store_true", help="print the result only")
    options, given = parser.parse_args(argv), given_in(parser, argv)
    beside = sorted(set(given) - set(BESIDE_RESUME))
    if options.resume is not None and beside:
        names = ", ".join(name if name == "recipe" else f"--{name.replace('_', '-')}" for name in beside)
        parser.error(f"--resume takes all settings from the run itself; leave out {names} (a larger --steps makes the run longer)")
    options.recipe = options.recipe or "dates"
    return options


def given_in(parser, argv):
    """{option: value} of what stands on the command line, without defaults."""
    blank = argparse.Namespace(**dict.fromkeys(vars(parser.parse_args([])), None))
    return {name: value for name, value in vars(parser.parse_args(argv, blank)).items() if value is not None}


def list_recipes(recipes):
    for name in recipes.MODULES:
        recipe = recipes.find(name)
        print(f"{name:10s} {recipe.help}")
        print(" " * 11 + "  ".join(f"--{key.replace('_', '-')} {value}" for key, value in recipe.defaults.items() if value is not None))
        for key, names in recipe.choices.items():
            print(" " * 11 + f"--{key} can be {', '.join(names)}")
        taken = " ".join(f"--{option.replace('_', '-')}" for option in recipe.generating)
        print(" " * 11 + f"minigrad.generate takes {taken or 'no options'}")


def chosen_settings(options, recipe):
    """The recipe's defaults, changed by what was given."""
    given = {k: v for k, v in vars(options).items() if v is not None and k not in NO_SETTINGS}
    return settings_of(recipe, given, options.set)


def repeated(recipe, options):
    """The command that repeats a run: what differs from the defaults; of a whole path the last part, as folders differ between machines."""
    defaults, words = {**GENERAL, **recipe.defaults}, ["python -m minigrad.train", relative(options.recipe)]
    for key, value in recipe.settings.items():
        if key in defaults and value != defaults[key]:
            option = f"--{key.replace('_', '-')} " if key in vars(options) else f"--set {key}="
            words.append(option + shlex.quote(str(relative(value))))
    words.append(f"--seed {options.seed}")
    words += [f"--threads {options.threads} --share {options.share}"] * (options.threads > 1)
    return " ".join([f"mpiexec -n {options.ranks.size}", *words, "--distributed"] if options.ranks else words)


def relative(value):
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def open_folder(out, name):
    """The run's folder, made anew; one that holds something already is never written over."""
    if out is None:
        return saving.new_run_folder(name)
    if not out.strip():
        raise UsageError("--out needs the name of a folder, got an empty one.")
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        saving.clean(folder)
        if any(folder.iterdir()):
            raise UsageError(f"the folder {out} is not empty, and a run is never written over; choose another with --out.")
    except OSError as error:
        raise UsageError(f"the folder {out} could not be made: {error.strerror}. Choose another with --out.") from None
    return folder


# ---------------------------------------------------------------- a run, from its beginning


def start(options, recipes):
    """Train a new model; returns the exit status."""
    recipe_class = recipes.find(options.recipe)
    settings = chosen_settings(options, recipe_class)
    manual_seed(options.seed)
    recipe = recipe_class(settings)
    model = recipe.model()
    if options.ranks and options.ranks.rank:
        return follow(Training(recipe, model, sharing=options.ranks), options)
    folder = open_folder(options.out, recipe.name)
    with threads_at_work(options, recipe, model) as sharing:
        config = config_of(recipe, options)
        saving.save_json(folder / "config.json", config)
        say = speaker(options)
        introduce(recipe, model, options.seed, folder, say)
        run = Run(folder, config, saving.Lines(folder / LOG), Training(recipe, model, sharing=sharing))
        return carry_on(run, load_models("attended").attended, say)


def resume(options, recipes):
    """Go on with the run in a folder as if it had never been left; returns the exit status."""
    say, ranks = speaker(options), options.ranks
    if ranks and ranks.rank:
        return follow_resumed(options, recipes)
    run = take_up(Path(options.resume), recipes, options.steps, say, warn)
    if ranks:
        ranks.hand_on(run and (run.config, run.checkpoint and run.checkpoint.state))
    if run is None:
        return 0
    run.config["saving"] = saved_when(options, run.config.get("saving"))
    options.threads, options.share = run.config["threads"], "products" if ranks else run.config["share"] or "auto"
    with threads_at_work(options, run.training.recipe, run.training.model) as run.training.sharing:
        return carry_on(run, load_models("attended").attended, say)


def follow(training, options):
    """What a rank but the first does: the same steps. Rank 0 shows and saves."""
    with threads_at_work(options, training.recipe, training.model):
        options.ranks.follow(training)
    return 0


def follow_resumed(options, recipes):
    """The same from where rank 0 has taken the run up."""
    told = options.ranks.hand_on(None)
    if told:
        config, state = told
        options.threads, options.share = config["threads"], "products"
        training = Training(*recipes.untrained(config, Path(options.resume)), sharing=options.ranks)
        if state:
            training.load(state)
        follow(training, options)
    return 0


def speaker(options):
    """print, or what says nothing."""
    return (lambda *_: None) if options.quiet else print


def warn(sentence):
    print(f"minigrad.train: {sentence}", file=sys.stderr, flush=True)


def config_of(recipe, options):
    """What a run must remember to be asked, repeated and gone on with."""
    return {
        "recipe": getattr(recipe, "file", recipe.name), "seed": options.seed, "settings": recipe.settings, "threads": options.threads,
        "share": options.share if options.threads > 1 else None, "command": repeated(recipe, options),
        "saving": saved_when(options), "version": saving.CONFIG_VERSION,
    }  # fmt: skip


def saved_when(options, before=None):
    """When checkpoints are saved and how many are kept: as given, else as before, else every minute and two."""
    given = {"every": options.save_every, "minutes": options.save_minutes, "keep": options.keep}
    chosen = {"every": None, "minutes": 1.0, "keep": 2, **(before or {})} | {name: value for name, value in given.items() if value is not None}
    return {**chosen, "every": None} if given["minutes"] and not given["every"] else chosen


def introduce(recipe, model, seed, folder, say):
    """What is going to happen."""
    parameters, settings = sum(p.numel() for p in model.parameters()), recipe.settings
    say(f"{recipe.name}: {recipe.help}" if recipe.help else recipe.name)
    say(f"{type(model).__name__} of {parameters:,} parameters, {settings['steps']} steps of {settings['batch_size']}, seed {seed} -> {folder}")
    if recipe.note:
        say(recipe.note)


@contextlib.contextmanager
def threads_at_work(options, recipe, model):
    """Let that many threads compute; yields a Sharing if they share batches, None if they share matrix products. Where ranks share
    batches, their Ranks."""
    if options.ranks:
        if options.share == "batch" and options.threads > 1:
            raise UsageError("with --distributed the processes share each batch, so threads can share matrix products only; leave out --share batch.")
        options.share = "products"
        with blas_threads(options.threads):
            yield options.ranks
        return
    if options.share == "auto" and options.threads > 1:
        choose_fastest(options, trial(recipe, model, options.threads))
    if options.share == "batch" and options.threads > 1:
        with Sharing(options.threads) as sharing:
            yield sharing
    else:
        with blas_threads(options.threads):
            yield None


def choose_fastest(options, seconds):
    """Set what the threads share, or that there is but one, to what was fastest in a trial; and say the times."""
    fastest, threads = min(seconds, key=seconds.get), options.threads
    options.share, options.threads = ("auto", 1) if fastest == "one" else (fastest, threads)
    if not options.quiet:
        chosen = {"batch": f"{threads} threads share each batch", "products": f"{threads} threads share each matrix product", "one": f"One thread, as {threads} are slower"}[fastest]  # fmt: skip
        batch, products, one = (f"{1e3 * seconds[way]:.3g} ms" for way in ("batch", "products", "one"))
        print(f"{chosen}. A trial: shared batches {batch}, shared products {products}, one thread {one} a step (see --share).")


if __name__ == "__main__":
    open_door("minigrad.train", main)
