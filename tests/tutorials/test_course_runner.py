"""The course's runner: a learner's commands and files, hostile answers, and a teacher's grades."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tutorials import __main__ as door
from tutorials import check as check_here
from tutorials.runner import handout, isolation, lessons
from tutorials.runner.answers import Key, key_of
from tutorials.runner.lessons import CourseError
from tutorials.runner.progress import Progress
from tutorials.runner.values import Unreadable, decode, encode
from tutorials.runner.verdict import difference, judge

EXERCISE = '''"""Exercises of lesson 01."""

import numpy as np


def double(x):
    """Twice x: an array (...) -> (...)."""
    # solution
    return 2 * x
    # end


def double_backward(g):
    """The gradient of double's argument."""
    # solution
    return 2 * g
    # end
'''
CHECKS = """
import numpy as np
from tutorials.course import Checks

lesson = Checks()
double = lesson.exercise("double", ("What is twice x?", "Add x to itself.", "return x + ..."), "It is used everywhere.", seconds=2)

@double.check("a random array")
def _(my, rng):
    return my.double(rng.standard_normal((3, 4)))

@double.check("a list of what it gives")
def _(my, rng):
    return [my.double(np.arange(3)), "text", None, True, {"a": my.double(1.5)}]

double.wrong("You square: x * x grows too fast.", "2 * x", "x * x")
double.wrong("It is three times x.", "2 * x", "3 * x")

back = lesson.exercise("double_backward", ("?" * 11, "!" * 11, "." * 11), "Why it matters.", seconds=2)

@back.gradcheck(forward="double", inputs=lambda rng: [rng.standard_normal((2, 3))])
def _(my, g, x):
    return my.double_backward(g)

back.wrong("The factor is missing.", "2 * g", "g")
"""
LESSON = """# %% [markdown]
# # 01 · Doubling
#
# *Reading: 5 minutes. Exercises: 5 minutes. Needs: nothing.*
#
# Text.
"""


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one small lesson, and a folder to work in."""
    folder = tmp_path / "course" / "01_doubling"
    folder.mkdir(parents=True)
    for name, text in (("exercise.py", EXERCISE), ("checks.py", CHECKS), ("lesson.py", LESSON)):
        (folder / name).write_text(text)
    monkeypatch.setattr(lessons, "FOLDER", folder.parent)
    monkeypatch.setattr(isolation, "GRACE", 1.0)
    lessons.lessons.cache_clear()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    yield lessons.lessons()[0]
    lessons.lessons.cache_clear()


def type_(capsys, *words):
    """Run python -m tutorials WORDS. Returns (exit status, output)."""
    try:
        status = door.main(list(words))
    except SystemExit as end:
        status = end.code
    out = capsys.readouterr()
    return status, out.out + out.err


FILE = Path("my_minigrad/lesson01.py")


def solved(text=EXERCISE):
    FILE.write_text(text)


# ---------------------------------------------------------------- a learner's way


def test_the_way_through_a_lesson(course, capsys):
    assert "Next: read lesson 01, Doubling" in type_(capsys)[1]
    status, text = type_(capsys, "start", "1")
    assert (
        status == 0
        and FILE.exists()
        and "return 2 * x" not in FILE.read_text()
        and "check   python -m tutorials check 1" in text
    )
    status, text = type_(capsys, "check")
    assert status == 1 and "double is not written yet" in text and "and 1 more not written yet" in text
    solved(EXERCISE.replace("2 * x", "x * x"))
    status, text = type_(capsys, "check", "1")
    assert (
        status == 1
        and "WRONG double: 0 of 2 checks passed" in text
        and "You square: x * x grows too fast." in text
    )
    assert "ok    double_backward: 1 of 1 checks. Why it matters." in text
    assert "[#.      ] 1 of 2" in type_(capsys)[1]
    solved()
    status, text = type_(capsys, "check", "1")
    assert (
        status == 0
        and "All 2 exercises of lesson 01 pass." in text
        and "You have done every exercise there is" in text
    )
    assert "return 2 * g" in type_(capsys, "solution", "1")[1]


def test_start_never_overwrites_and_reset_keeps_a_copy(course, capsys, monkeypatch):
    type_(capsys, "start", "1")
    solved("mine = 1\n")
    assert "was not touched" in type_(capsys, "start", "01_doubling")[1] and FILE.read_text() == "mine = 1\n"
    monkeypatch.setattr("builtins.input", lambda text: "no")
    assert "Nothing was changed" in type_(capsys, "reset", "1")[1] and FILE.read_text() == "mine = 1\n"
    monkeypatch.setattr("builtins.input", lambda text: "yes")
    type_(capsys, "reset", "1")
    solved("mine = 2\n")
    type_(capsys, "reset", "1", "--yes")
    kept = {path.name: path.read_text() for path in FILE.parent.glob("*backup*")}
    assert (
        kept == {"lesson01.backup.py": "mine = 1\n", "lesson01.backup-1.py": "mine = 2\n"}
        and "is not written yet" in FILE.read_text()
    )


def test_hints_grow_stronger_and_the_solution_waits(course, capsys):
    type_(capsys, "start", "1")
    hints = [type_(capsys, "hint", "1")[1] for _ in range(4)]
    assert (
        [n for n in range(3) if f"hint {n + 1} of 3" in hints[n]] == [0, 1, 2]
        and "What is twice x?" in hints[0]
        and hints[3] == hints[2]
    )
    assert type_(capsys, "solution", "1", "double") == (2, "tutorials: double does not pass yet. A hint may be better: python -m tutorials hint 1. Add --anyway, and the exercise's name, to see the solution now.\n")  # fmt: skip
    assert "return 2 * x" in type_(capsys, "solution", "1", "double", "--anyway")[1]


@pytest.mark.parametrize(
    "words, said",
    [
        (["chek", "1"], "there is no command 'chek' (did you mean check?)"),
        (["check", "99"], "there is no lesson '99'"),
        (["check", "01_dubling"], "there is no lesson '01_dubling'"),
        (["check"], "To begin: python -m tutorials start 1"),
        (["check", "1"], "there is no"),
        (["hint", "1", "duble"], "(did you mean double?)"),
        (["check", "1", "--folder", str(Path(__file__))], "is a file; --folder takes a folder"),
        (["reset", "1"], "nothing to reset"),
        (["grade", "nowhere"], "there is no folder nowhere"),
    ],
)
def test_what_cannot_be_done_is_said(course, capsys, words, said):
    status, text = type_(capsys, *words)
    assert status == 2 and said in text


def test_what_the_learner_saved_is_read_whatever_its_form(course, capsys):
    type_(capsys, "start", "1")
    FILE.write_bytes(b"\xef\xbb\xbf" + EXERCISE.replace("\n", "\r\n").encode())  # as Notepad saves it
    assert type_(capsys, "check", "1")[0] == 0
    FILE.write_bytes(EXERCISE.encode("utf-16"))
    assert "not text in UTF-8" in type_(capsys, "check", "1")[1]
    solved(EXERCISE.replace("return 2 * x", "return 2 * (x"))
    status, text = type_(capsys, "check", "1")
    assert (
        status == 1
        and "SyntaxError" in text
        and "lesson01.py, line 9" in text
        and "cannot be loaded, so nothing was checked" in text
        and text.count("SyntaxError") == 1
    )


def test_an_error_leads_to_the_learners_own_line(course, capsys):
    type_(capsys, "start", "1")
    solved(EXERCISE.replace("    return 2 * x", "    y = x.shpe\n    return 2 * x"))
    text = type_(capsys, "check", "1", "double")[1]
    assert (
        "AttributeError" in text
        and "lesson01.py, line 9, in double: y = x.shpe" in text
        and "driver" not in text
    )
    assert (
        "checks was, with rng = np.random.default_rng(0):" in text
        and "> return my.double(rng.standard_normal((3, 4)))" in text
    )
    solved(EXERCISE.replace("def double(", "def duble("))
    assert "has no attribute 'double'" in type_(capsys, "check", "1")[1]
    solved(
        EXERCISE.replace(
            "return 2 * x", "print('here', x.shape if hasattr(x, 'shape') else x)\n    return 3 * x"
        )
    )
    text = type_(capsys, "check", "1")[1]
    assert "It printed:" in text and "| here (3, 4)" in text


def test_progress_heals(course, capsys):
    type_(capsys, "start", "1")
    solved()
    type_(capsys, "check", "1")
    path = FILE.parent / "progress.json"
    for broken in ("{", "[]", '{"lessons": 3}', ""):
        path.write_text(broken)
        status, text = type_(capsys)
        assert status == 0 and "progress.json could not be read; it is kept as progress.broken" in text
    for edited in (
        {"05": {}},
        {"01": 3},
        {"01": {"exercises": {"double": "yes"}}},
        {"01": {"exercises": {"double": {"tries": -1, "passed": 7}}}},
    ):
        path.write_text(json.dumps({"lessons": edited}))
        status, text = type_(capsys)
        assert status == 0 and "progress.json" in text
    path.unlink()
    assert "0 of 2" in type_(capsys)[1]
    assert type_(capsys, "check", "all")[0] == 0 and "done" in type_(capsys)[1]


def test_an_upgrade_says_what_changed(course, capsys):
    type_(capsys, "start", "1")
    solved("mine = 1\n")
    path = FILE.parent / "progress.json"
    found = json.loads(path.read_text())
    found["lessons"]["01"]["pieces"] = {"double": "another", "triple": "gone"}
    path.write_text(json.dumps(found))
    assert (
        "lesson 01 has changed since you started it (new: double_backward; removed: triple; changed: double)"
        in type_(capsys)[1]
    )
    assert (
        "lesson01.new.py" in type_(capsys, "start", "1")[1]
        and (FILE.parent / "lesson01.new.py").read_text() == course.stub
    )
    assert FILE.read_text() == "mine = 1\n" and "has changed" not in type_(capsys)[1]


def test_the_folder_is_found_from_inside_it(course, capsys, monkeypatch):
    type_(capsys, "start", "1")
    (FILE.parent / "deeper").mkdir()
    monkeypatch.chdir(FILE.parent / "deeper")
    assert "1 more not written" in type_(capsys, "check", "1")[1]
    monkeypatch.chdir("..")
    assert "1 more not written" in type_(capsys, "check", "1")[1]


def test_watch_checks_each_time_the_file_is_saved(course, capsys, monkeypatch):
    type_(capsys, "start", "1")
    naps = iter([lambda: None, lambda: (solved(), os.utime(FILE, ns=(1, 1)))])
    monkeypatch.setattr(
        door, "time", SimpleNamespace(sleep=lambda seconds: next(naps)(), strftime=lambda form: "12:00:00")
    )
    status, text = type_(capsys, "watch", "1")
    assert (
        status == 0
        and text.count("Lesson 01: Doubling") == 2
        and "not written yet" in text
        and "All 2 exercises" in text
    )


def test_doctor_says_what_is_there(course, capsys):
    status, text = type_(capsys, "doctor")
    assert (
        status == 0
        and "your code is checked in a process of its own" in text
        and "numpy" in text
        and "All that the course needs is here." in text
    )


# ---------------------------------------------------------------- in a notebook


def test_a_function_is_checked_where_it_was_written(course, capsys):
    def double(x):
        return 3 * x

    assert not check_here(double)
    assert "It is three times x." in capsys.readouterr().out

    def double(x):
        return x + x

    assert check_here(double) and "ok    double: 2 of 2 checks" in capsys.readouterr().out
    with pytest.raises(CourseError, match="no lesson has an exercise 'solved'"):
        check_here(solved)
    with pytest.raises(TypeError, match="takes the function itself"):
        check_here(3)


# ---------------------------------------------------------------- what is said of values


A = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 6.0]])


@pytest.mark.parametrize(
    "given, right, said",
    [
        (1.0, 2.0, "the result is 1, it should be 2"),
        (None, 1.0, "Is the `return` missing?"),
        ("1", 1.0, "should be a number, got a string"),
        ([[1.0], [1.0, 2.0]], 1.0, "got a list or tuple"),
        (A.T, A, "has the shape (3, 2); it should be (2, 3) (transposed?)"),
        (A[0], A[:1], "(a reduction without keepdims=True?)"),
        (A * 3, A, "It is 3 times what it should be"),
        (-A, A, "It is right except for its sign"),
        (A + 2, A, "It is too large by 2 everywhere"),
        (A[:, :2].T, A[:, :2], "It is right but transposed"),
        (A[::-1], A, "The numbers are right, their order is not"),
        (A * 0, A, "All of it is 0"),
        (A * np.nan, A, "There is NaN in it"),
        (np.where(A > 5, np.inf, A), A, "There is inf in it"),
        (A + [[0, 0, 1], [0, 0, 0]], A, "is 5 at index (0, 2), it should be 4 (1 of 6 entries differ)"),
        ([1.0, A * 2], [1.0, A], "result 2 is 12 at index (1, 2)"),
        ([A, 1.0], A, "of which the first is right: return that one alone"),
        (A * (1 + 1e-6), A, "the result is 6.000006 at"),
        (np.array([1e-17, 1.0]), np.array([0.0, 2.0]), "(1 of 2 entries differ)"),
        ([1.0], 1.0, "has the shape (1,)"),
        ([1.0], [1.0, 2.0], "should be 2 values, got 1"),
        ({"a": 1.0}, {"b": 1.0}, "should have the keys ['b'], got ['a']"),
        (1.0, True, "should be True, got 1.0"),
        (A, A > 2, "should contain booleans, got float64"),
        ("x", "y", "should be 'y', got 'x'"),
    ],
)
def test_a_difference_is_said(given, right, said):
    assert said in difference(given, right, 1e-7)


@pytest.mark.parametrize(
    "value",
    [
        A,
        [A, 1.0],
        {"a": A},
        "text",
        None,
        True,
        np.array([np.nan, np.inf, -np.inf]),
        np.array([]),
        A > 2,
        7,
        -1.5,
        float("inf"),
    ],
)
def test_what_is_equal_is_equal_and_travels(value):
    assert difference(decode(encode(value)), value, 1e-7) == ""


def test_rounding_is_no_mistake_and_a_boolean_of_numpy_is_one():
    assert (
        difference(A + 1e-12, A, 1e-7) == ""
        and difference(np.bool_(True), True, 1e-7) == ""
        and difference(3, 3.0, 1e-7) == ""
    )


def test_hostile_values_are_read_as_data():
    for text in (
        {"array": ["O", [1], ""]},
        {"array": ["<f8", [10**12], ""]},
        {"array": ["<f8", [-1], ""]},
        {"x": 1},
        3.5,
        {"list": 3},
        {"number": "x"},
    ):
        with pytest.raises(Unreadable):
            decode(text)
    deep = None
    for _ in range(100_000):
        deep = {"list": [deep]}
    with pytest.raises(Unreadable):
        decode(deep)
    with pytest.raises(Unreadable):
        encode(object())


# ---------------------------------------------------------------- answers that mean harm

SOLUTION = """
    return find_it(x)


def find_it(x):
    space = {{"np": np}}
    exec({reading}, space)
    return space["double"](x)
"""
READINGS = {
    "open": "open(PATH).read()",
    "pathlib": "__import__('pathlib').Path(PATH).read_text()",
    "os.open": "(lambda os: os.read(os.open(PATH, 0), 10**6))(__import__('os'))",
    "bytes": "open(PATH.encode()).read()",
    "io.open_code": "__import__('io').open_code(PATH).read()",
    "linecache": "''.join(__import__('linecache').getlines(PATH))",
    "numpy": "np.fromfile(PATH, np.uint8).tobytes()",
    "memmap": "np.memmap(PATH, np.uint8, 'r').tobytes()",
    "/proc": "open('/proc/self/root' + PATH).read()",
    "link": "(lambda os: (os.symlink(PATH, 'here'), open('here').read())[1])(__import__('os'))",
    "cat": "__import__('subprocess').check_output(['cat', PATH])",
    "os.system": "(lambda os: (os.system('cp ' + PATH + ' here'), open('here').read())[1])(__import__('os'))",
    "fork": "(lambda os: os.fork() and 1 / 0 or open(PATH).read())(__import__('os'))",
    "readline": "(lambda r: (r.read_history_file(PATH), chr(10).join(r.get_history_item(i) for i in range(1, 9)))[1])(__import__('readline'))",
    "multiprocessing": "__import__('multiprocessing').Pool(1).map(open, [PATH])[0]",
    "ctypes": "__import__('ctypes').CDLL(None).system(b'cat ' + PATH.encode())",
    "loader": "__import__('importlib.machinery').machinery.SourceFileLoader('x', PATH).get_data(PATH)",
    "the course": "__import__('tutorials.runner.lessons').runner.lessons.find('1').solution",
    "minigrad": "__import__('minigrad')",
    "the collector": "[o for o in __import__('gc').get_objects() if callable(o)]",
    "a str of one's own": "open(type('S', (str,), {'startswith': lambda s, *a: False})(PATH)).read()",
    "other builtins": "(lambda b, os: (setattr(b, 'isinstance', lambda *a: False), setattr(b, 'hasattr', lambda *a: False), os.read(os.open(PATH, 0), 10**6))[2])(__import__('builtins'), __import__('os'))",
    "another realpath": "(lambda p, os: (setattr(p, 'realpath', lambda *a, **k: os.getcwd() + '/x'), setattr(p, '_joinrealpath', lambda *a: (os.getcwd() + '/x', True)), open(PATH).read())[2])(__import__('posixpath'), __import__('os'))",
    "dir_fd": "(lambda os: os.read(os.open(PATH[1:], 0, dir_fd=os.open('/', 0)), 10**6))(__import__('os'))",
    "dir_fd of the library": "(lambda os: os.read(os.open('../' * 12 + PATH[1:], 0, dir_fd=os.open(os.path.dirname(os.__file__), 0)), 10**6))(__import__('os'))",
    "up from the library": "open(__import__('os').path.dirname(__import__('os').__file__) + '/..' * 12 + PATH).read()",
    "native code": "(lambda i, m: (m.ExtensionFileLoader, i.create_dynamic(type('S', (), {'name': 'my._posixsubprocess', 'origin': __import__('sysconfig').get_paths()['platstdlib'] + '/lib-dynload/_posixsubprocess.so'})()))[1])(__import__('_imp'), __import__('importlib.machinery').machinery)",
    "built-in code": "__import__('_imp').create_builtin(type('S', (), {'name': '_posixsubprocess'})())",
    "NumPy's ctypes": "np._core._internal.ctypes.CDLL(None)",
    "a hard link": "(lambda os: (os.link(PATH, 'here'), open('here').read())[1])(__import__('os'))",
    "a move": "(lambda os: (os.rename(PATH, 'here'), open('here').read())[1])(__import__('os'))",
    "a subinterpreter": "__import__('_xxsubinterpreters').run_string(__import__('_xxsubinterpreters').create(), 'print(1)')",
}


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_an_answer_that_looks_for_the_solution_does_not_pass(course, reading):
    body = SOLUTION.format(reading=reading.replace("PATH", repr(str(course.folder / "exercise.py"))))
    source = EXERCISE.replace("    return 2 * x\n", body)
    verdict = judge(key_of(course, "double"), source)
    assert verdict.passed == 0 and verdict.total == 2
    assert judge(key_of(course, "double_backward"), source).right  # and nothing else is harmed


HARM = {
    "a loop that never ends": ("while True: pass", "did not come to an end within"),
    "a loop that swallows everything": (
        "while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        "did not come to an end",
    ),
    "sys.exit": ("__import__('sys').exit(0)", "calls exit()"),
    "os._exit": ("__import__('os')._exit(0)", "process ended before the check did"),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "a gigabyte": ("import os\n    for _ in range(1000): os.write(1, b'x' * 10**6)", "it printed more than"),
    "print a gigabyte": ("for _ in range(1000): print('x' * 10**6)", "it printed more than"),
    "memory": ("return np.ones(10**12)", "MemoryError"),
    "a value too large": ("return np.zeros(10**8, np.int8)", "far more than is expected"),
    "recursion": ("return double(x)", "RecursionError"),
    "no data": ("return object()", "it returned a value of type object"),
    "an array of objects": ("return np.array([object()])", "an array of object"),
    "a patched comparison": (
        "np.allclose = lambda *a, **k: True; np.abs = lambda x: 0 * x; return 0 * x",
        "All of it is 0",
    ),
    "a patched json": ("import json; json.dumps = lambda *a, **k: 'null'; return 0 * x", ""),
    "a patched driver": (
        "import __main__; __main__.play = lambda *a: 1; __main__.attempt = lambda *a: ({'number': '1'}, None); return 0 * x",
        "",
    ),
    "forged results": ("open('results', 'w').write('{\"value\": null}' + chr(10) * 9); return 0 * x", ""),
    "rubbish for results": ("open('results', 'w').write('[' * 10**5 + chr(10)); return 0 * x", ""),
    "an equal-to-everything": (
        "class A(np.ndarray):\n        def __eq__(s, o): return True\n    return np.zeros_like(x).view(A)",
        "",
    ),
    "kills its parent": ("import os; os.kill(os.getppid(), 9)", "may not do this (os.kill)"),
    "writes elsewhere": ("open('/tmp/minigrad-was-here', 'w')", "may write into its own folder only"),
    "removes": (
        "import shutil; shutil.rmtree('/tmp/minigrad-was-here', ignore_errors=False)",
        "may not do this (shutil.rmtree)",
    ),
    "a network": ("import socket", "not socket; is it spelled right?"),
}


@pytest.mark.parametrize("body, said", HARM.values(), ids=HARM)
def test_an_answer_that_means_harm_neither_passes_nor_breaks_the_check(course, body, said):
    key = key_of(course, "double")
    key.seconds = 0.5
    verdict = judge(key, EXERCISE.replace("return 2 * x", body))
    assert verdict.passed < verdict.total and verdict.problems
    assert said.lower() in verdict.problems[0][1].lower(), verdict.problems
    assert len(verdict.printed) <= 20_000


@pytest.mark.parametrize(
    "text",
    [
        "import sys; sys.exit(0)",
        "raise SystemExit",
        "import os; os._exit(0)",
        "",
        "\0",
        "1 +",
        "while True: pass",
    ],
)
def test_a_file_that_ends_the_process_when_it_is_loaded_does_not_pass(course, text):
    key = key_of(course, "double")
    key.seconds = 0.5
    verdict = judge(key, text)
    assert verdict.passed == 0 and verdict.problems


# ---------------------------------------------------------------- a teacher


def hand_in(name, text, file="lesson01.py"):
    path = Path("class") / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_grade_gives_partial_credit_and_says_what_failed(course, capsys):
    hand_in("ada", EXERCISE)
    hand_in("blaise", EXERCISE.replace("2 * x", "x * x"), "my_minigrad/lesson01.py")
    hand_in("carl", course.stub)
    hand_in("dora", EXERCISE.replace("return 2 * x", "while True: pass"))
    hand_in("=emil", "import pathlib; print(*pathlib.Path('..').iterdir())")
    hand_in("fritz", EXERCISE).rename("class/fritz/other.py")
    Path("class/gauss").mkdir()
    Path("class/gauss/lesson01.py").symlink_to(course.folder / "exercise.py")
    hand_in("hilbert", "x = 1\n" * 400_000)
    status, text = type_(capsys, "grade", "class", "--csv", "out.csv", "--seed", "5")
    assert (
        status == 0
        and "8 learners, random inputs from --seed 5" in text
        and "fritz" in text
        and "no file lessonNN.py found" in text
    )
    rows = list(csv.DictReader(Path("out.csv").read_text(encoding="utf-8-sig").splitlines()))
    points = {
        name: [row["points"] for row in rows if row["learner"] == name]
        for name in ("ada", "blaise", "carl", "dora", "'=emil", "gauss", "hilbert")
    }
    assert points == {"ada": ["1.00", "1.00"], "blaise": ["0.00", "1.00"], "carl": ["0.00"] * 2, "dora": ["0.00", "1.00"], "'=emil": ["0.00"] * 2, "gauss": ["0.00"] * 2, "hilbert": ["0.00"] * 2}  # fmt: skip
    assert [tuple(row.values()) for row in rows if row["learner"] == "fritz"] == [
        ("fritz", "", "", "0", "0", "0.00", "no file lessonNN.py found")
    ]
    assert "2.00 of 2 points, 2 exercises in full" in text and "1.00 of 2 points, 1 exercise in full" in text
    said = {row["learner"]: row["what failed"] for row in rows if row["exercise"] == "double"}
    assert (
        said["blaise"] == "You square: x * x grows too fast."
        and "not written yet" in said["carl"]
        and "loop" in said["dora"]
    )
    assert "is a link" in said["gauss"] and "at most 1,000,000 are read" in said["hilbert"]


def test_no_answer_ends_the_grading_of_the_others(course, capsys):
    """Each of these once raised in the grader, or reached the teacher's terminal."""
    answers = {
        "big": "return 10**400", "bigger": "return 10**25", "scalar": "return np.array(3.0)", "half": "raise ValueError('\\ud800')",
        "forged": "open('results', 'a').write('{\"error\":{\"kind\":\"x\",\"message\":\"m\",\"places\":[[Infinity,\"a\"]]}}' + chr(10))",
        "escape": "raise type('\\x1b[2J', (Exception,), {})('\\x1b[31m')", "many": "open('results', 'a').write('{\"list\":[' + '{\"list\":[]},' * 10**6 + ']}' + chr(10))",
        "deep": "import os\n    for _ in range(3000): os.mkdir('d'); os.chdir('d')",
    }  # fmt: skip
    for name, body in answers.items():
        hand_in(name, EXERCISE.replace("return 2 * x", body))
    hand_in("zoe", EXERCISE)
    status, text = type_(capsys, "grade", "class", "--csv", "out.csv")
    whole = Path("out.csv").read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(whole.splitlines()))
    assert status == 0 and len(rows) == 2 * len(answers) + 2 and "\x1b" not in whole + text
    assert {row["points"] for row in rows if row["learner"] == "zoe"} == {"1.00"}
    assert {row["points"] for row in rows if row["learner"] != "zoe" and row["exercise"] == "double"} == {
        "0.00"
    }
    assert (
        type_(capsys, "grade", "class", "--csv", "nowhere/out.csv")[0] == 2
        and "needs a whole number from 0" in type_(capsys, "grade", "class", "--seed", "-5")[1]
    )


def test_two_terminals_lose_nothing_and_folders_are_not_files(course, capsys):
    type_(capsys, "start", "1")
    one, other = Progress(Path("my_minigrad")), Progress(Path("my_minigrad"))
    one.lessons["99"] = {"started": "x", "pieces": {}, "exercises": {}}
    other.note(course, judge(key_of(course, "double"), EXERCISE))
    one.save()
    assert Progress(Path("my_minigrad")).passed(course) == ["double"]
    assert (
        "A dot is an exercise, a # one that passes. Your folder: other"
        in type_(capsys, "--folder", "other", "map")[1]
        and not Path("other").exists()
    )
    assert type_(capsys, "--folder", "other", "start", "1")[0] == 0 and Path("other/lesson01.py").exists()
    Path("my_minigrad/progress.json").unlink()
    Path("my_minigrad/progress.json").mkdir()
    assert "is a folder; remove it or rename it" in type_(capsys)[1]
    assert (
        "a.file is a file"
        in (Path("a.file").write_text(""), type_(capsys, "--folder", "a.file", "map")[1])[1]
    )
    assert "no lesson '²'" in type_(capsys, "--folder", "other", "check", "²")[1]


def test_the_code_of_one_learner_reaches_no_other(course, capsys):
    hand_in("ada", EXERCISE)
    there = Path("class/ada/lesson01.py").resolve()
    thief = EXERCISE.replace("    return 2 * x\n", SOLUTION.format(reading=f"open({str(there)!r}).read()"))
    hand_in(
        "bob",
        thief.replace("import numpy as np", "import numpy as np\nimport sys\nsys.ada = 1\nnp.ones = None\n"),
    )
    hand_in(
        "cleo",
        EXERCISE.replace(
            "return 2 * x", "import sys; return 2 * x if not hasattr(sys, 'ada') and np.ones else 0"
        ),
    )
    type_(capsys, "grade", "class", "--csv", "out.csv")
    rows = {
        (row["learner"], row["exercise"]): row
        for row in csv.DictReader(Path("out.csv").read_text(encoding="utf-8-sig").splitlines())
    }
    assert (
        rows["bob", "double"]["points"] == "0.00"
        and "may not read other files" in rows["bob", "double"]["what failed"]
    )
    assert rows["cleo", "double"]["points"] == "1.00"


def test_a_key_without_solutions_judges_as_the_solutions_do(course):
    for name in course.names:
        key = Key.from_json(json.loads(json.dumps(key_of(course, name).to_json())))
        assert judge(key, EXERCISE).right
        assert judge(key, EXERCISE.replace("2 * x", "3 * x").replace("2 * g", "g")).mistake in (
            "It is three times x.",
            "The factor is missing.",
        )


def test_the_handout_has_no_solutions_and_checks_all_the_same(tmp_path):
    status = handout.write(tmp_path / "given")
    assert status == 0
    given = tmp_path / "given" / "tutorials"
    first = lessons.lessons()[0]
    assert not list(given.rglob("checks.py"))
    readme = (tmp_path / "given" / "README.md").read_text(encoding="utf-8")
    assert (
        f"{len(lessons.lessons())} lessons" in readme
        and "pip install -e ." in readme
        and "pytest" not in readme
    )
    for name in re.findall(r"`([a-z]+/[\w./]*)`", readme):
        assert (tmp_path / "given" / name).exists(), name
    for words in re.findall(r"^python -m tutorials (\w+)", readme, re.M):
        assert words in ("doctor", "start", "check", "hint", "next")
    for lesson in lessons.lessons():
        text = (given / lesson.folder.name / "exercise.py").read_text(encoding="utf-8")
        assert "# solution" not in text and text == lesson.stub
    (tmp_path / "my_minigrad").mkdir()
    shutil.copy(first.folder / "exercise.py", tmp_path / "my_minigrad" / f"lesson{first.number}.py")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "given")}
    run = lambda *words: subprocess.run(
        [sys.executable, "-m", "tutorials", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )  # noqa: E731
    done = run("check", first.number)
    assert done.returncode == 0 and f"All {len(first.names)} exercises" in done.stdout, (
        done.stdout + done.stderr
    )
    assert "has no solutions" in run("solution", first.number).stderr
    with pytest.raises(CourseError, match="already exists"):
        handout.write(tmp_path / "given")
