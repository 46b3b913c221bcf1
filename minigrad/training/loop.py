"""The training loop as a library: a Training performs the steps of a recipe one by one, `fit` all of them.

Training.state() is everything that the next step depends on: saved (checkpoints.py), it resumes exactly.
"""

import math
import numbers
import time
import zlib

import numpy as np

from minigrad import random
from minigrad.data.loader import nan_in
from minigrad.engine.tensor import Tensor
from minigrad.machine import keep_freed_memory, peak_memory
from minigrad.training.accumulation import backward_in_parts, cut
from minigrad.training.health import first_bad
from minigrad.training.recipe import first_array


class TrainingError(RuntimeError):
    """Training cannot continue; the message says at which step and what to try."""


class NotFinite(TrainingError):
    """The loss or the gradient is a NaN or an inf. The step was not applied: the state is that before it."""


class Workers:
    """Compute the gradients of a batch, here in this process alone. The subclasses Sharing (threads.py) and
    Ranks (ranks.py) split the batch among threads or processes, with the same interface.

    parts   number of parts that each batch is split into       rank   0 prints and saves; others only compute
    """

    parts, rank = 1, 0

    def backward(self, recipe, model, batch):
        """Put the batch's gradients into `.grad`, replacing the old ones; returns the loss as a number."""
        loss = recipe.loss(model, batch)
        if not isinstance(loss, Tensor):
            raise TrainingError(
                "The recipe's loss(model, batch) must return a Tensor, computed from the model's output, "
                f"and returned {loss!r:.60}."
            )
        if loss.numel() != 1:
            raise TrainingError(
                f"The recipe's loss has shape {loss.shape}; training needs a single number, as of .mean()."
            )
        if not loss.requires_grad:
            raise TrainingError(
                "The recipe's loss has no history, so there is no gradient: compute it from the model's "
                "output, without no_grad, .data or .item()."
            )
        number = loss.item()
        if math.isfinite(number):
            loss.backward()
        return number

    def stop(self, asked, over):
        """Return True to stop after this step. `asked`: a signal has arrived; `over`: it was the last one."""
        return bool(asked)

    def command(self, command):
        """Return the command line that starts these workers with a command of minigrad.train."""
        return command

    def broadcast(self, value):
        """Return rank 0's value, on every rank."""
        return value


ROW = ("step", "loss", "lr", "gradient norm", "seconds")  # the keys of every row


def fit(recipe, model, listener=None, evaluate_every=None, clip=1.0, sharing=None):
    """Train for recipe.settings["steps"] steps; returns the metrics of each step, as a list of dicts.

    listener   called as listener(row) after each step, with row = {"step", "loss", "lr", "gradient norm",
               "seconds"}; every `evaluate_every` steps (default: the recipe's) and at the last step also with
               "peak memory MB", the figures of recipe.evaluate, and "samples"
    clip       the largest gradient norm allowed, all parameters taken together (see Recipe.clip)
    sharing    the Workers that compute each batch, such as a Sharing (threads.py); None: this process alone
    Raises TrainingError if the loss is not finite or a batch is empty. KeyboardInterrupt passes through.
    """
    rows = []
    for row in Training(recipe, model, clip, sharing).rows(evaluate_every):
        rows.append(row)
        if listener:
            listener(row)
    return rows


class Training:
    """A training that can be interrupted and resumed: model, optimizer, schedule and the steps `done`.

    recipe, model, clip, sharing   as in `fit`
    """

    def __init__(self, recipe, model, clip=1.0, sharing=None):
        keep_freed_memory()
        self.recipe, self.model, self.clip, self.workers = recipe, model, clip, sharing or Workers()
        self.optimizer, self.schedule = recipe.optimizer(model)
        self.done, self.seconds = 0, 0.0
        self._batch, self._before = None, random.get_state()

    @property
    def over(self):
        return self.done >= self.recipe.settings["steps"]

    # -------- the loop

    def rows(self, evaluate_every=None):
        """Perform the remaining steps; yields the row of each (see `fit`)."""
        evaluate_every = evaluate_every or self.recipe.evaluate_every
        self.model.train()
        while not self.over:
            row = self.step()
            if self.done % evaluate_every == 0 or self.over:
                row |= self.evaluate()
            yield row
        self.model.eval()

    def step(self):
        """Train on the next batch; returns the row of the step."""
        start, before = time.perf_counter(), random.get_state()
        self.optimizer.zero_grad()
        try:
            batch = self.batch(self.done)
            with np.errstate(all="ignore"):  # _gradients finds and explains a NaN or an inf
                loss, norm = self._gradients(batch, before)
        except Exception:
            random.set_state(before)
            raise
        self._before, self._batch = before, batch
        lr = self.schedule.get_last_lr()[0]
        self.optimizer.step()
        self.schedule.step()
        self.done += 1
        self.seconds += time.perf_counter() - start
        return {"step": self.done, "loss": loss, "lr": lr, "gradient norm": norm, "seconds": self.seconds}

    def batch(self, step):
        """Return the batch of a step, as large as `accumulate` batches; `_gradients` splits it again."""
        settings, times = self.recipe.settings, self.times
        if times == 1:
            return self.recipe.batch(step)
        size = settings["batch_size"]
        try:
            settings["batch_size"] = size * times
            batch = self.recipe.batch(step)
        finally:
            settings["batch_size"] = size
        if len(first_array(batch)) == size:
            raise TrainingError(
                f"With accumulate={times} the recipe's batch(step) must return {times} x {size} examples, "
                f"and returned {size}: let it read self.settings['batch_size'] each time."
            )
        return batch

    @property
    def times(self):
        return self.recipe.settings.get("accumulate", 1)

    def _gradients(self, batch, before):
        """Put the batch's gradients into `.grad` and clip them; returns (loss, norm before clipping)."""
        _check(batch, self.done)
        recipe, model, backward = self.recipe, self.model, self.workers.backward
        if self.times > 1:
            loss = backward_in_parts(recipe, model, cut(recipe, batch, self.times), backward)
        else:
            loss = backward(recipe, model, batch)
        norm = recipe.clip(model, self.clip) if math.isfinite(loss) else loss
        if not math.isfinite(norm):
            raise NotFinite(
                self._explain("The gradient" if math.isfinite(loss) else "The loss", norm, before)
            )
        return loss, norm

    def _explain(self, what, value, before):
        """Message of NotFinite: where the NaN or inf was made, and what to try."""
        random.set_state(before)
        found = first_bad(self.recipe, self.model, self.batch(self.done), self.times, self.workers.parts)
        return (
            f"{what} became {value} at step {self.done + 1}. {found} Most often the learning rate is too "
            f"high: try {lower_rate(self.recipe)}, or more warmup. This step was not applied."
        )

    def evaluate(self):
        """Evaluate the model; returns the additional values of a row: memory, figures and samples."""
        with self.model.evaluating():
            return {
                "peak memory MB": peak_memory(),
                **_figures(self.recipe, self.model),
                "samples": self.recipe.samples(self.model),
            }

    # -------- interrupting and resuming

    def state(self):
        """Return everything that the next step depends on: dicts and lists of arrays, numbers and strings. (A
        batch depends on its step and the seed only, so the position in an epoch is the number of steps.)"""
        if not hasattr(self.optimizer, "load_state_dict"):
            raise TrainingError(
                f"The recipe's optimizer, of the type {type(self.optimizer).__name__}, has no state_dict() "
                "and load_state_dict(), so there are no checkpoints to resume from."
            )
        schedule = self.schedule.state_dict() if hasattr(self.schedule, "load_state_dict") else None
        return {
            "step": self.done,
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": schedule,
            "random": random.get_state(),
            "last batch": fingerprint(self._batch),
            "random before it": self._before,
        }

    def load(self, state):
        """Continue from a `state` of the same recipe and settings. Raises an exception if the state does not
        fit; this Training is then unusable, so start with a new one."""
        step, seconds = state["step"], state["seconds"]
        if (
            type(step) is not int
            or not 0 <= step <= self.recipe.settings["steps"]
            or not isinstance(seconds, float)
        ):
            raise ValueError(
                f"it is of step {step!r} and {seconds!r} seconds, and the run has "
                f"{self.recipe.settings['steps']} steps"
            )
        for positions in (state["random"], state["random before it"]):
            random.check_state(positions)
        self.model.load_state_dict(state["model"])
        if state["schedule"] is None:  # a recipe's own schedule, without state: repeat its steps
            for _ in range(step):
                self.schedule.step()
        self.optimizer.load_state_dict(state["optimizer"])
        # after the optimizer, whose rate the schedule sets: more steps or a new lr give another rate
        if state["schedule"] is not None:
            rates = {name: value for name, value in self.schedule.state_dict().items() if name == "base_lrs"}
            self.schedule.load_state_dict(state["schedule"] | rates)
        self.done, self.seconds, self._before = step, seconds, state["random before it"]
        random.set_state(self._before)
        self._batch = self._last_batch(step) if step else None
        random.set_state(state["random"])

    def _last_batch(self, step):
        """Read the batch of the last of `step` steps again."""
        try:
            return self.batch(step - 1)
        except Exception as error:
            raise TrainingError(
                f"The batch of step {step} can no longer be read ({type(error).__name__}: "
                f"{str(error).rstrip('.')}). Restore the files that the recipe reads; nothing was changed."
            ) from error

    def same_data(self, state):
        """Return True if the loaded state was trained on the present data, judged by its last batch."""
        return fingerprint(self._batch) == state["last batch"]


def fingerprint(value, so_far=0):
    """CRC-32 of a batch: arrays, numbers and strings, in tuples, lists and dicts; without other objects."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (tuple, list)):
        for part in value:
            so_far = fingerprint(part, so_far)
        return so_far
    array = value if isinstance(value, np.ndarray) else getattr(value, "data", value)
    if isinstance(array, np.ndarray) and array.dtype != object:
        return zlib.crc32(np.ascontiguousarray(array), so_far)
    return (
        zlib.crc32(repr(value).encode(), so_far)
        if isinstance(value, (str, bytes, numbers.Number))
        else so_far
    )


def _figures(recipe, model):
    figures = recipe.evaluate(model)
    if not isinstance(figures, dict):
        raise TrainingError(
            f"The recipe's evaluate(model) must return a dict of figures by name, got {figures!r:.60}."
        )
    if taken := [name for name in figures if name in ROW]:
        raise TrainingError(
            f"The recipe's evaluate(model) returns a figure named {taken[0]!r}, which the row of each step "
            f"uses already; give it another name, such as 'test {taken[0]}'."
        )
    if recipe.metric is not None and recipe.metric not in figures:
        raise TrainingError(
            f"The recipe's metric is {recipe.metric!r}, but evaluate(model) returns "
            f"{', '.join(figures) or 'nothing'}."
        )
    return figures


def _check(batch, step):
    """Raises TrainingError if the batch is not made of arrays, is empty or holds a NaN."""
    if not hasattr(first_array(batch), "__len__"):
        raise TrainingError(
            "The recipe's batch(step) must return arrays, or a tuple of them, and returned "
            f"{first_array(batch)!r:.60} at step {step + 1}."
        )
    if len(first_array(batch)) == 0:
        raise TrainingError(
            f"The batch of step {step + 1} is empty; the recipe's batch(step) must return examples."
        )
    if location := nan_in(batch):
        raise TrainingError(
            f"The batch of step {step + 1} holds a NaN before anything was computed: {location}. Check the "
            "data, and the recipe's batch(step)."
        )


def lower_rate(recipe):
    """Command-line option for a third of the recipe's learning rate."""
    return f"--lr {recipe.settings.get('lr', 1e-3) / 3:.1g}"
