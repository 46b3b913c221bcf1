"""Who may import whom. Reads the imports, also those inside functions, and knows nothing of what the modules do."""

import ast
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import minigrad

ROOT = Path(minigrad.__file__).parents[1]
LAYERS = [  # each may import from its own layer and from those before it
    "modes random saving machine pytorch",
    "engine",
    "ops optim data",
    "functional func linalg",
    "kernels nn",
    "minigrad",  # minigrad/__init__ stands where what it collects stands
    "gradcheck",
    "viz",
    "training",
    "cli",
    "models",
    "models.recipes",
    "door",
    "tutorials",
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names.split()}
DOORS = {"train", "generate", "trace", "attend", "embed", "runs", "locate"}
FILES = sorted(
    path for folder in ("minigrad", "models", "tutorials") for path in (ROOT / folder).rglob("*.py")
)
files = pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def exists(module):
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def place(module):
    """The name in LAYERS under which a module of ours stands."""
    top, *rest = module.split(".")
    if top == "minigrad" and rest and (rest[0] in DOORS or rest[-1] == "__main__"):
        return "door"
    if top == "minigrad":
        return rest[0] if rest else "minigrad"
    return "models.recipes" if module.startswith("models.recipes") else top


def imports(path):
    """The modules of ours that a file imports: `from minigrad import random` is the module random, not the package."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} line {node.lineno}: write imports in full"
            names = [
                f"{node.module}.{a.name}" if exists(f"{node.module}.{a.name}") else node.module
                for a in node.names
            ]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] in ("minigrad", "models", "tutorials"))


@files
def test_every_file_has_its_place(path):
    assert place(module_of(path)) in RANK, (
        f"{path.name} is new: give it a place in LAYERS of {Path(__file__).name}"
    )


@files
def test_no_file_imports_from_a_layer_after_its_own(path):
    own = RANK.get(place(module_of(path)))
    later = (
        [name for name in imports(path) if RANK.get(place(name), len(LAYERS)) > own]
        if own is not None
        else []
    )
    assert later == [], f"{path.name} stands before {later}; move what is shared further down"


@files
def test_nothing_imports_a_door(path):
    # A door is what one types; what two doors share belongs into a module before them (saving, trainer, models.recipes).
    own = module_of(path)
    assert [name for name in imports(path) if place(name) == "door" and not own.endswith("__main__")] == []


@files
def test_pictures_are_imported_by_doors_recipes_and_lessons_only(path):
    own = place(module_of(path))
    if own not in ("viz", "training", "door", "models.recipes", "tutorials"):
        assert [name for name in imports(path) if place(name) == "viz"] == []


def test_functional_does_not_know_its_kernels_and_tensor_not_its_rules():
    assert RANK["functional"] < RANK["kernels"]
    assert "minigrad.kernels" not in {
        name for path in (ROOT / "minigrad" / "functional").glob("*.py") for name in imports(path)
    }


def loaded_by(statement):
    """The top names of all modules that a statement loads in a fresh interpreter, beyond NumPy's own and the standard library."""
    code = f"import numpy, sys; before = set(sys.modules); {statement}; print(*sorted({{m.split('.')[0] for m in set(sys.modules) - before}}))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stdout.split()) - set(sys.stdlib_module_names)


def test_import_minigrad_loads_numpy_and_nothing_else():
    assert loaded_by("import minigrad") == {"minigrad"}


@pytest.mark.parametrize(
    "statement", ["import minigrad.nn, minigrad.optim, minigrad.gradcheck", "import models"]
)
def test_layers_and_models_load_nothing_else_either(statement):
    assert loaded_by(statement) - {"numpy"} <= {"minigrad", "models"}


def test_heavy_packages_are_imported_where_they_are_used():
    heavy = {
        "matplotlib",
        "tqdm",
        "graphviz",
        "safetensors",
        "tokenizers",
        "gguf",
        "jinja2",
        "huggingface_hub",
    }
    modules = (
        "minigrad.saving",
        "minigrad.training",
        "minigrad.viz",
        "minigrad.train",
        "minigrad.generate",
        "minigrad.embed",
        "models.pretrained",
    )
    modules = [m for m in modules if exists(m)]
    assert {m: loaded_by(f"import {m}") & heavy for m in modules} == {m: set() for m in modules}


def test_no_public_function_of_minigrad_bears_a_submodules_name():
    names = (
        {m.name for m in pkgutil.iter_modules(minigrad.__path__)}
        | DOORS
        | {name for name in RANK if exists(f"minigrad.{name}")}
    )
    functions = {
        name
        for name in names
        if hasattr(minigrad, name) and getattr(minigrad, name) is not sys.modules.get(f"minigrad.{name}")
    }
    assert functions == set()
    for name in ("random", "functional", "gradcheck"):
        assert import_module(f"minigrad.{name}") is getattr(minigrad, name)


# the first imports it only when its tensors are asked for
WAYS_TO_PYTORCH = {"models/torch_states.py", "tutorials/outgrowing/ddp.py"}


def test_only_tests_benchmarks_and_the_ways_to_pytorch_know_other_frameworks():
    foreign = {"torch", "transformers", "autograd", "jax", "tensorflow"}
    for path in FILES:
        if path.relative_to(ROOT).as_posix() in WAYS_TO_PYTORCH:
            continue
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        names = {a.name for n in tree if isinstance(n, ast.Import) for a in n.names} | {
            n.module for n in tree if isinstance(n, ast.ImportFrom)
        }
        assert not {str(name).split(".")[0] for name in names} & foreign, path


def test_the_reader_of_imports_sees_every_form(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        "import minigrad.nn as nn\nfrom minigrad import grad, kernels\ndef f():\n    from models.recipes.dates import Dates\n"
    )
    assert list(imports(path)) == ["minigrad.nn", "minigrad", "minigrad.kernels", "models.recipes.dates"]
    assert [place(name) for name in imports(path)] == ["nn", "minigrad", "kernels", "models.recipes"]
    assert place("minigrad.gradcheck.__main__") == place("minigrad.train") == "door"
