"""Train a run to its end: steps, checkpoints, progress, a stop on a signal, then the test and the report."""

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
    """A run in training.

    config       contents of config.json       log    the saving.Lines of its rows
    checkpoint   that it was resumed from      first  initial weights; None if the model still has them
    """

    folder: RunFolder
    config: dict
    log: saving.Lines
    training: Training
    checkpoint: Checkpoint | None = None
    first: dict | None = None


def train_to_end(run, attended, say):
    """Perform the remaining steps, test the model and write the report; returns the exit status.

    attended   models.attended.attended, for the report       say   print, or a function that prints nothing
    """
    training = run.training
    command, threads = run.config["command"], run.config["threads"]
    diary = Diary(training.recipe, training.model, attended, command, threads, first=run.first)
    health = Health(training.recipe, training.model, training.clip, run.log.rows)
    events = tensorboard_writers(run)
    show = progress.Progress(
        training.recipe, run.log, say is not print, [diary, health, *events], training.done
    )
    checkpoints = make_checkpoints(run, show.warn)
    with contextlib.suppress(OSError):
        run.folder.broken.unlink(missing_ok=True)
    with (
        contextlib.ExitStack() as at_the_end,
        Interruption("Finishing this step, then saving; a second signal stops at once.") as stop,
    ):
        for one in (show, *events):
            at_the_end.callback(one.close)
        try:
            saved = learn(training, show, checkpoints, stop)
        except KeyboardInterrupt:
            print(f"Stopped at once, after {training.done} steps; {how_to_resume(run, checkpoints)}")
            return stop.status
        except Exception as error:
            save_after_error(run, diary, checkpoints, error, say)
            raise
    if training.over and not saved:
        raise saving.FileProblem(
            "The weights of the last step could not be saved, so the run is not finished; "
            f"{how_to_resume(run, checkpoints)}"
        )
    stopped = stop.asked and not training.over
    if stopped:
        kept = "the training so far is saved, " * (checkpoints.saved[-1:] == [training.done])
        print(f"Stopped after {training.done} steps; {kept}{how_to_resume(run, checkpoints)}", flush=True)
    if stopped and stop.asked != signal.SIGINT:  # after SIGTERM there may be no time for a test
        diary.report_stop(run.folder, run.log.rows)
        return stop.status
    return test(run, diary, say) or (stop.status if stopped else 0)


def tensorboard_writers(run):
    """Create the Events for TensorBoard, as a list; empty if not wanted, or if they cannot be written."""
    if not run.config.get("tensorboard"):
        return []
    try:
        return [Events(run.folder.tensorboard, run.log.rows, run.training.seconds)]
    except (NotInstalled, OSError) as problem:
        print(
            f"minigrad.train: {problem} The run continues without TensorBoard.", file=sys.stderr, flush=True
        )
        return []


def learn(training, show, checkpoints, stop):
    """Train until done or interrupted, with checkpoints. Returns True if the final weights were saved."""
    checkpoints.save()
    for row in training.rows():
        show(row)
        checkpoints.after(row)
        if training.workers.stop(stop.asked, training.over):
            break
    return checkpoints.save() or checkpoints.weights_of == training.done


def save_after_error(run, diary, checkpoints, error, say):
    """Save as much as possible after an error: the weights if they are finite; after NotFinite, the state
    before the step; after a TrainingError, a report."""
    with contextlib.suppress(saving.FileProblem):
        if not sick_weights(run.training.model):
            saving.save_tensors(run.folder.weights, run.training.model.state_dict())
        saving.write_bytes(run.folder.broken, f"{error}\n".encode(errors="replace"))
    if isinstance(error, NotFinite) and checkpoints.save():
        say(
            f"The training so far is saved as the checkpoint of step {run.training.done}. To resume from "
            "there with a lower rate (or without it, once data or code have changed): "
            f"{resume_command(run)} {lower_rate(run.training.recipe)}"
        )
    if isinstance(error, TrainingError):
        diary.report_failure(run.folder, run.log.rows, error)
        say(f"The report of the run up to the error is {run.folder.report}.")


def test(run, diary, say):
    """Test the model, print the figures and write the report; returns the exit status."""
    try:
        progress.finish(run.training.recipe, run.training.model.eval(), run.folder, run.log.rows, say, diary)
    except KeyboardInterrupt:
        purpose = "To test them" if run.training.over else "To resume"
        say(
            f"\nStopped before the end of the test; the weights are in {run.folder}. "
            f"{purpose}: {resume_command(run)}"
        )
        return 130
    except OSError as error:
        raise saving.FileProblem(
            f"The results could not be saved in {run.folder}: {error.strerror}. {saved_weights(run)} To try "
            f"again: {resume_command(run)}"
        ) from None
    return 0


def make_checkpoints(run, warn):
    """Create the Checkpoints of a run; of a resumed one, with its earlier checkpoints."""
    recipe, when = run.training.recipe, run.config["saving"]
    lower = recipe.metric is not None and lower_is_better(recipe.metric, recipe.share)
    better, extra = (
        operator.lt if lower else operator.gt,
        {"environment": surroundings(run.config["threads"])},
    )
    checkpoints = Checkpoints(run.folder, run.training, run.log, better, warn, **when, extra=extra)
    if run.checkpoint:
        checkpoints.continue_from(run.checkpoint)
    return checkpoints


def how_to_resume(run, checkpoints):
    """Message: the last checkpoint of a stopped run, and the command that resumes it."""
    last = "it has no checkpoint"
    if checkpoints.saved:
        last = f"its last checkpoint is of step {checkpoints.saved[-1]}"
    return f"{last}. To resume: {resume_command(run)}"


def saved_weights(run):
    """Message: where the weights are saved after a failed test, if anywhere."""
    steps = [step for step, _ in run.folder.found_checkpoints()]
    if run.training.done in steps:
        return "The weights are saved."
    if steps:
        return f"The last checkpoint is of step {steps[0]}."
    return "There is no checkpoint either, so the training is lost."


def resume_command(run):
    return run.training.workers.command(f"python -m minigrad.train --resume {shlex.quote(str(run.folder))}")


def surroundings(threads):
    """Environment that the last digits depend on, with strings only, so that it compares equal after JSON."""
    return {name: str(value) for name, value in environment(threads).items()}
