"""Find the lessons, and remove the solutions from their exercises.

A solution stands between `# solution` and `# end`; the learner's stub raises NotImplementedError instead.
"""

import ast
import functools
import hashlib
import importlib.util
import json
import re
import sys
import textwrap
from pathlib import Path

from minigrad.pytorch.words import did_you_mean

FOLDER = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^( *)# solution\n(.*?)^ *# end\n", re.S | re.M)
HEAD = re.compile(
    r"# # (\d\d) · (.+)\n(?:#\n)*# \*Reading: (\d+) minutes\. Exercises: (\d+) minutes\. Needs: (.+?)\.\*\n"
)


class CourseError(Exception):
    """Raised when a command cannot be carried out; the message tells why, and what to do."""


class Lesson:
    """A lesson: a folder NN_name with lesson.py, lesson.ipynb, exercise.py and checks.py."""

    def __init__(self, folder):
        self.folder, self.number = folder, folder.name[:2]

    def text(self, name):
        return (self.folder / name).read_text(encoding="utf-8")

    @functools.cached_property
    def head(self):
        """The head of lesson.py: title, minutes of reading, minutes of exercises, what it needs."""
        found = HEAD.search(self.text("lesson.py"))
        if not found:
            raise CourseError(f"{self.folder.name}/lesson.py does not begin with a title and its times.")
        _, title, reading, exercises, needs = found.groups()
        return {"title": title, "reading": int(reading), "exercises": int(exercises), "needs": needs}

    @property
    def title(self):
        return self.head["title"]

    @functools.cached_property
    def solution(self):
        return self.text("exercise.py")

    @functools.cached_property
    def stub(self):
        """exercise.py without its solutions."""
        return BLOCK.sub(
            lambda m: (
                f'{m[1]}raise NotImplementedError("{self._function_at(m.start())} is not written yet")\n'
            ),
            self.solution,
        )

    def _function_at(self, position):
        """Return the qualified name of the function or class that contains a position of exercise.py."""
        line = self.solution.count("\n", 0, position) + 1
        names, body = [], ast.parse(self.solution).body
        while inner := [n for n in definitions(body) if n.lineno <= line <= n.end_lineno]:
            names.append(inner[0].name)
            body = inner[0].body
        return ".".join(names)

    @functools.cached_property
    def checks(self):
        """The Checks that checks.py declares."""
        return load(self.folder / "checks.py", f"tutorials.lesson{self.number}_checks").lesson

    @property
    def exercises(self):
        return self.checks.exercises

    @functools.cached_property
    def names(self):
        """The names of its exercises, in order."""
        path = self.folder / "key.json"  # only in a build without solutions
        if not path.exists():
            return [e.name for e in self.exercises]
        return [key["name"] for key in json.loads(path.read_text(encoding="utf-8"))["exercises"]]

    def exercise(self, name):
        by_name = {exercise.name: exercise for exercise in self.exercises}
        if name not in by_name:
            raise CourseError(
                f"lesson {self.number} has no exercise {name!r}{did_you_mean(name, by_name)}; it has "
                f"{', '.join(by_name)}."
            )
        return by_name[name]

    def source(self, name):
        """Return the solution of an exercise as text, without the marks around it."""
        node = self._node(name)
        lines = self.solution.splitlines()[node.lineno - 1 : node.end_lineno + 1]
        return "\n".join(line for line in lines if line.strip() not in ("# solution", "# end")).rstrip()

    def _node(self, name):
        return next(n for n in ast.parse(self.solution).body if getattr(n, "name", None) == name)

    def variant(self, name, wrong):
        """Return exercise.py with the solution of `name` replaced by a wrong answer."""
        node, lines = self._node(name), self.solution.splitlines(keepends=True)
        first, last = node.lineno - 1, node.end_lineno + 1
        before, own, after = map("".join, (lines[:first], lines[first:last], lines[last:]))
        blocks = BLOCK.findall(own)
        if wrong.body is not None:
            if len(blocks) != 1:
                raise ValueError(f"{name} has {len(blocks)} solution blocks; a wrong body can replace one.")
            body = textwrap.indent(textwrap.dedent(wrong.body.strip("\n")).rstrip() + "\n", blocks[0][0])
            return before + BLOCK.sub(lambda m: body, own) + after
        count = sum(block.count(wrong.old) for _, block in blocks)
        if count != 1:
            raise ValueError(f"{wrong.old!r} occurs {count} times in the solution of {name}, not once.")
        return before + BLOCK.sub(lambda m: m[0].replace(wrong.old, wrong.new), own) + after

    def pieces(self):
        """Return {name: hash of its text} of the stub's functions and classes: an upgrade may change them."""
        tree = ast.parse(self.stub).body
        return {n.name: hash_of(ast.get_source_segment(self.stub, n)) for n in definitions(tree)}


def definitions(body):
    """Return the functions and classes among the statements of a body."""
    return [n for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]


def hash_of(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.cache
def lessons():
    """List all lessons, in order."""
    needed = ("lesson.py", "exercise.py", "[ck]*.[pj]*")  # the last is checks.py or key.json
    folders = sorted(FOLDER.glob("[0-9][0-9]_*"))
    return [Lesson(folder) for folder in folders if all(list(folder.glob(name)) for name in needed)]


def find(which):
    """Return the lesson of a number ("5", "05") or name ("softmax", "05_softmax")."""
    which = str(which).strip().strip("/\\").replace("\\", "/").rsplit("/", 1)[-1]
    which = which.removesuffix(".py").removeprefix("lesson")
    number = int(which) if which.isdecimal() and which.isascii() else None
    for lesson in lessons():
        if which in (lesson.folder.name, lesson.folder.name[3:]) or number == int(lesson.number):
            return lesson
    names = [lesson.folder.name[3:] for lesson in lessons()]
    raise CourseError(
        f"there is no lesson {which!r}{did_you_mean(which, names)}. python -m tutorials shows all lessons, "
        f"{int(lessons()[0].number)} to {int(lessons()[-1].number)}."
    )


def load(path, name):
    """Load a Python file as a module, without an entry in sys.modules."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    writing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writing
    return module
