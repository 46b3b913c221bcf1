"""python tests/support/stopping.py HOW NUMBER [arguments of train]: run minigrad.train and stop it in one of
many ways.

HOW                        NUMBER
exception                  batch at which an exception is raised
SIGTERM, SIGINT, SIGKILL   batch at which the signal arrives
twice                      batch at which two SIGINT arrive
full                       batch from which no file can grow beyond 20 kB
later                      milliseconds from the first batch to SIGKILL
before write, middle of write, before rename, after rename
                           file at which SIGKILL arrives
nothing                    (ignored)

The test and the pictures after the training are left out.
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
    "exception": boom,
    "SIGTERM": lambda: signal.raise_signal(signal.SIGTERM),
    "SIGINT": lambda: signal.raise_signal(signal.SIGINT),
    "twice": lambda: (signal.raise_signal(signal.SIGINT), signal.raise_signal(signal.SIGINT)),
    "SIGKILL": kill,
    "full": fill_the_disk,
}


def at_batch(number, stop):
    """Call `stop` after `number` batches of training in this process."""
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
    """Send SIGKILL while the file of this number is written."""
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
    if how in ("SIGINT", "twice"):  # a process started in the background ignores SIGINT
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
