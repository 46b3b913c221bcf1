"""The isolated process: load a learner's file, run drivers on it, and write down their results.

isolation.py starts it as `python -I child.py JOB`, in an empty temporary folder. `make_hook` lists what the
learner's code may not do; tutorials/TEACHING.md explains what that protects and what it does not.
"""

import json
import linecache
import os
import sys

import numpy as np


def main(job):
    with open(job, encoding="utf-8") as file:
        job = json.load(file)
    sys.path.insert(0, job["course"])
    from values import encode

    sys.path[:] = [path for path in sys.path if path != job["course"]] + job["paths"]
    # NumPy loads numpy.random on first use, and some releases then import packages that the hook refuses
    for name in ("numpy.random", *job["uses"]):
        __import__(name)
    with open(job["file"], encoding="utf-8") as file:
        source = file.read()
    results = os.open(job["results"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(outcome, dumps=json.dumps, put=os.write):
        put(results, (dumps(outcome) + "\n").encode())

    limit(job["seconds"], job["bytes"])
    remove_modules()
    known = {*sys.stdlib_module_names, "numpy", "my", "values", *job["uses"]} - set(SHUT)
    leave = os._exit
    sys.addaudithook(make_hook(job["readable"], job["writable"], job["hidden"], known, sys.path, results))
    run(source, job, write, encode)
    try:
        sys.__stdout__.flush()
    finally:
        leave(0)  # do not wait for threads that the learner left running


def run(source, job, write, encode):
    """Write one line for loading the file, then one for each driver."""
    my = type(sys)("my")
    my.__file__ = job["shown"]
    sys.modules["my"] = my
    failure = attempt(lambda: exec(compile(source, job["shown"], "exec"), my.__dict__), job["shown"])[1]
    write({"error": failure} if failure else {"value": None})
    for driver in [] if failure else job["drivers"]:
        given = arguments(driver)
        source = driver["source"]
        value, failure = attempt(lambda: encode(play(source, my, given)), job["shown"])  # noqa: B023
        write({"error": failure} if failure else {"value": value})


def arguments(driver):
    from values import decode  # already loaded

    if driver["args"] is None:
        return [np.random.default_rng(driver["seed"])]
    return [decode(item) for item in driver["args"]]


def play(source, my, given):
    """Run a driver. It knows the names `my`, NumPy, math, and its arguments."""
    space = {"np": np, "math": __import__("math")}
    exec(source, space)
    before = [x.copy() if isinstance(x, np.ndarray) else x for x in given]
    value = space["driver"](my, *given)
    for number, (x, old) in enumerate(zip(given, before, strict=True)):
        if isinstance(x, np.ndarray) and not np.array_equal(x, old, equal_nan=True):
            what = "g" if number == 0 else f"its argument {number}"
            raise InPlace(
                f"it writes into {what}, which other code still needs: work on a copy, or avoid += and the "
                "like on it"
            )
    return value


class InPlace(Exception):
    """Raised when the learner's function changed one of its arguments."""


def attempt(action, shown):
    """Return (value, None), or (None, the error: kind, message, and places in the learner's file)."""
    try:
        return action(), None
    except BaseException as error:  # includes sys.exit and Ctrl-C raised by the learner's code
        return None, describe(error, shown)


def describe(error, shown):
    """Return the kind and message of an error, and the lines of the learner's file that it passed."""
    try:
        message = str(error)[:500]
    except BaseException:
        message = ""
    places, step = [], error.__traceback__
    while step is not None:  # the traceback module would read source files
        code = step.tb_frame.f_code
        places += [[step.tb_lineno, code.co_name]] if code.co_filename == shown else []
        step = step.tb_next
    if isinstance(error, SyntaxError) and error.filename == shown:
        places.append([error.lineno, "<module>"])
    return {"kind": type(error).__name__, "message": message, "places": places[-3:]}


def limit(seconds, size):
    """Limit processor time, memory and file sizes, on systems that can (not on Windows)."""
    try:
        import resource
    except ImportError:
        return
    for name, value in (
        ("RLIMIT_CPU", int(seconds) + 10),
        ("RLIMIT_AS", size),
        ("RLIMIT_FSIZE", 16_000_000),
        ("RLIMIT_CORE", 0),
    ):
        try:
            hard = resource.getrlimit(getattr(resource, name))[1]
            resource.setrlimit(
                getattr(resource, name),
                (value, value if hard == resource.RLIM_INFINITY else min(value, hard)),
            )
        except (AttributeError, ValueError, OSError):
            pass


SHUT = (  # modules that open files, start processes or reach memory without an audit event
    "ctypes", "_ctypes", "readline", "sqlite3", "_sqlite3", "dbm", "_dbm", "_gdbm", "multiprocessing",
    "_multiprocessing", "_posixsubprocess", "_posixshmem", "_winapi", "msvcrt", "mmap", "socket", "_socket",
    "ssl", "_ssl", "pty", "termios", "fcntl", "curses", "_curses", "_testcapi", "_testinternalcapi",
    "_xxsubinterpreters", "_interpreters", "_xxinterpchannels", "tkinter", "_tkinter", "subprocess",
    "resource", "syslog",
)  # fmt: skip
TAKEN = (  # functions without an audit event
    "fork", "forkpty", "vfork", "posix_spawn", "posix_spawnp", "memfd_create", "pidfd_open", "setpriority",
    "mkfifo", "mknod", "utime", "setxattr", "setuid", "setgid", "chroot", "fchdir", "sched_setaffinity",
    "sched_setscheduler", "pidfd_send_signal", "signal", "setitimer", "alarm", "raise_signal",
    "set_wakeup_fd", "create_builtin",
)  # fmt: skip
CLOSED = (  # the beginnings of audit events that are refused
    "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "os.kill",
    "pty.", "signal.", "resource.", "socket.", "ctypes.", "gc.get_", "os.link", "os.symlink", "os.chmod",
    "os.chown", "os.truncate", "os.mkdir", "os.chdir", "os.utime", "shutil.", "winreg.", "webbrowser.",
    "urllib.", "ftplib.", "smtplib.", "sqlite3.", "mmap.", "sys.settrace", "sys.setprofile", "sys._current",
    "sys.monitoring", "cpython.", "code.__new__",
)  # fmt: skip


def remove_modules():
    """Load the harmless built-in modules; then remove the modules SHUT and the functions TAKEN everywhere."""
    for name in sys.builtin_module_names:
        if name not in SHUT:
            __import__(name)
    linecache.updatecache = lambda *_: []  # printing a traceback would read our files for its lines
    for name in SHUT:
        sys.modules.pop(name, None)
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if type(value) is type(sys) and value.__name__ in SHUT:
                setattr(module, name, None)
    for name in ("os", "posix", "nt", "signal", "_signal", "_imp"):
        for taken in TAKEN:
            vars(sys.modules[name]).pop(taken, None) if name in sys.modules else None


def make_hook(readable, writable, hidden, allowed, listed, results):
    """Make an audit hook: Python calls it before it opens, starts or imports anything, and cannot remove it.

    A refused action writes a message and ends the process: an exception would give the learner's code access
    to the hook's own frame. For the same reason the hook holds everything it uses in default arguments
    instead of global names, which the learner's code could replace. Paths are compared as strings; that
    suffices, because no links can be made and no path with .. is opened.
    """
    slashed = [
        tuple(folder.rstrip(os.sep) + os.sep for folder in folders)
        for folders in (readable, writable, hidden)
    ]

    def hook(
        event, args, readable=slashed[0], writable=slashed[1], hidden=slashed[2], allowed=frozenset(allowed),
        results=results, sep=os.sep, up="..", type=type, str=str, bytes=bytes, int=int, len=len,
        decode=bytes.decode, encode=str.encode, starts=str.startswith, split=str.split, put=os.write,
        leave=os._exit, writing=os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, shut=CLOSED,
        absent=frozenset(SHUT), devices=("/dev/null", "/dev/urandom", "nul"), windows=os.name == "nt",
        changing=("os.remove", "os.rename", "os.rmdir"), looking=("os.listdir", "os.scandir", "glob.glob"),
        listed=frozenset(listed),
    ):  # fmt: skip
        refused = ""
        if event == "open" or event in changing or event in looking:
            if event == "open" and type(args[0]) is int or event in looking and args[0] is None:
                return
            for path in args[:2] if event == "os.rename" else args[:1]:
                if type(path) is bytes:
                    path = decode(path, "utf-8", "surrogateescape")
                if type(path) is not str or up in split(path.replace("/", sep), sep):
                    refused = "an exercise may open plain paths only"
                    break
                if not (starts(path, sep) or windows and path[1:2] == ":"):
                    path = writable[0] + path
                own, known = (
                    starts(path + sep, writable),
                    starts(path + sep, readable) and not starts(path + sep, hidden),
                )
                if event in changing:
                    right = own and args[-1] == -1
                    refused = "" if right else "an exercise may change files in its own folder only"
                elif event in looking:
                    right = own or known or path in listed
                    refused = "" if right else "an exercise may not look into other folders"
                elif path in devices or own:
                    refused = ""
                elif args[1] is None or args[2] & writing:
                    refused = "an exercise may write into its own folder only"
                elif not known:
                    refused = "an exercise may not read other files: work the answer out here"
                if refused:
                    break
        elif event == "import":
            name, path = args[0], args[1]
            if type(name) is not str or split(name, ".")[0] not in allowed or split(name, ".")[-1] in absent:
                refused = "only NumPy and Python's own library can be imported here, and not all of it"
                if type(name) is str and name.isidentifier():
                    refused += f" (not {name}; is it spelled right?)"
            elif path is not None and (type(path) is not str or not starts(path, readable)):
                refused = "an exercise may not load native code"
        elif starts(event, shut):
            refused = f"an exercise may not do this ({event})"
        if refused:
            put(
                results,
                encode('{"error": {"kind": "Refused", "message": "' + refused + '", "places": []}}\n'),
            )
            leave(1)

    return hook


if __name__ == "__main__":
    main(sys.argv[1])
