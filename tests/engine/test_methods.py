"""Each method of Tensor has one owner. `pytest tests/engine/test_methods.py -s` prints them all, with the file that defines each."""

import ast
import inspect
import types
from pathlib import Path

import pytest
from oracle import refuses

import minigrad
from minigrad import Tensor
from minigrad.engine.tensor import attach

ROOT = Path(minigrad.__file__).parents[1]
ATTACHING = "engine/operators.py engine/backward.py ops/methods.py functional/activations.py".split()
DEFINING = [*ATTACHING, "engine/tensor.py", *(f"ops/{name}.py" for name in "elementwise reductions shape indexing linalg".split())]  # fmt: skip


def methods():
    """The file that defines each method and property of Tensor."""
    for name, what in vars(Tensor).items():
        fun = inspect.unwrap(getattr(what, "fget", what))
        if isinstance(fun, types.FunctionType):
            yield name, Path(fun.__code__.co_filename).relative_to(ROOT / "minigrad").as_posix()


def writes(tree):
    """(whether attach is called, the lines that write into Tensor without it)"""
    attaches, bypasses = False, []
    for node in ast.walk(tree):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            attaches |= called == "attach"
            if called == "setattr":
                targets = [ast.Attribute(node.args[0], "")]
        bypasses += [
            node.lineno
            for target in targets
            if isinstance(target, ast.Attribute) and ast.unparse(target.value).split(".")[-1] == "Tensor"
        ]
    return attaches, bypasses


def test_every_method_is_defined_in_one_of_few_files():
    found = dict(methods())
    print(f"\n{len(found)} methods and properties of Tensor")
    for name, file in sorted(found.items(), key=lambda item: (item[1], item[0])):
        print(f"{name:20} {file}")
    assert {name: file for name, file in found.items() if file not in DEFINING} == {}
    assert set(found.values()) == set(DEFINING)


def test_methods_are_attached_by_attach_and_in_few_files():
    found = {
        path.relative_to(ROOT).as_posix(): writes(ast.parse(path.read_text(encoding="utf-8")))
        for folder in ("minigrad", "models", "tutorials")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert {file for file, (attaches, _) in found.items() if attaches} == {f"minigrad/{f}" for f in ATTACHING}
    assert [file for file, (_, bypasses) in found.items() if bypasses] == ["minigrad/engine/tensor.py"]


def test_the_reader_of_files_sees_every_way_to_write():
    for line in ("Tensor.f = g", "a = mg.Tensor.f = g", "Tensor.f: int = 1", "Tensor.f += g", "setattr(Tensor, 'f', g)"):  # fmt: skip
        assert writes(ast.parse(line)) == (False, [1])
    assert writes(ast.parse("attach('f', g)\nx.Tensor = x.f = Tensor")) == (True, [])


@pytest.mark.parametrize(
    "name, owner",
    [
        ("tolist", "minigrad.engine.tensor"), ("grad", "minigrad.engine.tensor"), ("__add__", "minigrad.engine.operators"),
        ("backward", "minigrad.engine.backward"), ("exp", "minigrad.ops.elementwise"), ("T", "minigrad.ops.methods"),
        ("__eq__", "minigrad.ops.methods"), ("softmax", "minigrad.functional.activations"),
    ],
)  # fmt: skip
def test_a_second_owner_is_refused_and_the_first_is_named(name, owner):
    with refuses(TypeError, f"Tensor.{name} is already defined in {owner};", "another name"):
        attach(name, lambda self: self)
