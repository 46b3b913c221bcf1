"""Tests of the benchmarks: all sides do the same work, and the command runs. Speed is not tested."""

import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="the benchmarks compare with PyTorch, which is not installed")
pytest.importorskip(
    "threadpoolctl", reason="the benchmarks set threads through threadpoolctl, which is not installed"
)

from helpers import ROOT

from benchmarks import gpt, measure, tables, where  # noqa: E402
from benchmarks.__main__ import JOBS, choose, main  # noqa: E402
from benchmarks.case import GEMMS, Case, Side  # noqa: E402


def losses(side, steps):
    measure.limit_threads(1)
    step = side.build()
    return [step(number) for number in range(steps)]


# to compile or load these takes longer than all other tests together
COMPILING = ("jax", "tinygrad", "transformers")
ALIKE = ("tiny", "small", "large")  # other sizes of reference
SPOILING = ("tricks",)  # its sides change the whole process
CASES = [
    case
    for job in JOBS
    if job not in (*ALIKE, *SPOILING)
    for case in importlib.import_module(JOBS[job]).cases(job, tiny=True)
]
PAIRS = [(case, side) for case in CASES for side in case.sides[1:] if side.checked]


def pair(case, side):
    marks = [pytest.mark.slow] if side.needs in COMPILING else []
    return pytest.param(case, side, marks=marks, id=f"{case.name}, {side.name}")


@pytest.mark.parametrize("case, side", [pair(*both) for both in PAIRS])
def test_both_sides_have_the_same_losses(case, side):
    if not side.is_installed():
        pytest.skip(f"{side.needs} is not installed")
    assert losses(side, 3) == pytest.approx(losses(case.sides[0], 3), rel=1e-5)


class FakeWorker:
    """A worker with given losses."""

    def __init__(self, name, *losses):
        self.side, self.losses = Side(name, None), losses

    def turn(self, first, warm, count):
        return {"losses": self.losses}


@pytest.mark.parametrize("theirs", [(2.0, 1.001), (2.0, float("nan"))])
def test_sides_that_differ_are_refused(theirs):
    case = Case("work", ())
    measure.check(case, [FakeWorker("ours", 2.0, 1.0), FakeWorker("theirs", 2.0, 1.00001)])
    with pytest.raises(measure.Refusal, match="step 1 .* ours .* theirs"):
        measure.check(case, [FakeWorker("ours", 2.0, 1.0), FakeWorker("theirs", *theirs)])


def command(*words, **environment):
    words = [sys.executable, "-m", "benchmarks", *words]
    return subprocess.run(words, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)


def test_the_command_prints_a_table_and_writes_json(tmp_path):
    file = tmp_path / "out.json"
    done = command(
        "decoding",
        "--tiny",
        "--rounds",
        "1",
        "--steps",
        "2",
        "--json",
        str(file),
        OPENBLAS_CORETYPE="Haswell",
    )
    assert done.returncode == 0, done.stderr
    assert "OPENBLAS_CORETYPE is set" in done.stderr
    report = json.loads(file.read_text())
    assert [result["side"] for result in report["results"]] == ["minigrad", "minigrad, no cache", "torch"]
    assert all(f"| {result['side']} |" in done.stdout for result in report["results"])
    assert {"cpu", "cores", "python", "numpy", "torch", "blas"} <= set(report["machine"])
    assert str(tmp_path) not in report["command"] and str(tmp_path) not in done.stdout


def test_without_any_of_the_tricks_the_losses_are_the_same():
    # the command fails if they are not
    done = command("tricks", "--tiny", "--rounds", "1", "--steps", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| tricks |") == 10


def test_learning_a_text_side_by_side(tmp_path):
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question. " * 300)
    done = command("learn", str(tmp_path / "text.txt"), "--steps", "3", "--goal", "9")
    assert done.returncode == 0, done.stderr
    ours, theirs = (float(line.split()[-1]) for line in done.stdout.splitlines()[:2])
    assert ours == pytest.approx(theirs, abs=2e-3)
    assert "minigrad / torch" in done.stdout and "minigrad reached 9.0 after" in done.stdout


def test_an_unknown_job_is_named():
    done = command("nothing")
    assert done.returncode == 2 and "'nothing'" in done.stderr


def test_sides_are_chosen_by_name():
    (case,) = gpt.cases("reference", tiny=True)
    assert [side.name for side in choose(case, ["TORCH*"]).sides] == [
        "minigrad",
        "torch",
        "torch fused",
        "torch tuned",
        "torch manual",
    ]
    assert [side.name for side in choose(case, ["gemms*"]).sides] == ["minigrad", GEMMS]


def test_a_step_of_the_products_alone_has_as_many_multiplications_as_the_model():
    """6 operations per weight and token, forward and backward; for attention 12 T C per token and layer."""
    size = gpt.SIZES["reference"]
    tokens, T, C = size["batch"] * size["context"], size["context"], size["d_model"]
    weights = 12 * C * C * size["layers"] + gpt.VOCABULARY * C
    products = sum(3 * 2 * np.prod(left) * right[-1] * count for left, right, count in gpt.products(size))
    assert products == tokens * (6 * weights + 12 * T * C * size["layers"])


RESULT = {
    "case": "work", "threads": 1, "side": "minigrad", "unit": "step", "seconds": [1.0, 2.0, 3.0],
    "ratio": [0.7, 0.8, 0.9], "of GEMM limit": None, "peak MB": 50.0, "MB over import": None,
    "MB over inputs": 3.0, "page faults a step": 0,
}  # fmt: skip


def test_tables_are_written_between_the_markers_of_a_page(tmp_path):
    page, report = tmp_path / "page.md", tmp_path / "report.json"
    facts = {
        "cpu": "a processor",
        "cores": 2,
        "system": "Linux",
        "python": "3.11",
        "numpy": "2.4",
        "blas": {},
        "load before": None,
    }
    report.write_text(
        json.dumps({"command": "python -m benchmarks work", "machine": facts, "results": [RESULT]})
    )
    page.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n")
    assert tables.main([str(page), str(report), str(report)]) == 0
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert (
        text.count("| work | 1 | minigrad | 2.00 s per step | 0.80 (0.70 to 0.90) |") == 2
        and "a processor" in text
    )


def test_a_page_without_markers_is_refused(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("nothing")
    assert tables.main([str(page), "report.json"]) == 1
    assert "no markers for the tables" in capsys.readouterr().err


def test_where_the_time_goes_adds_up():
    (case,) = gpt.cases("reference", tiny=True)
    spent = where.measure(gpt, case, threads=1, steps=2)
    assert spent.calls["forward", "linear"] == spent.calls["backward", "linear"] == 2 * (4 * 2 + 1)
    assert spent.calls["other", "the optimizer"] == spent.calls["other", "clipping"] == 2
    assert all(seconds >= 0 for seconds in spent.seconds.values())
    table = where.lines(spent, 2)
    assert any(line.startswith("| linear | 9 |") for line in table) and table[-1].endswith("| 100.0% |")


def test_a_side_that_cannot_be_built_is_skipped_if_it_may_fail(capsys):
    class Broken(measure.Worker):
        def __init__(self, may_fail):
            self.side = Side("theirs", None, may_fail=may_fail)

        def _receive(self):
            return {"failed": "RuntimeError: no compiler"}

    assert (
        not Broken(True).is_built()
        and "theirs cannot be measured here: RuntimeError: no compiler" in capsys.readouterr().err
    )
    with pytest.raises(measure.Refusal, match="no compiler"):
        Broken(False).is_built()


def test_a_refused_case_does_not_stop_the_others(monkeypatch, capsys):
    def run(case, *_):
        if case.name == "tiny":
            raise measure.Refusal("tiny: they do not compute the same.")
        return [{**RESULT, "case": case.name, "blas": {}}]

    monkeypatch.setattr(measure, "run", run)
    assert main(["tiny", "small"]) == 1
    printed = capsys.readouterr()
    assert (
        "do not compute the same" in printed.err
        and "| small |" in printed.out
        and "| tiny |" not in printed.out
    )


@pytest.mark.slow
def test_a_long_text_is_measured_twice_per_kind_of_token():
    words = ["--megabytes", "1", "--tokens", "bytes", "--steps", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.long_text", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| 1,")]
    assert [row[1].split()[1] for row in rows] == ["bytes,", "bytes,"] and float(rows[0][5]) > 10
