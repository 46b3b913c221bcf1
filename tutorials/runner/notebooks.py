"""Make lesson.ipynb from lesson.py in percent format, executed, so that it can be read with its outputs.

Needs jupytext and nbclient (pip install -e ".[notebook]"). The test for fresh notebooks needs neither: a
notebook's metadata contain the hash of the lesson that it was made from.
"""

import hashlib
import importlib.util
import json

from tutorials.runner.lessons import CourseError, lessons


def digest(lesson):
    """Return the hash of a lesson's text, which does not depend on the kind of line ends."""
    return hashlib.sha256(lesson.text("lesson.py").encode()).hexdigest()


def is_fresh(lesson):
    """Was lesson.ipynb made from the present lesson.py?"""
    path = lesson.folder / "lesson.ipynb"
    if not path.exists():
        return False
    metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
    return metadata.get("minigrad", {}).get("source_sha256") == digest(lesson)


def make(chosen):
    """Write the notebooks of the chosen lessons; if none is chosen, all that are not fresh."""
    require("jupytext", "nbclient")
    import jupytext

    for lesson in chosen or [lesson for lesson in lessons() if not is_fresh(lesson)]:
        book = run(lesson)
        jupytext.write(book, lesson.folder / "lesson.ipynb")
        print(f"Saved {lesson.folder.name}/lesson.ipynb: {len(book.cells)} cells.")
    return 0


def run(lesson):
    """Run a lesson. Returns a notebook with outputs; only these differ between runs of the same text."""
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


def require(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise CourseError(
            f"notebooks are made with jupytext and nbclient, and {missing[0]} is not installed: "
            'pip install -e ".[notebook]"'
        )
