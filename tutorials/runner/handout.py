"""A teacher's build: the course without its solutions, for learners to install. Knows what belongs to it.

In the place of each checks.py stands key.json: the drivers, what they should give for one seed, and what they give with each known mistake.
"""

import json
import shutil

from tutorials.runner.answers import key_of
from tutorials.runner.lessons import FOLDER, CourseError, lessons

ROOT = FOLDER.parent
PARTS = ("minigrad", "models", "tutorials", "benchmarks", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")


def write(destination):
    """Copy the project to a new folder, without solutions, wrong answers and tests."""
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
    for lesson in lessons():
        folder = destination / "tutorials" / lesson.folder.name
        (folder / "exercise.py").write_text(lesson.stub, encoding="utf-8", newline="\n")
        key = {"about": "what the checks compare with; no solutions", "exercises": [key_of(lesson, name).to_json() for name in lesson.names]}
        (folder / "key.json").write_text(json.dumps(key) + "\n", encoding="utf-8")
    print(f"Saved {destination}: {len(lessons())} lessons without solutions. Try it: cd {destination} && pip install -e . && python -m tutorials")
    return 0
