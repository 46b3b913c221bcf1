"""A GGUF file: a model, its settings and its vocabulary in one file, with weights often of 4 or 8 bits.

The package gguf reads the file and dequantizes the weights; float32 weights are memory-mapped.
"""

from pathlib import Path

import numpy as np

from minigrad.saving import FileProblem

BLOCK = 1 << 20  # elements dequantized at once
# Hugging Face's names, which our readers use: the GGUF names, which follow the architecture's name in a file
LLAMA = {
    "hidden_size": "embedding_length", "num_hidden_layers": "block_count", "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv", "intermediate_size": "feed_forward_length", "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon", "rope_theta": "rope.freq_base", "head_dim": "attention.key_length",
    "layer_norm_eps": "attention.layer_norm_epsilon", "rope_type": "rope.scaling.type",
}  # fmt: skip
GPT2 = {
    "n_embd": "embedding_length", "n_layer": "block_count", "n_head": "attention.head_count", "n_inner": "feed_forward_length",
    "n_positions": "context_length", "layer_norm_epsilon": "attention.layer_norm_epsilon",
}  # fmt: skip
WORDS = {"llama": LLAMA, "bert": LLAMA, "gpt2": GPT2}


class GGUF:
    """config in Hugging Face's words, shapes {name: shape}, read(name) -> array, get(name) -> any field."""

    is_gguf = True

    def __init__(self, path):
        self.path = Path(path)
        reader = open_reader(self.path)
        # plain values: the package keeps an array for each token of the vocabulary, 100 MB in all
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.shapes = {
            name: tuple(int(n) for n in reversed(tensor.shape)) for name, tensor in self.tensors.items()
        }
        self.config = self._config()

    def get(self, name, default=None):
        return self.fields.get(name, default)

    def _config(self):
        kind = self.get("general.architecture")
        found = {ours: self.get(f"{kind}.{theirs}") for ours, theirs in WORDS.get(kind, {}).items()}
        found = {name: value for name, value in found.items() if value is not None}
        if found.pop("rope_type", "none") != "none":
            found["rope_scaling"] = {"rope_type": self.get(f"{kind}.rope.scaling.type")}
        vocabulary, types = (
            self.shapes.get(f"{name}.weight", (0,))[0] for name in ("token_embd", "token_types")
        )
        return {"model_type": kind, "vocab_size": vocabulary, "type_vocab_size": types, "tie_word_embeddings": "output.weight" not in self.shapes or kind == "gpt2", **found}  # fmt: skip

    def read(self, name):
        """Read an array: float32 is mapped, other types are dequantized BLOCK elements at a time."""
        from gguf import quants

        tensor, shape = self.tensors[name], self.shapes[name]
        if tensor.data.dtype == np.float32:
            return np.asarray(tensor.data).reshape(shape)
        out, step = np.empty(shape, np.float32), max(1, BLOCK // shape[-1])
        try:
            for start in range(0, len(out), step):
                out[start : start + step] = quants.dequantize(
                    tensor.data[start : start + step], tensor.tensor_type
                )
        except NotImplementedError:
            raise FileProblem(
                f"{self.path}: {name} has the type {tensor.tensor_type.name}, "
                "which the package gguf cannot dequantize yet."
            ) from None
        return out


def open_reader(path):
    """gguf's reader of a file. Raises FileProblem if the package is missing or the file is damaged."""
    try:
        import gguf
    except ImportError:
        raise FileProblem(
            f"{path} is a GGUF file: it needs the package gguf, which is not installed. "
            "Type: pip install gguf"
        ) from None
    try:
        reader = gguf.GGUFReader(path, "c")  # copy on write: changes stay in memory
    except FileNotFoundError:
        raise FileProblem(f"There is no file {path}.") from None
    except Exception as error:
        # the package does not check the file, and a broken one raises anything
        raise FileProblem(
            f"{path} is not a whole GGUF file ({error}); it may have been cut off. Download it again."
        ) from None
    return reader
