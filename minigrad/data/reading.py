"""Read texts in pieces, repeatedly if needed, from a file of any size or from memory.

Every line end (also \\r\\n of Windows and \\r of old Macs) is read as \\n, and a byte order mark is skipped.
"""

import codecs
import contextlib
import os
import stat
from functools import cached_property

import numpy as np

PIECE = 1 << 20  # characters or bytes to read at once


@contextlib.contextmanager
def open_text(path, what="text"):
    """Open a text file for reading.

    Raises ValueError if it cannot be opened or, inside the block, be read.
    """
    could_not = f"The {what} {path} could not be read"
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            kind = (
                "it is a folder"
                if os.path.isdir(path)
                else "it is a pipe or a device, which can be read only once"
            )
            raise ValueError(f"{could_not}: {kind}. Give the name of a file.")
        with open(path, encoding="utf-8-sig") as file:
            yield file
    except OSError as error:
        raise ValueError(f"{could_not}: {error.strerror}.") from None
    except UnicodeDecodeError:
        line, byte = not_utf8(path)
        raise ValueError(
            f"{could_not}: it is not text in UTF-8, because line {line} has the byte {byte:#x}. "
            "If it is text, save it as UTF-8 first."
        ) from None


def not_utf8(path):
    """Find (line, byte) of the first byte in a file that is not UTF-8."""
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with open(path, "rb") as file:
        while True:
            chunk = file.read(PIECE)
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                return line + error.object[: error.start].count(b"\n"), error.object[error.start]
            line += chunk.count(b"\n")


def check_no_zeros(text, line, path, what="text"):
    """Raise ValueError if the text has the character 0, as no text should.

    Returns the number of its last line.
    """
    if "\0" in text:
        line += text[: text.index("\0")].count("\n")
        raise ValueError(
            f"The {what} {path} could not be read: line {line} has the byte 0x0, which no text has; "
            "it may be a binary file, or UTF-16. Save it as UTF-8 first."
        )
    return line + text.count("\n")


def read(path):
    """Read a text file as one string."""
    return "".join(LongText(path=path))


class LongText:
    """A text in pieces, from memory or a file: iterating reads it from the start.

    Its length is in characters.

    >>> text = LongText("to be, or not")
    >>> len(text), "".join(text.part(0, 5)), text.symbols
    (13, 'to be', ' ,benort')
    """

    def __init__(self, text=None, path=None):
        self.text, self.path = text, path

    def __iter__(self):
        if self.path is None:
            yield self.text
            return
        line = 1
        with open_text(self.path) as file:
            while piece := file.read(PIECE):
                line = check_no_zeros(piece, line, self.path)
                yield piece

    @cached_property
    def _length_and_symbols(self):
        """The number of characters, and the different ones, found in one reading."""
        length, seen = 0, np.zeros(0x110000, bool)
        for piece in self:
            seen[code_points(piece)] = True
            length += len(piece)
        if not length:
            raise ValueError(f"The text {self.path or ''} is empty; there is nothing to learn from.")
        return length, "".join(map(chr, np.flatnonzero(seen)))

    def __len__(self):
        return self._length_and_symbols[0]

    @property
    def symbols(self):
        """The different characters, in order."""
        return self._length_and_symbols[1]

    def part(self, start, stop):
        """Yield the characters from `start` to before `stop`, in pieces."""
        at = 0
        for piece in self:
            if at >= stop:
                return
            if cut := piece[max(0, start - at) : stop - at]:
                yield cut
            at += len(piece)


def code_points(text):
    """Return the code points of a text, an array (T,)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
