"""Checkpoints: all that the next step of a training depends on, in one file for each of some steps. Knows when one is due, which
are kept, and how a state lies in a file; nothing of what the state means (loop.py).

RUN/checkpoints/step-000400.safetensors holds the arrays of Training.state() under names such as model.embedding.weight and
optimizer.state.0.exp_avg; everything else, and where each array belongs, is JSON in the file's header. Reading runs no code.
"""

import contextlib
import json
import re
import time

import numpy as np

from minigrad import saving
from minigrad.engine.tensor import Tensor
from minigrad.training.health import sick_weights
from minigrad.training.loop import TrainingError
from minigrad.training.recipe import is_number

HEADER = "minigrad"
VERSION = 1  # of how a state lies in a file


class Checkpoints:
    """The checkpoints of a run while it trains: one at step 0, which the report compares with, then one every `every` steps if
    given, else every so many minutes, and one where the metric is the best so far. The last `keep` stay, the best and the first.

    log      the saving.Lines of the rows, which lie on the disk before the checkpoint does
    better   (figure, best figure before) -> whether it is better
    warn     called with a sentence when one could not be written; the training goes on, and the next one is tried
    extra    what else a checkpoint shall remember
    """

    def __init__(self, folder, training, log, better, warn, every=None, minutes=1.0, keep=2, extra=None):
        self.folder, self.training, self.log, self.better, self.warn = folder, training, log, better, warn
        self.every, self.minutes, self.keep, self.extra = every, minutes, keep, extra or {}
        # weights_of: the step of those that are saved beside the checkpoints
        self.best, self.saved, self.weights_of, self._last = None, [], None, time.monotonic()
        self._said = None

    def go_on(self, checkpoint):
        """Take over what a checkpoint says of those before it; files of later steps, which could not be read, do not count."""
        self.best = checkpoint.best
        self.saved = sorted(step for step, _ in self.folder.found_checkpoints() if step <= checkpoint.step)

    def after(self, row):
        """Save if it is time, or the metric is the best so far; `row` is the step's."""
        figure = row.get(self.training.recipe.metric)
        best = is_number(figure) and (self.best is None or self.better(figure, self.best["figure"]))
        if best:
            self.best = {"step": row["step"], "figure": float(figure)}
        if best or self.training.over or self._due():
            self.save()

    def _due(self):
        if self.every:
            return self.training.done % self.every == 0
        return time.monotonic() - self._last >= 60 * self.minutes

    def save(self):
        """Write the weights for those who ask the model, then the checkpoint; returns whether there is one of this step."""
        if self.saved[-1:] == [self.training.done]:
            return True
        self._last = time.monotonic()
        if name := sick_weights(self.training.model):
            return self._failed(
                f"The weights {name} hold a NaN or an inf after step {self.training.done}; they are not saved, and the last good checkpoint stays."
            )
        try:
            self.log.flush(lasting=True)
            saving.save_tensors(self.folder.weights, self.training.model.state_dict())
            self.weights_of = self.training.done
            self.folder.checkpoints.mkdir(exist_ok=True)
            write(
                self.folder.checkpoint(self.training.done),
                {**self.training.state(), "best": self.best, **self.extra},
            )
        except (saving.FileProblem, TrainingError) as problem:
            return self._failed(str(problem))
        except OSError as error:
            return self._failed(f"{self.folder.checkpoints} could not be made: {error.strerror}.")
        self._keep(self.training.done)
        self._said = None
        return True

    def _failed(self, sentence):
        reason = re.sub(r"\d+", "", sentence)
        if reason != self._said:  # once, not at every step until there is room
            self.warn(f"{sentence} The training goes on without.")
        self._said = reason
        return False

    def _keep(self, step):
        """Remove the files that need not stay, those that could not be read among them."""
        self.saved = [*(before for before in self.saved if before != step), step]
        best = [self.best["step"]] if self.best else []
        kept = {*self.saved[-self.keep :], *best, 0}
        self.saved = [step for step in self.saved if step in kept]
        for number, path in self.folder.found_checkpoints():
            if number not in kept:
                with contextlib.suppress(OSError):
                    path.unlink()


class Checkpoint:
    """What was read of a file: the `state` of a Training, its `step`, the `best` step before it and the rest in `extra`."""

    def __init__(self, values):
        self.state, self.step, self.best = values, values["step"], values["best"]
        fits = self.best is None or (
            isinstance(self.best, dict)
            and type(self.best.get("step")) is int
            and is_number(self.best.get("figure"))
        )
        if type(self.step) is not int or not fits:
            raise ValueError(f"its step is {self.step!r}, the best before it {self.best!r}")


# ---------------------------------------------------------------- files


def write(path, state):
    """Nested dicts and lists of arrays, numbers and texts as one file."""
    arrays = {}
    header = {"version": VERSION, "state": _packed(state, "", arrays)}
    saving.save_tensors(path, arrays, {HEADER: json.dumps(header)})


class Newer(saving.FileProblem):
    """A checkpoint of a minigrad that is newer than this one."""


def read(path):
    """The Checkpoint in a file; a FileProblem for what is none."""
    arrays, note = saving.load_noted(path)
    try:
        header = json.loads(note[HEADER])
        if header["version"] <= VERSION:
            return Checkpoint(_unpacked(header["state"], arrays))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise saving.FileProblem(f"{path} is not a checkpoint ({type(error).__name__}: {error}).") from None
    raise Newer(
        f"{path} was written by a newer minigrad; update this one, which reads up to version {VERSION} of checkpoints."
    )


def _packed(value, name, arrays):
    """The value as JSON can hold it, its arrays put into `arrays` by a name that says where they were."""
    if isinstance(value, dict):
        return {
            "dict": {
                str(key): _packed(part, f"{name}.{key}".lstrip("."), arrays) for key, part in value.items()
            }
        }
    if isinstance(value, (list, tuple)):
        return [_packed(part, f"{name}.{number}", arrays) for number, part in enumerate(value)]
    if isinstance(value, (np.ndarray, Tensor)):
        while name in arrays:  # a.b, and b in a
            name += "'"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise saving.FileProblem(
        f"{name} is a {type(value).__name__}, which no checkpoint can hold; state_dict() should give arrays, numbers and texts"
    )


def _unpacked(value, arrays):
    if isinstance(value, dict):
        ((kind, inside),) = value.items()
        return (
            arrays[inside]
            if kind == "array"
            else {key: _unpacked(part, arrays) for key, part in inside.items()}
        )
    return [_unpacked(part, arrays) for part in value] if isinstance(value, list) else value
