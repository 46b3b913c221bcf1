"""BERT's tokenizer: words, and for words that are not in the vocabulary the longest pieces that are.

(Devlin et al. 2019; Wu et al. 2016, section 4.1.)
"""

import unicodedata
from pathlib import Path

import numpy as np

from minigrad.saving import FileProblem

LONGEST = 100  # characters of a word, at most; a longer one is [UNK]
CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Converts text to [CLS] pieces [SEP] and back.

    vocabulary: a vocab.txt, or the list of its lines; a piece that continues a word begins with ##."""

    end = ()

    def __init__(self, vocabulary, lower=True, max_len=None):
        self.tokens = vocabulary if isinstance(vocabulary, list) else lines(vocabulary)
        self.number = {token: i for i, token in enumerate(self.tokens)}
        self.lower, self.max_len = lower, max_len
        missing = [name for name in ("[CLS]", "[SEP]", "[UNK]") if name not in self.number]
        if missing:
            raise FileProblem(
                f"The vocabulary of {len(self.tokens)} pieces has no {', '.join(missing)}; "
                "it is not one of BERT's."
            )

    def encode(self, text, special=True):
        """The token ids of a text, an array (T,)."""
        found = [self.number[piece] for word in words(text, self.lower) for piece in self.pieces(word)]
        if not special:
            return np.array(found[: self.max_len], dtype=np.int64)
        found = found[: self.max_len and self.max_len - 2]
        return np.array([self.number["[CLS]"], *found, self.number["[SEP]"]], dtype=np.int64)

    def pieces(self, word):
        """Split a word: the longest piece that begins it, the longest that continues it ...; or [UNK]."""
        out, start = [], 0
        while start < len(word) <= LONGEST:
            ends = range(len(word), start, -1)
            piece = next((p for e in ends if (p := "##" * (start > 0) + word[start:e]) in self.number), None)
            if piece is None:
                return ["[UNK]"]
            out.append(piece)
            start += len(piece) - 2 * (start > 0)
        return out or ["[UNK]"]

    def decode(self, ids):
        pieces = [self.tokens[i] for i in ids]
        return " ".join(p for p in pieces if p not in ("[CLS]", "[SEP]", "[PAD]")).replace(" ##", "")


def lines(path):
    try:
        return Path(path).read_text(encoding="utf-8").split("\n")[:-1]
    except (OSError, ValueError) as error:
        raise FileProblem(f"{path} is not a readable vocabulary: {error}.") from None


def words(text, lower):
    """The words and signs of a text, without control characters; with `lower`, lowercase without accents."""
    text = "".join(" " if is_space(c) else c for c in text if not is_hidden(c))
    text = "".join(f" {c} " if any(a <= ord(c) <= b for a, b in CHINESE) else c for c in text)
    if lower:
        text = "".join(
            c for c in unicodedata.normalize("NFD", text).lower() if unicodedata.category(c) != "Mn"
        )
    return "".join(f" {c} " if is_sign(c) else c for c in text).split()


def is_space(c):
    return c in "\t\n\r" or unicodedata.category(c) == "Zs"


def is_hidden(c):
    return ord(c) in (0, 0xFFFD) or c not in "\t\n\r" and unicodedata.category(c).startswith("C")


def is_sign(c):
    return (
        c.isascii()
        and not c.isalnum()
        and c.isprintable()
        and c != " "
        or unicodedata.category(c).startswith("P")
    )
