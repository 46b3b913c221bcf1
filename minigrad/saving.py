"""Safe files: tensors as safetensors, settings as JSON, rows as lines of JSON. Loading runs no code.

Tensors and settings are written under a temporary name, then renamed.
"""

import contextlib
import itertools
import json
import os
import stat
from pathlib import Path

import numpy as np

MOST_JSON = 1 << 26  # bytes of a settings file: a vocabulary of 50,000 merges takes one hundredth of it
UNFINISHED = ".part"  # the suffix of a file that is not complete yet


class FileProblem(ValueError):
    """A file that cannot be read or written. The message has the reason and what to do."""


@contextlib.contextmanager
def whole_file(path):
    """Open a file that is written completely or not at all, whatever crashes.

    Raises OSError if it cannot be written; a file that was there before is unchanged then.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_bytes(path, data):
    """Write a file completely or not at all. Raises FileProblem."""
    path = Path(path)
    try:
        with whole_file(path) as file:
            file.write(data)
    except OSError as error:
        raise FileProblem(
            f"{path} could not be written: {error.strerror}. What was there before is unchanged."
        ) from None


def _sync_folder(folder):
    """Make a new name survive a loss of power too, where the system can (not on Windows)."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def clean(folder):
    """Remove the unfinished files in a folder of a process that was killed while writing."""
    for unfinished in Path(folder).glob(f".*{UNFINISHED}"):
        with contextlib.suppress(OSError):
            unfinished.unlink()


def save_json(path, value):
    write_bytes(path, (json.dumps(value, indent=2, default=float) + "\n").encode())


def load_json(path):
    """Load a JSON file. Raises FileProblem if it is missing, too large or not JSON."""
    try:
        return json.loads(load_text(path))
    except (OSError, ValueError, RecursionError) as error:
        # too many digits raise ValueError, too deep nesting RecursionError
        if isinstance(error, FileProblem):
            raise
        raise FileProblem(f"{path} is not readable JSON: {error}.") from None


def load_text(path):
    """Read a settings file as a string. Raises FileProblem if it is missing or far too large."""
    size = _size(path)
    if size > MOST_JSON:
        raise FileProblem(f"{path} is {size:,} bytes long, more than any settings file; it was not read.")
    return Path(path).read_text(encoding="utf-8")


def _size(path):
    """Return the size of a file in bytes.

    Raises FileProblem if it is missing or, like a pipe, no regular file.
    """
    try:
        about = os.stat(path)
    except FileNotFoundError:
        raise FileProblem(f"There is no file {path}.") from None
    if not stat.S_ISREG(about.st_mode):
        raise FileProblem(
            f"{path} is {'a folder' if stat.S_ISDIR(about.st_mode) else 'a pipe or a device'}, "
            "where a file is needed."
        )
    return about.st_size


def save_tensors(path, tensors, note=None):
    """Save {name: Tensor or array} as a safetensors file, with a note {name: string}."""
    from safetensors.numpy import save

    # The format stores the raw buffer, so a transposed view must become contiguous, or its elements are
    # scrambled.
    arrays = {
        name: np.asarray(t if isinstance(t, np.ndarray) else getattr(t, "data", t), order="C")
        for name, t in tensors.items()
    }
    write_bytes(path, save(arrays, note))


def load_tensors(path):
    """Load {name: array} from a safetensors file. Raises FileProblem."""
    return load_noted(path)[0]


def load_noted(path):
    """Load ({name: array}, note) from a safetensors file. Raises FileProblem."""
    from safetensors import SafetensorError, safe_open

    try:
        _size(path)
        open(path, "rb").close()  # raises the true reason if the file may not be read
        with safe_open(path, framework="numpy") as file:
            arrays, note = {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}
    except (AttributeError, TypeError, KeyError) as kind:
        raise FileProblem(
            f"{path} has tensors of type {kind}, which NumPy does not have; convert them to float32 first."
        ) from None
    except PermissionError as error:
        raise FileProblem(f"{path} could not be read: {error.strerror}.") from None
    except (OSError, ValueError, OverflowError, SafetensorError) as error:
        if isinstance(error, FileProblem):
            raise
        raise FileProblem(
            f"{path} is not a whole safetensors file ({error}); it may have been cut off. "
            "Use another checkpoint."
        ) from None
    return arrays, note


class Lines:
    """A file of rows, each a line of JSON, that grows by whole lines. Only one process at a time may write.

    Rows for which the disk has no room wait for the next flush.
    """

    def __init__(self, path):
        self.path, self.rows, self._waiting, self._end = path, [], [], 0
        if os.path.exists(path):
            _size(path)  # a pipe would never open
        try:
            self._file = open(path, "a+b", buffering=0)
        except OSError as error:
            raise FileProblem(f"{path} could not be opened to write: {error.strerror}.") from None
        self._lock()

    def _lock(self):
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise FileProblem(
                f"{self.path} is being written by another process; wait until that ends, or stop it."
            ) from None
        except OSError:  # a network drive without locks
            return

    def keep(self, count):
        """Keep at most the first `count` rows; an incomplete line ends them."""
        self.rows, self._end = [], 0
        with open(self.path, "rb") as file:
            for line in itertools.islice(file, count):
                row = row_of(line)
                if row is None:
                    break
                self.rows.append(row)
                self._end += len(line)
        self._file.truncate(self._end)

    def append(self, row):
        self.rows.append(row)
        self._waiting.append(json.dumps(row).encode() + b"\n")

    def flush(self, lasting=False):
        """Write the waiting rows; with lasting=True they survive a loss of power.

        Raises FileProblem, without leaving an incomplete line, if they could not be written.
        """
        data = b"".join(self._waiting)
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:])
            self._end, self._waiting = self._end + len(data), []
            if lasting:
                os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            raise FileProblem(
                f"{self.path} could not be written: {error.strerror}. What was there before is unchanged."
            ) from None

    def close(self):
        with self._file:
            self.flush()


def row_of(line):
    """Parse the row of a line; None if it is incomplete."""
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
