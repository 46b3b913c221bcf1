"""The base of dates and translate: an encoder-decoder reads a source and writes its target token by token.

Contains padding, teacher forcing, decoding and the attention picture; a subclass defines the data and its
texts.
"""

import numpy as np

from minigrad import functional as F
from minigrad.data import padded
from minigrad.training.recipe import Recipe
from models.attended import attended
from models.recurrent import EncoderDecoder
from models.transformer import Transformer

PAD, BOS, EOS = 0, 1, 2
RESERVED = 3  # token ids that are not text
NAMES = {PAD: "pad", BOS: "start", EOS: "end"}
# name: (cell, has attention)
RECURRENT = {
    f"{cell}{suffix}": (cell, bool(suffix)) for suffix in ("", "-attention") for cell in ("lstm", "gru")
}


class Pairs(Recipe):
    """A recipe of (source, target) texts.

    Subclasses set vocab_size, max_len (the longest row's length) and max_new (the longest answer's), and
    define encode(text) -> token ids, decode(ids) -> text, and label(id) -> its text in a picture."""

    choices = {"model": ("transformer", *RECURRENT)}
    generating = ("beam",)

    def model(self):
        """The Transformer, or an encoder-decoder of the same width and depth on LSTMs or GRUs."""
        s, sizes = self.settings, dict(max_len=self.max_len, pad=PAD)
        if s["model"] in RECURRENT:
            cell, attention = RECURRENT[s["model"]]
            return EncoderDecoder(
                self.vocab_size, s["d_model"], s["layers"], cell, attention, s["dropout"], **sizes
            )
        shape = (s["d_model"], s["heads"], s["layers"], s["d_ff"], s["dropout"])
        return Transformer(self.vocab_size, *shape, norm=s["norm"], **sizes)

    def rows(self, pairs):
        """Convert (source, target) texts to (src (B, Ts), tgt (B, Tt))."""
        sources, targets = zip(*pairs, strict=True)
        written = [[BOS, *self.encode(text), EOS] for text in targets]
        return padded([self.encode(text) for text in sources], PAD), padded(written, PAD)

    def loss(self, model, batch):
        """The loss of each target token, given the source and the true tokens before it (teacher forcing)."""
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
        """The model's target for each source, greedily or by beam search."""
        src = padded([self.encode(text) for text in texts], PAD)
        return [self.decode(until_end(row)) for row in model.generate(src, BOS, EOS, self.max_new, beam)]

    def answers(self, model, texts):
        """The model's targets for any number of sources, in batches of 128."""
        parts = (texts[start : start + 128] for start in range(0, len(texts), 128))
        return [answer for part in parts for answer in self.answer(model, part)]

    def reading(self, model, text):
        """The model's inputs, (source, its own target shifted by one), and the labels for `attended`."""
        src = np.array([self.encode(text)])
        written = model.generate(src, BOS, EOS, self.max_new)  # (1, Tt)
        tgt = np.concatenate([[[BOS]], written[:, :-1]], axis=1)
        source, target, writes = (
            [NAMES.get(token) or self.label(token) for token in row] for row in (src[0], tgt[0], written[0])
        )
        return (src, tgt), {"names": [source, target], "writes": writes}

    def attention(self, model, text):
        """(written tokens, weights (H, Tt, Ts), source tokens) of the last cross-attention, or None."""
        inputs, labels = self.reading(model, text)
        cross = [layer for layer in attended(model, *inputs, **labels) if layer.kind == "cross"]
        return (cross[-1].writes, cross[-1].weights, cross[-1].keys) if cross else None


def until_end(tokens):
    """The tokens before the first EOS, as a list."""
    tokens = list(tokens)
    return tokens[: tokens.index(EOS)] if EOS in tokens else tokens
