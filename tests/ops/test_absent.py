"""Names of PyTorch that are not here: each error names the way out, each way out exists, and the page lists them all."""

import configparser
import fnmatch
import importlib.util
import re
import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT, exists
from oracle import refuses

import minigrad as mg
from minigrad import optim
from minigrad.pytorch import absent

PAGE = (ROOT / "tutorials" / "coming_from_pytorch.md").read_text(encoding="utf-8")
rows = pytest.mark.parametrize("place, names, way_out", absent.ABSENT, ids=lambda value: value.split()[0])


@rows
def test_each_name_is_really_absent_and_its_error_says_the_way_out(place, names, way_out):
    module = importlib.import_module(place)
    for name in (
        name.replace("*", "") if name.startswith(("*", "_")) else name.replace("*", "1d")
        for name in names.split()
    ):
        assert not hasattr(module, name)
        with refuses(AttributeError, f"{place} has no {name!r}. {way_out}"):
            getattr(module, name)


@rows
def test_each_name_is_one_of_pytorchs(place, names, way_out):
    pytest.importorskip(
        "torch", reason="PyTorch is not installed; it serves as an oracle only (pip install torch)."
    )
    theirs = dir(importlib.import_module(place.replace("minigrad", "torch")))
    assert [
        name
        for name in names.split()
        if not fnmatch.filter(theirs, name) and not importlib.util.find_spec(f"torch.{name}")
    ] == []


def test_what_the_ways_out_name_is_there():
    said = " ".join(way_out for *_, way_out in absent.ABSENT + absent.ON_OBJECTS)
    found = set(re.findall(r"\b(?:(?:minigrad|models)(?:\.\w+)+|(?:optim|nn|F)\.[A-Za-z]\w+)", said))
    assert len(found) > 25
    for name in found:
        assert exists(name), name
    for file in re.findall(r"[a-z]+/[\w/.]+\w", said):
        assert (ROOT / file).exists(), file


def test_the_page_lists_what_is_absent():
    assert absent.as_markdown() in PAGE


@pytest.mark.parametrize("place, name, words", [
    ("minigrad", "sotfmax", "(did you mean softmax?)"), ("minigrad.nn", "Linaer", "(did you mean Linear?)"),
    ("minigrad.nn.functional", "cross_entrpy", "(did you mean cross_entropy?)"), ("minigrad.optim", "AdmaW", "(did you mean AdamW?)"),
    ("minigrad.optim.lr_scheduler", "CosineLR", "(did you mean"), ("minigrad.func", "jacobian_of_something", "coming_from_pytorch.md"),
    ("minigrad", "training", "import minigrad.training"), ("minigrad.linalg", "svd", "without a gradient"),
])  # fmt: skip
def test_other_names_are_met_by_what_is_near(place, name, words):
    module = importlib.import_module(place)
    if name not in vars(module):  # another test may have imported the submodule
        with refuses(AttributeError, f"{place} has no {name!r}", words):
            getattr(module, name)


def test_the_list_is_not_loaded_before_an_error_is_read():
    code = "import sys, minigrad as mg; mg.nn, mg.optim, hasattr(mg, 'cuda'); from minigrad import saving; assert 'minigrad.pytorch.absent' not in sys.modules, 1"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_the_version_is_the_packages():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    assert setup["metadata"]["version"] in (mg.__version__, "attr: minigrad.__version__")


def test_pytorchs_names_of_dtypes_hide_none_of_pythons():
    assert (mg.float, mg.double, mg.long, mg.bool) == (np.float32, np.float64, np.int64, np.bool_)
    inside = {}
    exec("from minigrad import *", inside)
    assert not {"float", "bool", "long"} & set(inside)
    assert mg.tensor([1, 2], dtype=mg.float).dtype == np.float32


def test_inference_mode_records_nothing():
    x = mg.ones(2, requires_grad=True)

    @mg.inference_mode()
    def twice(x):
        return x * 2

    assert not twice(x).requires_grad and not mg.inference_mode(twice)(x).requires_grad
    with mg.inference_mode():
        assert not (x * 2).requires_grad
        with mg.inference_mode(False):
            assert (x * 2).requires_grad


def test_flatten_leaves_the_batchs_axis():
    x = mg.ones(2, 3, 4)
    assert mg.nn.Flatten()(x).shape == (2, 12) and mg.nn.Flatten(0, 1)(x).shape == (6, 4)
    assert str(mg.nn.Flatten()) == "Flatten(start_dim=1, end_dim=-1)"


def test_schedules_refuse_no_steps():
    optimizer = optim.SGD([mg.ones(1, requires_grad=True)], lr=0.1)
    with refuses(ValueError, "T_max", "at least 1", "0"):
        optim.lr_scheduler.CosineAnnealingLR(optimizer, 0)
    with refuses(ValueError, "step_size 0", "at least one step"):
        optim.lr_scheduler.StepLR(optimizer, 0)
