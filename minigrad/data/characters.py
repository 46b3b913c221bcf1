"""The simplest vocabulary: a token id for each character. Read it before bpe.py."""

from functools import cached_property

import numpy as np

from minigrad.data.reading import code_points
from minigrad.data.special import Special


class Characters(Special):
    """A vocabulary of characters. Ids below `reserved` are for special tokens, which decode to nothing.

    >>> Characters("hello").encode("hole")
    array([1, 3, 2, 0])
    """

    def __init__(self, text, reserved=0):
        self.symbols, self.reserved = "".join(sorted(set(text))), reserved
        self.number = {c: i + reserved for i, c in enumerate(self.symbols)}

    def encode(self, text):
        """Encode a text to token ids (T,). Raises ValueError if a character is not in the vocabulary."""
        table = self._table
        numbers = table[np.minimum(code_points(text), len(table) - 1)]
        if (numbers < 0).any():
            unknown = sorted(set(text) - self.number.keys())
            names = " ".join(map(repr, unknown[:10])) + (" ..." if len(unknown) > 10 else "")
            raise ValueError(
                f"The text has {names}, which the model's vocabulary does not have; it has {self.symbols!r}."
            )
        return numbers.astype(np.int64)

    @cached_property
    def _table(self):
        """The token id of each code point, -1 if it has none; the last entry is for larger code points."""
        codes = code_points(self.symbols)
        table = np.full(int(codes.max(initial=0)) + 2, -1, np.int32)
        table[codes] = np.arange(len(codes)) + self.reserved
        return table

    def decode(self, numbers):
        """Decode token ids to a text."""
        return "".join(self._symbols(numbers))

    def stream(self, numbers):
        """Decode token by token, yielding a string for each."""
        for number in numbers:
            yield self.decode([number])

    def count_characters(self, numbers):
        """Count the characters of these tokens."""
        return int((np.asarray(numbers) >= self.reserved).sum())

    def to_json(self):
        """Return a value for JSON: the characters, from which Characters makes the same vocabulary."""
        return self.symbols
