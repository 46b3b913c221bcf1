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
from oracle import same

import minigrad as mg
from minigrad import distributed, nn
from minigrad.reverse import backward_each
from models.gpt import GPT

ROOT = Path(__file__).parent.parent
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
with_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or MPIEXEC is None, reason='several processes need MPI: pip install -e ".[mpi]"'
)


def started(ranks, *command):
    """mpiexec -n RANKS python COMMAND, to its end."""
    return subprocess.run(
        [MPIEXEC, "-n", str(ranks), sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip


def told(ranks, name):
    done = started(ranks, "tests/ranks.py", name)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # rank 0's; the others are silent


@with_mpi
def test_two_ranks_are_one_process_over_fifty_steps():
    found = told(2, "fifty_steps")
    assert found["float64"]["weights"] < 1e-10 and found["float64"]["losses"] < 1e-10
    assert found["float32"]["losses"] < 1e-5 and found["float32"]["gradients"] < 1e-6
    assert found["float64"]["twice"] == found["float32"]["twice"] == 0
    assert found["dropout"] == {"losses": 0, "weights": 0}  # to the bit what two threads do that share a batch


@with_mpi
def test_uneven_shares_and_gradients_that_a_rank_does_not_have():
    found = told(2, "corners")
    assert found["none"] and found["any"] == [True, False]
    assert max(found["loss"], found["uneven"], found["one example"]) < 1e-12 and found["small buckets"] == 0
    assert "the weights of rank 1 are no longer those of rank 0" in found["changed"]


@with_mpi
def test_a_rank_that_fails_ends_the_job_with_a_sentence():
    done = started(2, "tests/ranks.py", "failing")
    assert done.returncode != 0 and done.stdout == ""
    assert "minigrad: rank 1 of 2 failed, which ends the whole job. ZeroDivisionError: division by zero (ranks.py, line" in done.stderr
    assert "Traceback" not in done.stderr and "rank 0 of 2" not in done.stderr


# ---------------------------------------------------------------- what needs no MPI


@pytest.mark.parametrize("checkpoint", [False, True])
def test_each_gradient_is_handed_over_once_complete_and_newest_first(checkpoint):
    mg.manual_seed(0)
    model = GPT(11, d_model=8, num_heads=2, num_layers=2, max_len=5, dropout=0.0, checkpointed=checkpoint)
    tokens = np.arange(10).reshape(2, 5)
    model(tokens).sum().backward()
    given = []
    backward_each((model(tokens) * 1.0).sum(), None, lambda p, g: given.append((p, np.array(g))))
    assert len(given) == len({id(p) for p, _ in given}) == len(list(model.parameters()))
    for p, g in given:
        same(g, p.grad.data)
    names = {id(p): name for name, p in model.named_parameters()}
    order = [names[id(p)] for p, _ in given]
    assert order.index(next(n for n in order if ".1." in n)) < order.index(next(n for n in order if ".0." in n))


def test_hooks_of_leaves_run_and_a_leaf_may_be_the_output():
    x = mg.tensor(2.0, requires_grad=True)
    x.register_hook(lambda g: g * 10)
    given = []
    backward_each(x * x, None, lambda p, g: given.append(float(g)))
    backward_each(x, None, lambda p, g: given.append(float(g)))
    assert given == [40.0, 10.0]


def test_buckets_hold_what_fits_of_one_dtype_in_order():
    sizes = [(4,), (4,), (100,), (2, 2), (3,)]
    parameters = [nn.Parameter(mg.zeros(*shape)) for shape in sizes]
    parameters[-1] = nn.Parameter(mg.zeros(3, dtype=np.float64))
    buckets = distributed.buckets_of(parameters, 32, ranks=3)
    assert [[p.shape for p in bucket.places] for bucket in buckets] == [[(4,), (4,)], [(100,)], [(2, 2)], [(3,)]]
    assert all(bucket.length % 3 == 0 for bucket in buckets)


def test_without_mpi_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ValueError, match=r'pip install -e "\.\[mpi\]"'), distributed.job(True):
        pass


def test_mpiexec_without_distributed_is_refused(monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(ValueError, match="add --distributed"), distributed.job(False):
        pass
