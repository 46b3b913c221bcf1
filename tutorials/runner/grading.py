"""Grade the files of many learners: each exercise runs in a process of its own and gets partial credit.

Learners are named by their folders.
"""

import contextlib
import csv
import secrets
import sys
from dataclasses import dataclass

from tutorials.runner import isolation
from tutorials.runner.answers import key_of
from tutorials.runner.lessons import CourseError, find, lessons
from tutorials.runner.verdict import Verdict, judge

LARGEST = 1_000_000  # bytes that a submitted file may have
COLUMNS = ("learner", "lesson", "exercise", "passed", "checks", "points", "what failed")


@dataclass
class Row:
    """The grade of one exercise of one learner: a point if every check passes, else the passing fraction."""

    learner: str
    lesson: str
    verdict: Verdict

    @property
    def points(self):
        return self.verdict.passed / self.verdict.total if self.verdict.total else 0.0

    @property
    def why(self):
        problems = [f"[{title}] {what}" if title else what for title, what in self.verdict.problems[:2]]
        return " ".join((self.verdict.mistake or " ".join(problems)).split())

    def cells(self):
        cells = (
            self.learner,
            self.lesson,
            self.verdict.name,
            self.verdict.passed,
            self.verdict.total,
            f"{self.points:.2f}",
            self.why,
        )
        # a quote in front, so that a spreadsheet does not evaluate the cell as a formula
        formula = lambda cell: isinstance(cell, str) and cell and cell[0] in "=+-@;\t\r"  # noqa: E731
        return [f"'{cell}" if formula(cell) else cell for cell in cells]


def grade_folder(folder, table=None, only=None, seed=None):
    """Grade every folder in `folder`: print a line for each learner and lesson.

    table    a CSV file, to which the rows of each learner are written at once
    """
    if not folder.is_dir():
        raise CourseError(
            f"there is no folder {folder}; grade takes a folder that contains one folder for each learner."
        )
    folders = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    learners = sorted(path for path in folders if not path.name.startswith("."))
    if not learners:
        raise CourseError(
            f"{folder} contains no folders; put each learner's files into a folder of their own: "
            f"{folder}/NAME/lesson01.py"
        )
    chosen = [find(one) for one in only] if only else lessons()
    if any((lesson.folder / "key.json").exists() for lesson in chosen):
        raise CourseError(
            "this is a copy without solutions, which contains its random inputs and answers; grade with the "
            "whole course."
        )
    seed = secrets.randbelow(10**6) if seed is None else seed
    print(f"{len(learners)} learners, random inputs from --seed {seed}")
    with open_table(table) as write:
        keys = {}
        for learner in learners:
            write(grade_learner(learner, chosen, seed, keys))
    if table:
        print(f"Saved {table}.")
    return 0


@contextlib.contextmanager
def open_table(table):
    """Context manager: yield a function that writes rows and flushes them, or one that does nothing."""
    if not table:
        yield lambda rows: None
        return
    # utf-8-sig begins with the mark by which Excel recognises UTF-8
    with open(table, "w", encoding="utf-8-sig", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_ALL)
        out.writerow(COLUMNS)

        def write(rows):
            out.writerows(row.cells() for row in rows)
            file.flush()

        yield write


def grade_learner(learner, chosen, seed, keys):
    """Return the Rows of one learner, for the lessons with a file; a single Row of zeros if there is none."""
    rows, name = [], isolation.clean(learner.name)
    for lesson in chosen:
        source, problem = read_submission(learner, lesson)
        if source is None and not problem:
            continue
        own = [
            Row(name, lesson.number, judge_exercise(lesson, exercise, source, problem, seed, keys))
            for exercise in lesson.names
        ]
        points, full = sum(row.points for row in own), sum(row.verdict.right for row in own)
        print(
            f"  {name:<24} lesson {lesson.number}  {points:5.2f} of {len(own)} points, {full} "
            f"exercise{'s' * (full != 1)} in full"
        )
        rows += own
    if not rows:
        print(f"  {name:<24} no file lessonNN.py found", file=sys.stderr)
        rows = [Row(name, "", Verdict("", 0, 0, [("", "no file lessonNN.py found")]))]
    return rows


def judge_exercise(lesson, exercise, source, problem, seed, keys):
    """Return the Verdict on one exercise. Never raises: no submission may end the grading of the others."""
    if (lesson.number, exercise) not in keys:
        keys[lesson.number, exercise] = key_of(lesson, exercise, seed)
    key = keys[lesson.number, exercise]
    if source is None:
        return Verdict(exercise, 0, len(key.checks), [("", problem)])
    try:
        return judge(key, source, f"lesson{lesson.number}.py")
    except Exception as error:
        sentence = f"What it returned could not be judged ({type(error).__name__})."
        return Verdict(exercise, 0, len(key.checks), [("", sentence)])


def read_submission(learner, lesson):
    """Return (text of the learner's file, ""), or (None, the problem), or (None, "") if there is no file."""
    file = f"lesson{lesson.number}.py"
    found = sorted(path for depth in ("", "*/", "*/*/") for path in learner.glob(f"{depth}{file}"))
    if not found:
        return None, ""
    path = found[0]
    if len(found) > 1:
        return None, f"There are {len(found)} files {file}; keep one."
    if path.is_symlink() or not path.is_file() or not path.resolve().is_relative_to(learner.resolve()):
        return None, f"{file} is a link or a folder, not a file."
    if path.stat().st_size > LARGEST:
        return None, f"{file} has {path.stat().st_size:,} bytes; at most {LARGEST:,} are read."
    try:
        return path.read_text(encoding="utf-8-sig"), ""
    except UnicodeDecodeError:
        return None, f"{file} is not text in UTF-8."
    except OSError as error:
        return None, f"{file} cannot be read: {error.strerror}."
