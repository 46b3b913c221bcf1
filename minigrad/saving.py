"""Safe files: tensors as safetensors, settings as JSON, each written under a temporary name and renamed. Loading runs no code.

Knows files; nothing of models or recipes.
"""

import json
import os
from pathlib import Path

import numpy as np


class FileProblem(ValueError):
    """A file that cannot be read or written, with the reason and the way out."""


def write_bytes(path, data):
    """Write a file whole or not at all: a reader, or a crash, never meets half of it."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FileProblem(f"{path} could not be written: {error.strerror}. What was there before is untouched.") from None


def save_json(path, value):
    write_bytes(path, (json.dumps(value, indent=2, default=float) + "\n").encode())


def load_json(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileProblem(f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FileProblem(f"{path} is not readable JSON: {error}.") from None


def save_tensors(path, tensors):
    """{name: Tensor or array} as a safetensors file."""
    from safetensors.numpy import save

    # The format stores the raw buffer, so a transposed view must become contiguous first, or its numbers come back scrambled.
    arrays = {name: np.ascontiguousarray(getattr(t, "data", t) if not isinstance(t, np.ndarray) else t) for name, t in tensors.items()}
    write_bytes(path, save(arrays))


def load_tensors(path):
    """{name: array}."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(Path(path).read_bytes())
    except FileNotFoundError:
        raise FileProblem(f"There is no file {path}.") from None
    except KeyError as kind:
        raise FileProblem(f"{path} holds numbers of type {kind}, which NumPy does not have; convert them to float32 first.") from None
    except (OSError, SafetensorError) as error:
        raise FileProblem(f"{path} is not a whole safetensors file ({error}); it may have been cut off. Use another checkpoint.") from None


def new_run_folder(name, root="runs"):
    """root/name-0001, or the next number that is free; made here, so that two runs never share one."""
    for number in range(1, 10_000):
        folder = Path(root) / f"{name}-{number:04d}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            continue
        except OSError as error:
            raise FileProblem(f"The run's folder {folder} could not be made: {error.strerror}. Choose another with --out.") from None
    raise FileProblem(f"{root} holds ten thousand runs of {name}; remove some, or choose a folder with --out.")
