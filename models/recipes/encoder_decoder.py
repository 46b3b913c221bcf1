"""What dates and translate share: an encoder-decoder reads a source and writes its target, one token after another.

Knows rows of tokens, padding and teacher forcing; not what is written in them, nor where it comes from.
"""

import numpy as np

from minigrad import functional as F
from minigrad.data import padded
from minigrad.training.recipe import Recipe
from models.attended import attended
from models.recurrent import EncoderDecoder
from models.transformer import Transformer

PAD, BOS, EOS = 0, 1, 2
RESERVED = 3  # token numbers that are no text
NAMES = {PAD: "pad", BOS: "start", EOS: "end"}
# (cell, attention?)
RECURRENT = {
    f"{cell}{looks}": (cell, bool(looks)) for looks in ("", "-attention") for cell in ("lstm", "gru")
}


class Pairs(Recipe):
    """Subclasses set vocab_size, max_len (the longest row a model must know places for) and max_new (the tokens of the longest
    answer), and define encode(text) -> token numbers, decode(numbers) -> text, label(number) -> how one is shown in a picture."""

    choices = {"model": ("transformer", *RECURRENT)}
    generating = ("beam",)

    def model(self):
        """The Transformer, or an encoder-decoder of the same width and depth that reads and writes with LSTMs or GRUs."""
        s, sizes = self.settings, dict(max_len=self.max_len, pad=PAD)
        if s["model"] in RECURRENT:
            cell, attention = RECURRENT[s["model"]]
            return EncoderDecoder(
                self.vocab_size, s["d_model"], s["layers"], cell, attention, s["dropout"], **sizes
            )
        shape = (s["d_model"], s["heads"], s["layers"], s["d_ff"], s["dropout"])
        return Transformer(self.vocab_size, *shape, norm=s["norm"], **sizes)

    def rows(self, pairs):
        """(src (B, Ts), tgt (B, Tt)) of (source, target) texts."""
        sources, targets = zip(*pairs, strict=True)
        written = [[BOS, *self.encode(text), EOS] for text in targets]
        return padded([self.encode(text) for text in sources], PAD), padded(written, PAD)

    def loss(self, model, batch):
        """Each token of the target from the source and the right tokens before it (teacher forcing)."""
        src, tgt = batch
        logits, following = model(src, tgt[:, :-1]), tgt[:, 1:]  # (B, Tt - 1, V)
        smoothing = self.settings["label_smoothing"]
        return F.cross_entropy(
            logits.reshape(-1, self.vocab_size),
            following.reshape(-1),
            ignore_index=PAD,
            label_smoothing=smoothing,
        )

    def count(self, batch):
        return int((batch[1][:, 1:] != PAD).sum())

    def answer(self, model, texts, beam=1):
        """The model's target for each source: always the likeliest token, or the likeliest whole of several beams."""
        src = padded([self.encode(text) for text in texts], PAD)
        return [self.decode(until_end(row)) for row in model.generate(src, BOS, EOS, self.max_new, beam)]

    def answers(self, model, texts):
        """The same for any number of texts, 128 at once."""
        parts = (texts[start : start + 128] for start in range(0, len(texts), 128))
        return [answer for part in parts for answer in self.answer(model, part)]

    def reading(self, model, text):
        """The source, and the target that the model writes to it: each token stands before the one that is written there."""
        src = np.array([self.encode(text)])
        written = model.generate(src, BOS, EOS, self.max_new)  # (1, Tt)
        tgt = np.concatenate([[[BOS]], written[:, :-1]], axis=1)
        source, target, writes = (
            [NAMES.get(token) or self.label(token) for token in row] for row in (src[0], tgt[0], written[0])
        )
        return (src, tgt), {"names": [source, target], "writes": writes}

    def attention(self, model, text):
        """(what was written, weights (H, Tt, Ts), what was read): where the last decoder layer looked in the source for each
        token. None of a model that does not look."""
        inputs, labels = self.reading(model, text)
        looks = [layer for layer in attended(model, *inputs, **labels) if layer.kind == "cross"]
        return (looks[-1].writes, looks[-1].weights, looks[-1].keys) if looks else None


def until_end(tokens):
    """The tokens before the first EOS, as a list."""
    tokens = list(tokens)
    return tokens[: tokens.index(EOS)] if EOS in tokens else tokens
