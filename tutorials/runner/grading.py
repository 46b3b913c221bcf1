"""A teacher's grades: every learner's files checked, each exercise in a process of its own, with partial credit. Knows no names but folders'."""

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
    """What one exercise of one learner is worth: a point if every check passes, else the share that does."""

    learner: str
    lesson: str
    verdict: Verdict

    @property
    def points(self):
        return self.verdict.passed / self.verdict.total if self.verdict.total else 0.0

    @property
    def why(self):
        said = (
            [self.verdict.mistake]
            if self.verdict.mistake
            else [f"[{title}] {what}" if title else what for title, what in self.verdict.problems[:2]]
        )
        return " ".join(" ".join(said).split())

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
        # no formulas in a spreadsheet
        return [
            f"'{cell}" if isinstance(cell, str) and cell[:1] in "=+-@;\t\r" and cell else cell
            for cell in cells
        ]


def grade_folder(folder, table=None, only=None, seed=None):
    """Grade every folder in a folder; prints a line a learner and lesson, and writes the rows to `table`, a CSV file, as it goes."""
    if not folder.is_dir():
        raise CourseError(
            f"there is no folder {folder}; grade takes a folder that holds one folder for each learner."
        )
    learners = sorted(
        path
        for path in folder.iterdir()
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    )
    if not learners:
        raise CourseError(
            f"{folder} holds no folders; put each learner's files into a folder of their own: {folder}/NAME/lesson01.py"
        )
    chosen = [find(one) for one in only] if only else lessons()
    if any((lesson.folder / "key.json").exists() for lesson in chosen):
        raise CourseError(
            "this is a copy without solutions, whose random inputs and answers lie in it; grade with the whole course."
        )
    seed = secrets.randbelow(10**6) if seed is None else seed
    print(f"{len(learners)} learners, random inputs from --seed {seed}")
    with opened(table) as write:
        keys = {}
        for learner in learners:
            write(graded(learner, chosen, seed, keys))
    if table:
        print(f"Saved {table}.")
    return 0


@contextlib.contextmanager
def opened(table):
    """A function that writes rows at once, so that nothing that comes later can lose them; without a table it writes nothing."""
    if not table:
        yield lambda rows: None
        return
    # with the mark by which Excel knows UTF-8
    with open(table, "w", encoding="utf-8-sig", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_ALL)
        out.writerow(COLUMNS)

        def write(rows):
            out.writerows(row.cells() for row in rows)
            file.flush()

        yield write


def graded(learner, chosen, seed, keys):
    """The Rows of one learner, for the lessons that there is a file of; if there is none, one of zeros."""
    rows, name = [], isolation.clean(learner.name)
    for lesson in chosen:
        source, problem = submitted(learner, lesson)
        if source is None and not problem:
            continue
        own = [
            Row(name, lesson.number, judged(lesson, exercise, source, problem, seed, keys))
            for exercise in lesson.names
        ]
        full = sum(row.verdict.right for row in own)
        print(
            f"  {name:<24} lesson {lesson.number}  {sum(row.points for row in own):5.2f} of {len(own)} points, {full} exercise{'s' * (full != 1)} in full"
        )
        rows += own
    if not rows:
        print(f"  {name:<24} no file lessonNN.py found", file=sys.stderr)
        # who handed in nothing has a row too
        rows = [Row(name, "", Verdict("", 0, 0, [("", "no file lessonNN.py found")]))]
    return rows


def judged(lesson, exercise, source, problem, seed, keys):
    """The Verdict on one exercise, whatever is in the file: no submission may end the grading of the others."""
    if (lesson.number, exercise) not in keys:
        keys[lesson.number, exercise] = key_of(lesson, exercise, seed)
    key = keys[lesson.number, exercise]
    if source is None:
        return Verdict(exercise, 0, len(key.checks), [("", problem)])
    try:
        return judge(key, source, f"lesson{lesson.number}.py")
    except Exception as error:
        return Verdict(
            exercise,
            0,
            len(key.checks),
            [("", f"What it handed back could not be judged ({type(error).__name__}).")],
        )


def submitted(learner, lesson):
    """(the text of a learner's file, "") or (None, what is wrong with it); (None, "") if there is none."""
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
