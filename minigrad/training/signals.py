"""Signals that ask a process to stop: the first is remembered, so that a step can be finished and saved; a second one stops at
once. Knows signals and nothing of training."""

import contextlib
import os
import signal

# Ctrl-C; the system or kill; a closed terminal; Ctrl-Break on Windows
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class Interruption:
    """`with Interruption(sentence) as stop:` until its end, stop.asked is the first signal that came, None before.

    sentence   is printed when it comes; a second signal raises KeyboardInterrupt wherever the program is
    A signal that was ignored before (nohup, a job in the background) stays so; threads other than the first hear none.
    """

    def __init__(self, sentence=""):
        self.sentence, self.asked, self._before = sentence, None, {}

    @property
    def status(self):
        """The exit status that says which signal ended the program: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.asked or signal.SIGINT)

    def __enter__(self):
        with contextlib.suppress(ValueError):  # not the first thread
            for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number, frame):
        if self.asked is not None:
            raise KeyboardInterrupt
        self.asked = number
        # of a terminal that has gone; os.write, as print may be what was interrupted
        with contextlib.suppress(OSError):
            os.write(2, f"\n{self.sentence}\n".encode())
