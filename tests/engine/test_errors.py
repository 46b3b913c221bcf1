"""Every sentence for bad input: it names what was wrong and what was got, and says what to do. One line for each way to go wrong."""

import copy
import os
import pickle
import re
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from helpers import ROOT, leaf_of, row_of
from oracle import leaf, refuses

import minigrad as mg
from minigrad import functional as F
from minigrad.engine.table import Row
from minigrad.gradcheck import GradcheckError, gradcheck
from minigrad.pytorch.moved import MOVED

attend = F.scaled_dot_product_attention
TRUE = np.ones((2, 2), bool)


def sentences(*cases):
    """Each case: what is done, the error, and words that its sentence must hold."""
    return pytest.mark.parametrize("do, error, words", [(do, error, words) for do, error, *words in cases])


def holds(do, error, words):
    with refuses(error, *words):
        do()


# ---------------------------------------------------------------- shapes


@sentences(
    (lambda: leaf(3, 2) @ leaf(4, 3), ValueError, "matmul", "(3, 2)", "(4, 3)", "last axis of the first (2)", "second-to-last axis of the second (4)"),
    (lambda: leaf(3, 2) @ leaf(3, 2), ValueError, "matmul", "do not fit", "x @ y.mT"),
    (lambda: leaf(3) @ leaf(2), ValueError, "matmul", "(3,)", "(2,)", "only axis"),
    (lambda: leaf() @ leaf(2), ValueError, "matmul", "at least one axis", "()", "Use *"),
    (lambda: leaf(2) @ 3, ValueError, "matmul", "at least one axis", "(2,)", "Use *"),
    (lambda: 3 @ leaf(2), ValueError, "matmul", "at least one axis", "Use *"),
    (lambda: leaf(2, 3, 4) @ leaf(3, 4, 5), ValueError, "leading axes", "(2, 3, 4)", "(2,) against (3,)"),
    (lambda: leaf(3, 2) + leaf(3), ValueError, "add", "(3, 2)", "(3,)", "do not broadcast", "unsqueeze"),
    (lambda: np.ones((3, 2)) * leaf(3), ValueError, "multiply", "(3, 2) and (3,)", "reshape"),
    (lambda: mg.where(leaf(2) > 0, leaf(3), leaf(2)), ValueError, "where", "(2,) and (3,)", "do not broadcast"),
    (lambda: leaf(3).masked_fill(np.ones(2, bool), 0.0), ValueError, "(2,) and (3,)", "do not broadcast"),
    (lambda: leaf(3).reshape(2, 2), ValueError, "reshape", "(3,)", "3 elements", "(2, 2)"),
    (lambda: leaf(3, 2).view(4, -1), ValueError, "reshape", "(3, 2)", "6 elements", "(4, -1)"),
    (lambda: leaf(3, 2).sum(2), IndexError, "sum", "(3, 2)", "axis=2", "out of bounds"),
    (lambda: leaf(3, 2).mean(-3), IndexError, "(3, 2)", "axis=-3"),
    (lambda: leaf(3, 2).sum((0, -2)), ValueError, "(3, 2)", "axis=(0, -2)", "duplicate"),
    (lambda: leaf(0, 2).amax(0), ValueError, "amax", "(0, 2)", "axis=0", "zero-size"),
    (lambda: leaf(3, 2).squeeze(5), IndexError, "axis 5", "(3, 2)", "2 axes"),
    (lambda: leaf(3, 2).unsqueeze(5), IndexError, "expand_dims", "(3, 2)", "axis 5"),
    (lambda: leaf(3, 2).flatten(1, 0), ValueError, "flatten", "start_dim 1", "end_dim 0", "(3, 2)"),
    (lambda: leaf(3, 2).flatten(2), IndexError, "axis 2", "(3, 2)"),
    (lambda: leaf(3, 2).permute(0, 0), ValueError, "transpose", "(3, 2)", "repeated axis"),
    (lambda: leaf(3, 2).permute(0), ValueError, "transpose", "(3, 2)", "axes"),
    (lambda: leaf(3, 2).transpose(0, 2), IndexError, "swapaxes", "(3, 2)", "axis"),
    (lambda: leaf(3, 2).expand(2, 2), ValueError, "broadcast_to", "(3, 2)", "(2,2)"),
    (lambda: leaf(3, 2).size(2), IndexError, "size", "axis 2", "(3, 2)"),
    (lambda: mg.concatenate([leaf(3, 2), leaf(3, 3)]), ValueError, "concatenate", "(3, 2) and (3, 3)", "axis=0"),
    (lambda: mg.concatenate([]), ValueError, "concatenate", "at least one tensor", "empty"),
    (lambda: mg.stack([leaf(3), leaf(2)]), ValueError, "stack", "one shape", "[(3,), (2,)]"),
    (lambda: leaf(3)[5], IndexError, "(3,)", "index 5", "size 3"),
    (lambda: leaf(3)[0, 0], IndexError, "(3,)", "too many indices"),
    (lambda: leaf(3)[1.5], IndexError, "(3,)", "integers", "ellipsis (`...`)"),
    (lambda: leaf(3)[np.ones(4, bool)], IndexError, "(3,)", "boolean index"),
)  # fmt: skip
def test_shapes_that_do_not_fit(do, error, words):
    holds(do, error, words)


# ---------------------------------------------------------------- where tensors come from


@sentences(
    (lambda: mg.tensor([[1, 2], [3]]), ValueError, "rows of equal length", "ragged", "Pad"),
    (lambda: mg.tensor([[1.0], 2.0]), ValueError, "ragged", "Pad"),
    (lambda: mg.tensor(3, requires_grad=True), TypeError, "floating point", "int64", "Write 3.0 instead of 3"),
    (lambda: mg.tensor([True], requires_grad=True), TypeError, "floating point", "bool"),
    (lambda: mg.arange(3).requires_grad_(), TypeError, "floating point", "int64", "x.float()"),
    (lambda: setattr(mg.arange(3), "requires_grad", True), TypeError, "floating point", "int64"),
    (lambda: mg.zeros(2, dtype=np.int64, requires_grad=True), TypeError, "floating point", "int64"),
    (lambda: mg.tensor(np.array([1j])), TypeError, "complex128", "floats, integers and booleans"),
    (lambda: mg.zeros(2, dtype=complex), TypeError, "complex128", "floats, integers and booleans"),
    (lambda: mg.tensor([1.0], dtype=complex), TypeError, "complex128", "floats, integers and booleans"),
    (lambda: leaf(2).astype(complex), TypeError, "complex128", "floats, integers and booleans"),
    (lambda: leaf(2) * 1j, TypeError, "multiply gave", "complex128"),
    (lambda: mg.tensor(np.array([None])), TypeError, "object", "floats, integers and booleans"),
    (lambda: mg.tensor([1.0, None]), TypeError, "object", "floats, integers and booleans"),
    (lambda: mg.tensor("abc"), TypeError, "<U3", "floats, integers and booleans"),
    (lambda: mg.Tensor([None]), TypeError, "object", "floats, integers and booleans"),
    (lambda: leaf(3) + None, TypeError, "add", "(3,)", "NoneType"),
    (lambda: leaf(3) + "a", TypeError, "add", "(3,)", "<U1"),
    (lambda: mg.tensor([leaf(2), leaf(2)]), RuntimeError, "requires a gradient", "detach()"),
    (lambda: mg.set_default_dtype(np.int32), TypeError, "float32 or float64", "int32"),
    (lambda: mg.manual_seed(-1), ValueError, "an integer >= 0", "-1"),
    (lambda: mg.manual_seed(0.5), ValueError, "an integer >= 0", "0.5"),
    (lambda: (leaf(3) * 2).requires_grad_(False), RuntimeError, "Only a leaf", "x.detach()"),
)  # fmt: skip
def test_what_a_tensor_cannot_be_made_of(do, error, words):
    holds(do, error, words)


# ---------------------------------------------------------------- leaving the graph, and single numbers


@sentences(
    (lambda: leaf(3).numpy(), RuntimeError, "numpy()", "requires a gradient", "x.detach().numpy()"),
    (lambda: np.asarray(leaf(3)), RuntimeError, "np.asarray", "requires a gradient", "x.detach().numpy()"),
    (lambda: np.array([leaf(3), leaf(3)]), RuntimeError, "np.asarray", "x.detach().numpy()"),
    (lambda: (leaf(3) * 2).numpy(), RuntimeError, "requires a gradient", "detach()"),
    (lambda: leaf(3).item(), ValueError, "one element", "(3,)", "tolist()"),
    (lambda: float(leaf(3)), ValueError, "one element", "(3,)"),
    (lambda: bool(leaf(3) > 0), ValueError, "ambiguous", "(3,)", ".all()", ".any()"),
    (lambda: len(leaf()), TypeError, "0-d tensor", "x.item()"),
    (lambda: list(leaf()), TypeError, "0-d tensor", "iterated", "x.item()"),
    (lambda: [1, 2][mg.tensor(1.0)], TypeError, "integer tensor", "float32"),
    (lambda: copy.deepcopy(leaf(3) * 2), RuntimeError, "Only leaves", "deep-copied", "x.detach()"),
    (lambda: pickle.dumps(leaf(3) * 2), RuntimeError, "Only leaves", "pickled", "x.detach()"),
)  # fmt: skip
def test_leaving_the_graph(do, error, words):
    holds(do, error, words)


def test_without_a_gradient_the_array_is_handed_out():
    x = mg.ones(3)
    assert x.numpy() is x.data and np.asarray(x) is x.data
    with mg.no_grad():
        assert (leaf(3) * 2).numpy().shape == (3,)


@pytest.mark.parametrize(
    "do",
    [
        lambda: leaf(3).cuda(),
        lambda: leaf(3).to("cuda"),
        lambda: leaf(3).to("cuda:0", np.float32),
        lambda: leaf(3).to(device="mps"),
    ],
)
def test_there_is_no_gpu(do):
    with refuses(NotImplementedError, "CPU only", ".cuda()", ".to('cpu')"):
        do()


# ---------------------------------------------------------------- the reverse pass (seeds, unused inputs: test_graph.py)


def test_backward_of_what_was_not_computed_from_anything():
    for y in (mg.ones(()), mg.tensor(3), leaf(3).detach().sum(), leaf(3).long().sum()):
        with refuses(RuntimeError, "nothing to differentiate", str(y.shape), "requires_grad=True"):
            y.backward()
    with mg.no_grad():
        y = leaf(3).sum()
    with refuses(RuntimeError, "nothing to differentiate", "under no_grad"):
        y.backward()


def test_functions_without_a_rule():
    def mine(x):
        return x * 2

    for fun in (np.cbrt, np.unwrap, np.sinc):
        with refuses(NotImplementedError, fun.__name__, "no rule", "defvjp", "x.detach()"):
            fun(leaf(3))
    with refuses(NotImplementedError, "mine", "no rule", "defvjp"):
        mg.apply(mine, leaf(3))
    with row_of(np.tanh, None), refuses(NotImplementedError, "tanh", "no rule"):
        mg.tanh(leaf(3))


def test_a_rule_that_is_missing_for_one_argument_gives_no_gradient_there():
    def scaled(x, by):
        return x * by

    with row_of(scaled, Row(scaled, (lambda g, _y, _x, by: g * by, None))):
        x, by = leaf_of(2.0), leaf_of(3.0)
        with refuses(RuntimeError, "not used", "allow_unused=True"):
            mg.grad(mg.apply(scaled, x, by), by)


# ---------------------------------------------------------------- NumPy's ways around the history


def ndarray_plus_equals():
    a = np.zeros(3)
    a += leaf(3)


@sentences(
    (lambda: np.add(leaf(3), 1.0, out=np.zeros(3)), TypeError, "add", "out=", "bypass the history"),
    (lambda: np.add(np.zeros(3), 1.0, out=leaf(3)), TypeError, "add", "out=", "bypass the history"),
    (lambda: np.add(leaf(3), 1.0, where=leaf(3).data > 0), TypeError, "add", "where=", "bypass the history"),
    (lambda: np.exp(leaf(3), dtype=np.float32), TypeError, "exp", "dtype=", "bypass the history"),
    (lambda: np.matmul(leaf(2, 2), leaf(2, 2), out=np.zeros((2, 2))), TypeError, "matmul", "out="),
    (lambda: np.sum(leaf(3), out=np.zeros(())), TypeError, "sum", "out="),
    (lambda: np.sum(leaf(3), where=np.ones(3, bool)), TypeError, "sum", "where=", "bypass the history"),
    (lambda: np.max(leaf(3), initial=0.0), TypeError, "max", "initial=", "bypass the history"),
    (lambda: np.concatenate([leaf(3)], out=np.zeros(3)), TypeError, "concatenate", "out="),
    (ndarray_plus_equals, TypeError, "add", "out=", "bypass the history"),
    (lambda: np.add.reduce(leaf(3)), TypeError, "np.add.reduce", "sum"),
    (lambda: np.add.accumulate(leaf(3)), TypeError, "np.add.accumulate", "does not work on tensors"),
    (lambda: np.multiply.outer(leaf(3), leaf(3)), TypeError, "np.multiply.outer", "does not work on tensors"),
    (lambda: np.add.at(np.zeros(3), [0], leaf(1)), TypeError, "np.add.at", "does not work on tensors"),
    (lambda: np.copyto(leaf(3), 1.0), TypeError, "copyto", "write into"),
    (lambda: np.fill_diagonal(leaf(3, 3), 1.0), TypeError, "fill_diagonal", "write into"),
    (lambda: np.put(leaf(3), [0], 1.0), TypeError, "put", "write into"),
    (lambda: np.putmask(mg.ones(3), np.ones(3, bool), 1.0), TypeError, "putmask", "write into"),
    (lambda: np.dstack([leaf(3), leaf(3)]), NotImplementedError, "np.dstack", "list", "mg.concatenate", "detach()"),
    (lambda: np.column_stack([mg.ones(3), mg.ones(3)]), NotImplementedError, "np.column_stack", "mg.concatenate"),
    (lambda: np.block([[leaf(3), leaf(3)]]), NotImplementedError, "np.block", "mg.concatenate"),
    (lambda: np.average(leaf(3), weights=leaf(3)), NotImplementedError, "np.average", "keyword argument"),
    (lambda: np.convolve(np.zeros(3), leaf(3)), NotImplementedError, "convolve", "no rule"),
)  # fmt: skip
def test_numpys_ways_around_the_history(do, error, words):
    holds(do, error, words)


def test_no_way_around_wrote_anything():
    x, a = leaf(3), np.zeros(3)
    before = x.data.copy()
    for do in (
        lambda: np.copyto(x, 1.0),
        lambda: np.put(x, [0], 1.0),
        lambda: np.add(x, 1.0, out=a),
        lambda: np.add.at(x, [0], 1.0),
    ):
        with pytest.raises(TypeError):
            do()
    assert (x.data == before).all() and not a.any()


@pytest.mark.parametrize("fun", [np.allclose, np.array_equal])
def test_comparing_with_numpy_is_no_way_around(fun):
    x = leaf(3)
    assert fun(x, x.data) and fun(x.data, x) and not fun(x, x + 1)


# ---------------------------------------------------------------- in place


def leaf_plus_equals():
    x = leaf(3)
    x += 1


@sentences(
    (lambda: leaf(3).add_(1.0), RuntimeError, "A leaf", "no_grad"),
    (lambda: leaf(3).__setitem__(0, 1.0), RuntimeError, "A leaf", "no_grad"),
    (leaf_plus_equals, RuntimeError, "A leaf", "no_grad"),
    (lambda: (leaf(3) * 2).zero_(), RuntimeError, "computed (by multiply)", "x = x + y", "x.detach().clone()"),
    (lambda: (leaf(3) * 2).__setitem__(0, 1.0), RuntimeError, "computed (by multiply)", "x.detach().clone()"),
    (lambda: mg.ones(3).__setitem__(0, leaf()), RuntimeError, "lose its history", "where, stack or concatenate"),
    (lambda: mg.ones(3).add_(np.ones(2)), ValueError, "In-place", "(3,)", "broadcast"),
    (lambda: mg.arange(3).add_(0.5), TypeError, "In-place", "int64", "float64"),
    (lambda: mg.ones(3).copy_(np.ones((2, 3))), ValueError, "In-place", "(3,)", "broadcast"),
    (lambda: mg.ones(3).__setitem__(7, 1.0), IndexError, "In-place", "(3,)", "index 7"),
)  # fmt: skip
def test_in_place(do, error, words):
    holds(do, error, words)


# ---------------------------------------------------------------- functional


@pytest.mark.parametrize("readable", (False, True), ids=("kernel", "definition"))
@sentences(
    (lambda: F.linear(leaf(2, 3), leaf(4, 5)), ValueError, "(2, 3)", "5"),
    (lambda: F.softmax(leaf(2, 3), 4), IndexError, "(2, 3)", "axis 4"),
    (lambda: F.log_softmax(leaf(2, 3), -3), IndexError, "(2, 3)", "axis -3"),
    (lambda: F.gelu(leaf(3), "exact"), ValueError, "approximate", "'none' or 'tanh'", "'exact'"),
    (lambda: F.softmax(leaf(3), dimm=0), TypeError, "softmax", "dimm", "axis"),
    (lambda: F.linear(leaf(3)), TypeError, "linear", "needs weight", "bias"),
    (lambda: F.layer_norm(leaf(2, 3), 4), ValueError, "layer_norm", "(4,)", "(2, 3)"),
    (lambda: F.layer_norm(leaf(2, 3), (2, 4)), ValueError, "layer_norm", "(2, 4)", "(2, 3)"),
    (lambda: F.embedding(np.array([3]), leaf(3, 2)), IndexError, "token id 3", "vocabulary of 3", "0..2"),
    (lambda: F.embedding(np.array([0, -1]), leaf(3, 2)), IndexError, "token id -1", "vocabulary of 3"),
    (lambda: F.embedding(np.array([1.0]), leaf(3, 2)), TypeError, "must be integers", "float64"),
    (lambda: F.embedding(leaf(3, 2), mg.tensor([1])), TypeError, "must be integers", "float64"),
    (lambda: F.cross_entropy(leaf(2, 3), np.array([0, 3])), IndexError, "target 3", "3 classes", "0..2", "ignore_index (-100)"),
    (lambda: F.cross_entropy(leaf(2, 3), np.array([-1, 0])), IndexError, "target -1", "ignore_index"),
    (lambda: F.cross_entropy(leaf(2, 3), np.array([0])), ValueError, "(2, 3)", "targets of shape (2,)", "got (1,)"),
    (lambda: F.cross_entropy(leaf(2, 4, 3), np.zeros((2, 4), int)), ValueError, "(2, 4, 3)", "(2, 3)", "got (2, 4)", "flatten both", "reshape(-1, C)"),
    (lambda: F.cross_entropy(leaf(2, 3), np.ones((3, 2))), ValueError, "probabilities", "(2, 3)", "(3, 2)"),
    (lambda: F.cross_entropy(leaf(2, 3), np.array([0, 1]), weight=np.ones(4)), ValueError, "weight", "3 classes", "(4,)"),
    (lambda: F.cross_entropy(leaf(2, 3), np.array([0, 1]), reduction="avg"), ValueError, "'mean', 'sum' or 'none'", "'avg'"),
    (lambda: F.mse_loss(leaf(2, 3), leaf(3)), ValueError, "mse_loss", "one shape", "(2, 3)", "(3,)"),
    (lambda: F.mse_loss(leaf(3), leaf(3), reduction="avg"), ValueError, "'mean', 'sum' or 'none'", "'avg'"),
    (lambda: F.dropout(leaf(3), 1.5), ValueError, "dropout", "from 0 to 1", "1.5"),
    (lambda: F.dropout(leaf(3), -0.1), ValueError, "dropout", "from 0 to 1", "-0.1"),
    (lambda: attend(leaf(2, 3), leaf(2, 4), leaf(2, 4)), ValueError, "query (2, 3)", "key (2, 4)", "same width", "3 and 4"),
    (lambda: attend(leaf(2, 3), leaf(2, 3), leaf(4, 3)), ValueError, "key (2, 3)", "value (4, 3)", "same length", "2 and 4"),
    (lambda: attend(leaf(3), leaf(2, 3), leaf(2, 3)), ValueError, "at least two axes", "(3,)"),
    (lambda: attend(leaf(2, 2, 3), leaf(3, 2, 3), leaf(3, 2, 3)), ValueError, "leading axes", "(2, 2, 3)", "(3, 2, 3)", "broadcast"),
    (lambda: attend(leaf(2, 2, 3), leaf(2, 2, 3), leaf(3, 2, 3)), ValueError, "leading axes", "value (3, 2, 3)"),
    (lambda: attend(leaf(2, 3), leaf(2, 3), leaf(2, 3), TRUE.astype(int)), TypeError, "mask", "True = may attend", "int64", "mask.bool()"),
    (lambda: attend(leaf(2, 3), leaf(2, 3), leaf(2, 3), np.ones((3, 2), bool)), ValueError, "mask of shape (3, 2)", "scores (2, 2)", "Tq, Tk"),
    (lambda: attend(leaf(2, 3), leaf(2, 3), leaf(2, 3), np.ones((5, 2, 2), bool)), ValueError, "mask of shape (5, 2, 2)", "scores (2, 2)"),
    (lambda: attend(leaf(2, 3), leaf(2, 3), leaf(2, 3), dropout_p=2.0), ValueError, "dropout_p", "from 0 to 1", "2.0"),
)  # fmt: skip
def test_functional(do, error, words, readable):
    with mg.modes.Mode(mg.modes.readable, readable):
        holds(do, error, words)


def test_masks_may_be_lists_tensors_and_arrays():
    q = leaf(2, 3)
    for mask in (
        [[True, False], [True, True]],
        mg.tensor([[True, False], [True, True]]),
        np.array([[True, False], [True, True]]),
    ):
        assert attend(q, q, q, mask, is_causal=True).tolist() == attend(q, q, q, is_causal=True).tolist()


# ---------------------------------------------------------------- the checker


@sentences(
    (lambda: gradcheck(mg.exp, [mg.ones(3)]), GradcheckError, "nothing to check", "requires_grad=True"),
    (lambda: gradcheck(mg.exp, [leaf(3, dtype=np.float32)]), GradcheckError, "float32", "float64", "x.double()"),
    (lambda: gradcheck(lambda x: x.float(), [leaf(3)]), GradcheckError, "float64 inputs", "float32"),
    (lambda: gradcheck(lambda x: x.detach() * x, [leaf(3)]), GradcheckError, "gradient is wrong", "input 0", "finite differences"),
)  # fmt: skip
def test_gradcheck(do, error, words):
    holds(do, error, words)


def test_what_a_console_cannot_write_does_not_end_a_command(tmp_path):
    """As on Windows, where what is redirected is written in the country's old code page."""
    (tmp_path / "text.txt").write_text("∇ is nabla. " * 400, encoding="utf-8")
    words = [
        "text",
        "--text",
        str(tmp_path / "text.txt"),
        "--steps",
        "2",
        "--layers",
        "1",
        "--d-model",
        "8",
        "--heads",
        "1",
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "minigrad.train", *words],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert b"?" in done.stdout


@pytest.mark.parametrize("words", [["minigrad.train", "--list"], ["minigrad.runs", "."]])
def test_a_reader_that_goes_away_is_no_mistake(words, tmp_path):
    root = str(ROOT)
    door = subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    door.stdout.close()
    assert door.stderr.read() == "" and door.wait() == 141
    door.stderr.close()


# ---------------------------------------------------------------- modules that moved


@pytest.mark.parametrize("old, new", MOVED.items())
def test_an_old_path_is_answered_by_the_new_one_which_exists(old, new):
    package, _, name = old.rpartition(".")
    sentence = re.escape(f"{old} is {new} now.")
    with pytest.raises(ModuleNotFoundError, match=sentence):
        import_module(old)
    if not hasattr(import_module(package), name):  # minigrad.operators is there, under its old name too
        with pytest.raises(ModuleNotFoundError, match=sentence):
            exec(f"from {package} import {name}")
    if "__getattr__" in vars(import_module(package)) and not hasattr(import_module(package), name):
        with pytest.raises(AttributeError, match=sentence):
            getattr(import_module(package), name)
    folder, *files = re.findall(r"[\w.]+", new)
    for module in [folder, *(f"{folder}.{file}" for file in files)]:
        import_module(module)


def test_other_missing_modules_are_reported_by_python():
    with pytest.raises(ModuleNotFoundError, match="No module named 'minigrad.nothing'"):
        import_module("minigrad.nothing")
