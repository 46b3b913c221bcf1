"""text: a GPT learns to write token by token from a text file, by default from Python's own manual.

A token is a character, a byte, or with tokens=bpe a piece of up to a word, learned from the training text
(minigrad/data/bpe.py). The text may have any length: the tokens of a large one go to a file
(minigrad/data/tokenfile.py).

The defaults are nanoGPT's recipe for a processor without graphics card (github.com/karpathy/nanoGPT, README):
a few minutes. Two things differ: the initial values of the linear layers are wider, 1/sqrt(d_model) instead
of GPT-2's 0.02, and every window of the text is read once before any is read again.
"""

import math
import re

import numpy as np

from minigrad import functional as F
from minigrad.data import TOKENS, Shuffled, remembered
from minigrad.data.permutation import permutation
from minigrad.data.reading import LongText
from minigrad.data.text import encode_parts, learn_vocabulary, windows
from minigrad.data.tokenfile import TokenFile
from minigrad.modes import no_grad
from minigrad.training.recipe import Recipe
from models import decoding
from models.gpt import GPT

SHOWN = 24  # new tokens in the attention picture, at most
# tokens in the final test, at most: windows spread over a longer validation text
TESTED = 1 << 18


def manual():
    """The prose of the manual that comes with Python: about 460,000 characters."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name].strip() for name in sorted(topics))


class Text(Recipe):
    """A GPT on the first nine tenths of a text, tested on the last."""

    name = "text"
    help = "a GPT learns to write like a text: --text FILE, or Python's own manual (a few minutes)"
    defaults = dict(text=None, tokens="characters", vocab_size=512, steps=2000, batch_size=12, lr=1e-3, d_model=128, layers=4, heads=4, d_ff=512, context=64, dropout=0.0, checkpoint=False)  # fmt: skip
    choices = {"tokens": TOKENS}
    reserved = 0  # token ids that are not characters
    metric, share = "bits per character", False
    betas, weight_decay, last_lr, evaluate_every = (0.9, 0.99), 0.1, 0.1, 250
    generating = ("temperature", "top_k", "top_p", "repetition_penalty", "beam", "max_new", "seed")

    def __init__(self, settings):
        super().__init__(settings)
        self.tokens = self.settings.get("tokens", "characters")  # mlm has no such setting
        self._parts = self._order = None
        known = "vocabulary" in self.settings  # a run keeps it: generating needs no text
        self.vocabulary = (
            remembered(self.settings["vocabulary"], self.reserved) if known else self._learn_vocabulary()
        )
        self.settings["vocabulary"] = self.vocabulary.to_json()
        if not known:
            self.settings["example"] = self._first_word()
            if isinstance(training := self.split()[0], TokenFile):
                self.note = (
                    f"The text is long: its tokens were written to {training.path}. "
                    "The next run reads them from there; delete them when you like."
                )
        self.example = self.settings.get("example", "")  # a run keeps it too

    def _text(self):
        path = self.settings["text"]
        return LongText(manual()) if path is None else LongText(path=path)

    def _learn_vocabulary(self):
        text = self._text()
        found = learn_vocabulary(text, self.tokens, self.settings.get("vocab_size"), self.reserved)
        if len(text.symbols) < 2:
            raise ValueError(
                f"The text contains no other character than {text.symbols!r}; there is nothing to learn."
            )
        return found

    def _first_word(self):
        """A word of the validation text to continue. Raises ValueError if the text is too short."""
        beginning = self.vocabulary.decode(self.split()[1][:1000])
        words = re.findall(r"[A-Za-z]{3,}", beginning)
        if self.tokens == "bpe":  # its symbols begin with the space before a word: the answer brings it
            return words[0] if words else beginning[:1]
        return f"{words[0]} " if words and " " in self.vocabulary.symbols else beginning[:1]

    def split(self):
        """(training, validation) token ids. Raises ValueError if either is too short for the context."""
        if self._parts is None:
            self._parts = encode_parts(self._text(), self.vocabulary)
        unit, context = "characters" if self.tokens == "characters" else "tokens", self.settings["context"]
        training, validation = map(len, self._parts)
        if validation <= context:
            raise ValueError(
                f"The text is too short: its last tenth, {validation} {unit}, "
                f"must be longer than the context of {context}."
            )
        if training < 2 * context:  # few and long tokens
            raise ValueError(
                f"The text is too short: its first nine tenths, {training} {unit}, "
                f"must hold the context of {context} twice."
            )
        return self._parts

    def model(self):
        s = self.settings
        sizes = dict(
            d_model=s["d_model"],
            num_heads=s["heads"],
            num_layers=s["layers"],
            max_len=s["context"],
            d_ff=s["d_ff"],
        )
        return GPT(
            len(self.vocabulary),
            dropout=s["dropout"],
            init_std=s["d_model"] ** -0.5,
            checkpointed=s.get("checkpoint", False),
            **sizes,
        )

    def batch(self, step):
        """(tokens (B, T), next tokens (B, T))."""
        return windows(self.split()[0], self.starts(step), self.settings["context"])

    def starts(self, step):
        """The starts of a step's windows: all windows of the text shuffled, then all again, cut elsewhere.

        So each character is used equally often; windows cut at random positions would not do that."""
        if self._order is None:
            # whole windows, wherever the first begins
            count = (len(self.split()[0]) - self.settings["context"]) // self.settings["context"]
            self._order = Shuffled(count, shuffle=lambda rng: self._round(rng, count))
        return self._order.batch(step, self.settings["batch_size"])

    def _round(self, rng, count):
        """A function from positions in an epoch to the starts of windows."""
        T = self.settings["context"]
        first, order = rng.integers(T), permutation(rng, count)
        return lambda positions: first + T * order(positions)

    def loss(self, model, batch):
        tokens, following = batch
        return F.cross_entropy(model(tokens).reshape(-1, len(self.vocabulary)), following.reshape(-1))

    @no_grad()
    def evaluate(self, model, final=False):
        """The validation loss in nats a token and in bits a character.

        At the end over the validation text (at most 262,144 tokens, spread over it), before that over 200
        windows. Bits a character compare different kinds of tokens: a long token is harder to guess."""
        validation, T = self.split()[1], self.settings["context"]
        starts = self.places(final)
        parts = np.array_split(starts, math.ceil(len(starts) / 50))
        losses = [self.loss(model, windows(validation, part, T)).item() for part in parts]
        loss = float(np.average(losses, weights=[len(part) for part in parts]))
        guessed = windows(validation, starts, T)[1]
        tokens = guessed.size / self.vocabulary.count_characters(guessed)  # a character: at most 1
        return {self.metric: loss / math.log(2) * tokens, "validation loss": loss}

    def places(self, final):
        """The starts of the windows of the validation text that are tested on."""
        T, most = self.settings["context"], max(200, TESTED // self.settings["context"]) if final else 200
        count = -(-(len(self.split()[1]) - T) // T)
        return T * (np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(int))

    def samples(self, model, count=1):
        """The model's continuation of the first words of the validation text."""
        start = self.split()[1][: min(16, self.settings["context"])]
        written = decoding.stream(model, start, max_new=160, temperature=0.8, seed=0)
        # decoded together: a character may begin in `start` and end in `written`
        pieces = [*self.vocabulary.stream([*start, *written])]
        return [("".join(pieces[: len(start)]), "".join(pieces[len(start) :]), None)]

    def reading(self, model, text):
        """The text and its greedy continuation as the model's input, and the labels for `attended`.

        The continuation has at most SHOWN tokens, and ends with the context."""
        start, context = self.vocabulary.encode(text), self.settings["context"]
        if not 0 < len(start) <= context:
            raise ValueError(f"The model reads 1 to {context} tokens at once; the text has {len(start)}.")
        written = [*decoding.stream(model, start, min(SHOWN, context + 1 - len(start)), temperature=0)]
        names = [self.vocabulary.decode([token]) for token in (*start, *written)]
        writes = [""] * (len(start) - 1) + names[len(start) :]
        return (np.array([[*start, *written[:-1]]]),), {"names": [names[:-1]], "writes": writes}

    def stream(self, model, prompt, beam=None, max_new=500, **sampling):
        """Yield the continuation of a prompt token by token, in whole characters."""
        start = self.vocabulary.encode(prompt)
        if beam is None:
            tokens = decoding.stream(model, start, max_new, **sampling)
        else:
            tokens = decoding.beam_search(decoding.Prompts(model, [start]), beam, max_new)[0][0]
        yield from self.vocabulary.stream(tokens)
