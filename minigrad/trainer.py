"""The training loop, as a library. Knows batches, losses and steps; not what is learned, how it is shown, or where it is kept.

A Recipe says what to learn. A Training takes the steps, and its `state` is all that the next step depends on: whoever keeps that
(checkpoints.py) can go on as if nothing had happened. `fit` takes all steps and tells its listener after each.
"""

import math
import numbers
import time
import zlib

import numpy as np

from minigrad import optim, random
from minigrad.accumulation import backward_in_parts, cut
from minigrad.data.loader import nan_in
from minigrad.engine.tensor import Tensor
from minigrad.health import first_bad
from minigrad.machine import keep_freed_memory, peak_memory
from minigrad.nn.utils import clip_grad_norm_


class TrainingError(RuntimeError):
    """Training cannot go on; the sentence says at which step and what to try."""


class NotFinite(TrainingError):
    """The loss or the gradient is a NaN or an inf. Nothing of the step was applied: the state is that before it."""


# the settings of every recipe, unless its defaults say otherwise
GENERAL = {"steps": 1000, "batch_size": 32, "lr": 1e-3, "accumulate": 1}
ROW = ("step", "loss", "lr", "gradient norm", "seconds")  # what every row holds
SHARES = ("dropout", "label_smoothing")  # settings that are a part of 1


def check_setting(name, value, default, choices=None):
    """A setting must be of its default's kind: a whole number from 1 (from 0, if the default is 0), a number that is not negative,
    a share below 1, a text; or one of the choices."""
    kind = type(default)
    if choices is not None:
        fits, wanted = value in choices, f"one of {', '.join(choices)}"
    elif kind is bool:
        fits, wanted = isinstance(value, bool), "true or false"
    elif kind is int:
        least = min(1, default)
        fits, wanted = (
            isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= least,
            f"a whole number from {least}",
        )
    elif kind is float:
        most = 1 if name in SHARES else math.inf
        fits = isinstance(value, numbers.Real) and not isinstance(value, bool) and 0 <= value < most
        wanted = "a number from 0 to below 1" if most == 1 else "a number that is not negative"
    else:
        fits, wanted = kind not in (str, type(None)) or isinstance(value, (str, type(None))), "a text"
    if not fits:
        raise ValueError(f"The setting {name} needs {wanted}, got {value!r}.")


class Recipe:
    """What to learn: data, model, loss and metric. Subclass it, in a file of your own if you like, and pass that file to train.

    name, help   for the command line          defaults   settings (steps, batch_size, lr ...) and their first values
    metric       the key of `evaluate`'s figure that counts        share   is it a share of 1, to be shown in percent?
    generating   the options of minigrad.generate that `stream` understands
    note         a sentence to be said before training begins, such as what was found in a file
    choices      for settings that are names, those there are: {"model": ("lstm", "transformer")}
    """

    name = help = metric = note = None
    share = True
    defaults = {}
    generating = ()
    choices = {}
    # of AdamW; last_lr: the last learning rate as a part of the highest
    betas, weight_decay, last_lr = (0.9, 0.98), 0.01, 0.01
    evaluate_every = 100

    def __init__(self, settings):
        self.settings = {**self.defaults, **settings}
        for name, default in {**GENERAL, **self.defaults}.items():
            if name in self.settings:
                check_setting(name, self.settings[name], default, self.choices.get(name))
        self.seed = random.initial_seed()

    def model(self):
        """A new Module."""
        raise NotImplementedError(f"The recipe {self.name} must define model().")

    def batch(self, step):
        """What `loss` gets at that step; must depend on the step and the seed only."""
        raise NotImplementedError(f"The recipe {self.name} must define batch(step).")

    def loss(self, model, batch):
        """A scalar Tensor."""
        raise NotImplementedError(f"The recipe {self.name} must define loss(model, batch).")

    def count(self, batch):
        """How many numbers `loss` is the mean of, so that a batch can be shared; by default its examples."""
        return len(_first(batch))

    def shares(self, batch, parts):
        """The batch in several, for threads that share it: arrays cut along their first axis."""
        arrays = batch if isinstance(batch, tuple) else (batch,)
        cut = zip(*(np.array_split(array, min(parts, len(array))) for array in arrays), strict=True)
        return [part if isinstance(batch, tuple) else part[0] for part in cut]

    def evaluate(self, model, final=False):
        """Figures by name, on data never trained on."""
        return {}

    def samples(self, model, count=3):
        """Rows (source, prediction, target) to look at; a target of None where there is no right or wrong."""
        return []

    def answer(self, model, prompts):
        """The model's answer to each prompt, as text."""
        raise NotImplementedError(
            f"The recipe {self.name} does not say how its model answers; define answer(model, prompts)."
        )

    def stream(self, model, prompt, **options):
        """The answer to one prompt, piece by piece; here all at once. The options are those named in `generating`."""
        yield self.answer(model, [prompt], **options)[0]

    def reading(self, model, text):
        """What the model is called with while it answers a text, to see where it looks: (inputs, {"names": a list of labels for each
        input, "writes": what is written at each place of the last, "" where nothing}), as models.attended.attended takes them."""
        raise NotImplementedError(
            f"The recipe {self.name} does not say what its model reads; define reading(model, text)."
        )

    def pictures(self, model, folder, rows, figures):
        """Draw what is worth seeing of a trained model, besides loss.png, into the folder; returns the names of the files.

        rows are those of `fit`, figures those of evaluate(model, final=True).
        """
        return []

    def clip(self, model, longest):
        """Shorten the gradients before a step if they are too long; returns the length they had."""
        return clip_grad_norm_(model.parameters(), longest)

    def shown(self, figure):
        """The metric's figure as it is printed."""
        return f"{figure:.1%}" if self.share else f"{figure:.4f}"

    def optimizer(self, model):
        """AdamW with a warmup, then a cosine down to `last_lr`; only matrices are decayed: (optimizer, schedule)."""
        steps = self.settings["steps"]
        matrices = [p for p in model.parameters() if p.ndim > 1]
        others = [p for p in model.parameters() if p.ndim <= 1]
        groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
        rest = dict(lr=self.settings["lr"], betas=self.betas, weight_decay=self.weight_decay)
        optimizer = optim.AdamW([g for g in groups if g["params"]], **rest)
        warmup = min(self.settings.get("warmup", 100), steps // 2)
        return optimizer, optim.lr_scheduler.WarmupCosineLR(optimizer, warmup, steps, self.last_lr)


def fit(recipe, model, listener=None, evaluate_every=None, clip=1.0, sharing=None):
    """Train for recipe.settings["steps"] steps; returns the metrics of each step, as a list of dicts.

    listener        called as listener(row) after each step, with row = {"step", "loss", "lr", "gradient norm", "seconds"} and,
                    every `evaluate_every` steps (the recipe's, if not given) and at the last, "peak memory MB", its figures and
                    "samples"
    clip            the longest gradient allowed, all parameters taken together (see Recipe.clip)
    sharing         a Sharing (sharing.py), if threads are to share each batch
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
        self.recipe, self.model, self.clip, self.sharing = recipe, model, clip, sharing
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
        if len(_first(batch)) == size:
            raise TrainingError(f"With accumulate={times} the recipe's batch(step) must give {times} x {size} examples, and gave {size}: let it read self.settings['batch_size'] each time.")  # fmt: skip
        return batch

    @property
    def times(self):
        return self.recipe.settings.get("accumulate", 1)

    def _gradients(self, batch, before):
        """(the loss, the length of the gradient) of a batch; the gradients are left in the parameters."""
        _check(batch, self.done)
        backward = self.sharing.backward if self.sharing else _backward
        loss = (
            backward_in_parts(self.recipe, self.model, cut(self.recipe, batch, self.times), backward)
            if self.times > 1
            else backward(self.recipe, self.model, batch)
        )
        norm = self.recipe.clip(self.model, self.clip) if math.isfinite(loss) else loss
        if not math.isfinite(norm):
            raise NotFinite(self._why("The gradient" if math.isfinite(loss) else "The loss", norm, before))
        return loss, norm

    def _why(self, what, value, before):
        """The sentences of a step that gave no number."""
        random.set_state(before)
        # Sharing has the one, Ranks the other
        workers = getattr(self.sharing, "threads", None) or getattr(self.sharing, "size", 1)
        found = first_bad(self.recipe, self.model, self.batch(self.done), self.times, workers)
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
    if not hasattr(_first(batch), "__len__"):
        raise TrainingError(
            f"The recipe's batch(step) must give arrays, or a tuple of them, and gave {_first(batch)!r:.60} at step {step + 1}."
        )
    if len(_first(batch)) == 0:
        raise TrainingError(
            f"The batch of step {step + 1} is empty; the recipe's batch(step) must give at least one example."
        )
    if place := nan_in(batch):
        raise TrainingError(f"The batch of step {step + 1} holds a NaN before anything was computed: {place}. Look at the data, and at the recipe's batch(step).")  # fmt: skip


def lower_rate(recipe):
    """The option for a third of a recipe's learning rate."""
    return f"--lr {recipe.settings.get('lr', 1e-3) / 3:.1g}"


def _backward(recipe, model, batch):
    """The loss of a batch, as a number; its gradients are left in the parameters."""
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


def _first(batch):
    return batch[0] if isinstance(batch, tuple) else batch
