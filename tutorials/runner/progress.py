"""The learner's progress: progress.json in their own folder, beside the files they write.

The file can be read, edited and deleted: missing entries are created, invalid ones are dropped with a
message, and an unreadable file is kept under another name. `python -m tutorials check all` restores what
passes.
"""

import datetime
import json
import os
import time
from pathlib import Path

from minigrad.saving import whole_file
from tutorials.runner.lessons import CourseError, lessons

FOLDER = "my_minigrad"


class Progress:
    """The contents of progress.json.

    {"lessons": {"05": {"started": day, "pieces": {name: hash},
                        "exercises": {name: {"passed": day, "tries": n, "hints": n}}}}}
    """

    def __init__(self, folder):
        self.folder, self.path = Path(folder), Path(folder) / "progress.json"
        # messages about repairs; lessons that this process changes
        self.repairs, self.touched = [], set()
        if self.folder.exists() and not self.folder.is_dir():
            raise CourseError(
                f"{self.folder} is a file, and your work needs a folder of that name; rename it, or give "
                "another with --folder."
            )
        self.lessons = self._read()

    # ------------------------------------------------------------ reading progress

    def file(self, lesson):
        """Return the path of the learner's file of a lesson."""
        return self.folder / f"lesson{lesson.number}.py"

    def started(self, lesson):
        return self.file(lesson).exists()

    def entry(self, lesson):
        self.touched.add(lesson.number)
        return self.lessons.setdefault(lesson.number, {"started": today(), "pieces": {}, "exercises": {}})

    def exercise(self, lesson, name):
        return self.entry(lesson)["exercises"].setdefault(name, {"passed": None, "tries": 0, "hints": 0})

    def passed(self, lesson):
        """Return the names of the exercises that passed, in order."""
        if lesson.number not in self.lessons or not self.started(lesson):
            return []
        known = self.lessons[lesson.number]["exercises"]
        return [name for name in lesson.names if known.get(name, {}).get("passed")]

    def open(self, lesson):
        done = self.passed(lesson)
        return [name for name in lesson.names if name not in done]

    def changes(self, lesson):
        """Describe what an upgrade changed in a started lesson; "" if nothing."""
        before, now = self.lessons.get(lesson.number, {}).get("pieces"), lesson.pieces()
        if not before or before == now or not self.started(lesson):
            return ""
        new, gone = [n for n in now if n not in before], [n for n in before if n not in now]
        other = [n for n in now if n in before and before[n] != now[n]]
        kinds = (("new", new), ("removed", gone), ("changed", other))
        changes = "; ".join(f"{what}: {', '.join(names)}" for what, names in kinds if names)
        return f"lesson {lesson.number} has changed since you started it ({changes})"

    # ------------------------------------------------------------ writing progress

    def note(self, lesson, verdict):
        """Save the verdict of a check."""
        one = self.exercise(lesson, verdict.name)
        if verdict.written:
            one["tries"] += 1
        one["passed"] = (one["passed"] or today()) if verdict.right else None
        self.save()

    def begin(self, lesson, pieces=None):
        self.entry(lesson)["pieces"] = pieces or lesson.pieces()
        self.save()

    def save(self):
        """Write the file atomically, and keep what other processes wrote about the lessons untouched here."""
        own = {number: one for number, one in self.lessons.items() if number in self.touched}
        self.lessons = {**self._read(), **own}
        about = "your progress in minigrad's course; you may delete this file"
        text = json.dumps({"about": about, "lessons": self.lessons}, indent=1)
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(20):  # on Windows, writing fails while another process reads the file
            try:
                with whole_file(self.path) as file:
                    file.write(f"{text}\n".encode())
                return
            except PermissionError:
                time.sleep(0.05)
        raise CourseError(
            f"{self.path} could not be written; is it open in another program? None of your work is lost."
        )

    # ------------------------------------------------------------ reading a file that may have been edited

    def _read(self):
        if self.path.is_dir():
            raise CourseError(
                f"{self.path} is a folder; remove it or rename it: your progress is saved in a file of that "
                "name."
            )
        if not self.path.exists():
            return {}
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            held = found["lessons"].items()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            copy = free_path(self.path.with_name("progress.broken.json"))
            os.replace(self.path, copy)
            self.repairs.append(
                f"progress.json could not be read; it is kept as {copy.name}. python -m tutorials check all "
                "finds again what passes."
            )
            return {}
        found = {number: self._repair_lesson(number, one) for number, one in held}
        return {number: one for number, one in found.items() if one}

    def _repair_lesson(self, number, one):
        """Return the entry of a lesson, repaired; None if the course has no such lesson."""
        if number not in {lesson.number for lesson in lessons()} or not isinstance(one, dict):
            self.repairs.append(
                f"progress.json contains a lesson {number!r} that is not in the course; that part is dropped."
            )
            return None
        pieces, exercises = one.get("pieces"), one.get("exercises")
        exercises = exercises if isinstance(exercises, dict) else {}
        return {
            "started": one.get("started") if isinstance(one.get("started"), str) else today(),
            "pieces": pieces if isinstance(pieces, dict) else {},
            "exercises": {name: self._repair(number, name, entry) for name, entry in exercises.items()},
        }

    def _repair(self, number, name, entry):
        entry = entry if isinstance(entry, dict) else {}
        counts = {
            key: entry[key] if type(entry.get(key)) is int and entry[key] >= 0 else 0
            for key in ("tries", "hints")
        }
        passed = entry.get("passed") if isinstance(entry.get("passed"), str) else None
        if {**entry, **counts, "passed": passed} != entry:
            self.repairs.append(
                f"progress.json contained an invalid entry for {name} of lesson {number}; it was repaired."
            )
        return {"passed": passed, **counts}


def today():
    return datetime.date.today().isoformat()


def free_path(path):
    """Return the path, or if it exists, the first numbered one that does not."""
    numbered = (path.with_name(f"{path.stem}-{n}{path.suffix}") for n in range(1, 10_000))
    return next(p for p in (path, *numbered) if not p.exists())


def folder_of(given=None):
    """Return the learner's folder: the given one; else my_minigrad here or above; else a new one here."""
    if given:
        folder = Path(given)
        if folder.exists() and not folder.is_dir():
            raise CourseError(f"{given} is a file; --folder takes a folder.")
        return folder
    here = Path.cwd()
    for folder in (here, *here.parents):
        if folder.name == FOLDER and (folder / "progress.json").exists():
            return folder
        if (folder / FOLDER).is_dir():
            return folder / FOLDER
    return here / FOLDER
