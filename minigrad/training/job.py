"""A training by several processes as one job: who speaks, who hears Ctrl-C, and how all end when one does. Knows MPI's processes and
nothing of what they compute (ranks.py).
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

HEAD_START = 1.0  # seconds in which rank 0 may speak for all where all fail alike


def one_voice():
    """`with one_voice():` of the processes that mpiexec has started only rank 0 prints; known from the environment, before MPI."""
    stack = contextlib.ExitStack()
    if _from_mpiexec("PMI_RANK", "OMPI_COMM_WORLD_RANK"):
        nowhere = stack.enter_context(open(os.devnull, "w"))
        stack.enter_context(contextlib.redirect_stdout(nowhere))
        stack.enter_context(contextlib.redirect_stderr(nowhere))
    return stack


@contextlib.contextmanager
def job(wanted, say=print):
    """`with job(distributed) as workers:` gives the Ranks of this job, or the lone Workers where not wanted. A mistake on any rank ends
    them all, with a sentence."""
    started = _from_mpiexec("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
    if not wanted and started > 1:
        raise TrainingError(f"mpiexec has started {started} processes, and without --distributed each would train a model of its own; add --distributed.")  # fmt: skip
    if not wanted:
        yield Workers()
        return
    comm = world()
    alone = "One process trains, with nobody to share with. To start two: mpiexec -n 2 python -m minigrad.train ... --distributed"
    say(f"{comm.size} processes share each batch." if comm.size > 1 else alone)
    for name in NAMES if comm.rank else ():  # rank 0 hears them for all, and tells
        if hasattr(signal, name):  # Windows has others
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        with Ranks(comm) as ranks:
            yield ranks
            part(ranks)
    except BaseException as error:
        if comm.size > 1:
            end_all(comm, error)
        raise


def part(ranks):
    """Wait until all are here, asleep: rank 0 may still test and draw. If one left the training early, the job ends."""
    if not ranks.ended and ranks.parts > 1:
        abort(ranks.comm, 130)
    request = ranks.comm.Ibarrier()
    while not request.Test():
        time.sleep(0.02)


def _from_mpiexec(*names):
    """The number that MPICH or Open MPI leaves in the environment, 0 if neither."""
    return max(int(os.environ.get(name, 0)) for name in names)


def world():
    """MPI's communicator of all processes."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: there is no MPI library
        raise TrainingError(
            f'--distributed needs MPI, which could not be loaded ({error}). To install it: pip install -e ".[mpi]"'
        ) from None
    return MPI.COMM_WORLD


def end_all(comm, error):
    """Say what went wrong on this rank, and end the job: the others wait for messages that will never come."""
    if comm.rank:  # where all fail alike, rank 0 speaks, and it may have a report to write before
        time.sleep(60 * HEAD_START if isinstance(error, TrainingError) else HEAD_START)
    what, (*_, (frame, line)) = str(error), traceback.walk_tb(error.__traceback__)
    raised_by = frame.f_globals.get("__name__", "").split(".")[0]
    # no sentence of ours
    if not type(error).__module__.startswith("minigrad") and not (
        isinstance(error, ValueError) and raised_by in ("minigrad", "models")
    ):
        what = f"{type(error).__name__}: {what.rstrip('.')} ({os.path.basename(frame.f_code.co_filename)}, line {line})."
    print(
        f"minigrad: rank {comm.rank} of {comm.size} failed, which ends the whole job. {what}",
        file=sys.__stderr__,
        flush=True,
    )
    abort(comm, 130 if isinstance(error, KeyboardInterrupt) else 2)


def abort(comm, status):
    sys.stdout.flush()
    comm.Abort(status)
    os._exit(status)  # Abort only asks for the end: without this, what comes after would still happen
