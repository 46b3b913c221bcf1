"""Run drivers on a learner's file in a process of its own, with limits, and return their outcomes.

The process gets a copy of one file in an empty temporary folder. It returns text that values.decode reads;
its output goes to a file, whose beginning is read. It is killed when its time is over or when it prints too
much.
"""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tutorials.runner.values import Unreadable, decode

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = 10.0  # for all checks of one exercise
GRACE = 5.0  # more seconds, for starting Python and NumPy on a busy machine
MEMORY = 4_000_000_000  # bytes of address space; NumPy's libraries alone reserve hundreds of millions
PRINTED = 20_000  # characters of its output that are kept
FLOOD = 10_000_000  # bytes of output after which it is killed
MOST_RESULTS = 4_000_000  # bytes


@dataclass
class Outcome:
    """The outcome of one driver: a value, or an error with kind, message and places (line, function)."""

    value: object = None
    kind: str = ""
    message: str = ""
    places: list = field(default_factory=list)

    @property
    def failed(self):
        return bool(self.kind)


@dataclass
class Run:
    """The run of a file: the outcomes of its drivers, in order. `ended` tells why some are missing."""

    outcomes: list
    printed: str = ""
    ended: str = ""
    unread: bool = False  # True if the file could not be loaded


def run(source, drivers, uses=(), shown="exercise.py", seconds=SECONDS):
    """Run drivers (dicts with source and seed, or args) on a file's text, whose errors become outcomes."""
    with tempfile.TemporaryDirectory(prefix="minigrad-", ignore_cleanup_errors=True) as folder:
        folder = Path(folder).resolve()
        (folder / "submission.py").write_text(source, encoding="utf-8", errors="surrogateescape")
        job = dict(
            file=str(folder / "submission.py"),
            shown=shown,
            results=str(folder / "results"),
            drivers=drivers,
            uses=list(uses),
            course=str(HERE),
            paths=_paths(uses),
            seconds=seconds,
            bytes=MEMORY,
            writable=[str(folder)],
            readable=_readable(uses),
            hidden=_hidden(uses),
        )
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        ended, printed = _run_process(folder, seconds)
        return _read(folder / "results", len(drivers), ended, printed, seconds)


def _paths(uses):
    """Return the import paths of the child: for NumPy, and for minigrad if the exercise uses it."""
    return [str(Path(np.__file__).resolve().parents[1])] + ([str(ROOT)] if uses else [])


def _readable(uses):
    """Return the folders whose files may be opened: Python's library, NumPy, and what the exercise uses.

    Each is listed as it is named and with its links resolved.
    """
    numpy, paths = Path(np.__file__).parent, sysconfig.get_paths()
    folders = {
        paths["stdlib"],
        paths["platstdlib"],
        os.path.dirname(os.__file__),
        f"{sys.base_prefix}/DLLs",
        str(numpy),
        f"{numpy}.libs",
    }
    return sorted(
        folders | {os.path.realpath(folder) for folder in folders} | {str(ROOT / name) for name in uses}
    )


def _hidden(uses):
    return [str(ROOT / name) for name in ("tutorials", "models", "minigrad", "tests") if name not in uses]


def _run_process(folder, seconds):
    """Start the process and wait for its end. Returns (why it was killed or "", its output)."""
    passed_on = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "LANG", "TZ")
    environment = {name: os.environ[name] for name in passed_on if name in os.environ}
    environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment |= dict.fromkeys(("TMPDIR", "TEMP", "HOME"), str(folder))
    own_group = (
        {"start_new_session": True}
        if os.name == "posix"
        else {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    )
    printed = folder / "printed"
    with open(printed, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, *"-I -B -X utf8 -W ignore".split(), HERE / "child.py", folder / "job.json"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            **own_group,
        )
    try:
        ended = _watch(process, printed, time.monotonic() + seconds + GRACE)
    finally:
        _end(process)
    with open(printed, "rb") as out:
        ended = "flood" if printed.stat().st_size > FLOOD else ended
        return ended, clean(out.read(PRINTED).decode("utf-8", "replace"))


def _watch(process, printed, until):
    """Wait for the end of the process. Returns "time" or "flood" if it has to be killed, else ""."""
    while time.monotonic() < until:
        try:
            process.wait(0.1)
            return ""
        except subprocess.TimeoutExpired:
            if printed.stat().st_size > FLOOD:
                return "flood"
    return "time"


def _end(process):
    """Kill the process and the processes it started."""
    if os.name == "posix":
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    elif process.poll() is None:
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True)
    process.kill()
    process.wait()


def clean(text):
    """Replace control characters, which a terminal or a spreadsheet would obey, and lone surrogates."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\ufffd" for c in text)


def _read(path, count, ended, printed, seconds):
    """Read the Run from the file that the process wrote."""
    lines = []
    if path.is_file() and not path.is_symlink():
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(MOST_RESULTS).split("\n")[:-1][: count + 1]
    outcomes = [_outcome(line) for line in lines]
    if outcomes and outcomes[0].failed:  # the file could not be loaded
        return Run([outcomes[0]] * count, printed, unread=True)
    # after a flood, errors are those of a full output file
    outcomes = [o for o in outcomes[1:] if not (ended == "flood" and o.failed)]
    if len(outcomes) == count:
        return Run(outcomes, printed)
    missing = {
        "time": Outcome(
            kind="Timeout",
            message=f"it did not come to an end within {seconds:g} seconds: is there a loop that never ends?",
        ),
        "flood": Outcome(
            kind="Flood",
            message=f"it printed more than {FLOOD:,} bytes and was stopped: take the print out of the loop",
        ),
        "": Outcome(kind="Ended", message=f"its process ended before the check did{_last(printed)}"),
    }[ended]
    if outcomes and outcomes[-1].kind == "Refused":
        missing = outcomes[-1]
    return Run(outcomes + [missing] * (count - len(outcomes)), printed, ended or "ended")


def _last(printed):
    """Return the last printed line, which often tells why the process ended."""
    lines = [line for line in printed.splitlines() if line.strip()]
    return f" (its last line: {lines[-1][:200]})" if lines else " (os._exit, or too much memory)"


def _outcome(line):
    """Read one line that the process wrote. Never raises: the line may contain anything."""
    try:
        found = json.loads(line)
        if "error" in found:
            error = found["error"]
            places = [(int(n or 0), clean(str(name))[:100]) for n, name in error["places"]]
            return Outcome(
                kind=clean(str(error["kind"]))[:100],
                message=clean(str(error["message"]))[:500],
                places=places,
            )
        return Outcome(decode(found["value"]))
    except Unreadable as error:
        return Outcome(kind="Unreadable", message=str(error))
    except Exception:
        return Outcome(kind="Unreadable", message="its process returned something unreadable")
