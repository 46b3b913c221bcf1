"""Finds the lessons, and cuts the solutions out of their exercises. Knows where things lie, not what is taught.

A solution stands between `# solution` and `# end`; the learner's stub has a NotImplementedError in its place.
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
    """Something a learner or teacher asked for cannot be done: a sentence that says why, and what to do."""


class Lesson:
    """A folder NN_name: lesson.py, lesson.ipynb, exercise.py, checks.py."""

    def __init__(self, folder):
        self.folder, self.number = folder, folder.name[:2]

    def text(self, name):
        return (self.folder / name).read_text(encoding="utf-8")

    @functools.cached_property
    def head(self):
        """Of lesson.py's first cell: title, minutes to read, minutes for the exercises, what it needs."""
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
            lambda m: f'{m[1]}raise NotImplementedError("{self._around(m.start())} is not written yet")\n',
            self.solution,
        )

    def _around(self, position):
        """The name of the function that stands around a place in exercise.py, with its class's."""
        line = self.solution.count("\n", 0, position) + 1
        names, body = [], ast.parse(self.solution).body
        while inner := next(
            (
                n
                for n in body
                if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.lineno <= line <= n.end_lineno
            ),
            None,
        ):
            names.append(inner.name)
            body = inner.body
        return ".".join(names)

    @functools.cached_property
    def checks(self):
        """What checks.py declares."""
        return load(self.folder / "checks.py", f"tutorials.lesson{self.number}_checks").lesson

    @property
    def exercises(self):
        return self.checks.exercises

    @functools.cached_property
    def names(self):
        """The names of its exercises, in order."""
        path = self.folder / "key.json"  # a build without solutions has it
        return (
            [key["name"] for key in json.loads(path.read_text(encoding="utf-8"))["exercises"]]
            if path.exists()
            else [e.name for e in self.exercises]
        )

    def exercise(self, name):
        by_name = {exercise.name: exercise for exercise in self.exercises}
        if name not in by_name:
            raise CourseError(
                f"lesson {self.number} has no exercise {name!r}{did_you_mean(name, by_name)}; it has {', '.join(by_name)}."
            )
        return by_name[name]

    def source(self, name):
        """The solution of an exercise as text, without the marks around it."""
        node = self._node(name)
        lines = self.solution.splitlines()[node.lineno - 1 : node.end_lineno + 1]
        return "\n".join(line for line in lines if line.strip() not in ("# solution", "# end")).rstrip()

    def _node(self, name):
        return next(n for n in ast.parse(self.solution).body if getattr(n, "name", None) == name)

    def variant(self, name, wrong):
        """exercise.py with a wrong answer in the place of the solution of `name`."""
        node, lines = self._node(name), self.solution.splitlines(keepends=True)
        before, own, after = (
            "".join(lines[: node.lineno - 1]),
            "".join(lines[node.lineno - 1 : node.end_lineno + 1]),
            "".join(lines[node.end_lineno + 1 :]),
        )
        blocks = BLOCK.findall(own)
        if wrong.body is not None:
            if len(blocks) != 1:
                raise ValueError(f"{name} has {len(blocks)} solution blocks; a wrong body can replace one.")
            body = "".join(
                f"{blocks[0][0]}{line}\n" if line else "\n"
                for line in textwrap.dedent(wrong.body.strip("\n")).rstrip().split("\n")
            )
            return before + BLOCK.sub(lambda m: body, own) + after
        count = sum(block.count(wrong.old) for _, block in blocks)
        if count != 1:
            raise ValueError(
                f"{wrong.old!r} occurs {count} times in the solution of {name}; it must occur once."
            )
        return before + BLOCK.sub(lambda m: m[0].replace(wrong.old, wrong.new), own) + after

    def pieces(self):
        """{name: a mark of its text} of the stub's functions and classes: what an upgrade may change."""
        tree = ast.parse(self.stub).body
        return {
            n.name: mark(ast.get_source_segment(self.stub, n))
            for n in tree
            if isinstance(n, (ast.FunctionDef, ast.ClassDef))
        }


def mark(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.cache
def lessons():
    """All lessons, in order."""
    return [
        Lesson(folder)
        for folder in sorted(FOLDER.glob("[0-9][0-9]_*"))
        if all(list(folder.glob(name)) for name in ("lesson.py", "exercise.py", "[ck]*.[pj]*"))
    ]


def find(which):
    """The lesson of a number ("5", "05") or name ("softmax", "05_softmax")."""
    which = (
        str(which)
        .strip()
        .strip("/\\")
        .replace("\\", "/")
        .rsplit("/", 1)[-1]
        .removesuffix(".py")
        .removeprefix("lesson")
    )
    for lesson in lessons():
        if (
            which in (lesson.folder.name, lesson.folder.name[3:])
            or which.isdecimal()
            and which.isascii()
            and int(which) == int(lesson.number)
        ):
            return lesson
    names = [lesson.folder.name[3:] for lesson in lessons()]
    raise CourseError(
        f"there is no lesson {which!r}{did_you_mean(which, names)}. python -m tutorials shows those there are, {int(lessons()[0].number)} to {int(lessons()[-1].number)}."
    )


def load(path, name):
    """A Python file as a module; it stays out of sys.modules' way."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    writing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writing
    return module
