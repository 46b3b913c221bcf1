"""What all vocabularies share: numbered symbols, and special tokens, whose numbers come first and which no text has."""

import re

import numpy as np


class Special:
    """A vocabulary whose numbers below `reserved` are special tokens: `encode` never gives one, whatever the text says, and `decode`
    writes nothing for it. Where they are to be seen, their names are given, the one of token 0 first.

    >>> from minigrad.data import Bytes
    >>> names = ["<pad>", "<end>"]
    >>> Bytes(reserved=2).encode_special("hi<end>", names), Bytes(reserved=2).decode_special([106, 107, 1, 0], names)
    (array([106, 107,   1]), 'hi<end><pad>')
    """

    def __len__(self):
        return len(self.symbols) + self.reserved

    def encode_special(self, text, names):
        """The numbers of a text in which special tokens are written by their names."""
        self._check(names)
        longest_first = sorted(names, key=len, reverse=True)
        parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text) if names else [text]
        number = {name: i for i, name in enumerate(names)}
        return np.concatenate(
            [np.array([number[part]]) if part in number else self.encode(part) for part in parts]
        )

    def decode_special(self, numbers, names):
        """The text of some numbers, with the names of special tokens. Bytes on both sides of one make no character together."""
        self._check(names)
        out, text = [], []
        for number in numbers:
            if number < self.reserved:
                out += [self.decode(text), names[number]]
                text = []
            else:
                text.append(number)
        return "".join([*out, self.decode(text)])

    def encode_pieces(self, texts):
        """The numbers of a text that comes in pieces, array by array: together the same as if it came whole."""
        return map(self.encode, texts)

    def _symbols(self, numbers):
        """The symbols of some numbers, none for a special token. Raises ValueError if a number is too large."""
        for number in numbers:
            if number >= len(self):
                raise ValueError(f"The token {number} is not in the vocabulary of {len(self)}.")
            if number >= self.reserved:
                yield self.symbols[number - self.reserved]

    def _check(self, names):
        if len(names) != self.reserved or len(set(names)) != len(names) or "" in names:
            raise ValueError(
                f"The vocabulary has {self.reserved} special tokens, each of which needs a name of its own; got {names!r}."
            )
