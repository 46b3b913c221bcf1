"""python -m tutorials doctor: list what the course needs, what is missing here, and how to get it."""

import importlib.util
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from minigrad.viz.graph import INSTALL, renderer
from tutorials.runner import isolation
from tutorials.runner.lessons import lessons

LOOP = "def driver(my, rng):\n    return my.double(np.arange(3.0))"


def examine(mine):
    """Print a line for each item. Returns 1 if something that the course needs is missing."""
    found = [python(), *packages(), *course(), folder(mine), isolation_works(), *extras()]
    for state, what in found:
        print(f"  {state:<8}{what}")
    missing = [what for state, what in found if state == "MISSING"]
    print(f"\n{len(missing)} missing." if missing else "\nAll that the course needs is here.")
    return 1 if missing else 0


def python():
    now = ".".join(map(str, sys.version_info[:3]))
    new_enough = sys.version_info >= (3, 11)
    if new_enough:
        return "ok", f"Python {now}"
    return "MISSING", f"Python 3.11 or newer; this is {now}: https://www.python.org/downloads"


def packages():
    for name in ("numpy", "matplotlib", "tqdm", "graphviz", "safetensors"):
        try:
            yield "ok", f"{name} {version(name)}"
        except PackageNotFoundError:
            yield "MISSING", f"{name}: pip install {name}"


def course():
    """Yield whether the lessons' own files are complete."""
    broken = [
        f"{lesson.folder.name}/{name}"
        for lesson in lessons()
        for name in ("lesson.py", "exercise.py")
        if not (lesson.folder / name).exists()
    ]
    if broken:
        yield "MISSING", f"files of the course: {', '.join(broken)}: install it again"
    else:
        yield "ok", f"{totals()} in {lessons()[0].folder.parent}"
    without = [lesson.number for lesson in lessons() if not (lesson.folder / "lesson.ipynb").exists()]
    yield (
        ("without", f"notebooks of lessons {', '.join(without)}; each lesson.py is the same text")
        if without
        else ("ok", "a notebook for each lesson")
    )


def totals():
    """Count lessons, exercises, checks and wrong answers; a build without solutions lacks the last two."""
    every = [
        exercise
        for lesson in lessons()
        if (lesson.folder / "checks.py").exists()
        for exercise in lesson.exercises
    ]
    counts = [
        len(lessons()),
        sum(len(lesson.names) for lesson in lessons()),
        sum(len(e.checks) for e in every),
        sum(len(e.wrongs) for e in every),
    ]
    names = ("lessons", "exercises", "checks", "wrong answers that are recognised")
    return ", ".join(f"{count} {name}" for count, name in zip(counts, names, strict=True) if count)


def folder(mine):
    """Check that the learner's folder can be written."""
    place = mine.folder if mine.folder.exists() else mine.folder.parent
    probe = Path(place) / ".minigrad-can-write"
    try:
        probe.write_text("")
        probe.unlink()
        return "ok", f"your folder: {mine.folder}"
    except OSError as error:
        return (
            "MISSING",
            f"permission to write in {place} ({error.strerror}): start from another folder, or give one with "
            "--folder",
        )


def isolation_works():
    """Check that the checker can start its process and gets an answer."""
    run = isolation.run("def double(x):\n    return 2 * x\n", [{"source": LOOP, "seed": 0, "args": None}])
    outcome = run.outcomes[0]
    if outcome.failed:
        return "MISSING", f"the checker's own process does not work here: {outcome.kind}: {outcome.message}"
    return "ok", "your code is checked in a process of its own"


def extras():
    """Yield the optional programs and packages."""
    jupyter = any(importlib.util.find_spec(name) for name in ("jupyterlab", "notebook"))
    yield (
        ("ok", "Jupyter")
        if jupyter
        else (
            "without",
            "Jupyter: pip install jupyterlab to open lesson.ipynb; VS Code opens it too; or run lesson.py",
        )
    )
    yield ("ok", "a program to draw graphs") if renderer() else ("without", INSTALL)
    yield (
        ("ok", "PyTorch, to compare with")
        if importlib.util.find_spec("torch")
        else ("without", "PyTorch: no lesson needs it")
    )
