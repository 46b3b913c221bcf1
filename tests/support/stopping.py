"""Runs minigrad.train and stops it: python tests/support/stopping.py HOW NUMBER [arguments of train]. Knows the ways a process can end.

HOW        NUMBER
exception  of the batch at which it is raised           SIGTERM, SIGINT, SIGKILL  of the batch at which the signal comes
twice      of the batch at which two SIGINT come        full    of the batch from which no file can grow beyond 20 kB
later      milliseconds after the first batch, in which SIGKILL comes whatever is going on
before write, middle of write, before rename, after rename   of the file at which SIGKILL comes
nothing
What comes after the training, the test and the pictures, is left out.
"""

import builtins
import os
import signal
import sys
import threading

from minigrad import saving, train
from minigrad.training import loop, progress

WRITES = ("before write", "middle of write", "before rename", "after rename")


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def fill_the_disk():
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))


def boom():
    raise RuntimeError("boom")


AT_BATCH = {
    "exception": boom, "SIGTERM": lambda: signal.raise_signal(signal.SIGTERM), "SIGINT": lambda: signal.raise_signal(signal.SIGINT),
    "twice": lambda: (signal.raise_signal(signal.SIGINT), signal.raise_signal(signal.SIGINT)), "SIGKILL": kill, "full": fill_the_disk,
}  # fmt: skip


def at_batch(number, stop):
    """Let `stop` happen when so many batches have been learned from in this process."""
    step, taken = loop.Training.step, iter(range(10**9))

    def stopping(self):
        if next(taken) == number:
            self.recipe.batch = lambda step: (
                vars(self.recipe).pop("batch"),
                stop(),
                self.recipe.batch(step),
            )[-1]
        return step(self)

    loop.Training.step = stopping


def at_write(number, how):
    """SIGKILL within the writing of a file."""
    write, written = saving.write_bytes, iter(range(10**9))

    class Half:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            kill()

    def writing(path, data):
        if next(written) == number:
            if how == "before write":
                kill()
            elif how == "middle of write":
                saving.open = lambda *given: Half(builtins.open(*given))
            else:
                replace = os.replace
                os.replace = lambda *names: (how == "before rename" and kill(), replace(*names), kill())
        write(path, data)

    saving.write_bytes = writing


def main(how, number, *arguments):
    if how in ("SIGINT", "twice"):  # also where this was started in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if how in AT_BATCH:
        at_batch(int(number), AT_BATCH[how])
    elif how in WRITES:
        at_write(int(number), how)
    elif how == "later":
        at_batch(0, threading.Timer(int(number) / 1000, kill).start)
    progress.finish = lambda *given: None
    return train.main([*arguments])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
