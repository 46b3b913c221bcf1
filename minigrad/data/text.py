"""A text as training data: its vocabulary, the token ids of its two parts, and windows of these.

The first nine tenths are for training, the last for validation. A text can have any length: it is read in
pieces, and the tokens of a long one go to a file (tokenfile.py).
"""

import numpy as np

from minigrad.data import tokenfile
from minigrad.data.reading import LongText
from minigrad.data.vocabularies import vocabulary

LEARNED_FROM = 10_000_000  # characters that BPE learns from; of a longer text, passages spread over it


class TextDataset:
    """Adjacent windows of a text: item i is (tokens (T,), following tokens (T,)), with T the context.

    training, validation = TextDataset.of_file("book.txt", context=64, tokens="bpe", vocab_size=512)
    tokens, following = training[0]
    training.vocabulary.decode(tokens)
    """

    def __init__(self, numbers, context, vocabulary=None):
        self.numbers, self.context, self.vocabulary = numbers, context, vocabulary

    @classmethod
    def of_file(cls, path, context, tokens="characters", vocab_size=512, reserved=0):
        """Make the datasets (training, validation) from a file in UTF-8."""
        text = LongText(path=path)
        known = learn_vocabulary(text, tokens, vocab_size, reserved)
        return tuple(cls(numbers, context, known) for numbers in encode_parts(text, known))

    def __len__(self):
        return max(0, len(self.numbers) - 1) // self.context

    def __getitem__(self, i):
        if not -len(self) <= i < len(self):
            raise IndexError(f"There is no window {i}; there are {len(self)}.")
        tokens, following = windows(self.numbers, [i % len(self) * self.context], self.context)
        return tokens[0], following[0]


def windows(numbers, starts, length):
    """Return (tokens (B, T), following tokens (B, T)) from each start."""
    rows = np.array([numbers[start : start + length + 1] for start in starts], np.int64).reshape(
        -1, length + 1
    )
    # contiguous copies, so that flattening needs none
    return rows[:, :-1].copy(), rows[:, 1:].copy()


def nine_tenths(length):
    """The position where the training part of a text ends."""
    return length * 9 // 10


def learn_vocabulary(text, tokens, vocab_size=512, reserved=0):
    """Make the vocabulary of a text: all its characters, or BPE's symbols learned from the training part."""
    return vocabulary(tokens, _learned_from(text) if tokens == "bpe" else text.symbols, vocab_size, reserved)


def _learned_from(text):
    end = nine_tenths(len(text))
    every = -(-end // LEARNED_FROM)
    return "".join(piece[: -(-len(piece) // every)] for piece in text.part(0, end))


def encode_parts(text, known):
    """Return token ids (training, validation): arrays, or of a long text TokenFiles, which are read alike."""

    def parts():
        cut = nine_tenths(len(text))
        return [known.encode_pieces(text.part(0, cut)), known.encode_pieces(text.part(cut, len(text)))]

    if text.path is None or not tokenfile.is_large(text.path):
        return tuple(np.concatenate([np.zeros(0, np.int64), *part]) for part in parts())
    return tokenfile.open_tokens(text.path, known, parts)
