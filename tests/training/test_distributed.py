"""Several processes that train one model: equal to one process, the same bits each time, and an end for all if one fails."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT

import minigrad as mg
from minigrad import nn
from minigrad.training import job, ranks
from minigrad.training.loop import TrainingError

MPIEXEC = shutil.which(
    "mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
)
with_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or MPIEXEC is None,
    reason='several processes need MPI: pip install -e ".[mpi]"',
)


def started(ranks, *command):
    """mpiexec -n RANKS python COMMAND, to its end."""
    return subprocess.run(
        [MPIEXEC, "-n", str(ranks), sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip


def told(ranks, name):
    done = started(ranks, "tests/support/ranks.py", name)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # rank 0's; the others are silent


@with_mpi
def test_two_ranks_are_one_process_over_fifty_steps():
    found = told(2, "fifty_steps")
    assert found["float64"]["weights"] < 1e-10 and found["float64"]["losses"] < 1e-10
    assert found["float32"]["losses"] < 1e-5 and found["float32"]["gradients"] < 1e-6
    assert found["float64"]["twice"] == found["float32"]["twice"] == 0
    # to the bit what two threads do that share a batch
    assert found["dropout"] == {"losses": 0, "weights": 0}


@with_mpi
def test_uneven_shares_and_gradients_that_a_rank_does_not_have():
    found = told(2, "corners")
    assert found["none"] and found["over"] == [True, False]
    assert max(found["loss"], found["uneven"], found["one example"]) < 1e-12 and found["small buckets"] == 0
    assert "the weights of rank 1 are no longer those of rank 0" in found["changed"]


@with_mpi
def test_a_rank_that_fails_ends_the_job_with_a_sentence():
    done = started(2, "tests/support/ranks.py", "failing")
    assert done.returncode != 0 and done.stdout == ""
    assert (
        "minigrad: rank 1 of 2 failed, which ends the whole job. ZeroDivisionError: division by zero (ranks.py, line"
        in done.stderr
    )
    assert "Traceback" not in done.stderr and "rank 0 of 2" not in done.stderr


# ---------------------------------------------------------------- what needs no MPI


def test_buckets_hold_what_fits_of_one_dtype_in_order():
    sizes = [(4,), (4,), (100,), (2, 2), (3,)]
    parameters = [nn.Parameter(mg.zeros(*shape)) for shape in sizes]
    parameters[-1] = nn.Parameter(mg.zeros(3, dtype=np.float64))
    buckets = ranks.buckets_of(parameters, 32, ranks=3)
    assert [[p.shape for p in bucket.slices] for bucket in buckets] == [
        [(4,), (4,)],
        [(100,)],
        [(2, 2)],
        [(3,)],
    ]
    assert all(bucket.length % 3 == 0 for bucket in buckets)


def test_without_mpi_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(TrainingError, match=r'pip install -e "\.\[mpi\]"'), job.job(True):
        pass


def test_mpiexec_without_distributed_is_refused(monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(TrainingError, match="add --distributed"), job.job(False):
        pass


# ---------------------------------------------------------------- the door

TINY = [
    "reverse",
    "--steps",
    "8",
    "--batch-size",
    "6",
    "--d-model",
    "8",
    "--layers",
    "1",
    "--heads",
    "2",
    "--d-ff",
    "8",
    "--seed",
    "2",
    "--quiet",
]


def last_row(folder):
    return json.loads((folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])


@with_mpi
@pytest.mark.slow
@pytest.mark.parametrize(("dropout", "ranks"), [("0.3", 2), ("0", 1)])
def test_a_run_by_two_ranks_goes_on_by_as_many_to_the_bit_or_by_another_number(tmp_path, dropout, ranks):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    done = started(
        2,
        "-m",
        "minigrad.train",
        *TINY,
        "--dropout",
        dropout,
        "--save-every",
        "5",
        "--distributed",
        "--out",
        str(whole),
    )
    # one rank speaks
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1, done.stdout + done.stderr
    shutil.copytree(whole, cut)
    (cut / "result.json").unlink()
    (cut / "checkpoints" / "step-000008.safetensors").unlink()  # as if it had been stopped after step 5
    done = started(ranks, "-m", "minigrad.train", "--resume", str(cut), "--distributed", "--quiet")
    assert done.returncode == 0, done.stderr
    if ranks == 2:
        assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert last_row(cut)["step"] == 8 and last_row(cut)["loss"] == pytest.approx(
        last_row(whole)["loss"], rel=1e-5
    )


@with_mpi
def test_mistakes_are_said_by_one_rank_and_end_the_job(tmp_path):
    (tmp_path / "full").write_text("something is here")
    # only rank 0 opens the folder
    done = started(2, "-m", "minigrad.train", *TINY, "--distributed", "--out", str(tmp_path))
    assert done.returncode == 2 and done.stderr.count("is not empty, and a run is never overwritten") == 1
    done = started(2, "-m", "minigrad.train", *TINY)
    assert done.returncode == 2 and done.stderr.count("add --distributed") == 1 and done.stdout == ""
