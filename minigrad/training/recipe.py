"""The Recipe: data, model, loss, metric and settings of a training. The loop (loop.py) needs nothing else."""

import math
import numbers

import numpy as np

from minigrad import optim, random
from minigrad.nn.utils import clip_grad_norm_
from minigrad.pytorch.words import did_you_mean

# the settings of every recipe, unless its defaults say otherwise
GENERAL = {"steps": 1000, "batch_size": 32, "lr": 1e-3, "accumulate": 1}
SHARES = ("dropout", "label_smoothing")  # settings that are fractions of 1
# the largest values of settings that are whole numbers
MOST, MOST_OF_ALL = {"layers": 1000, "d_model": 100_000, "d_ff": 1_000_000}, 10**12


class UsageError(Exception):
    """The command line is wrong."""


def is_number(value):
    """Return True for real numbers of Python and NumPy; booleans and complex numbers do not count."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_setting(name, value, default, choices=None):
    """Raises ValueError unless a setting is one of the choices, or of its default's type: a whole number
    from 1 (from 0, if the default is 0), a number from 0, a fraction below 1, a boolean or a string."""
    kind = type(default)
    if choices is not None:
        fits, wanted = value in choices, f"one of {', '.join(choices)}"
    elif kind is bool:
        fits, wanted = isinstance(value, bool), "true or false"
    elif kind is int:
        least = min(1, default)
        fits = isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= least
        wanted = f"a whole number from {least}"
    elif kind is float:
        most = 1 if name in SHARES else math.inf
        fits = is_number(value) and 0 <= value < most
        wanted = "a number from 0 to below 1" if most == 1 else "a number that is not negative"
    else:
        fits, wanted = kind not in (str, type(None)) or isinstance(value, (str, type(None))), "a string"
    if not fits:
        raise ValueError(f"The setting {name} needs {wanted}, got {value!r}.")


class Recipe:
    """The data, model, loss and metric of a training. Subclass it, in a file of your own if you like, and
    pass that file to minigrad.train.

    name, help   for the command line
    defaults     settings (steps, batch_size, lr ...) and their default values
    metric       the key of the most important figure of `evaluate`
    share        True if the metric is a fraction of 1, shown in percent
    generating   the options of minigrad.generate that `stream` accepts
    note         a message printed before training begins, such as the contents of a data file
    choices      the possible values of settings that are names: {"model": ("lstm", "transformer")}
    """

    name = help = metric = note = None
    share = True
    defaults = {}
    generating = ()
    choices = {}
    # for AdamW; last_lr: the last learning rate as a fraction of the highest
    betas, weight_decay, last_lr = (0.9, 0.98), 0.01, 0.01
    evaluate_every = 100

    def __init__(self, settings):
        self.settings = {**self.defaults, **settings}
        for name, default in {**GENERAL, **self.defaults}.items():
            if name in self.settings:
                check_setting(name, self.settings[name], default, self.choices.get(name))
        self.seed = random.initial_seed()

    def model(self):
        """Create a new Module."""
        raise NotImplementedError(f"The recipe {self.name} must define model().")

    def batch(self, step):
        """Return the batch of a step, an argument of `loss`. It must depend on the step and the seed only."""
        raise NotImplementedError(f"The recipe {self.name} must define batch(step).")

    def loss(self, model, batch):
        """Return the loss of a batch, a Tensor with a single element."""
        raise NotImplementedError(f"The recipe {self.name} must define loss(model, batch).")

    def count(self, batch):
        """Return how many predictions `loss` is the mean of, by default the examples: a part's weight."""
        return len(first_array(batch))

    def shares(self, batch, parts):
        """Split a batch into at most `parts` parts, by default along the first axis of its arrays."""
        arrays = batch if isinstance(batch, tuple) else (batch,)
        cut = zip(*(np.array_split(array, min(parts, len(array))) for array in arrays), strict=True)
        return [part if isinstance(batch, tuple) else part[0] for part in cut]

    def evaluate(self, model, final=False):
        """Return figures by name, measured on data never trained on."""
        return {}

    def samples(self, model, count=3):
        """Return rows (source, prediction, target) to print; a target of None: there is no right or wrong."""
        return []

    def answer(self, model, prompts):
        """Return the model's answer to each prompt, as strings."""
        raise NotImplementedError(
            f"The recipe {self.name} does not define how its model answers; define answer(model, prompts)."
        )

    def stream(self, model, prompt, **options):
        """Yield the answer to one prompt in pieces, by default one. `options`: those in `generating`."""
        yield self.answer(model, [prompt], **options)[0]

    def reading(self, model, text):
        """Return the model's inputs while it answers a text, so that its attention can be shown: (inputs,
        {"names": a list of labels for each input, "writes": the token written at each position of the last
        input, or ""}), the arguments of models.attended.attended."""
        raise NotImplementedError(
            f"The recipe {self.name} does not define what its model reads; define reading(model, text)."
        )

    def pictures(self, model, folder, rows, figures):
        """Draw more pictures of a trained model, besides loss.png, into the folder; returns their names.

        rows     from `fit`        figures   from evaluate(model, final=True)
        """
        return []

    def clip(self, model, longest):
        """Clip the gradients to the norm `longest` before a step; returns their norm before clipping."""
        return clip_grad_norm_(model.parameters(), longest)

    def shown(self, figure):
        """Format a figure of the metric."""
        return f"{figure:.1%}" if self.share else f"{figure:.4f}"

    def optimizer(self, model):
        """Create AdamW, with weight decay on matrices only, and a schedule of warmup, then cosine."""
        steps = self.settings["steps"]
        matrices = [p for p in model.parameters() if p.ndim > 1]
        others = [p for p in model.parameters() if p.ndim <= 1]
        groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
        rest = dict(lr=self.settings["lr"], betas=self.betas, weight_decay=self.weight_decay)
        optimizer = optim.AdamW([g for g in groups if g["params"]], **rest)
        warmup = min(self.settings.get("warmup", 100), steps // 2)
        return optimizer, optim.lr_scheduler.WarmupCosineLR(optimizer, warmup, steps, self.last_lr)


def first_array(batch):
    return batch[0] if isinstance(batch, tuple) else batch


# ---------------------------------------------------------------- settings from the command line


def settings_of(recipe, given, pairs):
    """Merge the recipe's defaults with options (name -> value) and with the NAME=VALUE strings of --set.
    Raises UsageError for a setting that the recipe does not have."""
    given = dict(given)
    given |= dict(_setting(text, recipe) for text in pairs)
    known = dict.fromkeys([*GENERAL, *recipe.defaults])
    unknown = [f"--{key.replace('_', '-')}{did_you_mean(key, known)}" for key in given if key not in known]
    if unknown:
        raise UsageError(
            f"the recipe {recipe.name} has no setting {', '.join(unknown)}; it has {', '.join(known)}."
        )
    for key, names in recipe.choices.items():
        if given.get(key, recipe.defaults[key]) not in names:
            raise UsageError(
                f"the recipe {recipe.name} has no {key} {given[key]!r}{did_you_mean(given[key], names)}; "
                f"--{key} can be {', '.join(names)}."
            )
    for key, value in given.items():
        if type(value) is int and value > MOST.get(key, MOST_OF_ALL):
            raise UsageError(f"{key} can be at most {MOST.get(key, MOST_OF_ALL):,}, got {value:,}.")
    return {**GENERAL, **recipe.defaults, **given}


def _setting(text, recipe):
    """Parse NAME=VALUE into (name, value), the value converted to the type of the recipe's default."""
    name, equals, value = text.partition("=")
    name, defaults = name.strip().replace("-", "_"), {**GENERAL, **recipe.defaults}
    if not equals and name in defaults:
        raise UsageError(
            f"--set takes NAME=VALUE, and {name} has no value; write --set {name}={defaults[name]}."
        )
    if not equals or name not in defaults:
        raise UsageError(
            f"--set takes NAME=VALUE with a setting of the recipe {recipe.name} ({', '.join(defaults)}), "
            f"got {text!r}{did_you_mean(name, defaults)}."
        )
    kind = type(defaults[name])
    if kind in (str, type(None)):
        return name, value
    if kind is bool:
        return name, value.lower() in ("1", "true", "yes")
    try:
        return name, kind(value)
    except ValueError:
        raise UsageError(
            f"--set {name} needs a value like its default {defaults[name]!r}, got {value!r}."
        ) from None
