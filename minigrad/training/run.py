"""A run on its way: step after step to its end, saved and shown as it goes, and stopped when somebody asks. Knows the parts that do so,
and their order; neither the command line nor how a run begins.
"""

import contextlib
import dataclasses
import operator
import shlex
import signal
import sys

from minigrad import saving
from minigrad.training import progress
from minigrad.training.checkpoints import Checkpoint, Checkpoints
from minigrad.training.diary import Diary
from minigrad.training.figures import environment
from minigrad.training.folder import RunFolder
from minigrad.training.health import Health, sick_weights
from minigrad.training.loop import NotFinite, Training, TrainingError, lower_rate
from minigrad.training.signals import Interruption
from minigrad.training.tensorboard import Events, NotInstalled
from minigrad.viz.pictures import lower_is_better


@dataclasses.dataclass
class Run:
    """A run on its way.

    config       what config.json holds            log    the saving.Lines of its rows
    checkpoint   the one it was taken up from      first  the weights that it began with, if not those that the model has
    """

    folder: RunFolder
    config: dict
    log: saving.Lines
    training: Training
    checkpoint: Checkpoint | None = None
    first: dict | None = None


def carry_on(run, attended, say):
    """Take the steps that are left, test, and show what came of it; returns the exit status.

    attended   models.attended.attended, for the report            say   print, or what is silent
    """
    training = run.training
    command, threads = run.config["command"], run.config["threads"]
    diary = Diary(training.recipe, training.model, attended, command, threads, first=run.first)
    health = Health(training.recipe, training.model, training.clip, run.log.rows)
    events = board(run)
    show = progress.Progress(
        training.recipe, run.log, say is not print, [diary, health, *events], training.done
    )
    checkpoints = kept(run, show.warn)
    with contextlib.suppress(OSError):
        run.folder.broken.unlink(missing_ok=True)
    with (
        contextlib.ExitStack() as at_the_end,
        Interruption("Finishing this step, then saving; once more stops at once.") as stop,
    ):
        for one in (show, *events):
            at_the_end.callback(one.close)
        try:
            saved = learn(training, show, checkpoints, stop)
        except KeyboardInterrupt:
            print(f"Stopped at once, after {training.done} steps; {left(run, checkpoints)}")
            return stop.status
        except Exception as error:
            broken(run, diary, checkpoints, error, say)
            raise
    if training.over and not saved:
        raise saving.FileProblem(
            f"The weights of the last step could not be saved, so the run is not finished; {left(run, checkpoints)}"
        )
    stopped = stop.asked and not training.over
    if stopped:
        kept_it = "what was learned so far is kept, " * (checkpoints.saved[-1:] == [training.done])
        print(f"Stopped after {training.done} steps; {kept_it}{left(run, checkpoints)}", flush=True)
    if stopped and stop.asked != signal.SIGINT:  # who sends SIGTERM does not wait for a test
        diary.stopped(run.folder, run.log.rows)
        return stop.status
    return test(run, diary, say) or (stop.status if stopped else 0)


def board(run):
    """[the Events for TensorBoard] of a run that shall have them and can."""
    if not run.config.get("tensorboard"):
        return []
    try:
        return [Events(run.folder.tensorboard, run.log.rows, run.training.seconds)]
    except (NotInstalled, OSError) as problem:
        print(f"minigrad.train: {problem} The run goes on without.", file=sys.stderr, flush=True)
        return []


def learn(training, show, checkpoints, stop):
    """Take the steps that are left, until asked to stop; each is shown, and saved if it is time. Returns whether the last weights are."""
    checkpoints.save()
    for row in training.rows():
        show(row)
        checkpoints.after(row)
        if training.workers.stop(stop.asked, training.over):
            break
    return checkpoints.save() or checkpoints.weights_of == training.done


def broken(run, diary, checkpoints, error, say):
    """What can be kept where the training broke off: the weights, which may be of use, the whole state if it is one between two steps,
    and, if it is the training's own error, a report."""
    with contextlib.suppress(saving.FileProblem):
        if not sick_weights(run.training.model):
            saving.save_tensors(run.folder.weights, run.training.model.state_dict())
        saving.write_bytes(run.folder.broken, f"{error}\n".encode(errors="replace"))
    if isinstance(error, NotFinite) and checkpoints.save():
        say(f"What was learned is kept, as the checkpoint of step {run.training.done}. To go on from there with a lower rate (or without it, once data or code have changed): {again(run)} {lower_rate(run.training.recipe)}")  # fmt: skip
    if isinstance(error, TrainingError):
        diary.broken(run.folder, run.log.rows, error)
        say(f"What happened until then stands in {run.folder.report}.")


def test(run, diary, say):
    """Test the model and show what came of it; returns the exit status."""
    try:
        progress.finish(run.training.recipe, run.training.model.eval(), run.folder, run.log.rows, say, diary)
    except KeyboardInterrupt:
        say(
            f"\nStopped before the test was over; the weights are in {run.folder}. {'To test them' if run.training.over else 'To go on'}: {again(run)}"
        )
        return 130
    except OSError as error:
        raise saving.FileProblem(f"What came of it could not be saved in {run.folder}: {error.strerror}. {kept_or_not(run)} To try it again: {again(run)}") from None  # fmt: skip
    return 0


def kept(run, warn):
    """The Checkpoints of a run."""
    recipe, when = run.training.recipe, run.config["saving"]
    lower = recipe.metric is not None and lower_is_better(recipe.metric, recipe.share)
    checkpoints = Checkpoints(run.folder, run.training, run.log, operator.lt if lower else operator.gt, warn, **when, extra={"environment": surroundings(run.config["threads"])})  # fmt: skip
    if run.checkpoint:
        checkpoints.go_on(run.checkpoint)
    return checkpoints


def left(run, checkpoints):
    """What a stopped run has left, and how to go on."""
    kept = (
        f"its last checkpoint is of step {checkpoints.saved[-1]}"
        if checkpoints.saved
        else "it has no checkpoint"
    )
    return f"{kept}. To go on: {again(run)}"


def kept_or_not(run):
    steps = [step for step, _ in run.folder.found_checkpoints()]
    if run.training.done in steps:
        return "The weights are kept."
    return (
        f"The last checkpoint is of step {steps[0]}."
        if steps
        else "There is no checkpoint either, so what was learned is lost."
    )


def again(run):
    return run.training.workers.command(f"python -m minigrad.train --resume {shlex.quote(str(run.folder))}")


def surroundings(threads):
    """What the last digits depend on, as JSON gives it back."""
    return {name: str(value) for name, value in environment(threads).items()}
