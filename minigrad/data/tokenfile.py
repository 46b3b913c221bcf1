"""Token ids in files, for texts too long for memory: written once, in pieces, and read a window at a time.

The files are in $MINIGRAD_CACHE, or in minigrad in the user's cache folder. Their names are made from the
text's path, size and time of change, and the vocabulary, so that another training on the same text, or a
resumed one, finds them. They may be deleted when no run is reading.
"""

import hashlib
import json
import os
import weakref
from pathlib import Path
from threading import Lock

import numpy as np

from minigrad import saving

LARGE = 1 << 25  # the tokens of a text with more bytes go to a file


class TokenFile:
    """`length` token ids of a file, beginning at `start`; tokens[a:b] reads only these.

    A memory map would do too, but every page it touched would count as memory of this process.
    """

    def __init__(self, path, dtype, start, length):
        self.path, self.dtype, self.start, self.length = Path(path), np.dtype(dtype), start, length
        self._file, self._one_at_a_time = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)), Lock()
        weakref.finalize(self, os.close, self._file)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        start, stop, step = index.indices(self.length)
        size = max(0, stop - start) * self.dtype.itemsize
        with self._one_at_a_time:
            os.lseek(self._file, (self.start + start) * self.dtype.itemsize, os.SEEK_SET)
            found = os.read(self._file, size)
        if len(found) != size:
            raise ValueError(
                f"The tokens in {self.path} were cut off while they were being read; start again, "
                "and they are rewritten."
            )
        return np.frombuffer(found, self.dtype)[::step].astype(np.int64)


def is_large(path):
    try:
        return os.stat(path).st_size > LARGE
    except (OSError, ValueError):
        return False  # reading it will raise the error


def open_tokens(path, vocabulary, parts):
    """Open a TokenFile for each of parts(), iterables of arrays; write it to the cache if it is not there."""
    dtype = np.min_scalar_type(max(1, len(vocabulary)) - 1)
    tokens = folder() / f"{key(path, vocabulary)}.tokens"
    lengths = _lengths(tokens, dtype)
    if lengths is None:
        try:
            lengths = _write(tokens, dtype, parts())
        except OSError as error:
            raise ValueError(
                f"The tokens of {path} could not be written to {tokens.parent}: {error.strerror}. "
                "Name another folder in MINIGRAD_CACHE."
            ) from None
    starts = np.cumsum([0, *lengths]).tolist()
    return tuple(TokenFile(tokens, dtype, start, length) for start, length in zip(starts, lengths))


def folder():
    own, common = os.environ.get("MINIGRAD_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else (Path(common) if common else Path.home() / ".cache") / "minigrad"


def key(path, vocabulary):
    about = os.stat(path)
    identity = [
        os.path.realpath(path),
        about.st_size,
        about.st_mtime_ns,
        vocabulary.to_json(),
        vocabulary.reserved,
    ]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def _lengths(tokens, dtype):
    """Return the lengths of the parts in the cache, None if the file is missing or incomplete."""
    try:
        lengths = json.loads(tokens.with_suffix(".json").read_text())
        return lengths if sum(lengths) * dtype.itemsize == tokens.stat().st_size else None
    except (OSError, ValueError, TypeError):
        return None


def _write(tokens, dtype, parts):
    tokens.parent.mkdir(parents=True, exist_ok=True)
    lengths = []
    with saving.whole_file(tokens) as file:
        for part in parts:
            start = file.tell()
            for numbers in part:
                file.write(numbers.astype(dtype).tobytes())
            lengths.append((file.tell() - start) // dtype.itemsize)
    tokens.with_suffix(".json").write_text(json.dumps(lengths))
    return lengths
