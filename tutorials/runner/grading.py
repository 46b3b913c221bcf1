"""A teacher's grades: every learner's files checked, each exercise in a process of its own, with partial credit. Knows no names but folders'."""

import csv
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from tutorials.runner.answers import key_of
from tutorials.runner.lessons import CourseError, find, lessons
from tutorials.runner.verdict import Verdict, judge

LARGEST = 1_000_000  # bytes that a submitted file may have
COLUMNS = ("learner", "lesson", "exercise", "passed", "checks", "points", "what failed")


@dataclass
class Row:
    """What one exercise of one learner is worth: a point if every check passes, else the share that does."""

    learner: str
    lesson: str
    verdict: Verdict

    @property
    def points(self):
        return self.verdict.passed / self.verdict.total if self.verdict.total else 0.0

    @property
    def why(self):
        said = [self.verdict.mistake] if self.verdict.mistake else [f"[{title}] {what}" if title else what for title, what in self.verdict.problems[:2]]
        return " ".join(" ".join(said).split())

    def cells(self):
        cells = (self.learner, self.lesson, self.verdict.name, self.verdict.passed, self.verdict.total, f"{self.points:.2f}", self.why)
        return [f"'{cell}" if isinstance(cell, str) and cell[:1] in "=+-@\t\r" and cell else cell for cell in cells]  # no formulas in a spreadsheet


def grade_folder(folder, table=None, only=None, seed=None):
    """Grade every folder in a folder; prints a line a learner and lesson, and writes the rows to `table`, a CSV file."""
    if not folder.is_dir():
        raise CourseError(f"there is no folder {folder}; grade takes a folder that holds one folder for each learner.")
    learners = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink() and not path.name.startswith("."))
    if not learners:
        raise CourseError(f"{folder} holds no folders; put each learner's files into a folder of their own: {folder}/NAME/lesson01.py")
    chosen = [find(one) for one in only] if only else lessons()
    seed = secrets.randbelow(10**6) if seed is None else seed
    print(f"{len(learners)} learners, random inputs from --seed {seed}")
    keys = {}
    rows = [row for learner in learners for row in graded(learner, chosen, seed, keys)]
    if table:
        with open(table, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *(row.cells() for row in rows)])
        print(f"Saved {table}: {len(rows)} rows.")
    return 0


def graded(learner, chosen, seed, keys):
    """The Rows of one learner, for the lessons that there is a file of."""
    rows = []
    for lesson in chosen:
        source, problem = submitted(learner, lesson)
        if source is None and not problem:
            continue
        own = []
        for name in lesson.names:
            key = keys.setdefault((lesson.number, name), None) or key_of(lesson, name, seed)
            keys[lesson.number, name] = key
            verdict = judge(key, source, f"lesson{lesson.number}.py") if source is not None else Verdict(name, 0, len(key.checks), [("", problem)])
            own.append(Row(learner.name, lesson.number, verdict))
        full = sum(row.verdict.right for row in own)
        print(f"  {learner.name:<24} lesson {lesson.number}  {sum(row.points for row in own):5.2f} of {len(own)} points, {full} exercises in full")
        rows += own
    if not rows:
        print(f"  {learner.name:<24} no file lessonNN.py found", file=sys.stderr)
    return rows


def submitted(learner, lesson):
    """(the text of a learner's file, "") or (None, what is wrong with it); (None, "") if there is none."""
    found = sorted(p for p in learner.rglob(f"lesson{lesson.number}.py"))
    if not found:
        return None, ""
    path = found[0]
    if len(found) > 1:
        return None, f"There are {len(found)} files {path.name}; keep one."
    if path.is_symlink() or not path.is_file() or not path.resolve().is_relative_to(learner.resolve()):
        return None, f"{path.name} is a link, not a file."
    if path.stat().st_size > LARGEST:
        return None, f"{path.name} has {path.stat().st_size:,} bytes; at most {LARGEST:,} are read."
    try:
        return Path(path).read_text(encoding="utf-8-sig"), ""
    except UnicodeDecodeError:
        return None, f"{path.name} is not text in UTF-8."
