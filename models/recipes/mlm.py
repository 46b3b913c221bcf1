"""mlm: BERT learns to fill in hidden characters of a text, by default of Python's manual, from both sides."""

import math
import re

import numpy as np

from minigrad import functional as F
from minigrad import random
from minigrad.modes import no_grad
from minigrad.nn import init
from minigrad.training.recipe import Recipe
from models.bert import BERT, IGNORED, hide
from models.positional import sinusoidal
from models.recipes.text import Text, windows

PAD, MASK, RESERVED = 0, 1, 2
SEARCHED = 1 << 20  # characters of a validation text that are searched for an example
MARKS = "_□■○●"  # candidates for the mark of a hidden character


class MaskedText(Text):
    """Hides 15 of 100 characters. The goal is to find half of them; guessing spaces would find 30 of 100."""

    name = "mlm"
    help = "BERT fills in hidden characters: --text FILE, or Python's own manual (a minute or two)"
    sizes = dict(d_model=64, layers=2, heads=4, d_ff=256, context=32, dropout=0.0)
    defaults = dict(text=None, steps=3000, batch_size=32, lr=5e-3, **sizes)
    choices = {}  # a hole is one character, so a token must be one too
    reserved = RESERVED
    metric, share = "hidden characters found", True
    betas, weight_decay, last_lr, evaluate_every = (0.9, 0.98), 0.01, 0.02, 300
    generating = ()

    def __init__(self, settings):
        super().__init__(settings)
        self.note = f"A hidden character is written {self.hole}, also in your own questions."

    @property
    def hole(self):
        """The first of MARKS that the text does not contain. The run's settings keep it."""
        free = [mark for mark in MARKS if mark not in self.vocabulary.symbols]
        if not free:
            raise ValueError(
                f"The text contains all of {' '.join(MARKS)}; one of them must be free "
                "to mark hidden characters. Replace one in the text."
            )
        return self.settings.setdefault("hole", free[0])

    def _first_word(self):
        """A few words of the validation text with holes, as an example."""
        text = self.vocabulary.decode(self._passage())
        first = min(3, len(text) - 1)  # also a context of two characters has a hole
        return "".join(
            self.hole if i % 6 == first else c
            for i, c in enumerate(text.replace("\n", " " if " " in text else ""))
        )

    def _passage(self):
        """A context of token ids from the validation text, from the first three words in a row."""
        validation, T = self.split()[1], self.settings["context"]
        blank = re.search(
            r"\s(?=([a-zA-Z]+ ){3})", self.vocabulary.decode(validation[: min(len(validation) - T, SEARCHED)])
        )
        start = blank.end() if blank else 0
        return validation[start : start + T]

    def model(self):
        s = self.settings
        sizes = dict(
            d_model=s["d_model"],
            num_heads=s["heads"],
            num_layers=s["layers"],
            d_ff=s["d_ff"],
            max_len=s["context"],
        )
        return quick_start(
            BERT(len(self.vocabulary), dropout=s["dropout"], pad=PAD, activation="gelu_tanh", **sizes)
        )

    def hidden(self, tokens, rng):
        """(the model's input, its targets); at least one position has a target."""
        seen, asked = hide(tokens, MASK, (RESERVED, len(self.vocabulary)), rng, never=(PAD,))
        if (asked == IGNORED).all():
            seen[0, 0], asked[0, 0] = MASK, tokens[0, 0]
        return seen, asked

    def batch(self, step):
        tokens, _ = super().batch(step)
        return self.hidden(tokens, random.fresh("masking", step))

    def loss(self, model, batch):
        seen, asked = batch
        return F.cross_entropy(
            model(seen).reshape(-1, len(self.vocabulary)), asked.reshape(-1), ignore_index=IGNORED
        )

    def count(self, batch):
        return int((batch[1] != IGNORED).sum())

    @no_grad()
    def evaluate(self, model, final=False):
        """The fraction of hidden characters found in the validation text, and the loss in nats.

        The same characters are hidden each time."""
        validation, T = self.split()[1], self.settings["context"]
        seen, asked = self.hidden(windows(validation, self.places(final), T)[0], random.fresh("test"))
        right = losses = 0
        for part in np.array_split(np.arange(len(seen)), math.ceil(len(seen) / 50)):
            logits, wanted = model(seen[part]), asked[part]
            hidden = wanted != IGNORED
            right += (logits.data.argmax(-1) == wanted)[hidden].sum()
            flat = logits.reshape(-1, len(self.vocabulary))
            losses += F.cross_entropy(flat, wanted.reshape(-1), ignore_index=IGNORED, reduction="sum").item()
        count = (asked != IGNORED).sum()
        return {self.metric: float(right / count), "validation loss": losses / float(count)}

    def samples(self, model, count=1):
        """A validation passage with holes, its true text and the model's guess, in three lines."""
        tokens = self._passage()
        holes = random.fresh("test", 1).random(len(tokens)) < 0.15
        text = self.vocabulary.decode(tokens)
        shown = "".join(self.hole if hole else c for c, hole in zip(text, holes, strict=True))
        shown, text, guess = (
            s.replace("\n", " ") for s in (shown, text, self.fill(model, np.where(holes, MASK, tokens)))
        )
        # one space less: train marks where the guess begins
        return [(f"source   {shown}\ntruth    {text}\nguess   ", guess, None)]

    @no_grad()
    def fill(self, model, tokens):
        """The text of tokens (T,) with the likeliest character for each MASK, never a reserved token."""
        logits = model(tokens[None]).data[0].copy()  # (T, V)
        logits[:, :RESERVED] = -np.inf
        return self.vocabulary.decode(np.where(tokens == MASK, logits.argmax(-1), tokens))

    def answer(self, model, prompts):
        """Fill in the holes of each prompt."""
        return [self.fill(model, self._with_holes(prompt)) for prompt in prompts]

    def reading(self, model, text):
        """The text with its holes as the model's input, and its guesses as labels for `attended`."""
        tokens = self._with_holes(text)
        writes = [
            guess if hole else ""
            for guess, hole in zip(self.fill(model, tokens), tokens == MASK, strict=True)
        ]
        return (tokens[None],), {"names": [[*text]], "writes": writes}

    def _with_holes(self, prompt):
        if self.hole not in prompt or len(prompt) > self.settings["context"]:
            raise ValueError(
                f"Write a text of up to {self.settings['context']} characters "
                f"with {self.hole} for each hidden one; got {prompt!r}."
            )
        known = self.vocabulary.encode(prompt.replace(self.hole, self.vocabulary.symbols[0]))
        return np.where([c == self.hole for c in prompt], MASK, known)

    stream = Recipe.stream  # an answer comes at once


def quick_start(model):
    """Initialize BERT differently, so that a small model learns in a minute. Returns the model.

    A hidden character gives only its position, so nothing is learned until attention finds its neighbours by
    position. Learned positions initialized as sinusoids, and larger matrices, speed that up.
    """
    for name, p in model.named_parameters():
        if p.ndim > 1 and name.startswith("layers."):
            init.xavier_uniform_(p)
        elif name in ("tokens.weight", "types.weight"):
            init.normal_(p, std=0.1)
    with no_grad():
        model.positions.weight.copy_(0.1 * sinusoidal(*model.positions.weight.shape))
    return model
