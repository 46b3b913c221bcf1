"""python -m minigrad.train [RECIPE]: train a model and save a run folder with weights, figures and a report.

This file starts or resumes the run. The recipe defines what is learned, training/loop.py has the loop, run.py
trains to the end, progress.py prints, resume.py loads the last checkpoint.
"""

import contextlib
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from minigrad import manual_seed, saving
from minigrad.cli import configs
from minigrad.cli.doors import load_models, open_door, report_errors
from minigrad.cli.options import as_option, names, parse
from minigrad.machine import blas_threads
from minigrad.training import job
from minigrad.training.folder import CONFIG_VERSION, RunFolder
from minigrad.training.loop import Training, TrainingError
from minigrad.training.recipe import GENERAL, UsageError, settings_of
from minigrad.training.rehearsal import dry_run, overfit, without_dropout
from minigrad.training.resume import resume
from minigrad.training.run import Run, train_to_end
from minigrad.training.tensorboard import check_installed
from minigrad.training.threads import Sharing, cores, trial


def main(argv=None):
    with (
        job.only_rank_0_prints(),
        report_errors(
            "minigrad.train", UsageError, saving.FileProblem, TrainingError, ValueError, NotImplementedError
        ) as outcome,
    ):
        plan = parse(argv)
        if plan.compute.threads > cores():
            raise UsageError(
                f"--threads {plan.compute.threads} is too many: this machine has {cores()} "
                f"core{'s' * (cores() > 1)}, and more threads only wait for each other."
            )
        recipes = load_models()
        if plan.task == "list":
            return list_recipes(recipes)
        with job.job(plan.compute.distributed, plan.say) as workers:
            tasks = {"train": train_new_run, "resume": resume_run}
            return tasks.get(plan.task, rehearse)(plan, workers, recipes)
    return outcome.status


# ---------------------------------------------------------------- recipes, the command, the folder


def list_recipes(recipes):
    """Print the recipes and their settings; returns the exit status."""
    for name in recipes.MODULES:
        recipe = recipes.find(name)
        print(f"{name:10s} {recipe.help}")
        settings = (
            f"{as_option(key)} {value}" for key, value in recipe.defaults.items() if value is not None
        )
        print(" " * 11 + "  ".join(settings))
        for key, choices in recipe.choices.items():
            print(" " * 11 + f"--{key} can be {', '.join(choices)}")
        options = " ".join(map(as_option, recipe.generating))
        print(" " * 11 + f"minigrad.generate takes {options or 'no options'}")
    return 0


def repeat_command(recipe, plan, workers):
    """Command that repeats a run: the settings that differ from the defaults. Absolute paths are shortened to
    their last part, because folders differ between machines."""
    defaults, words = {**GENERAL, **recipe.defaults}, ["python -m minigrad.train", last_part(plan.recipe)]
    for key, value in recipe.settings.items():
        if key in defaults and value != defaults[key]:
            name = f"{as_option(key)} " if key in names("setting") else f"--set {key}="
            words.append(name + shlex.quote(str(last_part(value))))
    words.append(f"--seed {plan.seed}")
    words += [f"--threads {plan.compute.threads} --share {plan.compute.share}"] * (plan.compute.threads > 1)
    return workers.command(" ".join(words))


def last_part(value):
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def open_folder(out, name):
    """Create the run's folder. Raises UsageError if it is not empty: a run is never overwritten."""
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
                f"the folder {out} is not empty, and a run is never overwritten; choose another with --out."
            )
    except OSError as error:
        raise UsageError(
            f"the folder {out} could not be created: {error.strerror}. Choose another with --out."
        ) from None
    return RunFolder(folder)


# ---------------------------------------------------------------- starting and resuming a run


def new_model(plan, recipes):
    """Create (recipe, model) of a new training, from the plan's seed."""
    recipe_class = recipes.find(plan.recipe)
    settings = settings_of(recipe_class, plan.settings, plan.pairs)
    manual_seed(plan.seed)
    recipe = recipe_class(without_dropout(settings) if plan.task == "overfit_one_batch" else settings)
    return recipe, recipe.model()


def rehearse(plan, workers, recipes):
    """Perform --dry-run or --overfit-one-batch; returns the exit status."""
    recipe, model = new_model(plan, recipes)
    with start_threads(decide_share(plan.compute, recipe, model, plan.say), workers) as workers:
        if plan.task == "dry_run":
            return dry_run(recipe, model, workers)
        return overfit(recipe, model, workers, plan.settings.get("steps"))


def train_new_run(plan, workers, recipes):
    """Train a new model; returns the exit status."""
    recipe, model = new_model(plan, recipes)
    if plan.saving.tensorboard:
        check_installed()
    folder = None if workers.rank else open_folder(plan.folder, recipe.name)
    plan = replace(plan, compute=decide_share(plan.compute, recipe, model, plan.say))
    with start_threads(plan.compute, workers) as workers:
        training = Training(recipe, model, sharing=workers)
        if workers.rank:
            return workers.follow(training)
        config = config_of(recipe, plan, workers)
        folder.write_config(config)
        configs.write(folder, recipe, config)
        introduce(recipe, model, plan.seed, folder, plan.say)
        run = Run(folder, config, saving.Lines(folder.log), training)
        return train_to_end(run, load_models("attended").attended, plan.say)


def resume_run(plan, workers, recipes):
    """Resume the run in a folder as if it had never been stopped; returns the exit status."""
    if workers.rank:
        return follow_resumed_run(plan, workers, recipes)
    steps, lr = plan.settings.get("steps"), plan.settings.get("lr")
    run = resume(RunFolder(plan.folder), recipes, steps, lr, plan.say, warn)
    workers.broadcast(run and (run.config, run.checkpoint and run.checkpoint.state))
    if run is None:
        return 0
    run.config["saving"] = checkpoint_settings(plan.saving, run.config.get("saving"))
    if plan.saving.tensorboard and not run.config.get("tensorboard"):
        run.config["tensorboard"] = True
        run.folder.write_config(run.config)
    training = run.training
    compute = compute_of_run(plan.compute, run.config)
    compute = decide_share(compute, training.recipe, training.model, plan.say)
    with start_threads(compute, workers) as training.workers:
        return train_to_end(run, load_models("attended").attended, plan.say)


def follow_resumed_run(plan, workers, recipes):
    """Perform the same steps as rank 0, from the checkpoint that it has read; only rank 0 saves."""
    resumed = workers.broadcast(None)
    if resumed is None:
        return 0
    config, state = resumed
    training = Training(*recipes.untrained(config, RunFolder(plan.folder)), sharing=workers)
    if state:
        training.load(state)
    with start_threads(compute_of_run(plan.compute, config), workers):
        return workers.follow(training)


def warn(message):
    print(f"minigrad.train: {message}", file=sys.stderr, flush=True)


def config_of(recipe, plan, workers):
    """Contents of config.json: everything needed to generate with the run, repeat it and resume it."""
    threads, share = plan.compute.threads, plan.compute.share
    return {
        "recipe": getattr(recipe, "file", recipe.name),
        "seed": plan.seed,
        "settings": recipe.settings,
        "threads": threads,
        "share": share if threads > 1 else None,
        "command": repeat_command(recipe, plan, workers),
        "saving": checkpoint_settings(plan.saving),
        "tensorboard": plan.saving.tensorboard,
        "metric": recipe.metric,
        "version": CONFIG_VERSION,
    }


def checkpoint_settings(given, before=None):
    """When to save checkpoints and how many to keep: as given, else as before, else every minute and 2."""
    given = {"every": given.save_every, "minutes": given.save_minutes, "keep": given.keep}
    chosen = {"every": None, "minutes": 1.0, "keep": 2, **(before or {})} | {
        name: value for name, value in given.items() if value is not None
    }
    return {**chosen, "every": None} if given["minutes"] and not given["every"] else chosen


def introduce(recipe, model, seed, folder, say):
    """Print what is about to be trained: recipe, model, steps, seed and folder."""
    parameters, settings = sum(p.numel() for p in model.parameters()), recipe.settings
    size = f"{settings['accumulate']} x " * (settings["accumulate"] > 1) + str(settings["batch_size"])
    say(f"{recipe.name}: {recipe.help}" if recipe.help else recipe.name)
    say(
        f"{type(model).__name__} of {parameters:,} parameters, {settings['steps']} steps of {size}, "
        f"seed {seed} -> {folder}"
    )
    if recipe.note:
        say(recipe.note)


# ---------------------------------------------------------------- threads and processes


def compute_of_run(compute, config):
    """Compute with the threads of a run that is resumed."""
    share = "products" if compute.distributed else config["share"] or "auto"
    return replace(compute, threads=config["threads"], share=share)


def decide_share(compute, recipe, model, say):
    """Decide what the threads share: matrix products if there are ranks; "auto" is decided by a trial."""
    if compute.distributed and compute.share == "batch" and compute.threads > 1:
        raise UsageError(
            "with --distributed the processes share each batch, so threads can share matrix products only; "
            "leave out --share batch."
        )
    if compute.distributed:
        return replace(compute, share="products")
    if compute.share == "auto" and compute.threads > 1:
        return choose_fastest(compute, trial(recipe, model, compute.threads), say)
    return compute


def choose_fastest(compute, seconds, say):
    """Return the Compute that was fastest in a trial, and print the times."""
    way, threads = min(seconds, key=seconds.get), compute.threads
    chosen = {
        "batch": f"{threads} threads share each batch",
        "products": f"{threads} threads share each matrix product",
        "one": f"One thread, because {threads} are slower",
    }[way]
    batch, products, one = (f"{1e3 * seconds[way]:.3g} ms" for way in ("batch", "products", "one"))
    say(
        f"{chosen}. Time per step in a trial: shared batches {batch}, shared products {products}, one "
        f"thread {one} (see --share)."
    )
    return replace(compute, threads=1) if way == "one" else replace(compute, share=way)


@contextlib.contextmanager
def start_threads(compute, workers):
    """Set up the threads; yields a Sharing if they share each batch, else `workers`."""
    shared = compute.share == "batch" and compute.threads > 1
    with Sharing(compute.threads) if shared else blas_threads(compute.threads) as sharing:
        yield sharing or workers


if __name__ == "__main__":
    open_door("minigrad.train", main)
