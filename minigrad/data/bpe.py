"""Text as numbers through its UTF-8 bytes, and byte pair encoding: what stands side by side often becomes one symbol.

Where characters.py learns which characters there are, bytes need no learning and write every text; BPE then learns to join them.

    Bytes         the 256 bytes are the symbols: nothing to learn, nothing unknown, and long
    BPE           further symbols, each two earlier ones joined: Sennrich et al. 2016, on bytes as in GPT-2 (Radford et al. 2019)
    definition    which pairs to join, as one would explain it         learn      the same pairs, found fast
"""

import codecs
import re
from collections import Counter, defaultdict
from heapq import heapify, heappop, heappush

import numpy as np

from minigrad.data.special import Special

# GPT-2's cut into pieces, with what Python's re has: a word, a number or signs, with the blank before it; and runs of blanks,
# whose last one is left to the word that follows. No symbol reaches over a cut, so "dog" and "dog." share theirs. Nothing is
# longer than 100 characters: what has no blanks, such as a genome, would take the square of its length.
PIECES = re.compile(r" ?[^\W\d_]{1,100}| ?\d{1,100}| ?(?:[^\w\s]|_){1,100}|\s{1,100}(?!\S)|\s{1,100}")
LONGEST = 4 * 101  # bytes of a piece: no symbol that is learned can be longer
KEPT = 1 << 18  # pieces whose symbols are remembered, some 60 MB; a text of any length may come


def to_bytes(text):
    """The text in UTF-8; a sentence for half of a surrogate pair, which is no character and has no bytes."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"The text holds {text[error.start]!r} at place {error.start}, half of a surrogate pair, which is no character; "
            "read the text with the encoding it was written in."
        ) from None


class Bytes(Special):
    """The bytes as a vocabulary of 256; numbers below `reserved` are left for special tokens, which decode to nothing.

    >>> Bytes().encode("hé")
    array([104, 195, 169])
    """

    def __init__(self, reserved=0):
        self.symbols, self.reserved = [bytes([b]) for b in range(256)], reserved

    def encode(self, text):
        """The numbers of the symbols, an array (T,). Every text has them."""
        return np.frombuffer(to_bytes(text), np.uint8).astype(np.int64) + self.reserved

    def decode(self, numbers):
        """The text of some numbers; bytes that make no character, as a model may write, become �."""
        return b"".join(self._symbols(numbers)).decode("utf-8", "replace")

    def stream(self, numbers):
        """The text number by number, a piece for each: "" while a character is unfinished, whose bytes wait for the rest."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for number in numbers:
            yield decoder.decode(b"".join(self._symbols([number])))
        if rest := decoder.decode(b"", final=True):
            yield rest

    def count_characters(self, numbers):
        """How many characters begin in these numbers: in UTF-8 all bytes of a character but the first are 10xxxxxx."""
        return sum(
            byte & 0b11000000 != 0b10000000
            for symbol in self._symbols(np.asarray(numbers).flat)
            for byte in symbol
        )

    def to_json(self):
        """What JSON can keep; minigrad.data.remembered makes the same vocabulary of it."""
        return {"kind": "bytes", "reserved": self.reserved}


class BPE(Bytes):
    """Bytes, and for each of `merges`, pairs of symbol numbers, one more symbol: the two joined. The first are joined first.

    >>> bpe = BPE.train("low lower lowest", vocab_size=258)
    >>> bpe.symbols[256:], bpe.encode("slow")
    ([b'lo', b'low'], array([115, 257]))
    """

    def __init__(self, merges=(), reserved=0):
        super().__init__(reserved)
        self.number = {}
        for pair in merges:
            if len(pair) != 2 or not all(0 <= symbol < len(self.symbols) for symbol in pair):
                raise ValueError(
                    f"A merge is a pair of symbols that exist by then, numbers below {len(self.symbols)}; got {pair!r}."
                )
            if tuple(pair) in self.number:
                raise ValueError(f"The merge {pair!r} stands there twice; each pair is joined once.")
            self.number[tuple(pair)] = len(self.symbols)
            self.symbols.append(self.symbols[pair[0]] + self.symbols[pair[1]])
            # each could be twice the last, and 40 of them fill the memory
            if len(self.symbols[-1]) > LONGEST:
                raise ValueError(
                    f"The merge {pair!r} makes a symbol of {len(self.symbols[-1])} bytes; no piece of a text is longer than {LONGEST}."
                )
        self._known = {}  # pieces that were encoded before: a text repeats itself

    @classmethod
    def train(cls, text, vocab_size, reserved=0):
        """The vocabulary of a text, of vocab_size numbers in all, or of fewer if no pair is left that occurs twice."""
        if vocab_size < 256 + reserved:
            special = f" and {reserved} special tokens" if reserved else ""
            raise ValueError(
                f"A vocabulary of {vocab_size} is too small: the 256 bytes{special} come first. Take {256 + reserved} or more."
            )
        return cls(learn(text, vocab_size - 256 - reserved), reserved)

    @property
    def merges(self):
        return list(self.number)

    def encode(self, text):
        to_bytes(text)  # names the place in the whole text, if there is something to name
        return self._numbers(pieces(text))

    def encode_pieces(self, texts):
        """As in Special. What follows can move a cut only where a text ends: its last two pieces wait for what comes next."""
        rest = ""
        for text in texts:
            found = pieces(rest + text)
            rest = "".join(found[-2:])
            yield self._numbers(found[:-2])
        yield self._numbers(pieces(rest))

    def _numbers(self, found):
        return (
            np.array([number for piece in found for number in self._piece(piece)], dtype=np.int64)
            + self.reserved
        )

    def _piece(self, piece):
        """The symbols of one piece: of the pairs it holds, the one that was learned first is joined, until none is left."""
        if piece not in self._known:
            if len(self._known) >= KEPT:
                self._known.clear()
            symbols = list(to_bytes(piece))
            while held := [pair for pair in zip(symbols, symbols[1:]) if pair in self.number]:
                first = min(held, key=self.number.get)
                symbols = joined(symbols, first, self.number[first])
            self._known[piece] = symbols
        return self._known[piece]

    def to_json(self):
        """What JSON can keep; `from_json` makes the same vocabulary of it."""
        return {"kind": "bpe", "reserved": self.reserved, "merges": [f"{a} {b}" for a, b in self.merges]}

    @classmethod
    def from_json(cls, saved):
        """The vocabulary whose to_json this is; a sentence for anything else, whoever made it."""
        try:
            merges, reserved = saved["merges"], saved["reserved"]
            if (
                not isinstance(merges, list)
                or not isinstance(reserved, int)
                or not 0 <= reserved < 1 << 16
                or isinstance(reserved, bool)
            ):
                raise TypeError(
                    f"merges must be a list and reserved a number from 0 to 65535, got {type(merges).__name__} and {str(reserved)[:20]}"
                )
            merges = [tuple(map(int, merge.split())) for merge in merges]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"This is no vocabulary that BPE.to_json made, with merges and reserved: {str(error)[:200]}."
            ) from None
        return cls(merges, reserved)


# ---------------------------------------------------------------- which pairs


def pieces(text):
    """The text, cut where no symbol may reach over."""
    return PIECES.findall(text)


def joined(symbols, pair, new):
    """The symbols with `new` for each pair, from the left.

    >>> joined([1, 1, 1, 2], (1, 1), 9)
    [9, 1, 2]
    """
    out, i = [], 0
    while i < len(symbols):
        here = tuple(symbols[i : i + 2]) == pair
        out.append(new if here else symbols[i])
        i += 1 + here
    return out


def definition(text, count):
    """`count` merges: again and again the pair that occurs most often, of several the one with the lowest numbers, is joined."""
    words, merges = [list(to_bytes(piece)) for piece in pieces(text)], []
    for new in range(256, 256 + count):
        found = Counter(pair for word in words for pair in zip(word, word[1:]))
        if max(found.values(), default=0) < 2:
            break  # joining what occurs once would learn the text by heart
        best = min(found, key=lambda pair: (-found[pair], pair))
        words = [joined(word, best, new) for word in words]
        merges.append(best)
    return merges


def learn(text, count):
    """The merges of `definition`. Each different word is kept once, with how often it occurs; a merge looks only at the words
    that hold its pair; and the likeliest pair comes from a heap, in which a count that has changed since is passed over."""
    counted = Counter(pieces(text))
    words, times = [list(to_bytes(piece)) for piece in counted], list(counted.values())
    found, places, merges = Counter(), defaultdict(set), []
    for i, word in enumerate(words):
        _count(word, i, times[i], found, places)
    heap = [(-often, pair) for pair, often in found.items()]
    heapify(heap)
    while heap and len(merges) < count:
        often, pair = heappop(heap)
        if -often != found[pair]:
            continue
        if often > -2:
            break
        changed = set()
        for i in places.pop(pair):
            changed |= _count(words[i], i, -times[i], found, places)
            words[i] = joined(words[i], pair, 256 + len(merges))
            changed |= _count(words[i], i, times[i], found, places)
        for other in changed:
            heappush(heap, (-found[other], other))
        merges.append(pair)
    return merges


def _count(word, i, times, found, places):
    """Add `times` for each pair of word i; returns the pairs."""
    pairs = list(zip(word, word[1:]))
    for pair in pairs:
        found[pair] += times
        if times > 0:
            places[pair].add(i)
    return set(pairs)
