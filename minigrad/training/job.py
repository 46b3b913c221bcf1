"""A training by several MPI processes as one job: rank 0 prints and handles Ctrl-C for all, and all processes
end when one fails. ranks.py computes the gradients.
"""

import contextlib
import os
import signal
import sys
import time
import traceback

from minigrad.training.loop import TrainingError, Workers
from minigrad.training.ranks import Ranks
from minigrad.training.signals import NAMES

HEAD_START = 1.0  # seconds that the others wait, so that rank 0 reports an error that all have


def only_rank_0_prints():
    """`with only_rank_0_prints():` silences every process started by mpiexec except rank 0. Reads the rank
    from the environment, so it works before MPI is loaded."""
    stack = contextlib.ExitStack()
    if _from_mpiexec("PMI_RANK", "OMPI_COMM_WORLD_RANK"):
        nowhere = stack.enter_context(open(os.devnull, "w"))
        stack.enter_context(contextlib.redirect_stdout(nowhere))
        stack.enter_context(contextlib.redirect_stderr(nowhere))
    return stack


@contextlib.contextmanager
def job(wanted, say=print):
    """`with job(distributed) as workers:` yields the Ranks of this job, or Workers (this process alone) if
    not wanted. An error on any rank prints one line and ends the job."""
    started = _from_mpiexec("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
    if not wanted and started > 1:
        raise TrainingError(
            f"mpiexec has started {started} processes, and without --distributed each would train a model "
            "of its own; add --distributed."
        )
    if not wanted:
        yield Workers()
        return
    comm = world()
    alone = (
        "Only one process is training. To start two: mpiexec -n 2 python -m minigrad.train ... --distributed"
    )
    say(f"{comm.size} processes share each batch." if comm.size > 1 else alone)
    for name in NAMES if comm.rank else ():  # rank 0 handles signals and tells the others
        if hasattr(signal, name):  # Windows has only some of them
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        with Ranks(comm) as ranks:
            yield ranks
            wait_for_all(ranks)
    except BaseException as error:
        if comm.size > 1:
            end_all(comm, error)
        raise


def wait_for_all(ranks):
    """Sleep until all ranks are here: rank 0 may still test and draw. A rank that left early ends the job."""
    if not ranks.ended and ranks.parts > 1:
        abort(ranks.comm, 130)
    request = ranks.comm.Ibarrier()
    while not request.Test():
        time.sleep(0.02)


def _from_mpiexec(*names):
    """Number that MPICH or Open MPI puts into the environment; 0 without either."""
    return max(int(os.environ.get(name, 0)) for name in names)


def world():
    """Communicator of all processes, MPI.COMM_WORLD."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: there is no MPI library
        raise TrainingError(
            f"--distributed needs MPI, which could not be loaded ({error}). To install it: pip install -e "
            '".[mpi]"'
        ) from None
    return MPI.COMM_WORLD


def end_all(comm, error):
    """Print the error of this rank and end the job: the others wait for messages that will never come."""
    if (
        comm.rank
    ):  # if all fail alike, rank 0 reports the error, and it may have to write a run's report first
        time.sleep(60 * HEAD_START if isinstance(error, TrainingError) else HEAD_START)
    what, (*_, (frame, line)) = str(error), traceback.walk_tb(error.__traceback__)
    raised_by = frame.f_globals.get("__name__", "").split(".")[0]
    # any error that is not a message of minigrad's own
    if not type(error).__module__.startswith("minigrad") and not (
        isinstance(error, ValueError) and raised_by in ("minigrad", "models")
    ):
        what = (
            f"{type(error).__name__}: {what.rstrip('.')} "
            f"({os.path.basename(frame.f_code.co_filename)}, line {line})."
        )
    print(
        f"minigrad: rank {comm.rank} of {comm.size} failed, which ends the whole job. {what}",
        file=sys.__stderr__,
        flush=True,
    )
    abort(comm, 130 if isinstance(error, KeyboardInterrupt) else 2)


def abort(comm, status):
    sys.stdout.flush()
    comm.Abort(status)
    os._exit(status)  # Abort only requests the end; without this, the code after it would still run
