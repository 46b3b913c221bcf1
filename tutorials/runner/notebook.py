"""What a lesson needs where it runs: check(function), show(picture) and published(model), in a notebook or in a script."""

import functools
import sys
import tempfile
import types
from pathlib import Path

from minigrad.pytorch.words import did_you_mean
from minigrad.saving import FileProblem
from tutorials.runner.answers import key_of, played
from tutorials.runner.lessons import CourseError, find, lessons
from tutorials.runner.report import told
from tutorials.runner.verdict import compare


def check(function, lesson=None):
    """Check a function or class written in this notebook (or script) as an exercise; prints what is right and what is not.

    function  of the exercise's name: `def softmax(x): ...` and then `check(softmax)`
    lesson    its number, where two lessons have an exercise of that name
    Returns True if it passes every check. It runs here, in your own process: to be stopped, if it does not end, by you.
    """
    name = getattr(function, "__name__", None)
    if name is None:
        raise TypeError(f"check takes the function itself: check(softmax), got a {type(function).__name__}.")
    key = key_of(_lesson_of(name, lesson), name)
    my = types.ModuleType("my")
    my.__file__ = getattr(getattr(function, "__code__", None), "co_filename", "")
    my.__dict__.update(
        {n: x for n, x in getattr(function, "__globals__", {}).items() if not n.startswith("__")}
        | {name: function}
    )
    verdict = compare(key, [played(one, my) for one in key.checks])
    print(told(verdict, key))
    return verdict.right


def _lesson_of(name, lesson):
    """The lesson that has an exercise of this name."""
    if lesson is not None:
        return find(lesson)
    having = [one for one in lessons() if name in one.names]
    if len(having) == 1:
        return having[0]
    if having:
        raise CourseError(
            f"lessons {' and '.join(one.number for one in having)} have an exercise {name}: say which, check({name}, {int(having[0].number)})."
        )
    every = {name for one in lessons() for name in one.names}
    raise CourseError(
        f"no lesson has an exercise {name!r}{did_you_mean(name, every)}; your function must bear the exercise's name."
    )


def published(name, **how):
    """A published model as models.pretrained.load gives it, with its tokenizer; or None, and a printed sentence that says what to install.

    A lesson goes on without: what is true of the real weights only stands behind `if real:`.
    """
    from models.pretrained import load  # the other lessons need none

    try:
        found = load(name, **how)
        _ = found.tokenizer  # which may be what is missing
    except FileProblem as problem:
        print(
            f'{problem} (and, once, pip install -e ".[pretrained]"). Until then a small random model takes its place, whose numbers mean nothing.'
        )
        return None
    return found


def show(picture, caption=""):
    """Show a matplotlib Figure or a graph of minigrad.viz: in a notebook below the cell; in a script as a file whose place is printed."""
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
    """A folder of this process's own."""
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
