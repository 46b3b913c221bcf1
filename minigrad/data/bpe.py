"""Token ids from UTF-8 bytes, and byte pair encoding: a pair that is often adjacent becomes one symbol.

Where characters.py learns a set of characters, bytes need no learning and encode every text. BPE then learns
to join them.

    Bytes         the 256 bytes are the symbols: nothing to learn, nothing unknown, but long sequences
    BPE           more symbols, each joined from two earlier ones: Sennrich et al. 2016, on bytes as in GPT-2
                  (Radford et al. 2019)
    definition    find the pairs to join, as one would explain it
    learn         find the same pairs fast
"""

import codecs
import re
from collections import Counter, defaultdict
from heapq import heapify, heappop, heappush

import numpy as np

from minigrad.data.special import Special

# GPT-2's pieces, as far as Python's re allows: a word, a number or punctuation, with the space before it; and
# runs of whitespace, whose last space goes to the word that follows. No symbol crosses a cut, so "dog" and
# "dog." share theirs. A piece has at most 100 characters: a text without spaces, such as a genome, would take
# time quadratic in its length.
PIECES = re.compile(r" ?[^\W\d_]{1,100}| ?\d{1,100}| ?(?:[^\w\s]|_){1,100}|\s{1,100}(?!\S)|\s{1,100}")
LONGEST = 4 * 101  # bytes of a piece: no learned symbol can be longer
CACHED = 1 << 18  # pieces in the cache of a BPE, some 60 MB: a text can have any length


def to_bytes(text):
    """Encode a text in UTF-8. Raises ValueError for half of a surrogate pair, which has no bytes."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"The text has {text[error.start]!r} at position {error.start}, half of a surrogate pair, which "
            "is not a character; read the text with the encoding in which it was written."
        ) from None


class Bytes(Special):
    """The 256 bytes as a vocabulary. Ids below `reserved` are for special tokens, which decode to nothing.

    >>> Bytes().encode("hé")
    array([104, 195, 169])
    """

    def __init__(self, reserved=0):
        self.symbols, self.reserved = [bytes([b]) for b in range(256)], reserved

    def encode(self, text):
        """Encode a text to token ids (T,)."""
        return np.frombuffer(to_bytes(text), np.uint8).astype(np.int64) + self.reserved

    def decode(self, numbers):
        """Decode token ids to a text. Bytes that are no character, as a model may write them, become �."""
        return b"".join(self._symbols(numbers)).decode("utf-8", "replace")

    def stream(self, numbers):
        """Decode token by token, yielding a string for each: "" while a character is incomplete."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for number in numbers:
            yield decoder.decode(b"".join(self._symbols([number])))
        if rest := decoder.decode(b"", final=True):
            yield rest

    def count_characters(self, numbers):
        """Count the characters that begin here: in UTF-8 all bytes but a character's first are 10xxxxxx."""
        return sum(
            byte & 0b11000000 != 0b10000000
            for symbol in self._symbols(np.asarray(numbers).flat)
            for byte in symbol
        )

    def to_json(self):
        """Return a value for JSON, from which minigrad.data.remembered restores the vocabulary."""
        return {"kind": "bytes", "reserved": self.reserved}


class BPE(Bytes):
    """The bytes, and one more symbol for each pair of symbol numbers in `merges`, which are applied in order.

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
                    "A merge is a pair of earlier symbols, that is numbers below "
                    f"{len(self.symbols)}; got {pair!r}."
                )
            if tuple(pair) in self.number:
                raise ValueError(f"The merge {pair!r} occurs twice; each pair is joined once.")
            self.number[tuple(pair)] = len(self.symbols)
            self.symbols.append(self.symbols[pair[0]] + self.symbols[pair[1]])
            # each could be twice as long as the last, and 40 of them would fill the memory
            if len(self.symbols[-1]) > LONGEST:
                raise ValueError(
                    f"The merge {pair!r} makes a symbol of {len(self.symbols[-1])} bytes; "
                    f"no piece of a text is longer than {LONGEST}."
                )
        self._known = {}  # cache of encoded pieces: texts repeat themselves

    @classmethod
    def train(cls, text, vocab_size, reserved=0):
        """Learn a vocabulary of vocab_size from a text, or a smaller one if no pair occurs twice any more."""
        if vocab_size < 256 + reserved:
            special = f" and {reserved} special tokens" if reserved else ""
            raise ValueError(
                f"A vocabulary of {vocab_size} is too small: the 256 bytes{special} come first. "
                f"Choose {256 + reserved} or more."
            )
        return cls(learn(text, vocab_size - 256 - reserved), reserved)

    @property
    def merges(self):
        return list(self.number)

    def encode(self, text):
        to_bytes(text)  # an error names the position in the whole text
        return self._numbers(pieces(text))

    def encode_pieces(self, texts):
        """As in Special.

        The next text can change only the last two pieces of the current one, so these wait.
        """
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
        """Return the symbols of one piece: join the pair that was learned first, until none is left."""
        if piece not in self._known:
            if len(self._known) >= CACHED:
                self._known.clear()
            symbols = list(to_bytes(piece))
            while found := [pair for pair in zip(symbols, symbols[1:]) if pair in self.number]:
                first = min(found, key=self.number.get)
                symbols = join(symbols, first, self.number[first])
            self._known[piece] = symbols
        return self._known[piece]

    def to_json(self):
        """Return a value for JSON, from which `from_json` restores the vocabulary."""
        return {"kind": "bpe", "reserved": self.reserved, "merges": [f"{a} {b}" for a, b in self.merges]}

    @classmethod
    def from_json(cls, saved):
        """Restore a vocabulary from its to_json(). Raises ValueError for anything else."""
        try:
            merges, reserved = saved["merges"], saved["reserved"]
            if (
                not isinstance(merges, list)
                or not isinstance(reserved, int)
                or not 0 <= reserved < 1 << 16
                or isinstance(reserved, bool)
            ):
                raise TypeError(
                    "merges must be a list and reserved an integer from 0 to 65535, "
                    f"got {type(merges).__name__} and {str(reserved)[:20]}"
                )
            merges = [tuple(map(int, merge.split())) for merge in merges]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"This is no vocabulary from BPE.to_json, with merges and reserved: {str(error)[:200]}."
            ) from None
        return cls(merges, reserved)


# ---------------------------------------------------------------- learning the pairs


def pieces(text):
    """Cut a text into pieces, which no symbol crosses."""
    return PIECES.findall(text)


def join(symbols, pair, new):
    """Replace each occurrence of `pair` by `new`, from the left.

    >>> join([1, 1, 1, 2], (1, 1), 9)
    [9, 1, 2]
    """
    out, i = [], 0
    while i < len(symbols):
        here = tuple(symbols[i : i + 2]) == pair
        out.append(new if here else symbols[i])
        i += 1 + here
    return out


def definition(text, count):
    """Find `count` merges: repeatedly join the most frequent pair, at a tie that of the lowest numbers."""
    words, merges = [list(to_bytes(piece)) for piece in pieces(text)], []
    for new in range(256, 256 + count):
        found = Counter(pair for word in words for pair in zip(word, word[1:]))
        if max(found.values(), default=0) < 2:
            break  # joining what occurs once would memorize the text
        best = min(found, key=lambda pair: (-found[pair], pair))
        words = [join(word, best, new) for word in words]
        merges.append(best)
    return merges


def learn(text, count):
    """Find the merges of `definition` fast.

    Each different word is stored once, with its count. A merge visits only the words with its pair. The most
    frequent pair comes from a heap, where outdated counts are skipped.
    """
    counted = Counter(pieces(text))
    words, times = [list(to_bytes(piece)) for piece in counted], list(counted.values())
    found, words_with, merges = Counter(), defaultdict(set), []
    for i, word in enumerate(words):
        _count(word, i, times[i], found, words_with)
    heap = [(-often, pair) for pair, often in found.items()]
    heapify(heap)
    while heap and len(merges) < count:
        often, pair = heappop(heap)
        if -often != found[pair]:
            continue
        if often > -2:
            break
        changed = set()
        for i in words_with.pop(pair):
            changed |= _count(words[i], i, -times[i], found, words_with)
            words[i] = join(words[i], pair, 256 + len(merges))
            changed |= _count(words[i], i, times[i], found, words_with)
        for other in changed:
            heappush(heap, (-found[other], other))
        merges.append(pair)
    return merges


def _count(word, i, times, found, words_with):
    """Add `times` to the count of each pair of word i. Returns the pairs."""
    pairs = list(zip(word, word[1:]))
    for pair in pairs:
        found[pair] += times
        if times > 0:
            words_with[pair].add(i)
    return set(pairs)
