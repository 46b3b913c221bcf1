"""What this machine has, what is missing for the course, and how to get it. Knows packages and files, no lesson."""

import importlib.util
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from minigrad.viz.graph import INSTALL, renderer
from tutorials.runner import isolation
from tutorials.runner.lessons import lessons

LOOP = "def driver(my, rng):\n    return my.double(np.arange(3.0))"


def examine(mine):
    """Print a line for each thing; returns 1 if something the course cannot do without is missing, else 0."""
    found = [python(), *packages(), *course(), folder(mine), isolated(), *helpful()]
    for state, what in found:
        print(f"  {state:<8}{what}")
    missing = [what for state, what in found if state == "MISSING"]
    print(f"\n{len(missing)} missing." if missing else "\nAll that the course needs is here.")
    return 1 if missing else 0


def python():
    now = ".".join(map(str, sys.version_info[:3]))
    return (
        ("ok", f"Python {now}")
        if sys.version_info >= (3, 11)
        else ("MISSING", f"Python 3.11 or newer; this is {now}: https://www.python.org/downloads")
    )


def packages():
    for name, needed in (
        ("numpy", True),
        ("matplotlib", True),
        ("tqdm", True),
        ("graphviz", True),
        ("safetensors", True),
    ):
        try:
            yield "ok", f"{name} {version(name)}"
        except PackageNotFoundError:
            yield "MISSING" if needed else "without", f"{name}: pip install {name}"


def course():
    """The lessons' own files: whole, or which are not."""
    broken = [
        f"{lesson.folder.name}/{name}"
        for lesson in lessons()
        for name in ("lesson.py", "exercise.py")
        if not (lesson.folder / name).exists()
    ]
    yield (
        ("MISSING", f"files of the course: {', '.join(broken)}: install it again")
        if broken
        else ("ok", f"{totals()} in {lessons()[0].folder.parent}")
    )
    without = [lesson.number for lesson in lessons() if not (lesson.folder / "lesson.ipynb").exists()]
    yield (
        ("without", f"notebooks of lessons {', '.join(without)}; each lesson.py is the same text")
        if without
        else ("ok", "a notebook for each lesson")
    )


def totals():
    """What there is, in numbers; a build without solutions does not know its wrong answers."""
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
    """Whether work can be saved."""
    place = mine.folder if mine.folder.exists() else mine.folder.parent
    probe = Path(place) / ".minigrad-can-write"
    try:
        probe.write_text("")
        probe.unlink()
        return "ok", f"your folder: {mine.folder}"
    except OSError as error:
        return (
            "MISSING",
            f"leave to write in {place} ({error.strerror}): start from another folder, or give one with --folder",
        )


def isolated():
    """Whether the checker can start its process and gets an answer."""
    run = isolation.run("def double(x):\n    return 2 * x\n", [{"source": LOOP, "seed": 0, "args": None}])
    outcome = run.outcomes[0]
    if outcome.failed:
        return "MISSING", f"the checker's own process does not work here: {outcome.kind}: {outcome.message}"
    return "ok", "your code is checked in a process of its own"


def helpful():
    """What makes things nicer, and what does as well without."""
    jupyter = any(importlib.util.find_spec(name) for name in ("jupyterlab", "notebook"))
    yield (
        ("ok", "Jupyter")
        if jupyter
        else (
            "without",
            "Jupyter: pip install jupyterlab to open lesson.ipynb; VS Code opens it too; or run lesson.py",
        )
    )
    yield ("ok", "a program that draws graphs") if renderer() else ("without", INSTALL)
    yield (
        ("ok", "PyTorch, to compare with")
        if importlib.util.find_spec("torch")
        else ("without", "PyTorch: no lesson needs it")
    )
