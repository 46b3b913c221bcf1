"""A text as training data: its vocabulary, the token numbers of its two parts, and windows of them. Knows no models.

The first nine tenths are for training, the last for validation. A text of any length will do: it is read in pieces, and the tokens of
a long one lie in a file (tokenfile.py).
"""

import numpy as np

from minigrad.data import tokenfile
from minigrad.data.reading import LongText
from minigrad.data.vocabularies import vocabulary

LEARNED_FROM = 10_000_000  # characters that BPE looks at: of a longer text, passages spread over it


class TextDataset:
    """Windows of a text: item i is (tokens (T,), the ones that follow (T,)), T the context; the next begins where it ends.

    training, validation = TextDataset.of_file("book.txt", context=64, tokens="bpe", vocab_size=512)
    tokens, following = training[0]
    training.vocabulary.decode(tokens)
    """

    def __init__(self, numbers, context, vocabulary=None):
        self.numbers, self.context, self.vocabulary = numbers, context, vocabulary

    @classmethod
    def of_file(cls, path, context, tokens="characters", vocab_size=512, reserved=0):
        """(training, validation) of a file in UTF-8."""
        text = LongText(path=path)
        known = learned(text, tokens, vocab_size, reserved)
        return tuple(cls(numbers, context, known) for numbers in encoded(text, known))

    def __len__(self):
        return max(0, len(self.numbers) - 1) // self.context

    def __getitem__(self, i):
        if not -len(self) <= i < len(self):
            raise IndexError(f"There is no window {i}; there are {len(self)}.")
        tokens, following = windows(self.numbers, [i % len(self) * self.context], self.context)
        return tokens[0], following[0]


def windows(numbers, starts, length):
    """(tokens (B, T), the ones that follow (B, T)) from each start."""
    rows = np.array([numbers[start : start + length + 1] for start in starts], np.int64).reshape(
        -1, length + 1
    )
    # each in one piece of memory, as whoever flattens it expects
    return rows[:, :-1].copy(), rows[:, 1:].copy()


def nine_tenths(length):
    """Where the training part of a text ends."""
    return length * 9 // 10


def learned(text, tokens, vocab_size=512, reserved=0):
    """The vocabulary of a text: all characters there are; BPE's symbols from the training part only, as everything that is learned."""
    return vocabulary(tokens, _learned_from(text) if tokens == "bpe" else text.symbols, vocab_size, reserved)


def _learned_from(text):
    end = nine_tenths(len(text))
    every = -(-end // LEARNED_FROM)
    return "".join(piece[: -(-len(piece) // every)] for piece in text.part(0, end))


def encoded(text, known):
    """(training, validation) token numbers: arrays, or of a long text TokenFiles, which are read like arrays."""

    def parts():
        cut = nine_tenths(len(text))
        return [known.encode_pieces(text.part(0, cut)), known.encode_pieces(text.part(cut, len(text)))]

    if text.path is None or not tokenfile.is_large(text.path):
        return tuple(np.concatenate([np.zeros(0, np.int64), *part]) for part in parts())
    return tokenfile.kept(text.path, known, parts)
