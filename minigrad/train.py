"""python -m minigrad.train [RECIPE]: train a model and leave a run folder with the weights, the figures and a report.

Knows the command line and how a run begins; what is learned stands in the recipe, the loop in training/loop.py, how a run goes on to its
end in run.py, how it is shown in progress.py, how one is taken up again in resume.py.
"""

import contextlib
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from minigrad import manual_seed, saving
from minigrad.cli import configs
from minigrad.cli.doors import load_models, open_door, report_errors
from minigrad.cli.options import names, parse, spelled
from minigrad.machine import blas_threads
from minigrad.training import job
from minigrad.training.folder import RunFolder
from minigrad.training.loop import Training, TrainingError
from minigrad.training.recipe import GENERAL, UsageError, settings_of
from minigrad.training.rehearsal import dry_run, overfit, without_dropout
from minigrad.training.resume import take_up
from minigrad.training.run import Run, carry_on
from minigrad.training.tensorboard import check_installed
from minigrad.training.threads import Sharing, cores, trial


def main(argv=None):
    with (
        job.one_voice(),
        report_errors(
            "minigrad.train", UsageError, saving.FileProblem, TrainingError, ValueError, NotImplementedError
        ) as outcome,
    ):
        plan = parse(argv)
        if plan.compute.threads > cores():
            raise UsageError(f"--threads {plan.compute.threads} is too many: this machine has {cores()} core{'s' * (cores() > 1)}, and more threads only wait for each other.")  # fmt: skip
        recipes = load_models()
        if plan.task == "list":
            return list_recipes(recipes)
        with job.job(plan.compute.distributed, plan.say) as workers:
            return {"train": start, "resume": resume}.get(plan.task, rehearse)(plan, workers, recipes)
    return outcome.status


# ---------------------------------------------------------------- around a run


def list_recipes(recipes):
    """Print the recipes and their settings; returns the exit status."""
    for name in recipes.MODULES:
        recipe = recipes.find(name)
        print(f"{name:10s} {recipe.help}")
        settings = (f"{spelled(key)} {value}" for key, value in recipe.defaults.items() if value is not None)
        print(" " * 11 + "  ".join(settings))
        for key, choices in recipe.choices.items():
            print(" " * 11 + f"--{key} can be {', '.join(choices)}")
        taken = " ".join(map(spelled, recipe.generating))
        print(" " * 11 + f"minigrad.generate takes {taken or 'no options'}")
    return 0


def repeated(recipe, plan, workers):
    """The command that repeats a run: what differs from the defaults; of a whole path the last part, as folders differ between machines."""
    defaults, words = {**GENERAL, **recipe.defaults}, ["python -m minigrad.train", relative(plan.recipe)]
    for key, value in recipe.settings.items():
        if key in defaults and value != defaults[key]:
            name = f"{spelled(key)} " if key in names("setting") else f"--set {key}="
            words.append(name + shlex.quote(str(relative(value))))
    words.append(f"--seed {plan.seed}")
    words += [f"--threads {plan.compute.threads} --share {plan.compute.share}"] * (plan.compute.threads > 1)
    return workers.command(" ".join(words))


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


def untrained(plan, recipes):
    """(recipe, model) as a new training begins."""
    recipe_class = recipes.find(plan.recipe)
    settings = settings_of(recipe_class, plan.settings, plan.pairs)
    manual_seed(plan.seed)
    recipe = recipe_class(without_dropout(settings) if plan.task == "overfit_one_batch" else settings)
    return recipe, recipe.model()


def rehearse(plan, workers, recipes):
    """Do what --dry-run or --overfit-one-batch asks for; returns the exit status."""
    recipe, model = untrained(plan, recipes)
    with at_work(settled(plan.compute, recipe, model, plan.say), workers) as workers:
        if plan.task == "dry_run":
            return dry_run(recipe, model, workers)
        return overfit(recipe, model, workers, plan.settings.get("steps"))


def start(plan, workers, recipes):
    """Train a new model; returns the exit status."""
    recipe, model = untrained(plan, recipes)
    if plan.saving.tensorboard:
        check_installed()
    folder = None if workers.rank else open_folder(plan.folder, recipe.name)
    plan = replace(plan, compute=settled(plan.compute, recipe, model, plan.say))
    with at_work(plan.compute, workers) as workers:
        training = Training(recipe, model, sharing=workers)
        if workers.rank:
            return workers.follow(training)
        config = config_of(recipe, plan, workers)
        folder.write_config(config)
        configs.write(folder, recipe, config)
        introduce(recipe, model, plan.seed, folder, plan.say)
        run = Run(folder, config, saving.Lines(folder.log), training)
        return carry_on(run, load_models("attended").attended, plan.say)


def resume(plan, workers, recipes):
    """Go on with the run in a folder as if it had never been left; returns the exit status."""
    if workers.rank:
        return follow_resumed(plan, workers, recipes)
    steps, lr = plan.settings.get("steps"), plan.settings.get("lr")
    run = take_up(RunFolder(plan.folder), recipes, steps, lr, plan.say, warn)
    workers.hand_on(run and (run.config, run.checkpoint and run.checkpoint.state))
    if run is None:
        return 0
    run.config["saving"] = saved_when(plan.saving, run.config.get("saving"))
    if plan.saving.tensorboard and not run.config.get("tensorboard"):
        run.config["tensorboard"] = True
        run.folder.write_config(run.config)
    training = run.training
    compute = settled(as_before(plan.compute, run.config), training.recipe, training.model, plan.say)
    with at_work(compute, workers) as training.workers:
        return carry_on(run, load_models("attended").attended, plan.say)


def follow_resumed(plan, workers, recipes):
    """What a rank but the first does: the same steps, from where rank 0 has taken the run up. Rank 0 shows and saves."""
    told = workers.hand_on(None)
    if told is None:
        return 0
    config, state = told
    training = Training(*recipes.untrained(config, RunFolder(plan.folder)), sharing=workers)
    if state:
        training.load(state)
    with at_work(as_before(plan.compute, config), workers):
        return workers.follow(training)


def warn(sentence):
    print(f"minigrad.train: {sentence}", file=sys.stderr, flush=True)


def config_of(recipe, plan, workers):
    """What a run must remember to be asked, repeated and gone on with."""
    threads, share = plan.compute.threads, plan.compute.share
    return {
        "recipe": getattr(recipe, "file", recipe.name), "seed": plan.seed, "settings": recipe.settings, "threads": threads,
        "share": share if threads > 1 else None, "command": repeated(recipe, plan, workers),
        "saving": saved_when(plan.saving), "tensorboard": plan.saving.tensorboard, "metric": recipe.metric, "version": saving.CONFIG_VERSION,
    }  # fmt: skip


def saved_when(given, before=None):
    """When checkpoints are saved and how many are kept: as given, else as before, else every minute and two."""
    given = {"every": given.save_every, "minutes": given.save_minutes, "keep": given.keep}
    chosen = {"every": None, "minutes": 1.0, "keep": 2, **(before or {})} | {
        name: value for name, value in given.items() if value is not None
    }
    return {**chosen, "every": None} if given["minutes"] and not given["every"] else chosen


def introduce(recipe, model, seed, folder, say):
    """What is going to happen."""
    parameters, settings = sum(p.numel() for p in model.parameters()), recipe.settings
    size = f"{settings['accumulate']} x " * (settings["accumulate"] > 1) + str(settings["batch_size"])
    say(f"{recipe.name}: {recipe.help}" if recipe.help else recipe.name)
    say(
        f"{type(model).__name__} of {parameters:,} parameters, {settings['steps']} steps of {size}, seed {seed} -> {folder}"
    )
    if recipe.note:
        say(recipe.note)


# ---------------------------------------------------------------- who computes


def as_before(compute, config):
    """The Compute of a run that is resumed."""
    share = "products" if compute.distributed else config["share"] or "auto"
    return replace(compute, threads=config["threads"], share=share)


def settled(compute, recipe, model, say):
    """The Compute with what its threads share decided: ranks leave them the matrix products only, and "auto" is tried out."""
    if compute.distributed and compute.share == "batch" and compute.threads > 1:
        raise UsageError(
            "with --distributed the processes share each batch, so threads can share matrix products only; leave out --share batch."
        )
    if compute.distributed:
        return replace(compute, share="products")
    if compute.share == "auto" and compute.threads > 1:
        return fastest(compute, trial(recipe, model, compute.threads), say)
    return compute


def fastest(compute, seconds, say):
    """The Compute that was fastest in a trial; says the times."""
    way, threads = min(seconds, key=seconds.get), compute.threads
    chosen = {"batch": f"{threads} threads share each batch", "products": f"{threads} threads share each matrix product", "one": f"One thread, as {threads} are slower"}[way]  # fmt: skip
    batch, products, one = (f"{1e3 * seconds[way]:.3g} ms" for way in ("batch", "products", "one"))
    say(
        f"{chosen}. A trial: shared batches {batch}, shared products {products}, one thread {one} a step (see --share)."
    )
    return replace(compute, threads=1) if way == "one" else replace(compute, share=way)


@contextlib.contextmanager
def at_work(compute, workers):
    """Let the threads compute; yields the workers, a Sharing where the threads share each batch."""
    shared = compute.share == "batch" and compute.threads > 1
    with Sharing(compute.threads) if shared else blas_threads(compute.threads) as sharing:
        yield sharing or workers


if __name__ == "__main__":
    open_door("minigrad.train", main)
