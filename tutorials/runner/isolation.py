"""Runs drivers on a learner's file in a process of its own, with limits, and brings back what they gave. Knows no right answers.

The process gets a copy of one file in an empty temporary folder. It hands back text that values.decode reads; what it prints goes to
a file, of which the beginning is read. When its time is over, or it prints too much, it is ended.
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
GRACE = 5.0  # seconds more for starting Python and NumPy, which on a busy machine is not the learner's time
MEMORY = 4_000_000_000  # bytes of address space; NumPy's libraries alone reserve hundreds of millions
PRINTED = 20_000  # characters of what it prints that are kept
FLOOD = 10_000_000  # bytes printed after which it is ended
MOST_RESULTS = 4_000_000  # bytes


@dataclass
class Outcome:
    """What one driver gave: a value, or an error as kind, message and places (line, function) in the learner's file."""

    value: object = None
    kind: str = ""
    message: str = ""
    places: list = field(default_factory=list)

    @property
    def failed(self):
        return bool(self.kind)


@dataclass
class Run:
    """What became of a file: the outcome of each driver, in order; `ended` says why some are missing."""

    outcomes: list
    printed: str = ""
    ended: str = ""
    unread: bool = False  # the file could not even be loaded


def run(source, drivers, uses=(), shown="exercise.py", seconds=SECONDS):
    """Run drivers (dicts with source and seed, or args) on a file's text; never raises because of what the text does."""
    with tempfile.TemporaryDirectory(prefix="minigrad-", ignore_cleanup_errors=True) as folder:
        folder = Path(folder).resolve()
        (folder / "submission.py").write_text(source, encoding="utf-8", errors="surrogateescape")
        job = dict(
            file=str(folder / "submission.py"), shown=shown, results=str(folder / "results"), drivers=drivers, uses=list(uses),
            course=str(HERE), paths=_paths(uses), seconds=seconds, bytes=MEMORY, writable=[str(folder)], readable=_readable(uses), hidden=_hidden(uses),
        )  # fmt: skip
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        ended, printed = _until_it_ends(folder, seconds)
        return _read(folder / "results", len(drivers), ended, printed, seconds)


def _paths(uses):
    """Where the child finds NumPy, and minigrad if the exercise is done with it."""
    return [str(Path(np.__file__).resolve().parents[1])] + ([str(ROOT)] if uses else [])


def _readable(uses):
    """Folders whose files may be opened: Python's own library, NumPy, and what the exercise uses; as they are called and where they lie."""
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


def _until_it_ends(folder, seconds):
    """(why it was ended or "", what it printed)."""
    keep = {
        name: os.environ[name]
        for name in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "LANG", "TZ")
        if name in os.environ
    }
    environment = {**keep, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TMPDIR": str(folder), "TEMP": str(folder), "HOME": str(folder)}  # fmt: skip
    own_group = (
        {"start_new_session": True}
        if os.name == "posix"
        else {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    )
    printed = folder / "printed"
    with open(printed, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-X", "utf8", "-W", "ignore", str(HERE / "child.py"), str(folder / "job.json")],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **own_group,
        )  # fmt: skip
    try:
        ended = _watch(process, printed, time.monotonic() + seconds + GRACE)
    finally:
        _end(process)
    with open(printed, "rb") as out:
        ended = "flood" if printed.stat().st_size > FLOOD else ended
        return ended, clean(out.read(PRINTED).decode("utf-8", "replace"))


def _watch(process, printed, until):
    """Wait for the end; "time" or "flood" if it has to be made."""
    while time.monotonic() < until:
        try:
            process.wait(0.1)
            return ""
        except subprocess.TimeoutExpired:
            if printed.stat().st_size > FLOOD:
                return "flood"
    return "time"


def _end(process):
    """End it and what it started."""
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
    """Without characters that a terminal or a spreadsheet would obey, and without halves of characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\ufffd" for c in text)


def _read(path, count, ended, printed, seconds):
    """The Run that the process wrote down."""
    lines = []
    if path.is_file() and not path.is_symlink():
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(MOST_RESULTS).split("\n")[:-1][: count + 1]
    outcomes = [_outcome(line) for line in lines]
    if outcomes and outcomes[0].failed:  # the file could not even be loaded
        return Run([outcomes[0]] * count, printed, unread=True)
    # no room to print in is what they failed of
    outcomes = [o for o in outcomes[1:] if not (ended == "flood" and o.failed)]
    if len(outcomes) == count:
        return Run(outcomes, printed)
    said = {
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
        said = outcomes[-1]
    return Run(outcomes + [said] * (count - len(outcomes)), printed, ended or "ended")


def _last(printed):
    """The last line that a dying interpreter printed, which often says why."""
    lines = [line for line in printed.splitlines() if line.strip()]
    return f" (its last line: {lines[-1][:200]})" if lines else " (os._exit, or too much memory)"


def _outcome(line):
    """One line of what the process wrote, which may be anything."""
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
        return Outcome(kind="Unreadable", message="its process handed back something unreadable")
