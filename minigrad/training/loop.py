"""The training loop, as a library: a Training takes the steps of a recipe, and `fit` takes them all.

Its `state` is all that the next step depends on: whoever keeps that (checkpoints.py) can resume as if nothing had happened.
Knows batches, losses and steps; not what is learned, how a batch is shared, or where a run is kept.
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
    """Training cannot go on; the sentence says at which step and what to try."""


class NotFinite(TrainingError):
    """The loss or the gradient is a NaN or an inf. Nothing of the step was applied: the state is that before it."""


class Workers:
    """Who computes the gradients of a batch: this process, alone. Several do it as Sharing (threads.py) and Ranks (ranks.py), which answer
    the same calls, so a training does not ask who its workers are.

    parts   how many parts each batch is computed in        rank   rank 0 shows and saves; the others follow it
    """

    parts, rank = 1, 0

    def backward(self, recipe, model, batch):
        """Leave the batch's gradients in the parameters' `.grad`, in place of what was there; returns the loss, as a number."""
        loss = recipe.loss(model, batch)
        if not isinstance(loss, Tensor):
            raise TrainingError(
                f"The recipe's loss(model, batch) must give a Tensor, computed from what the model gives, and gave {loss!r:.60}."
            )
        if loss.numel() != 1:
            raise TrainingError(
                f"The recipe's loss has shape {loss.shape}; training needs a single number, such as its .mean()."
            )
        if not loss.requires_grad:
            raise TrainingError(
                "The recipe's loss has no history, so there is no gradient: compute it from the model's output, without no_grad, .data or .item()."
            )
        number = loss.item()
        if math.isfinite(number):
            loss.backward()
        return number

    def stop(self, asked, over):
        """Return whether to stop after this step: `asked` if a signal came, `over` if it was the last step anyway."""
        return bool(asked)

    def command(self, command):
        """Return the command line that starts these workers with a command of minigrad.train."""
        return command

    def hand_on(self, value):
        """Return rank 0's value, on every rank."""
        return value


ROW = ("step", "loss", "lr", "gradient norm", "seconds")  # what every row holds


def fit(recipe, model, listener=None, evaluate_every=None, clip=1.0, sharing=None):
    """Train for recipe.settings["steps"] steps; returns the metrics of each step, as a list of dicts.

    listener        called as listener(row) after each step, with row = {"step", "loss", "lr", "gradient norm", "seconds"} and,
                    every `evaluate_every` steps (the recipe's, if not given) and at the last, "peak memory MB", its figures and
                    "samples"
    clip            the longest gradient allowed, all parameters taken together (see Recipe.clip)
    sharing         the Workers that compute each batch, such as a Sharing (threads.py); None: this process alone
    Raises TrainingError where the loss is not a number, or a batch is empty. KeyboardInterrupt passes through.
    """
    rows = []
    for row in Training(recipe, model, clip, sharing).rows(evaluate_every):
        rows.append(row)
        if listener:
            listener(row)
    return rows


class Training:
    """A training that can be left and gone on with: the model, its optimizer and schedule, how many steps are `done`.

    recipe, model, clip, sharing   as those of `fit`
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
        """Take the steps that are left; after each comes its row (see `fit`)."""
        evaluate_every = evaluate_every or self.recipe.evaluate_every
        self.model.train()
        while not self.over:
            row = self.step()
            if self.done % evaluate_every == 0 or self.over:
                row |= self.evaluate()
            yield row
        self.model.eval()

    def step(self):
        """Learn from the next batch; returns the row of the step."""
        start, before = time.perf_counter(), random.get_state()
        self.optimizer.zero_grad()
        try:
            batch = self.batch(self.done)
            with np.errstate(all="ignore"):  # what is not a number is looked for below, and named
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
        """The batch of a step: as large as `accumulate` batches, which are learned from in as many parts."""
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
            raise TrainingError(f"With accumulate={times} the recipe's batch(step) must give {times} x {size} examples, and gave {size}: let it read self.settings['batch_size'] each time.")  # fmt: skip
        return batch

    @property
    def times(self):
        return self.recipe.settings.get("accumulate", 1)

    def _gradients(self, batch, before):
        """(the loss, the length of the gradient) of a batch; the gradients are left in the parameters."""
        _check(batch, self.done)
        recipe, model, backward = self.recipe, self.model, self.workers.backward
        if self.times > 1:
            loss = backward_in_parts(recipe, model, cut(recipe, batch, self.times), backward)
        else:
            loss = backward(recipe, model, batch)
        norm = recipe.clip(model, self.clip) if math.isfinite(loss) else loss
        if not math.isfinite(norm):
            raise NotFinite(self._why("The gradient" if math.isfinite(loss) else "The loss", norm, before))
        return loss, norm

    def _why(self, what, value, before):
        """The sentences of a step that gave no number."""
        random.set_state(before)
        found = first_bad(self.recipe, self.model, self.batch(self.done), self.times, self.workers.parts)
        return f"{what} became {value} at step {self.done + 1}. {found} Most often the learning rate is too high: try {lower_rate(self.recipe)}, or more warmup. Nothing of this step was applied."  # fmt: skip

    def evaluate(self):
        """What a row holds besides, where the model is looked at."""
        with self.model.evaluating():
            return {
                "peak memory MB": peak_memory(),
                **_figures(self.recipe, self.model),
                "samples": self.recipe.samples(self.model),
            }

    # -------- leaving and going on

    def state(self):
        """All that the next step depends on, between two steps: dicts and lists of arrays, numbers and texts. (The data of a step
        depend on its number and the seed only, so the place in an epoch is the number.)"""
        if not hasattr(self.optimizer, "load_state_dict"):
            raise TrainingError(f"The recipe's optimizer, of the type {type(self.optimizer).__name__}, has no state_dict() and load_state_dict(), so there are no checkpoints to resume from.")  # fmt: skip
        schedule = self.schedule.state_dict() if hasattr(self.schedule, "load_state_dict") else None
        return {
            "step": self.done, "seconds": self.seconds, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
            "schedule": schedule, "random": random.get_state(), "last batch": fingerprint(self._batch), "random before it": self._before,
        }  # fmt: skip

    def load(self, state):
        """Go on from a `state` of the same recipe and settings. An error where it does not fit; then begin with a new Training."""
        step, seconds = state["step"], state["seconds"]
        if (
            type(step) is not int
            or not 0 <= step <= self.recipe.settings["steps"]
            or not isinstance(seconds, float)
        ):
            raise ValueError(
                f"it is of step {step!r} and {seconds!r} seconds, and the run has {self.recipe.settings['steps']} steps"
            )
        for positions in (state["random"], state["random before it"]):
            random.check_state(positions)
        self.model.load_state_dict(state["model"])
        if state["schedule"] is None:  # a recipe's own, which knows nothing but steps
            for _ in range(step):
                self.schedule.step()
        self.optimizer.load_state_dict(state["optimizer"])
        # after the optimizer, whose rate it sets: that of more steps, or of another lr, is another
        if state["schedule"] is not None:
            rates = {name: value for name, value in self.schedule.state_dict().items() if name == "base_lrs"}
            self.schedule.load_state_dict(state["schedule"] | rates)
        self.done, self.seconds, self._before = step, seconds, state["random before it"]
        random.set_state(self._before)
        self._batch = self._learned(step) if step else None
        random.set_state(state["random"])

    def _learned(self, step):
        """The batch that the last of so many steps learned from."""
        try:
            return self.batch(step - 1)
        except Exception as error:
            raise TrainingError(f"The data of step {step} are no longer to be had ({type(error).__name__}: {str(error).rstrip('.')}). Put back what the recipe reads; nothing was changed.") from error  # fmt: skip

    def same_data(self, state):
        """Are the data, now that the state is loaded, those that it was trained on? (The last batch stands for all.)"""
        return fingerprint(self._batch) == state["last batch"]


def fingerprint(value, so_far=0):
    """A number that other batches do not have: of arrays, numbers and texts, in tuples, lists and dicts; of other things nothing."""
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
            f"The recipe's evaluate(model) must give a dict of figures by name, got {figures!r:.60}."
        )
    if taken := [name for name in figures if name in ROW]:
        raise TrainingError(
            f"The recipe's evaluate(model) gives a figure named {taken[0]!r}, as the step's own is; give it another name, such as 'test {taken[0]}'."
        )
    if recipe.metric is not None and recipe.metric not in figures:
        raise TrainingError(
            f"The recipe's metric is {recipe.metric!r}, but evaluate(model) gives {', '.join(figures) or 'nothing'}."
        )
    return figures


def _check(batch, step):
    """Sentences for a batch that cannot be learned from."""
    if not hasattr(first_array(batch), "__len__"):
        raise TrainingError(
            f"The recipe's batch(step) must give arrays, or a tuple of them, and gave {first_array(batch)!r:.60} at step {step + 1}."
        )
    if len(first_array(batch)) == 0:
        raise TrainingError(
            f"The batch of step {step + 1} is empty; the recipe's batch(step) must give at least one example."
        )
    if place := nan_in(batch):
        raise TrainingError(f"The batch of step {step + 1} holds a NaN before anything was computed: {place}. Look at the data, and at the recipe's batch(step).")  # fmt: skip


def lower_rate(recipe):
    """The option for a third of a recipe's learning rate."""
    return f"--lr {recipe.settings.get('lr', 1e-3) / 3:.1g}"
