"""Checkpoints: everything that the next training step depends on, one file per checkpoint. Decides when to
save one, which ones to keep, and how Training.state() (loop.py) is stored in the file.

RUN/checkpoints/step-000400.safetensors holds the state's arrays under names such as model.embedding.weight
and optimizer.state.0.exp_avg. Everything else, and where each array belongs, is JSON in the file's header.
Reading runs no code.
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
VERSION = 1  # of the file format


class Checkpoints:
    """The checkpoints of a run while it trains: one at step 0 (the report compares with it), one every
    `every` steps if given, else every `minutes` minutes, and one whenever the metric is the best so far. The
    last `keep`, the best and the first are kept.

    log      the saving.Lines of the rows, which are flushed to the disk before each checkpoint
    better   (figure, best figure before) -> True if it is better
    warn     called with a message if a checkpoint could not be written; the training continues
    extra    more values to save in each checkpoint
    """

    def __init__(self, folder, training, log, better, warn, every=None, minutes=1.0, keep=2, extra=None):
        self.folder, self.training, self.log, self.better, self.warn = folder, training, log, better, warn
        self.every, self.minutes, self.keep, self.extra = every, minutes, keep, extra or {}
        # weights_of: the step whose weights are in model.safetensors
        self.best, self.saved, self.weights_of, self._last = None, [], None, time.monotonic()
        self._last_warning = None

    def continue_from(self, checkpoint):
        """Take over the best figure and the earlier checkpoints; any later ones were unreadable."""
        self.best = checkpoint.best
        self.saved = sorted(step for step, _ in self.folder.found_checkpoints() if step <= checkpoint.step)

    def after(self, row):
        """Save if a checkpoint is due or the metric is the best so far; `row` is the step's."""
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
        """Write the weights, for minigrad.generate, and the checkpoint. Returns True if both are written."""
        if self.saved[-1:] == [self.training.done]:
            return True
        self._last = time.monotonic()
        if name := sick_weights(self.training.model):
            return self._failed(
                f"The weights {name} hold a NaN or an inf after step {self.training.done}; they are not "
                "saved, and the last good checkpoint is kept."
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
            return self._failed(f"{self.folder.checkpoints} could not be created: {error.strerror}.")
        self._remove_old(self.training.done)
        self._last_warning = None
        return True

    def _failed(self, problem):
        reason = re.sub(r"\d+", "", problem)
        if reason != self._last_warning:  # once, not at every step until the disk has room again
            self.warn(f"{problem} The training continues without this checkpoint.")
        self._last_warning = reason
        return False

    def _remove_old(self, step):
        """Delete the checkpoints that need not be kept, unreadable files included."""
        self.saved = [*(before for before in self.saved if before != step), step]
        best = [self.best["step"]] if self.best else []
        kept = {*self.saved[-self.keep :], *best, 0}
        self.saved = [step for step in self.saved if step in kept]
        for number, path in self.folder.found_checkpoints():
            if number not in kept:
                with contextlib.suppress(OSError):
                    path.unlink()


class Checkpoint:
    """A checkpoint read from a file: a Training's `state` with extra values, its `step`, and the `best`."""

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
    """Write nested dicts and lists of arrays, numbers and strings as one file."""
    arrays = {}
    header = {"version": VERSION, "state": _pack(state, "", arrays)}
    saving.save_tensors(path, arrays, {HEADER: json.dumps(header)})


class NewerVersion(saving.FileProblem):
    """A checkpoint was written by a newer minigrad than this one."""


def read(path):
    """Read the Checkpoint in a file. Raises FileProblem if the file is not a checkpoint."""
    arrays, note = saving.load_noted(path)
    try:
        header = json.loads(note[HEADER])
        if header["version"] <= VERSION:
            return Checkpoint(_unpack(header["state"], arrays))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise saving.FileProblem(f"{path} is not a checkpoint ({type(error).__name__}: {error}).") from None
    raise NewerVersion(
        f"{path} was written by a newer minigrad; update this one, which reads up to version {VERSION}."
    )


def _pack(value, name, arrays):
    """Convert a value to JSON types; its arrays move into `arrays`, named by the keys that lead to them."""
    if isinstance(value, dict):
        packed = {str(key): _pack(part, f"{name}.{key}".lstrip("."), arrays) for key, part in value.items()}
        return {"dict": packed}
    if isinstance(value, (list, tuple)):
        return [_pack(part, f"{name}.{i}", arrays) for i, part in enumerate(value)]
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
        f"{name} is a {type(value).__name__}, which a checkpoint cannot hold; state_dict() should give "
        "arrays, numbers and strings"
    )


def _unpack(value, arrays):
    if isinstance(value, dict):
        ((kind, inside),) = value.items()
        if kind == "array":
            return arrays[inside]
        return {key: _unpack(part, arrays) for key, part in inside.items()}
    return [_unpack(part, arrays) for part in value] if isinstance(value, list) else value
