"""A folder as Hugging Face publishes models: config.json and safetensors, one file or several with an index.

Arrays are memory-mapped, not read: a page comes from the disk at its first use. The package safetensors would
copy arrays, and has no bfloat16 for NumPy. So it only checks here that a file is complete; the header, in
JSON, says the rest.
"""

import json
from pathlib import Path

import numpy as np

from minigrad.saving import FileProblem, load_json

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class Folder:
    """config, shapes {name: shape}, and read(name) -> array."""

    is_gguf = False

    def __init__(self, path):
        self.path = Path(path)
        self.config = load_json(self.path / "config.json")
        if not isinstance(self.config, dict):
            raise FileProblem(
                f"{self.path / 'config.json'} must contain an object, got a {type(self.config).__name__}."
            )
        self.tensors = {}
        for file in self._files():
            self.tensors |= header(file)
        self.shapes = {name: shape for name, (_, _, shape, _) in self.tensors.items()}

    def _files(self):
        """The safetensors files: the ones named in the index, or the single one."""
        index = self.path / "model.safetensors.index.json"
        if index.exists():
            named = load_json(index)
            names = named.get("weight_map") if isinstance(named, dict) else None
            if not isinstance(names, dict) or not all(
                isinstance(n, str) and Path(n).name == n for n in names.values()
            ):
                raise FileProblem(
                    f"{index} names no files of this folder in a weight_map; download the folder again."
                )
            return [self.path / name for name in sorted(set(names.values()))]
        single = self.path / "model.safetensors"
        if single.exists() or not [*self.path.glob("pytorch_model*.bin")]:
            return [single]
        raise FileProblem(
            f"{self.path} holds its weights as pytorch_model.bin, which could run code when it is read. "
            "Convert it first: transformers' model.save_pretrained(folder) writes model.safetensors."
        )

    def read(self, name):
        file, dtype, shape, start = self.tensors[name]
        array = (
            np.memmap(file, DTYPES[dtype], "c", start, shape)
            if 0 not in shape
            else np.zeros(shape, DTYPES[dtype])
        )
        return float32(array.view(np.ndarray), dtype == "BF16")


def header(file):
    """{name: (file, dtype, shape, offset)}. Raises FileProblem if the file is cut off or has other dtypes."""
    from safetensors import SafetensorError, safe_open

    if not file.exists():
        raise FileProblem(f"There is no file {file}; the folder is not whole. Download it again.")
    try:
        with safe_open(file, framework="numpy"):
            pass
        with open(file, "rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            entries = json.loads(opened.read(length))
    except (OSError, ValueError, SafetensorError) as error:
        raise FileProblem(
            f"{file} is not a whole safetensors file ({error}); it may have been cut off. Download it again."
        ) from None
    entries.pop("__metadata__", None)
    odd = [
        f"{name} ({entry['dtype']})"
        for name, entry in entries.items()
        if entry["dtype"] not in DTYPES and "position_ids" not in name
    ]
    if odd:
        raise FileProblem(
            f"{file} holds unsupported dtypes: {', '.join(odd[:3])}; "
            "floats of 16, 32 and 64 bits are supported."
        )
    return {
        name: (file, e["dtype"], tuple(e["shape"]), 8 + length + e["data_offsets"][0])
        for name, e in entries.items()
        if e["dtype"] in DTYPES
    }


def float32(array, is_bfloat16=False):
    """Convert to float32. A float32 array stays mapped; a bfloat16 is the upper half of a float32."""
    if is_bfloat16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32, copy=False)
