"""What a learner has done: progress.json in their own folder, beside the files they write. Knows no exercise from another.

The file is for reading, and may be deleted or edited: what is missing is made anew, what makes no sense is dropped with a sentence,
and an unreadable file is kept under another name. `python -m tutorials check all` finds again what passes.
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
    """{"lessons": {"05": {"started": day, "pieces": {name: mark}, "exercises": {name: {"passed": day, "tries": n, "hints": n}}}}}"""

    def __init__(self, folder):
        self.folder, self.path = Path(folder), Path(folder) / "progress.json"
        # sentences on what was mended; lessons that this process changes
        self.healed, self.touched = [], set()
        if self.folder.exists() and not self.folder.is_dir():
            raise CourseError(
                f"{self.folder} is a file, and your work needs a folder of that name; rename it, or give another with --folder."
            )
        self.lessons = self._read()

    # ------------------------------------------------------------ what is known

    def file(self, lesson):
        """Where the learner writes a lesson's exercises."""
        return self.folder / f"lesson{lesson.number}.py"

    def started(self, lesson):
        return self.file(lesson).exists()

    def of(self, lesson):
        self.touched.add(lesson.number)
        return self.lessons.setdefault(lesson.number, {"started": today(), "pieces": {}, "exercises": {}})

    def exercise(self, lesson, name):
        return self.of(lesson)["exercises"].setdefault(name, {"passed": None, "tries": 0, "hints": 0})

    def passed(self, lesson):
        """The names of the exercises that passed, in order."""
        if lesson.number not in self.lessons or not self.started(lesson):
            return []
        known = self.lessons[lesson.number]["exercises"]
        return [name for name in lesson.names if known.get(name, {}).get("passed")]

    def open(self, lesson):
        done = self.passed(lesson)
        return [name for name in lesson.names if name not in done]

    def changes(self, lesson):
        """What an upgrade changed in a lesson that was started: a sentence, or ""."""
        before, now = self.lessons.get(lesson.number, {}).get("pieces"), lesson.pieces()
        if not before or before == now or not self.started(lesson):
            return ""
        new, gone = [n for n in now if n not in before], [n for n in before if n not in now]
        other = [n for n in now if n in before and before[n] != now[n]]
        said = [
            f"{what}: {', '.join(names)}"
            for what, names in (("new", new), ("gone", gone), ("with another text", other))
            if names
        ]
        return f"lesson {lesson.number} has changed since you started it ({'; '.join(said)})"

    # ------------------------------------------------------------ what happens

    def note(self, lesson, verdict):
        """Remember what a check found."""
        one = self.exercise(lesson, verdict.name)
        if verdict.written:
            one["tries"] += 1
        one["passed"] = (one["passed"] or today()) if verdict.right else None
        self.save()

    def begin(self, lesson, pieces=None):
        self.of(lesson)["pieces"] = pieces or lesson.pieces()
        self.save()

    def save(self):
        """Write the file, never half of it; of lessons that another terminal works on, what it wrote."""
        self.lessons = {
            **self._read(),
            **{number: one for number, one in self.lessons.items() if number in self.touched},
        }
        text = json.dumps(
            {
                "about": "what you have done in minigrad's course; you may delete this file",
                "lessons": self.lessons,
            },
            indent=1,
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(20):  # on Windows another process may be reading it just now
            try:
                with whole_file(self.path) as file:
                    file.write(f"{text}\n".encode())
                return
            except PermissionError:
                time.sleep(0.05)
        raise CourseError(
            f"{self.path} could not be written; is it open in another program? Nothing of your work is lost."
        )

    # ------------------------------------------------------------ reading what may have been edited

    def _read(self):
        if self.path.is_dir():
            raise CourseError(
                f"{self.path} is a folder; remove it or rename it: your progress is kept in a file of that name."
            )
        if not self.path.exists():
            return {}
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            held = found["lessons"].items()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            kept = free(self.path.with_name("progress.broken.json"))
            os.replace(self.path, kept)
            self.healed.append(
                f"progress.json could not be read; it is kept as {kept.name}, and what passes is found again by python -m tutorials check all."
            )
            return {}
        return {
            number: one
            for number, one in ((number, self._lesson(number, one)) for number, one in held)
            if one
        }

    def _lesson(self, number, one):
        """A lesson's part, mended; None for one that the course does not have."""
        if number not in {lesson.number for lesson in lessons()} or not isinstance(one, dict):
            self.healed.append(
                f"progress.json speaks of a lesson {number!r} that is not in the course; that part is left out."
            )
            return None
        pieces, exercises = one.get("pieces"), one.get("exercises")
        exercises = exercises if isinstance(exercises, dict) else {}
        return {
            "started": one.get("started") if isinstance(one.get("started"), str) else today(),
            "pieces": pieces if isinstance(pieces, dict) else {},
            "exercises": {name: self._exercise(number, name, entry) for name, entry in exercises.items()},
        }

    def _exercise(self, number, name, entry):
        entry = entry if isinstance(entry, dict) else {}
        mended = {
            key: entry[key] if type(entry.get(key)) is int and entry[key] >= 0 else 0
            for key in ("tries", "hints")
        }
        passed = entry.get("passed") if isinstance(entry.get("passed"), str) else None
        if {**entry, **mended, "passed": passed} != entry:
            self.healed.append(
                f"progress.json held something else than expected for {name} of lesson {number}; it was put right."
            )
        return {"passed": passed, **mended}


def today():
    return datetime.date.today().isoformat()


def free(path):
    """The path, or the first with a number in it that is not taken yet."""
    numbered = (path.with_name(f"{path.stem}-{n}{path.suffix}") for n in range(1, 10_000))
    return next(p for p in (path, *numbered) if not p.exists())


def folder_of(given=None):
    """The learner's folder: the one given; else my_minigrad here or in a folder above; else, to be made, here."""
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
