"""python -m minigrad.train [RECIPE]: train a model and leave a run folder with the weights, the figures and a report.

Knows the command line and how a run begins; what is learned stands in the recipe, the loop in training/loop.py, how a run goes on to its
end in run.py, how it is shown in progress.py, how one is taken up again in resume.py.
"""

import contextlib
import shlex
import sys
from pathlib import Path

from minigrad import manual_seed, saving
from minigrad.cli import configs
from minigrad.cli.doors import load_models, open_door, said
from minigrad.cli.options import chosen_settings, option, parse
from minigrad.machine import blas_threads
from minigrad.training import job
from minigrad.training.folder import RunFolder
from minigrad.training.loop import Training, TrainingError
from minigrad.training.recipe import GENERAL, UsageError
from minigrad.training.rehearsal import dry_run, overfit, without_dropout
from minigrad.training.resume import take_up
from minigrad.training.run import Run, carry_on
from minigrad.training.tensorboard import check_installed
from minigrad.training.threads import Sharing, cores, trial


def main(argv=None):
    with (
        job.one_voice(),
        said(
            "minigrad.train", UsageError, saving.FileProblem, TrainingError, ValueError, NotImplementedError
        ) as outcome,
    ):
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


# ---------------------------------------------------------------- around a run


def list_recipes(recipes):
    for name in recipes.MODULES:
        recipe = recipes.find(name)
        print(f"{name:10s} {recipe.help}")
        print(
            " " * 11
            + "  ".join(
                f"--{key.replace('_', '-')} {value}"
                for key, value in recipe.defaults.items()
                if value is not None
            )
        )
        for key, names in recipe.choices.items():
            print(" " * 11 + f"--{key} can be {', '.join(names)}")
        taken = " ".join(f"--{option.replace('_', '-')}" for option in recipe.generating)
        print(" " * 11 + f"minigrad.generate takes {taken or 'no options'}")


def repeated(recipe, options):
    """The command that repeats a run: what differs from the defaults; of a whole path the last part, as folders differ between machines."""
    defaults, words = {**GENERAL, **recipe.defaults}, ["python -m minigrad.train", relative(options.recipe)]
    for key, value in recipe.settings.items():
        if key in defaults and value != defaults[key]:
            name = f"{option(key)} " if key in vars(options) else f"--set {key}="
            words.append(name + shlex.quote(str(relative(value))))
    words.append(f"--seed {options.seed}")
    words += [f"--threads {options.threads} --share {options.share}"] * (options.threads > 1)
    return options.ranks.command(" ".join(words))


def relative(value):
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def open_folder(out, name):
    """The run's folder, made anew; one that holds something already is never written over."""
    if out is None:
        return RunFolder.new(name)
    if not out.strip():
        raise UsageError("--out needs the name of a folder, got an empty one.")
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        saving.clean(folder)
        if any(folder.iterdir()):
            raise UsageError(
                f"the folder {out} is not empty, and a run is never written over; choose another with --out."
            )
    except OSError as error:
        raise UsageError(
            f"the folder {out} could not be made: {error.strerror}. Choose another with --out."
        ) from None
    return RunFolder(folder)


# ---------------------------------------------------------------- a run, from its beginning


def start(options, recipes):
    """Train a new model; returns the exit status."""
    recipe_class = recipes.find(options.recipe)
    settings = chosen_settings(options, recipe_class)
    manual_seed(options.seed)
    recipe = recipe_class(without_dropout(settings) if options.overfit_one_batch else settings)
    model = recipe.model()
    if options.dry_run or options.overfit_one_batch:
        with threads_at_work(options, recipe, model) as sharing:
            return (
                dry_run(recipe, model, sharing)
                if options.dry_run
                else overfit(recipe, model, sharing, options.steps)
            )
    if options.tensorboard:
        check_installed()
    if options.ranks.rank:
        return follow(Training(recipe, model, sharing=options.ranks), options)
    folder = open_folder(options.out, recipe.name)
    with threads_at_work(options, recipe, model) as sharing:
        config = config_of(recipe, options)
        folder.write_config(config)
        configs.write(folder, recipe, config)
        say = speaker(options)
        introduce(recipe, model, options.seed, folder, say)
        run = Run(folder, config, saving.Lines(folder.log), Training(recipe, model, sharing=sharing))
        return carry_on(run, load_models("attended").attended, say)


def resume(options, recipes):
    """Go on with the run in a folder as if it had never been left; returns the exit status."""
    say, ranks = speaker(options), options.ranks
    if ranks.rank:
        return follow_resumed(options, recipes)
    run = take_up(RunFolder(options.resume), recipes, options.steps, options.lr, say, warn)
    ranks.hand_on(run and (run.config, run.checkpoint and run.checkpoint.state))
    if run is None:
        return 0
    run.config["saving"] = saved_when(options, run.config.get("saving"))
    if options.tensorboard and not run.config.get("tensorboard"):
        run.config["tensorboard"] = True
        run.folder.write_config(run.config)
    options.threads, options.share = (
        run.config["threads"],
        "products" if options.distributed else run.config["share"] or "auto",
    )
    with threads_at_work(options, run.training.recipe, run.training.model) as run.training.workers:
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
        training = Training(*recipes.untrained(config, RunFolder(options.resume)), sharing=options.ranks)
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
        "saving": saved_when(options), "tensorboard": options.tensorboard, "metric": recipe.metric, "version": saving.CONFIG_VERSION,
    }  # fmt: skip


def saved_when(options, before=None):
    """When checkpoints are saved and how many are kept: as given, else as before, else every minute and two."""
    given = {"every": options.save_every, "minutes": options.save_minutes, "keep": options.keep}
    chosen = {"every": None, "minutes": 1.0, "keep": 2, **(before or {})} | {
        name: value for name, value in given.items() if value is not None
    }
    return {**chosen, "every": None} if given["minutes"] and not given["every"] else chosen


def introduce(recipe, model, seed, folder, say):
    """What is going to happen."""
    parameters, settings = sum(p.numel() for p in model.parameters()), recipe.settings
    size = (
        f"{settings['accumulate']} x {settings['batch_size']}"
        if settings["accumulate"] > 1
        else settings["batch_size"]
    )
    say(f"{recipe.name}: {recipe.help}" if recipe.help else recipe.name)
    say(
        f"{type(model).__name__} of {parameters:,} parameters, {settings['steps']} steps of {size}, seed {seed} -> {folder}"
    )
    if recipe.note:
        say(recipe.note)


@contextlib.contextmanager
def threads_at_work(options, recipe, model):
    """Let that many threads compute; yields the workers: a Sharing if the threads share batches."""
    if options.distributed:
        if options.share == "batch" and options.threads > 1:
            raise UsageError(
                "with --distributed the processes share each batch, so threads can share matrix products only; leave out --share batch."
            )
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
            yield options.ranks


def choose_fastest(options, seconds):
    """Set what the threads share, or that there is but one, to what was fastest in a trial; and say the times."""
    fastest, threads = min(seconds, key=seconds.get), options.threads
    options.share, options.threads = ("auto", 1) if fastest == "one" else (fastest, threads)
    if not options.quiet:
        chosen = {"batch": f"{threads} threads share each batch", "products": f"{threads} threads share each matrix product", "one": f"One thread, as {threads} are slower"}[fastest]  # fmt: skip
        batch, products, one = (f"{1e3 * seconds[way]:.3g} ms" for way in ("batch", "products", "one"))
        print(
            f"{chosen}. A trial: shared batches {batch}, shared products {products}, one thread {one} a step (see --share)."
        )


if __name__ == "__main__":
    open_door("minigrad.train", main)
