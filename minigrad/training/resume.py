"""Taking up a run where it was left. Knows run folders, recipes and checkpoints; not the command line."""

import contextlib

from minigrad import saving
from minigrad.training.checkpoints import Newer, read
from minigrad.training.loop import ROW, Training, TrainingError
from minigrad.training.recipe import is_number
from minigrad.training.run import Run, surroundings
from minigrad.training.threads import cores


class ResumeProblem(ValueError):
    """A run that cannot be gone on with, and why."""


def take_up(folder, recipes, steps, lr, say, warn):
    """The Run in a RunFolder, at the last checkpoint that can be read; None, and a sentence, if there is nothing left to do.

    steps       how many it shall have, if more than it had      lr   its highest learning rate from here on, if another
    say, warn   called with sentences: what is done, and what is not as it should be
    """
    config = folder.read_config()
    _check(config, folder)
    log = saving.Lines(folder.log)  # from here on no other process writes into the folder
    with contextlib.ExitStack() as otherwise:
        otherwise.callback(log.close)
        for place in (folder, folder.checkpoints):
            saving.clean(place)
        before = dict(config["settings"])
        if not _lengthen(config, steps, folder, say) and _finished(folder, config):
            say(f"The run {folder} is finished after {config['settings']['steps']:,} steps. To let it learn on: python -m minigrad.train --resume {folder} --steps {2 * config['settings']['steps']}")  # fmt: skip
            return None
        _set_rate(config, lr, say)
        run = _at_newest(folder, recipes, config, log, warn)
        if config["settings"] != before:
            folder.write_config(config)
        _cut(log, run.training.done, warn)
        say(f"{folder} goes on after step {run.training.done:,} of {config['settings']['steps']:,}.")
        otherwise.pop_all()
        return run


# ---------------------------------------------------------------- what was recorded


def _check(config, folder):
    """Sentences for a config that no run of this minigrad has written."""
    if "command" not in config:
        raise ResumeProblem(
            f"the run {folder} was made by an older minigrad, which kept no checkpoints; it can be asked, but not gone on with."
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
            f"{folder.config} is not a run's configuration: threads {threads!r}, share {share!r}, steps {steps!r}, saving {saved!r}."
        )


def _whole(value, most=10**12):
    return type(value) is int and 1 <= value <= most


def _lengthen(config, steps, folder, say):
    """Set the number of steps, if it is larger; whether it is."""
    before = config["settings"]["steps"]
    if steps is None or steps == before:
        return False
    if steps < before:
        raise ResumeProblem(
            f"the run {folder} has {before} steps, and --steps {steps} would make it shorter; a shorter run is another one: leave out --resume."
        )
    config["settings"]["steps"] = steps
    config["command"] += f"\npython -m minigrad.train --resume RUN --steps {steps}"
    say(f"From {before:,} steps to {steps:,}: the learning rate follows the schedule of the longer run from here on, so the result is neither that of {before:,} steps nor quite that of {steps:,} from the start.")  # fmt: skip
    return True


def _set_rate(config, lr, say):
    """Set the highest learning rate, if it is another."""
    before = config["settings"].get("lr")
    if lr is not None and lr != before:
        config["settings"]["lr"] = lr
        config["command"] += f"\npython -m minigrad.train --resume RUN --lr {lr:g}"
        say(
            f"The highest learning rate was {before} and is {lr:g} from here on, so the rest is not what the run alone would have come to."
        )


def _finished(folder, config):
    try:
        result = saving.load_json(folder.result)
    except saving.FileProblem:
        return False
    return isinstance(result, dict) and result.get("steps") == config["settings"]["steps"]


# ---------------------------------------------------------------- the last state that can be read


def _at_newest(folder, recipes, config, log, warn):
    """The Run at its newest checkpoint; one that cannot be read is passed over for the one before it. If all are passed over, the run is
    left as it is: a recipe or data that changed can be put back, what was learned cannot."""
    checkpoints = folder.found_checkpoints()
    for step, path in checkpoints:
        run = _at_beginning(folder, recipes, config, log)
        try:
            run.checkpoint = read(path)
            if run.checkpoint.step != step:
                raise ValueError(f"it is of step {run.checkpoint.step}")
            run.first = _first_weights(folder, run.training.model)
            run.training.load(run.checkpoint.state)
        except (Newer, TrainingError):
            raise
        except saving.FileProblem as problem:
            warn(f"{problem} It is passed over.")
        except Exception as problem:  # whatever somebody's made-up numbers can lead to
            reason = " ".join(line.strip().rstrip(".") for line in str(problem).splitlines()[:2])
            warn(
                f"The checkpoint {path} does not fit this run ({type(problem).__name__}: {reason}). It is passed over."
            )
        else:
            _compare(run, warn)
            return run
    if checkpoints:
        raise ResumeProblem(
            f"none of the {len(checkpoints)} checkpoints of the run {folder} can be gone on with, so nothing was changed. Has its recipe's file or its data changed since? "
            f"Put back what it was; or train anew, in another folder: python -m minigrad.train --config {folder.repeat}"
        )
    warn(f"The run {folder} has no checkpoint; it begins again, from its seed.")
    return _at_beginning(folder, recipes, config, log)


def _at_beginning(folder, recipes, config, log):
    recipe, model = recipes.untrained(config, folder)
    return Run(folder, config, log, Training(recipe, model))


def _first_weights(folder, model):
    """Those of the checkpoint of step 0; None if they cannot be had: then the model's, from the seed, do for the report."""
    try:
        first = read(folder.checkpoint(0)).state["model"]
        fits = {name: t.shape for name, t in model.state_dict().items()} == {
            name: array.shape for name, array in first.items()
        }
    except (saving.FileProblem, KeyError, AttributeError):
        return None
    return first if fits else None


def _compare(run, warn):
    """Say what makes the rest of the run another than it would have been: other data, another machine, fewer cores."""
    if not run.training.same_data(run.checkpoint.state):
        warn(f"The batch of step {run.training.done} is not what it was when the run learned from it: a file has changed since, or batch(step) of the recipe depends on more than the step and the seed. The run goes on, but not as it would have.")  # fmt: skip
    then, now = run.checkpoint.state.get("environment"), surroundings(run.config["threads"])
    if then != now:
        others = (
            [
                f"{name} {then.get(name)}, now {value}"
                for name, value in now.items()
                if then.get(name) != value
            ]
            if isinstance(then, dict)
            else ["unknown"]
        )
        warn(
            f"Until here the run was computed with {'; '.join(others)}. The last digits may differ from those of a run that was never left."
        )
    if run.config["threads"] > cores():
        warn(
            f"The run computes with {run.config['threads']} threads, and goes on so, for the same results; this machine has {cores()}, so it takes longer."
        )


def _cut(log, done, warn):
    """Let the log end with the checkpoint's step."""
    log.keep(done)
    sound = next(
        (number for number, row in enumerate(log.rows) if not _sound(row, number + 1)), len(log.rows)
    )
    if sound < done:
        log.keep(sound)
        warn(
            f"{log.path} holds the rows of {sound} steps only; those up to step {done} are missing in the report."
        )


def _sound(row, step):
    return row.get("step") == step and all(is_number(row.get(column)) for column in ROW)
