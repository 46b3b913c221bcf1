"""The isolated process: loads a learner's file, runs drivers on it and writes down what they give. Knows no solution and no verdict.

Started by isolation.py as `python -I child.py JOB`, in an empty temporary folder. What it closes to the learner's code is in
`closed`; what that is worth, and what it is not, stands in tutorials/TEACHING.md.
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
    # NumPy loads numpy.random when it is first asked for, and some releases then look for packages that the hook refuses
    for name in ("numpy.random", *job["uses"]):
        __import__(name)
    with open(job["file"], encoding="utf-8") as file:
        source = file.read()
    results = os.open(job["results"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(outcome, dumps=json.dumps, put=os.write):
        put(results, (dumps(outcome) + "\n").encode())

    limit(job["seconds"], job["bytes"])
    take_away()
    known = {*sys.stdlib_module_names, "numpy", "my", "values", *job["uses"]} - set(SHUT)
    leave = os._exit
    sys.addaudithook(closed(job["readable"], job["writable"], job["hidden"], known, sys.path, results))
    run(source, job, write, encode)
    try:
        sys.__stdout__.flush()
    finally:
        leave(0)  # threads that the learner left running are not waited for


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

    return (
        [decode(item) for item in driver["args"]]
        if driver["args"] is not None
        else [np.random.default_rng(driver["seed"])]
    )


def play(source, my, given):
    """Run a driver; its names are `my`, NumPy, math, and what it was given."""
    space = {"np": np, "math": __import__("math")}
    exec(source, space)
    before = [x.copy() if isinstance(x, np.ndarray) else x for x in given]
    value = space["driver"](my, *given)
    for number, (x, old) in enumerate(zip(given, before, strict=True)):
        if isinstance(x, np.ndarray) and not np.array_equal(x, old, equal_nan=True):
            raise InPlace(
                f"it writes into {'g' if number == 0 else f'its argument {number}'}, which others still need: work on a copy, or avoid += and the like on it"
            )
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
    places, step = [], error.__traceback__
    while step is not None:  # no source file is read for it, as traceback would
        code = step.tb_frame.f_code
        places += [[step.tb_lineno, code.co_name]] if code.co_filename == shown else []
        step = step.tb_next
    if isinstance(error, SyntaxError) and error.filename == shown:
        places.append([error.lineno, "<module>"])
    return {"kind": type(error).__name__, "message": message, "places": places[-3:]}


def limit(seconds, size):
    """Bounds of processor time, memory and files, where the system has them (not on Windows)."""
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


SHUT = (  # modules that open files, start processes or reach memory behind the hook's back
    "ctypes", "_ctypes", "readline", "sqlite3", "_sqlite3", "dbm", "_dbm", "_gdbm", "multiprocessing", "_multiprocessing", "_posixsubprocess",
    "_posixshmem", "_winapi", "msvcrt", "mmap", "socket", "_socket", "ssl", "_ssl", "pty", "termios", "fcntl", "curses", "_curses", "_testcapi",
    "_testinternalcapi", "_xxsubinterpreters", "_interpreters", "_xxinterpchannels", "tkinter", "_tkinter", "subprocess", "resource", "syslog",
)  # fmt: skip
TAKEN = (  # functions that no audit event announces
    "fork", "forkpty", "vfork", "posix_spawn", "posix_spawnp", "memfd_create", "pidfd_open", "setpriority", "mkfifo", "mknod", "utime", "setxattr",
    "setuid", "setgid", "chroot", "fchdir", "sched_setaffinity", "sched_setscheduler", "pidfd_send_signal", "signal", "setitimer", "alarm",
    "raise_signal", "set_wakeup_fd", "create_builtin",
)  # fmt: skip
CLOSED = (
    "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "os.kill", "pty.", "signal.", "resource.",
    "socket.", "ctypes.", "gc.get_", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate", "os.mkdir", "os.chdir", "os.utime",
    "shutil.", "winreg.", "webbrowser.", "urllib.", "ftplib.", "smtplib.", "sqlite3.", "mmap.", "sys.settrace", "sys.setprofile", "sys._current",
    "sys.monitoring", "cpython.", "code.__new__",
)  # fmt: skip


def take_away():
    """Load what is built in and harmless; then drop the modules of SHUT wherever they are held, and the functions TAKEN."""
    for name in sys.builtin_module_names:
        if name not in SHUT:
            __import__(name)
    linecache.updatecache = lambda *_: []  # who prints a traceback would read our files for its lines
    for name in SHUT:
        sys.modules.pop(name, None)
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if type(value) is type(sys) and value.__name__ in SHUT:
                setattr(module, name, None)
    for name in ("os", "posix", "nt", "signal", "_signal", "_imp"):
        for taken in TAKEN:
            vars(sys.modules[name]).pop(taken, None) if name in sys.modules else None


def closed(readable, writable, hidden, allowed, listed, results):
    """An audit hook, which Python calls before it opens, starts or imports anything, and which cannot be taken off again.

    What is refused ends the process, after a sentence: an exception would hand the hook's own frame to the learner's code. For the
    same reason all that it uses is held as defaults, not looked up under names that could be given another meaning, and paths are
    compared as text: no links can be made, and nothing that goes up (..) is opened.
    """
    slashed = [
        tuple(folder.rstrip(os.sep) + os.sep for folder in folders)
        for folders in (readable, writable, hidden)
    ]

    def hook(
        event, args, readable=slashed[0], writable=slashed[1], hidden=slashed[2], allowed=frozenset(allowed), results=results, sep=os.sep, up="..",
        type=type, str=str, bytes=bytes, int=int, len=len, decode=bytes.decode, encode=str.encode, starts=str.startswith, split=str.split, put=os.write,
        leave=os._exit, writing=os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, shut=CLOSED, absent=frozenset(SHUT), devices=("/dev/null", "/dev/urandom", "nul"),
        windows=os.name == "nt", changing=("os.remove", "os.rename", "os.rmdir"), looking=("os.listdir", "os.scandir", "glob.glob"), listed=frozenset(listed),
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
                    refused = (
                        ""
                        if own and args[-1] == -1
                        else "an exercise may change files in its own folder only"
                    )
                elif event in looking:
                    refused = (
                        ""
                        if own or known or path in listed
                        else "an exercise may not look into other folders"
                    )
                elif path in devices or own:
                    refused = ""
                elif args[1] is None or args[2] & writing:
                    refused = "an exercise may write into its own folder only"
                elif not known:
                    refused = "an exercise may not read other files: the answer is to be worked out here"
                if refused:
                    break
        elif event == "import":
            name, path = args[0], args[1]
            if type(name) is not str or split(name, ".")[0] not in allowed or split(name, ".")[-1] in absent:
                refused = "only NumPy and Python's own library can be imported here, and not all of it"
                refused += (
                    f" (not {name}; is it spelled right?)"
                    if type(name) is str and name.isidentifier()
                    else ""
                )
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
