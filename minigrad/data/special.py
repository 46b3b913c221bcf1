"""The base of all vocabularies: symbols, and special tokens, whose ids come first and which no text has."""

import re

import numpy as np


class Special:
    """A vocabulary in which the ids below `reserved` are special tokens.

    `encode` never returns one, whatever the text says, and `decode` writes nothing for it. encode_special and
    decode_special write special tokens by their names, given in the order of their ids.

    >>> from minigrad.data import Bytes
    >>> names = ["<pad>", "<end>"]
    >>> vocabulary = Bytes(reserved=2)
    >>> vocabulary.encode_special("hi<end>", names), vocabulary.decode_special([106, 107, 1, 0], names)
    (array([106, 107,   1]), 'hi<end><pad>')
    """

    def __len__(self):
        return len(self.symbols) + self.reserved

    def encode_special(self, text, names):
        """Encode a text in which special tokens are written by their names."""
        self._check(names)
        longest_first = sorted(names, key=len, reverse=True)
        parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text) if names else [text]
        number = {name: i for i, name in enumerate(names)}
        return np.concatenate(
            [np.array([number[part]]) if part in number else self.encode(part) for part in parts]
        )

    def decode_special(self, numbers, names):
        """Decode token ids, with the names of special tokens.

        Bytes before and after one never form a character.
        """
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
        """Encode a text that comes in pieces; the arrays together equal the whole text's encoding."""
        return map(self.encode, texts)

    def _symbols(self, numbers):
        """Yield the symbols of token ids, none for a special token.

        Raises ValueError if an id is too large.
        """
        for number in numbers:
            if number >= len(self):
                raise ValueError(f"The token {number} is not in the vocabulary of {len(self)}.")
            if number >= self.reserved:
                yield self.symbols[number - self.reserved]

    def _check(self, names):
        if len(names) != self.reserved or len(set(names)) != len(names) or "" in names:
            raise ValueError(
                f"The vocabulary has {self.reserved} special tokens, "
                f"each of which needs its own name; got {names!r}."
            )
