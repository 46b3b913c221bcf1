"""Build a copy of the course without its solutions, for learners to install.

Each checks.py is replaced by a key.json: the drivers, their expected outcomes for one seed, and their
outcomes with each known mistake.
"""

import json
import shutil

from tutorials.runner.answers import key_of
from tutorials.runner.lessons import FOLDER, CourseError, lessons

ROOT = FOLDER.parent
PARTS = ("minigrad", "models", "tutorials", "benchmarks", "setup.cfg", "pyproject.toml", "LICENSE")
README = """# minigrad: the course

From the derivative of *x y* to a trained Transformer, written by yourself in NumPy: {lessons} lessons with
{exercises} exercises, about {hours} hours. This copy for learners contains what the exercises are checked
with, but not their solutions.

All it needs is Python 3.11 or later. Once, in this folder:

```
pip install -e .
python -m tutorials doctor       lists what this machine has, and what is missing
```

Then, in the folder where you want to work:

```
python -m tutorials              shows the map, and how far you are
python -m tutorials start 1      puts the exercises of lesson 1 into my_minigrad/lesson01.py
python -m tutorials check 1      tests your file, and explains
python -m tutorials hint 1       asks a question; then gives the idea; then nearly the line
python -m tutorials next         says what to do now
```

Read a lesson before its exercises: `tutorials/{first}/lesson.ipynb` in Jupyter, VS Code or Colab, or
`lesson.py`, the same text as a plain script that runs. `tutorials/README.md` lists all lessons. What you hand
in is your folder `my_minigrad`.

The lessons build, piece by piece, what `minigrad/` (the engine, layers and optimizers) and `models/`
(attention, Transformers) contain. `python -m minigrad.train` trains a Transformer, and
`python -m minigrad.train --list` shows the other recipes.
"""


def write(destination):
    """Copy the project to a new folder, without solutions, wrong answers and tests, with its own README."""
    if destination.exists():
        raise CourseError(f"{destination} already exists; handout writes only to a new folder.")
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
        f"Saved {destination}: {len(lessons())} lessons without solutions. Try it: cd {destination} && "
        "pip install -e . && python -m tutorials"
    )
    return 0


def readme():
    """Return the README, with the numbers of lessons, exercises and hours."""
    minutes = sum(lesson.head["reading"] + lesson.head["exercises"] for lesson in lessons())
    exercises = sum(len(lesson.names) for lesson in lessons())
    return README.format(
        lessons=len(lessons()), exercises=exercises, hours=round(minutes / 60), first=lessons()[0].folder.name
    )
