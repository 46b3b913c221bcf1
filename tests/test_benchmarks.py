"""The benchmarks: both sides do the same work, and the command runs. Says nothing of how fast anything is."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the benchmarks compare with PyTorch, which is not installed")
pytest.importorskip("threadpoolctl", reason="the benchmarks set threads through threadpoolctl, which is not installed")

from benchmarks import measure  # noqa: E402
from benchmarks.__main__ import JOBS  # noqa: E402
from benchmarks.case import Case, Side  # noqa: E402

ROOT = Path(__file__).parent.parent


def losses(side, steps):
    step = side.build()
    return [step(number) for number in range(steps)]


CASES = [case for job in ("reference", "dates", "overhead") for case in importlib.import_module(JOBS[job]).cases(job, tiny=True)]
PAIRS = [(case, side) for case in CASES for side in case.sides[1:] if side.checked]


@pytest.mark.parametrize("case, side", PAIRS, ids=[f"{case.name}, {side.name}" for case, side in PAIRS])
def test_both_sides_have_the_same_losses(case, side):
    if not side.is_installed():
        pytest.skip(f"{side.needs} is not installed")
    assert losses(side, 3) == pytest.approx(losses(case.sides[0], 3), rel=1e-5)


class Told:
    """A worker that has certain losses."""

    def __init__(self, name, *losses):
        self.side, self.losses = Side(name, None), losses

    def turn(self, first, warm, count):
        return {"losses": self.losses}


@pytest.mark.parametrize("theirs", [(2.0, 1.001), (2.0, float("nan"))])
def test_sides_that_differ_are_refused(theirs):
    case = Case("work", ())
    measure.check(case, [Told("ours", 2.0, 1.0), Told("theirs", 2.0, 1.00001)])
    with pytest.raises(measure.Refusal, match="step 1 .* ours .* theirs"):
        measure.check(case, [Told("ours", 2.0, 1.0), Told("theirs", *theirs)])


def command(*words, **environment):
    words = [sys.executable, "-m", "benchmarks", *words]
    return subprocess.run(words, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)


def test_the_command_prints_a_table_and_writes_json(tmp_path):
    file = tmp_path / "out.json"
    done = command("dates", "--tiny", "--sides", "torch", "torch fused", "--rounds", "1", "--steps", "2", "--json", str(file), OPENBLAS_CORETYPE="Haswell")
    assert done.returncode == 0, done.stderr
    assert "OPENBLAS_CORETYPE was set" in done.stderr
    report = json.loads(file.read_text())
    assert [result["side"] for result in report["results"]] == ["minigrad", "torch", "torch fused"]
    assert all(f"| {result['side']} |" in done.stdout for result in report["results"])
    assert {"cpu", "cores", "python", "numpy", "torch", "blas"} <= set(report["machine"])


def test_an_unknown_job_is_named():
    done = command("nothing")
    assert done.returncode == 2 and "'nothing'" in done.stderr
