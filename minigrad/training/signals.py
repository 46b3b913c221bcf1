"""Handle the signals that ask a process to stop: remember the first, so that the step can be finished and
saved; a second one stops at once."""

import contextlib
import os
import signal

# Ctrl-C; the system or kill; a closed terminal; Ctrl-Break on Windows
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class Interruption:
    """`with Interruption(message) as stop:` sets stop.asked, at first None, to the first signal's number.

    message   printed at the first signal; a second one raises KeyboardInterrupt wherever the program is
    A signal that was ignored before (nohup, a background job) stays so. Needs the main thread, else no
    effect.
    """

    def __init__(self, message=""):
        self.message, self.asked, self._before = message, None, {}

    @property
    def status(self):
        """Exit status for the signal that ended the program: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.asked or signal.SIGINT)

    def __enter__(self):
        with contextlib.suppress(ValueError):  # not the main thread
            for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number, frame):
        if self.asked is not None:
            raise KeyboardInterrupt
        self.asked = number
        # OSError: the terminal is closed. os.write, because print may be the call that was interrupted
        with contextlib.suppress(OSError):
            os.write(2, f"\n{self.message}\n".encode())
