"""mlm: BERT learns to fill in hidden characters of a text, looking both ways. Knows files of text; else Python's own manual."""

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
SEARCHED = 1 << 20  # characters of a validation text in which an example is looked for
MARKS = "_□■○●"  # how a hidden character may be written in a question, and shown


class MaskedText(Text):
    """15 of 100 characters are asked for. The target is to find half of them; the blank, the commonest, makes up 30 of 100."""

    name = "mlm"
    help = "BERT fills in hidden characters: --text FILE, or Python's own manual (a minute or two)"
    sizes = dict(d_model=64, layers=2, heads=4, d_ff=256, context=32, dropout=0.0)
    defaults = dict(text=None, steps=3000, batch_size=32, lr=5e-3, **sizes)
    choices = {}  # a hole is one character, so a token is one too
    reserved = RESERVED
    metric, share = "hidden characters found", True
    betas, weight_decay, last_lr, evaluate_every = (0.9, 0.98), 0.01, 0.02, 300
    generating = ()

    def __init__(self, settings):
        super().__init__(settings)
        self.note = f"A hidden character is written {self.hole}, also where you ask."

    @property
    def hole(self):
        """The first mark that the text does not hold, or it could not be told from a hole; the run remembers it."""
        free = [mark for mark in MARKS if mark not in self.vocabulary.symbols]
        if not free:
            raise ValueError(
                f"The text holds all of {' '.join(MARKS)}, one of which must be left to mark hidden characters; replace one in it."
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
        """Token numbers of the validation text, as many as the context, from where the first three words follow each other."""
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
        """(what the model sees, what it is asked): at least one place is asked."""
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
        """The share of hidden characters found in the validation text, always the same ones; the loss in nats beside it."""
        validation, T = self.split()[1], self.settings["context"]
        seen, asked = self.hidden(windows(validation, self.places(final), T)[0], random.fresh("test"))
        right = losses = 0
        for part in np.array_split(np.arange(len(seen)), math.ceil(len(seen) / 50)):
            logits, wanted = model(seen[part]), asked[part]
            kept = wanted != IGNORED
            right += (logits.data.argmax(-1) == wanted)[kept].sum()
            flat = logits.reshape(-1, len(self.vocabulary))
            losses += F.cross_entropy(flat, wanted.reshape(-1), ignore_index=IGNORED, reduction="sum").item()
        count = (asked != IGNORED).sum()
        return {self.metric: float(right / count), "validation loss": losses / float(count)}

    def samples(self, model, count=1):
        """A passage of the validation text with holes, as it is, and as the model fills it: a line each, one under the other."""
        tokens = self._passage()
        holes = random.fresh("test", 1).random(len(tokens)) < 0.15
        text = self.vocabulary.decode(tokens)
        shown = "".join(self.hole if hole else c for c, hole in zip(text, holes, strict=True))
        shown, text, guess = (
            s.replace("\n", " ") for s in (shown, text, self.fill(model, np.where(holes, MASK, tokens)))
        )
        # one blank less: train marks where the guess begins
        return [(f"source   {shown}\ntruth    {text}\nguess   ", guess, None)]

    @no_grad()
    def fill(self, model, tokens):
        """The text with the likeliest characters where tokens (T,) say MASK; the specials themselves are never an answer."""
        logits = model(tokens[None]).data[0].copy()  # (T, V)
        logits[:, :RESERVED] = -np.inf
        return self.vocabulary.decode(np.where(tokens == MASK, logits.argmax(-1), tokens))

    def answer(self, model, prompts):
        """Each prompt with its holes filled in."""
        return [self.fill(model, self._with_holes(prompt)) for prompt in prompts]

    def reading(self, model, text):
        """The text with its holes, and what the model fills them with."""
        tokens = self._with_holes(text)
        writes = [
            guess if hole else ""
            for guess, hole in zip(self.fill(model, tokens), tokens == MASK, strict=True)
        ]
        return (tokens[None],), {"names": [[*text]], "writes": writes}

    def _with_holes(self, prompt):
        if self.hole not in prompt or len(prompt) > self.settings["context"]:
            raise ValueError(
                f"Write a text of up to {self.settings['context']} characters with {self.hole} for each hidden one; got {prompt!r}."
            )
        known = self.vocabulary.encode(prompt.replace(self.hole, self.vocabulary.symbols[0]))
        return np.where([c == self.hole for c in prompt], MASK, known)

    stream = Recipe.stream  # an answer comes at once


def quick_start(model):
    """Other first values than BERT's, for a small model that is to learn in a minute.

    A hidden character says nothing but where it stands, so until attention finds its neighbours by position, nothing is
    learned. Learned positions that begin as sinusoids, and larger matrices, bring that forward.
    """
    for name, p in model.named_parameters():
        if p.ndim > 1 and name.startswith("layers."):
            init.xavier_uniform_(p)
        elif name in ("tokens.weight", "types.weight"):
            init.normal_(p, std=0.1)
    with no_grad():
        model.positions.weight.copy_(0.1 * sinusoidal(*model.positions.weight.shape))
    return model
