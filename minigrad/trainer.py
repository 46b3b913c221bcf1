"""The training loop, as a library. Knows batches, losses and steps; not what is learned, nor how it is shown.

A Recipe says what to learn. `fit` takes steps and tells its listener after each; pictures and progress bars are listeners.
"""

import math
import numbers
import time

import numpy as np

from minigrad import optim, random
from minigrad.machine import keep_freed_memory, peak_memory
from minigrad.nn.utils import clip_grad_norm_


class TrainingError(RuntimeError):
    """Training cannot go on; the sentence says at which step and what to try."""


GENERAL = {"steps": 1000, "batch_size": 32, "lr": 1e-3}  # the settings of every recipe, unless its defaults say otherwise
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
        fits, wanted = isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= least, f"a whole number from {least}"
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
    betas, weight_decay, last_lr = (0.9, 0.98), 0.01, 0.01  # of AdamW; last_lr: the last learning rate as a part of the highest
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
        raise NotImplementedError(f"The recipe {self.name} does not say how its model answers; define answer(model, prompts).")

    def stream(self, model, prompt, **options):
        """The answer to one prompt, piece by piece; here all at once. The options are those named in `generating`."""
        yield self.answer(model, [prompt], **options)[0]

    def reading(self, model, text):
        """What the model is called with while it answers a text, to see where it looks: (inputs, {"names": a list of labels for each
        input, "writes": what is written at each place of the last, "" where nothing}), as models.attended.attended takes them."""
        raise NotImplementedError(f"The recipe {self.name} does not say what its model reads; define reading(model, text).")

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
    keep_freed_memory()
    evaluate_every = evaluate_every or recipe.evaluate_every
    steps, rows = recipe.settings["steps"], []
    optimizer, schedule = recipe.optimizer(model)
    model.train()
    start, paused = time.perf_counter(), 0.0
    for step in range(steps):
        optimizer.zero_grad()
        loss = _backward(recipe, model, step, sharing)
        norm = recipe.clip(model, clip)
        if not math.isfinite(norm):
            raise TrainingError(_broken("The gradient", norm, step, recipe))
        lr = schedule.get_last_lr()[0]
        optimizer.step()
        schedule.step()
        row = {"step": step + 1, "loss": loss, "lr": lr, "gradient norm": norm}
        row["seconds"] = time.perf_counter() - start - paused
        if (step + 1) % evaluate_every == 0 or step + 1 == steps:
            began = time.perf_counter()
            with model.evaluating():
                row |= {"peak memory MB": peak_memory(), **_figures(recipe, model), "samples": recipe.samples(model)}
            paused += time.perf_counter() - began
        rows.append(row)
        if listener:
            listener(row)
    model.eval()
    return rows


def _figures(recipe, model):
    figures = recipe.evaluate(model)
    if recipe.metric is not None and recipe.metric not in figures:
        raise TrainingError(f"The recipe's metric is {recipe.metric!r}, but evaluate(model) gives {', '.join(figures) or 'nothing'}.")
    return figures


def _backward(recipe, model, step, sharing):
    """The loss of a step's batch, as a number; its gradients are left in the parameters."""
    batch = recipe.batch(step)
    if len(_first(batch)) == 0:
        raise TrainingError(f"The batch of step {step + 1} is empty; the recipe's batch(step) must give at least one example.")
    if sharing is not None:
        number = sharing.backward(recipe, model, batch)
    else:
        loss = recipe.loss(model, batch)
        if loss.numel() != 1:
            raise TrainingError(f"The recipe's loss has shape {loss.shape}; training needs a single number, such as its .mean().")
        number = loss.item()
    if not math.isfinite(number):
        raise TrainingError(_broken("The loss", number, step, recipe))
    if sharing is None:
        loss.backward()
    return number


def _first(batch):
    return batch[0] if isinstance(batch, tuple) else batch


def _broken(what, value, step, recipe):
    return (
        f"{what} became {value} at step {step + 1}. Most often the learning rate is too high: try --lr "
        f"{recipe.settings.get('lr', 1e-3) / 3:.1g}, or more warmup. Nothing of this step was applied."
    )
