"""Who adds an op edits three things: its function, its row, its sample. Shown with softsign, in a copy of the package."""

import os
import shutil
import subprocess
import sys

import pytest
from helpers import ROOT

FUNCTION = """

@dispatched
def softsign(x):
    \"\"\"x / (1 + |x|).\"\"\"
    return x / (1 + np.abs(x))
"""
# the function in two files, with its name in __all__; the row, with its import; the sample: (file, text, what is added after it)
EDITS = [
    ("engine/array_functions.py", "    return np.maximum(x, 0)\n", FUNCTION),
    ("ops/elementwise.py", '"erfc", "relu", ', '"softsign", '),
    ("ops/elementwise.py", "relu = _elementwise(array_functions.relu)\n",
     "softsign = _elementwise(array_functions.softsign)\n"),
    ("engine/rules.py", "    softplus,\n", "    softsign,\n"),
    ("engine/rules.py", "defvjp(relu, lambda g, _y, x: g * (x > 0))\n",
     "defvjp(softsign, lambda g, _y, x: g / (1 + np.abs(x)) ** 2)\n"),
    ("gradcheck/samples/ops.py", "case(\"add\", lambda x, y: x + y, (3, 4), (4,))\n",
     "case(\"softsign\", mg.softsign, (\"apart\", (3, 4)))\n"),
]  # fmt: skip


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A folder with minigrad, its tests and models, and with softsign added."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("minigrad", "tests", "models"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    shutil.copy(ROOT / "setup.cfg", folder)
    for name, line, added in EDITS:
        path = folder / "minigrad" / name
        text = path.read_text("utf-8")
        assert text.count(line) == 1, f"{name} has changed: {line.strip()} is not there once"
        path.write_text(text.replace(line, line + added), "utf-8")
    return folder


def python(copy, *arguments):
    """Run Python in the copy; returns what it printed."""
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=copy, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tests_that_walk_the_table_cover_it(copy):
    files = ("tests/engine/test_table.py", "tests/viz/test_stepper.py")
    out = python(copy, "-m", "pytest", "-p", "no:cacheprovider", "-vv", *files, "-k", "softsign or every_row")
    for test in (
        "test_every_row_of_the_table_is_reached_by_a_sample", "test_every_rule_of_a_row_is_reached_by_a_sample[softsign]",
        "test_gradcheck[1-op softsign]", "test_gradcheck[2-op softsign]", "test_every_spoiled_rule_is_caught[softsign]",
        "test_what_is_said_to_change_nothing_changes_nothing[softsign]", "test_formulas_are_true[softsign]",
    ):  # fmt: skip
        assert f"{test} PASSED" in out


def test_the_stepper_prints_its_formula_from_the_rule(copy):
    script = """
import json, numpy as np, minigrad as mg
from minigrad.engine.array_functions import softsign
from minigrad.viz.formulas import FORMULAS, formula_of, rule_for_reader
from minigrad.viz.stepper import page_of
from minigrad.viz.trace import trace_forward
assert softsign not in FORMULAS
print(formula_of(softsign))
x = mg.tensor(np.ones(2), requires_grad=True)
data = json.loads(page_of(mg.softsign(x).sum(), None).split('id="data">')[1].split("</script>")[0])
assert rule_for_reader(softsign) in data["rules"]
print(trace_forward(mg.softsign, x).steps[0].flops)
"""
    assert python(copy, "-c", script).splitlines() == [
        "Formula(value='softsign(x)', to=('g / (1 + abs(x)) ** 2',), words='')",
        "2",  # elementwise: one for each element
    ]


def test_the_mutation_run_catches_and_names_what_is_done_to_it(copy):
    script = """
from minigrad.engine.array_functions import softsign
from minigrad.gradcheck.mutations import run
run.SAMPLES[:] = [s for s in run.SAMPLES if s.name == "softsign"]
table = run.rows()
run.rows, run.ENGINES = lambda: {softsign: table[softsign]}, {}
run.main()
"""
    counts = {line[:22].strip(): line[22:].split() for line in python(copy, "-c", script).splitlines()}
    assert counts["transposed"] == ["1", "0", "1/1", "1", "(100", "%)"]
    assert counts["all"][1:3] == ["0", "10/10"] and counts["all"][4] == "(100"
