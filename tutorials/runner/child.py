"""The isolated process: loads a learner's file, runs drivers on it and writes down what they give. Knows no solution and no verdict.

Started by isolation.py as `python -I child.py JOB`, in an empty temporary folder. What it closes to the learner's code is in
`closed`; what that is worth, and what it is not, stands in tutorials/TEACHING.md.
"""

import json
import os
import sys
import traceback

import numpy as np


def main(job):
    with open(job, encoding="utf-8") as file:
        job = json.load(file)
    sys.path.insert(0, job["course"])
    from values import encode

    sys.path[:] = [path for path in sys.path if path != job["course"]] + job["paths"]
    for name in job["uses"]:
        __import__(name)
    limit(job["seconds"], job["bytes"])
    with open(job["results"], "a", encoding="utf-8") as results, open(job["file"], encoding="utf-8") as file:
        source = file.read()

        def write(outcome, dumps=json.dumps, put=results.write, flush=results.flush):
            put(dumps(outcome) + "\n")
            flush()

        for name in SHUT:  # what NumPy has loaded already would not be asked for again
            sys.modules.pop(name, None)
        known = {*sys.stdlib_module_names, "numpy", "my", "values", *job["uses"]} - set(SHUT)
        sys.addaudithook(closed(job["readable"], job["writable"], job["hidden"], known))
        run(source, job, write, encode)


def run(source, job, write, encode):
    """One line for loading the file, then one for each driver."""
    my = type(sys)("my")
    my.__file__ = job["shown"]
    sys.modules["my"] = my
    failure = attempt(lambda: exec(compile(source, job["shown"], "exec"), my.__dict__), job["shown"])[1]
    write({"error": failure} if failure else {"value": None})
    for driver in [] if failure else job["drivers"]:
        given = decoded(driver)
        value, failure = attempt(lambda: encode(play(driver["source"], my, given)), job["shown"])  # noqa: B023
        write({"error": failure} if failure else {"value": value})


def decoded(driver):
    from values import decode  # already loaded

    return [decode(item) for item in driver["args"]] if driver["args"] is not None else [np.random.default_rng(driver["seed"])]


def play(source, my, given):
    """Run a driver; its names are `my`, NumPy, math, and what it was given."""
    space = {"np": np, "math": __import__("math")}
    exec(source, space)
    before = [x.copy() if isinstance(x, np.ndarray) else x for x in given]
    value = space["driver"](my, *given)
    for number, (x, old) in enumerate(zip(given, before, strict=True)):
        if isinstance(x, np.ndarray) and not np.array_equal(x, old, equal_nan=True):
            raise InPlace(f"it writes into {'g' if number == 0 else f'its argument {number}'}, which others still need: work on a copy, or avoid += and the like on it")
    return value


class InPlace(Exception):
    """The learner's function changed what it was given."""


def attempt(action, shown):
    """(value, None), or (None, what went wrong: kind, message, and the places in the learner's file)."""
    try:
        return action(), None
    except BaseException as error:  # sys.exit and Ctrl-C raised by the learner's code, too
        return None, described(error, shown)


def described(error, shown):
    try:
        message = str(error)[:500]
    except BaseException:
        message = ""
    places = [[f.lineno, f.name] for f in traceback.extract_tb(error.__traceback__, limit=-60) if f.filename == shown]
    if isinstance(error, SyntaxError) and error.filename == shown:
        places.append([error.lineno, "<module>"])
    return {"kind": type(error).__name__, "message": message, "places": places[-3:]}


def limit(seconds, size):
    """Bounds of processor time, memory and files, where the system has them (not on Windows)."""
    try:
        import resource
    except ImportError:
        return
    for name, value in (("RLIMIT_CPU", int(seconds) + 10), ("RLIMIT_AS", size), ("RLIMIT_FSIZE", 64_000_000), ("RLIMIT_CORE", 0)):
        try:
            hard = resource.getrlimit(getattr(resource, name))[1]
            resource.setrlimit(getattr(resource, name), (value, value if hard == resource.RLIM_INFINITY else min(value, hard)))
        except (AttributeError, ValueError, OSError):
            pass


SHUT = (  # modules that open files, start processes or reach memory behind the hook's back
    "ctypes", "_ctypes", "readline", "sqlite3", "_sqlite3", "dbm", "_dbm", "_gdbm", "multiprocessing", "_multiprocessing", "_posixsubprocess",
    "_winapi", "msvcrt", "nt", "mmap", "socket", "_socket", "ssl", "_ssl", "pty", "termios", "fcntl", "curses", "_curses", "_testcapi",
    "_testinternalcapi", "_xxsubinterpreters", "_interpreters", "_xxinterpchannels", "tkinter", "_tkinter", "subprocess",
)  # fmt: skip
CLOSED = (
    "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "os.kill", "pty.", "signal.pthread_kill",
    "socket.", "ctypes.", "gc.get_", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate",
    "shutil.", "winreg.", "webbrowser.", "urllib.", "ftplib.", "smtplib.", "sqlite3.", "mmap.", "sys.settrace", "sys.setprofile", "cpython.",
)  # fmt: skip


def closed(readable, writable, hidden, allowed):
    """An audit hook, which Python calls before it opens, starts or imports anything and which cannot be taken off again."""
    readable, writable, hidden, allowed = tuple(readable), tuple(writable), tuple(hidden), frozenset(allowed)
    real, join, fspath, getcwd, sep = os.path.realpath, os.path.join, os.fspath, os.getcwd, os.sep
    writing, kinds, devices = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, (str, bytes), ("/dev/null", "/dev/urandom")
    refused, missing, starts, shut = PermissionError, ImportError, str.startswith, CLOSED
    text, split, decode = str, str.split, os.fsdecode

    def under(path, folders):
        for folder in folders:
            if path == folder or starts(path, folder + sep):
                return True
        return False

    def hook(event, args):
        if event == "open":
            path, mode, flags = args
            if not isinstance(path, kinds) and not hasattr(path, "__fspath__"):
                return
            path = real(join(getcwd(), decode(fspath(path))))
            if flags & writing if mode is None else any(c in mode for c in "wax+"):
                if not under(path, writable):
                    raise refused("an exercise may write into its own folder only")
            elif path not in devices and (not under(path, (*readable, *writable)) or under(path, hidden)):
                raise refused("an exercise may not read other files: the answer is to be worked out here")
        elif event == "import":
            if split(text(args[0]), ".")[0] not in allowed:
                raise missing(f"there is no {args[0]} here: only NumPy and Python's own library can be imported (is it spelled right?)")
        elif event in ("os.listdir", "os.scandir", "glob.glob") and args[0] is not None:
            if isinstance(args[0], kinds) and not under(real(decode(args[0])), (*readable, *writable)):
                raise refused("an exercise may not look into other folders")
        elif starts(event, shut):
            raise refused(f"an exercise may not do this ({event})")

    return hook


if __name__ == "__main__":
    main(sys.argv[1])
