"""Safe files: tensors as safetensors, settings as JSON, each written under a temporary name and renamed; rows as lines of JSON.
Loading runs no code.

Knows files; nothing of models or recipes.
"""

import contextlib
import itertools
import json
import os
import stat
from pathlib import Path

import numpy as np

# of what a run's config.json says; one that an older minigrad would read wrongly gets the next
CONFIG_VERSION = 1
MOST_JSON = 1 << 26  # bytes of a file of settings: a vocabulary of 50,000 merges takes one hundredth of it
UNFINISHED = ".part"  # how the name of a file ends that is not yet whole


class FileProblem(ValueError):
    """A file that cannot be read or written, with the reason and the way out."""


@contextlib.contextmanager
def whole_file(path):
    """Open a file to write that is there whole or not at all: a reader, a crash or a loss of power never meets half of it.
    Raises OSError if it could not be written; what was there before is untouched then."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _remember_names_in(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_bytes(path, data):
    """Write a file whole or not at all. Raises FileProblem."""
    path = Path(path)
    try:
        with whole_file(path) as file:
            file.write(data)
    except OSError as error:
        raise FileProblem(
            f"{path} could not be written: {error.strerror}. What was there before is untouched."
        ) from None


def _remember_names_in(folder):
    """Let the new name outlive a loss of power too, where the system can (not on Windows)."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def clean(folder):
    """Remove what a process that was killed while it wrote has left in a folder."""
    for unfinished in Path(folder).glob(f".*{UNFINISHED}"):
        with contextlib.suppress(OSError):
            unfinished.unlink()


def save_json(path, value):
    write_bytes(path, (json.dumps(value, indent=2, default=float) + "\n").encode())


def load_json(path):
    """What a JSON file holds; a FileProblem for anything that is none, whoever wrote it."""
    try:
        return json.loads(load_text(path))
    except (OSError, ValueError, RecursionError) as error:
        # numbers of too many digits are ValueErrors, too deep nesting the last
        if isinstance(error, FileProblem):
            raise
        raise FileProblem(f"{path} is not readable JSON: {error}.") from None


def load_text(path):
    """The text of a file of settings; a FileProblem where there is none, or one that is far too large for that."""
    size = _size(path)
    if size > MOST_JSON:
        raise FileProblem(f"{path} is {size:,} bytes long, more than any file of settings; it was not read.")
    return Path(path).read_text(encoding="utf-8")


def _size(path):
    """The bytes of a file; a FileProblem if there is none, or something that is no file and may never end."""
    try:
        about = os.stat(path)
    except FileNotFoundError:
        raise FileProblem(f"There is no file {path}.") from None
    if not stat.S_ISREG(about.st_mode):
        raise FileProblem(
            f"{path} is {'a folder' if stat.S_ISDIR(about.st_mode) else 'a pipe or a device'}, where a file is needed."
        )
    return about.st_size


def save_tensors(path, tensors, note=None):
    """{name: Tensor or array} as a safetensors file, with a note: {name: text}."""
    from safetensors.numpy import save

    # The format stores the raw buffer, so a transposed view must become contiguous first, or its numbers come back scrambled.
    arrays = {
        name: np.asarray(t if isinstance(t, np.ndarray) else getattr(t, "data", t), order="C")
        for name, t in tensors.items()
    }
    write_bytes(path, save(arrays, note))


def load_tensors(path):
    """{name: array}."""
    return load_noted(path)[0]


def load_noted(path):
    """({name: array}, note) of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        _size(path)
        open(path, "rb").close()  # whose reason is the true one, where it may not be read
        with safe_open(path, framework="numpy") as file:
            arrays, note = {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}
    except (AttributeError, TypeError, KeyError) as kind:
        raise FileProblem(
            f"{path} holds numbers of type {kind}, which NumPy does not have; convert them to float32 first."
        ) from None
    except PermissionError as error:
        raise FileProblem(f"{path} could not be read: {error.strerror}.") from None
    except (OSError, ValueError, OverflowError, SafetensorError) as error:
        if isinstance(error, FileProblem):
            raise
        raise FileProblem(
            f"{path} is not a whole safetensors file ({error}); it may have been cut off. Use another checkpoint."
        ) from None
    return arrays, note


class Lines:
    """A file of rows, a line of JSON each, that grows by whole lines; what the disk has no room for waits for the next flush.
    Only one process at a time may write."""

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
                f"{self.path} is just being written by another process; wait until it has ended, or stop it."
            ) from None
        except OSError:  # a network's disk that knows no locks
            return

    def keep(self, count):
        """Let the first rows stay, up to so many; a line that is not whole ends them."""
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
        """Write what waits; lasting: so that a loss of power does not take it. A FileProblem leaves no half line behind."""
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
                f"{self.path} could not be written: {error.strerror}. What was there before is untouched."
            ) from None

    def close(self):
        with self._file:
            self.flush()


def row_of(line):
    """The row of a line, None if it is not a whole one."""
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
