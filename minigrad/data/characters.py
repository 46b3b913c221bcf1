"""Text as numbers, one for each character: the simplest vocabulary, to be read before bpe.py."""

from functools import cached_property

import numpy as np

from minigrad.data.reading import code_points
from minigrad.data.special import Special


class Characters(Special):
    """A vocabulary of characters; numbers below `reserved` are left for special tokens, which decode to nothing.

    >>> Characters("hello").encode("hole")
    array([1, 3, 2, 0])
    """

    def __init__(self, text, reserved=0):
        self.symbols, self.reserved = "".join(sorted(set(text))), reserved
        self.number = {c: i + reserved for i, c in enumerate(self.symbols)}

    def encode(self, text):
        """The numbers of the characters, an array (T,); a sentence if one is not in the vocabulary."""
        table = self._table
        numbers = table[np.minimum(code_points(text), len(table) - 1)]
        if (numbers < 0).any():
            unknown = sorted(set(text) - self.number.keys())
            shown = " ".join(map(repr, unknown[:10])) + (" ..." if len(unknown) > 10 else "")
            raise ValueError(
                f"The text holds {shown}, which the model's vocabulary does not; it knows {self.symbols!r}."
            )
        return numbers.astype(np.int64)

    @cached_property
    def _table(self):
        """The number of each code point, -1 where there is none; the last entry stands for all that come later."""
        codes = code_points(self.symbols)
        table = np.full(int(codes.max(initial=0)) + 2, -1, np.int32)
        table[codes] = np.arange(len(codes)) + self.reserved
        return table

    def decode(self, numbers):
        """The text of some numbers."""
        return "".join(self._symbols(numbers))

    def stream(self, numbers):
        """The text number by number, a piece for each."""
        for number in numbers:
            yield self.decode([number])

    def count_characters(self, numbers):
        """How many characters these numbers are."""
        return int((np.asarray(numbers) >= self.reserved).sum())

    def to_json(self):
        """What JSON can keep: the characters, of which Characters makes the same vocabulary again."""
        return self.symbols
