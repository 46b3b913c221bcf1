"""Resume a run from its last readable checkpoint, with a warning if its data or environment changed."""

import contextlib

from minigrad import saving
from minigrad.training.checkpoints import NewerVersion, read
from minigrad.training.loop import ROW, Training, TrainingError
from minigrad.training.recipe import is_number
from minigrad.training.run import Run, surroundings
from minigrad.training.threads import cores


class ResumeProblem(ValueError):
    """A run cannot be resumed; the message says why."""


def resume(folder, recipes, steps, lr, say, warn):
    """Return the Run in a RunFolder, at its last readable checkpoint; None, after a message, if finished.

    steps       its new number of steps, if larger      lr   its new highest learning rate from here on
    say, warn   called with messages: progress, and problems that do not prevent resuming
    """
    config = folder.read_config()
    _check(config, folder)
    log = saving.Lines(folder.log)  # locks the log: from here on no other process writes into the folder
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(log.close)
        for path in (folder, folder.checkpoints):
            saving.clean(path)
        before = dict(config["settings"])
        if not _lengthen(config, steps, folder, say) and _is_finished(folder, config):
            say(
                f"The run {folder} is finished after {config['settings']['steps']:,} steps. To train it "
                f"longer: python -m minigrad.train --resume {folder} --steps "
                f"{2 * config['settings']['steps']}"
            )
            return None
        _set_rate(config, lr, say)
        run = _run_at_newest_checkpoint(folder, recipes, config, log, warn)
        if config["settings"] != before:
            folder.write_config(config)
        _truncate(log, run.training.done, warn)
        say(f"{folder} resumes after step {run.training.done:,} of {config['settings']['steps']:,}.")
        on_failure.pop_all()
        return run


# ---------------------------------------------------------------- config.json


def _check(config, folder):
    """Raises ResumeProblem for a config that this minigrad cannot have written."""
    if "command" not in config:
        raise ResumeProblem(
            f"the run {folder} was made by an older minigrad, which saved no checkpoints; minigrad.generate "
            "can use it, but it cannot be resumed."
        )
    threads, share, steps = config.get("threads"), config.get("share"), config["settings"].get("steps")
    fits = (
        _whole(threads, 1024)
        and share in (None, "batch", "products")
        and _whole(steps)
        and isinstance(config["command"], str)
    )
    saved = config.get("saving")
    fits &= isinstance(saved, dict) and saved.keys() == {"every", "minutes", "keep"} and _whole(saved["keep"])
    if not fits or not (saved["every"] is None or _whole(saved["every"])) or not is_number(saved["minutes"]):
        raise ResumeProblem(
            f"{folder.config} is not a run's configuration: threads {threads!r}, share {share!r}, steps "
            f"{steps!r}, saving {saved!r}."
        )


def _whole(value, most=10**12):
    return type(value) is int and 1 <= value <= most


def _lengthen(config, steps, folder, say):
    """Set the number of steps, if it is larger. Returns True if it changed."""
    before = config["settings"]["steps"]
    if steps is None or steps == before:
        return False
    if steps < before:
        raise ResumeProblem(
            f"the run {folder} has {before} steps, and --steps {steps} would make it shorter; a shorter run "
            "is another one: leave out --resume."
        )
    config["settings"]["steps"] = steps
    config["command"] += f"\npython -m minigrad.train --resume RUN --steps {steps}"
    say(
        f"From {before:,} steps to {steps:,}: the learning rate follows the schedule of the longer run from "
        f"here on, so the result is neither that of {before:,} steps nor quite "
        f"that of {steps:,} from the start."
    )
    return True


def _set_rate(config, lr, say):
    """Set the highest learning rate, if it is a new one."""
    before = config["settings"].get("lr")
    if lr is not None and lr != before:
        config["settings"]["lr"] = lr
        config["command"] += f"\npython -m minigrad.train --resume RUN --lr {lr:g}"
        say(
            f"The highest learning rate was {before} and is {lr:g} from here on, so the result differs from "
            "that of the original run."
        )


def _is_finished(folder, config):
    try:
        result = saving.load_json(folder.result)
    except saving.FileProblem:
        return False
    return isinstance(result, dict) and result.get("steps") == config["settings"]["steps"]


# ---------------------------------------------------------------- the newest readable checkpoint


def _run_at_newest_checkpoint(folder, recipes, config, log, warn):
    """Load the newest checkpoint; an unreadable one is skipped for the one before it. If none can be read,
    nothing is changed: the user can restore a changed recipe or data file, but not a lost training."""
    checkpoints = folder.found_checkpoints()
    for step, path in checkpoints:
        run = _new_run(folder, recipes, config, log)
        try:
            run.checkpoint = read(path)
            if run.checkpoint.step != step:
                raise ValueError(f"it is of step {run.checkpoint.step}")
            run.first = _first_weights(folder, run.training.model)
            run.training.load(run.checkpoint.state)
        except (NewerVersion, TrainingError):
            raise
        except saving.FileProblem as problem:
            warn(f"{problem} It is skipped.")
        except Exception as problem:  # a forged checkpoint can raise anything
            reason = " ".join(line.strip().rstrip(".") for line in str(problem).splitlines()[:2])
            warn(
                f"The checkpoint {path} does not fit this run ({type(problem).__name__}: {reason}). "
                "It is skipped."
            )
        else:
            _compare(run, warn)
            return run
    if checkpoints:
        raise ResumeProblem(
            f"none of the {len(checkpoints)} checkpoints of the run {folder} can be resumed, so nothing was "
            "changed. Has its recipe's file or its data changed since? Restore them; or train again, in "
            f"another folder: python -m minigrad.train --config {folder.repeat}"
        )
    warn(f"The run {folder} has no checkpoint; it starts again from step 0, with its seed.")
    return _new_run(folder, recipes, config, log)


def _new_run(folder, recipes, config, log):
    recipe, model = recipes.untrained(config, folder)
    return Run(folder, config, log, Training(recipe, model))


def _first_weights(folder, model):
    """Read the weights of step 0. None if that fails: the report then uses the new model's, from the seed."""
    try:
        first = read(folder.checkpoint(0)).state["model"]
        fits = {name: t.shape for name, t in model.state_dict().items()} == {
            name: array.shape for name, array in first.items()
        }
    except (saving.FileProblem, KeyError, AttributeError):
        return None
    return first if fits else None


def _compare(run, warn):
    """Warn if data or environment differ from those before, or if there are fewer cores than threads."""
    if not run.training.same_data(run.checkpoint.state):
        warn(
            f"The batch of step {run.training.done} is not the one that the run was trained on: a file has "
            "changed since, or batch(step) of the recipe depends on more than the step and the seed. The "
            "run continues, but its result will differ."
        )
    then, now = run.checkpoint.state.get("environment"), surroundings(run.config["threads"])
    if then != now:
        others = ["unknown"]
        if isinstance(then, dict):
            others = [
                f"{name} {then.get(name)}, now {now[name]}" for name in now if then.get(name) != now[name]
            ]
        warn(
            f"Until here the run was computed with {'; '.join(others)}. The last digits may differ from "
            "those of an uninterrupted run."
        )
    if run.config["threads"] > cores():
        warn(
            f"The run computes with {run.config['threads']} threads, and continues so, for the same "
            f"results; this machine has {cores()}, so it takes longer."
        )


def _truncate(log, done, warn):
    """Truncate the log after the checkpoint's step."""
    log.keep(done)
    valid = next(
        (number for number, row in enumerate(log.rows) if not _is_valid(row, number + 1)), len(log.rows)
    )
    if valid < done:
        log.keep(valid)
        warn(f"{log.path} holds the rows of only {valid} steps; the report lacks those up to step {done}.")


def _is_valid(row, step):
    return row.get("step") == step and all(is_number(row.get(column)) for column in ROW)
