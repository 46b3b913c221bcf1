"""What to learn, and how: a Recipe gives data, model, loss and metric; a training needs nothing else.

Knows what a setting is and may be; not how steps are taken (loop.py) or where a run is kept (run.py).
"""

import math
import numbers

import numpy as np

from minigrad import optim, random
from minigrad.nn.utils import clip_grad_norm_
from minigrad.pytorch.words import did_you_mean

# the settings of every recipe, unless its defaults say otherwise
GENERAL = {"steps": 1000, "batch_size": 32, "lr": 1e-3, "accumulate": 1}
SHARES = ("dropout", "label_smoothing")  # settings that are a part of 1
# of settings that are whole numbers
MOST, MOST_OF_ALL = {"layers": 1000, "d_model": 100_000, "d_ff": 1_000_000}, 10**12


class UsageError(Exception):
    """Something on the command line cannot be followed."""


def is_number(value):
    """Python's and NumPy's numbers are; True and complex ones are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


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
        fits = isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= least
        wanted = f"a whole number from {least}"
    elif kind is float:
        most = 1 if name in SHARES else math.inf
        fits = is_number(value) and 0 <= value < most
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
        return len(first_array(batch))

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


def first_array(batch):
    return batch[0] if isinstance(batch, tuple) else batch


# ---------------------------------------------------------------- settings, as a command line gives them


def settings_of(recipe, given, pairs):
    """The recipe's defaults, changed by options (name -> value) and by --set's NAME=VALUE texts; a sentence for what it does not have."""
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
                f"the recipe {recipe.name} has no {key} {given[key]!r}{did_you_mean(given[key], names)}; --{key} can be {', '.join(names)}."
            )
    for key, value in given.items():
        if type(value) is int and value > MOST.get(key, MOST_OF_ALL):
            raise UsageError(f"{key} can be {MOST.get(key, MOST_OF_ALL):,} at most, got {value:,}.")
    return {**GENERAL, **recipe.defaults, **given}


def _setting(text, recipe):
    """(name, value) of NAME=VALUE, the value of the same kind as the recipe's default."""
    name, equals, value = text.partition("=")
    name, defaults = name.strip().replace("-", "_"), {**GENERAL, **recipe.defaults}
    if not equals and name in defaults:
        raise UsageError(
            f"--set takes NAME=VALUE, and {name} stands there without a value; write --set {name}={defaults[name]}."
        )
    if not equals or name not in defaults:
        raise UsageError(
            f"--set takes NAME=VALUE with a setting of the recipe {recipe.name} ({', '.join(defaults)}), got {text!r}{did_you_mean(name, defaults)}."
        )
    kind = type(defaults[name])
    try:
        return name, value if kind in (str, type(None)) else value.lower() in (
            "1",
            "true",
            "yes",
        ) if kind is bool else kind(value)
    except ValueError:
        raise UsageError(
            f"--set {name} needs a value like its default {defaults[name]!r}, got {value!r}."
        ) from None
