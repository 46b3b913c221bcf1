"""A teacher's build: the course without its solutions, for learners to install. Knows what belongs to it.

In the place of each checks.py stands key.json: the drivers, what they should give for one seed, and what they give with each known mistake.
"""

import json
import shutil

from tutorials.runner.answers import key_of
from tutorials.runner.lessons import FOLDER, CourseError, lessons

ROOT = FOLDER.parent
PARTS = ("minigrad", "models", "tutorials", "benchmarks", "setup.cfg", "pyproject.toml", "LICENSE")
README = """# minigrad: the course

From the derivative of *x y* to a trained Transformer, written by yourself in NumPy: {lessons} lessons with {exercises} exercises, about
{hours} hours. This is a copy for learners: it holds what the exercises are checked with, and not their solutions.

Python 3.11 or later is enough. Once, here in this folder:

```
pip install -e .
python -m tutorials doctor       what this machine has, and what is missing
```

Then, wherever your work shall lie:

```
python -m tutorials              the map, and how far you are
python -m tutorials start 1      puts the exercises of lesson 1 into my_minigrad/lesson01.py
python -m tutorials check 1      tests your file, and explains
python -m tutorials hint 1       a question; asked again, the idea; then nearly the line
python -m tutorials next         what to do now
```

Read a lesson before its exercises: `tutorials/{first}/lesson.ipynb` in Jupyter, VS Code or Colab, or `lesson.py`, the same text as a
plain script that runs. `tutorials/README.md` lists all lessons. What you hand in is your folder `my_minigrad`.

The lessons build, piece by piece, what stands whole in `minigrad/` (the engine, layers and optimizers) and `models/` (attention,
Transformers). `python -m minigrad.train` trains one, and `python -m minigrad.train --list` shows what else there is.
"""


def write(destination):
    """Copy the project to a new folder, without solutions, wrong answers and tests, and with a README of its own."""
    if destination.exists():
        raise CourseError(f"{destination} is there already; handout writes a new folder only.")
    if not (ROOT / "setup.cfg").exists():
        raise CourseError("handout needs the project's folder (with setup.cfg); this is an installed copy.")
    destination.mkdir(parents=True)
    leave = shutil.ignore_patterns("__pycache__", "*.pyc", ".ipynb_checkpoints", "checks.py")
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, destination / name, ignore=leave)
        elif source.exists():
            shutil.copy2(source, destination / name)
    (destination / "README.md").write_text(readme(), encoding="utf-8", newline="\n")
    for lesson in lessons():
        folder = destination / "tutorials" / lesson.folder.name
        (folder / "exercise.py").write_text(lesson.stub, encoding="utf-8", newline="\n")
        key = {
            "about": "what the checks compare with; no solutions",
            "exercises": [key_of(lesson, name).to_json() for name in lesson.names],
        }
        (folder / "key.json").write_text(json.dumps(key) + "\n", encoding="utf-8")
    print(
        f"Saved {destination}: {len(lessons())} lessons without solutions. Try it: cd {destination} && pip install -e . && python -m tutorials"
    )
    return 0


def readme():
    """The README with the course's numbers."""
    minutes = sum(lesson.head["reading"] + lesson.head["exercises"] for lesson in lessons())
    exercises = sum(len(lesson.names) for lesson in lessons())
    return README.format(
        lessons=len(lessons()), exercises=exercises, hours=round(minutes / 60), first=lessons()[0].folder.name
    )
