"""Check imports: no file imports from a later layer, no cycle between files, every file has a layer.

The tests read the import statements from the source.
"""

import ast
import pkgutil
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import minigrad

ROOT = Path(minigrad.__file__).parents[1]
LAYERS = [  # each may import from its own layer and from earlier ones
    "modes random saving machine pytorch",
    "engine",
    "ops optim data",
    "functional func linalg",
    "kernels nn",
    "minigrad",  # minigrad/__init__, after the layers it collects
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
DOORS = {"train", "generate", "trace", "attend", "embed", "runs"}
AT_THE_TOP = {"__init__", "modes", "random", "saving", "machine", "func", "linalg"} | DOORS
FILES = sorted(
    path for folder in ("minigrad", "models", "tutorials") for path in (ROOT / folder).rglob("*.py")
)
files = pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())


def module_of(path, root=ROOT):
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def file_of(module, root=ROOT):
    """Find the file of one of our modules; None if there is no such module."""
    path = root.joinpath(*module.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.exists()), None)


def place(module):
    """The name in LAYERS of one of our modules."""
    top, *rest = module.split(".")
    if top == "minigrad" and rest and (rest[0] in DOORS or rest[-1] == "__main__"):
        return "door"
    if top == "minigrad":
        return rest[0] if rest else "minigrad"
    return "models.recipes" if module.startswith("models.recipes") else top


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path, root=ROOT):
    """Yield the modules of ours that a file imports, anywhere in it.

    `from minigrad import random` imports the module random, `from minigrad.gradcheck import Sample` the
    module that defines Sample. The arguments of import_module and load_models count too.
    """
    for node in ast.walk(parsed(path)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} line {node.lineno}: write imports in full"
            names = [origin(node.module, alias.name, root) for alias in node.names]
        elif isinstance(node, ast.Call) and called(node) == "load_models":
            names = [f"models.{node.args[0].value if node.args else 'recipes'}"]
        elif isinstance(node, ast.Call) and called(node) == "import_module":
            strings = (n.value for n in ast.walk(parsed(path)) if isinstance(n, ast.Constant))
            names = [s for s in strings if isinstance(s, str) and "." in s.strip(".") and file_of(s, root)]
        yield from (name for name in names if name.split(".")[0] in ("minigrad", "models", "tutorials"))


def called(call):
    return getattr(call.func, "attr", getattr(call.func, "id", None))


def origin(module, name, root):
    """Find the module behind `from module import name`: the name itself if a module, else its definer."""
    if file_of(f"{module}.{name}", root):
        return f"{module}.{name}"
    path = file_of(module, root)
    for node in parsed(path).body if path and path.name == "__init__.py" else ():
        if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == name for a in node.names):
            return origin(node.module, next(a.name for a in node.names if (a.asname or a.name) == name), root)
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            if name in bound_in(file_of(node.module, root)):
                return origin(node.module, name, root)
    return module


def bound_in(path):
    """The names that a file binds at its top level."""
    names = {
        alias.asname or alias.name
        for node in parsed(path).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names |= {
        node.id
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return names | {node.name for node in parsed(path).body if hasattr(node, "name")}


def circle(paths, root=ROOT):
    """Find an import cycle among some files. Returns its modules in order, or None."""
    arrows = {
        module_of(path, root): sorted({*imports(path, root)} - {module_of(path, root)}) for path in paths
    }
    done, way = set(), []

    def walk(module):
        if module in way:
            return [*way[way.index(module) :], module]
        if module in done or module not in arrows:
            return None
        way.append(module)
        found = next((found for after in arrows[module] if (found := walk(after))), None)
        done.add(way.pop())
        return found

    return next((found for module in arrows if (found := walk(module))), None)


@files
def test_every_file_has_a_layer(path):
    assert place(module_of(path)) in RANK, f"{path.name} is new: add it to LAYERS of {Path(__file__).name}"


def test_only_the_listed_files_are_at_the_top():
    assert {path.stem for path in (ROOT / "minigrad").glob("*.py")} == AT_THE_TOP


def test_the_engine_is_small():
    lines = {
        path.name: len(path.read_text("utf-8").splitlines())
        for path in (ROOT / "minigrad" / "engine").glob("*.py")
    }
    assert max(lines.values()) <= 300 and sum(lines.values()) <= 2300, lines


@files
def test_no_file_imports_from_a_later_layer(path):
    own = RANK[place(module_of(path))]
    later = [name for name in imports(path) if RANK.get(place(name), len(LAYERS)) > own]
    assert later == [], (
        f"{path.name} is in an earlier layer than {later}; move shared code to an earlier layer"
    )
    if own < RANK["minigrad"]:
        assert "minigrad" not in imports(path), (
            f"{path.name} is in an earlier layer than minigrad/__init__.py"
        )


def test_no_files_import_each_other_in_a_cycle():
    assert circle(FILES) is None


def test_a_planted_cycle_is_found(tmp_path):
    texts = {
        "minigrad/__init__.py": "",
        "minigrad/a.py": "from minigrad.b import f\n",
        "minigrad/b/__init__.py": "from minigrad.b.c import f\n",
        "minigrad/b/c.py": "import importlib\ndef f():\n    importlib.import_module('minigrad.d')\n",
        "minigrad/d.py": "def g():\n    import minigrad.a\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    paths = sorted(tmp_path.rglob("*.py"))
    assert circle(paths, tmp_path) == ["minigrad.a", "minigrad.b.c", "minigrad.d", "minigrad.a"]
    assert circle(paths[:-1], tmp_path) is None


@files
def test_no_file_of_gradcheck_imports_another_inside_a_function(path):
    if "gradcheck" in path.parts:
        inside = [n for f in ast.walk(parsed(path)) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)]
        modules = [n.module for n in inside if isinstance(n, ast.ImportFrom)]
        assert [m for m in modules if m.startswith("minigrad")] == []


@files
def test_nothing_imports_a_command(path):
    # code shared by two commands belongs to an earlier layer (cli, training)
    own = module_of(path)
    assert [name for name in imports(path) if place(name) == "door" and not own.endswith("__main__")] == []


def test_functional_does_not_import_its_kernels_nor_tensor_its_rules():
    assert RANK["functional"] < RANK["kernels"]
    tensor = set(imports(ROOT / "minigrad" / "engine" / "tensor.py"))
    assert not tensor & {"minigrad.engine.rules", "minigrad.engine.recording"}


def loaded_by(statement):
    """The top-level modules that a statement loads in a new interpreter.

    NumPy's own modules and the standard library do not count.
    """
    code = (
        f"import numpy, sys; before = set(sys.modules); {statement}; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
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
    modules = [m for m in modules if file_of(m)]
    assert {m: loaded_by(f"import {m}") & heavy for m in modules} == {m: set() for m in modules}


def test_no_public_function_of_minigrad_has_the_name_of_a_submodule():
    names = (
        {m.name for m in pkgutil.iter_modules(minigrad.__path__)}
        | DOORS
        | {name for name in RANK if file_of(f"minigrad.{name}")}
    )
    functions = {
        name
        for name in names
        if hasattr(minigrad, name) and getattr(minigrad, name) is not sys.modules.get(f"minigrad.{name}")
    }
    assert functions == set()
    for name in ("random", "functional", "gradcheck"):
        assert import_module(f"minigrad.{name}") is getattr(minigrad, name)


# the first imports torch only to convert tensors
WAYS_TO_PYTORCH = {"models/torch_states.py", "tutorials/outgrowing/ddp.py"}


def test_only_tests_benchmarks_and_the_ways_to_pytorch_import_other_frameworks():
    foreign = {"torch", "transformers", "autograd", "jax", "tensorflow"}
    for path in FILES:
        if path.relative_to(ROOT).as_posix() in WAYS_TO_PYTORCH:
            continue
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        names = {a.name for n in tree if isinstance(n, ast.Import) for a in n.names} | {
            n.module for n in tree if isinstance(n, ast.ImportFrom)
        }
        assert not {str(name).split(".")[0] for name in names} & foreign, path


def test_every_form_of_import_is_found(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        "import minigrad.nn as nn\nfrom minigrad import grad, kernels\n"
        "from minigrad.gradcheck import Sample\n"
        "def f():\n    from models.recipes.dates import Dates\n    load_models('samples'), load_models()\n"
    )
    assert list(imports(path)) == [
        "minigrad.nn", "minigrad.engine.backward", "minigrad.kernels", "minigrad.gradcheck.samples",
        "models.recipes.dates", "models.samples", "models.recipes",
    ]  # fmt: skip
    assert [place(name) for name in imports(path)] == [
        "nn",
        "engine",
        "kernels",
        "gradcheck",
        "models.recipes",
        "models",
        "models.recipes",
    ]
    assert place("minigrad.gradcheck.__main__") == place("minigrad.train") == "door"
