"""Makes lesson.ipynb from lesson.py: run, with outputs, so that it reads well where nothing runs. Knows the percent format.

Needs jupytext and nbclient (pip install -e ".[notebook]"); whether a notebook is fresh is told without them: its metadata hold the
hash of the lesson it was made from.
"""

import hashlib
import importlib.util
import json

from tutorials.runner.lessons import CourseError, lessons


def digest(lesson):
    """The hash of a lesson's text, the same with either kind of line ends."""
    return hashlib.sha256(lesson.text("lesson.py").encode()).hexdigest()


def is_fresh(lesson):
    """Whether lesson.ipynb was made from the lesson as it is now."""
    path = lesson.folder / "lesson.ipynb"
    return path.exists() and json.loads(path.read_text(encoding="utf-8"))["metadata"].get("minigrad", {}).get(
        "source_sha256"
    ) == digest(lesson)


def make(chosen):
    """Write the notebooks of these lessons; of none: of all that are not fresh."""
    import_or_say("jupytext", "nbclient")
    import jupytext

    for lesson in chosen or [lesson for lesson in lessons() if not is_fresh(lesson)]:
        book = run(lesson)
        jupytext.write(book, lesson.folder / "lesson.ipynb")
        print(f"Saved {lesson.folder.name}/lesson.ipynb: {len(book.cells)} cells.")
    return 0


def run(lesson):
    """A lesson as a notebook with outputs; the same text gives the same notebook, but for what its cells print."""
    import jupytext
    import nbclient

    book = jupytext.read(lesson.folder / "lesson.py", fmt="py:percent")
    book.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
        "minigrad": {"source_sha256": digest(lesson)},
    }
    where = {"metadata": {"path": str(lesson.folder)}}
    nbclient.NotebookClient(
        book, timeout=600, kernel_name="python3", resources=where, coalesce_streams=True
    ).execute()
    for number, cell in enumerate(book.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
    return book


def import_or_say(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise CourseError(
            f'notebooks are made with jupytext and nbclient, and {missing[0]} is not installed: pip install -e ".[notebook]"'
        )
