"""python -m tutorials: the command line of the course, for learners, teachers and authors."""

import argparse
import contextlib
import sys
import time
from pathlib import Path

from minigrad.cli.doors import Parser, open_door, report_errors
from minigrad.pytorch.words import did_you_mean
from tutorials.runner import progress
from tutorials.runner.answers import key_of
from tutorials.runner.lessons import BLOCK, CourseError, find, lessons
from tutorials.runner.progress import Progress, free_path
from tutorials.runner.report import describe
from tutorials.runner.verdict import judge

DOOR = "tutorials"
EPILOG = """
a learner's day:
  python -m tutorials                  shows the map, and how far you are
  python -m tutorials start 1          puts the exercises of lesson 1 into my_minigrad/lesson01.py
  python -m tutorials check 1          tests your file, and explains
  python -m tutorials hint 1           gives a hint for your present exercise; again, a stronger one
  python -m tutorials next             says what to do now

For teachers: see tutorials/TEACHING.md.
"""


def main(argv=None):
    argv = sys.argv[1:] if argv is None else list(argv)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a console of another encoding shows a ? instead of failing
    with report_errors(DOOR, CourseError, OSError) as outcome, _pipes():
        options = parse(argv)
        mine = Progress(progress.folder_of(options.folder)) if options.folder_wanted else None
        for message in mine.repairs if mine else ():
            print(message, file=sys.stderr)
        return options.action(options, mine) or 0
    return outcome.status


@contextlib.contextmanager
def _pipes():
    """Context manager: end with status 141 if the reader of a pipe (| head) has closed it."""
    try:
        yield
    except BrokenPipeError:
        raise SystemExit(141) from None


def parse(argv):
    parser = Parser(
        DOOR, epilog=EPILOG, description="The course: from the derivative of x y to a trained Transformer."
    )
    parser.set_defaults(action=show_map, folder=None, folder_wanted=True)
    parser.add_argument(
        "--folder", default=None, help="your own folder (default: my_minigrad, here or above)"
    )
    commands = parser.add_subparsers(
        metavar="COMMAND",
        parser_class=lambda **k: Parser(DOOR, **{n: v for n, v in k.items() if n != "prog"}),
    )
    command = lambda name, action, text: _command(commands, name, action, text)  # noqa: E731
    command("map", show_map, "show the lessons, and how far you are (the same as no command)")
    command(
        "start", start, "put a lesson's exercises into your folder, without overwriting your work"
    ).add_argument("lesson")
    one = command("check", check, "test your file of a lesson (or all that you have started), and explain")
    one.add_argument("lesson", nargs="?", help="a number, or `all` (default: your present lesson)")
    one.add_argument("exercise", nargs="?", help="only this one")
    one = command("watch", watch, "check whenever you save your file; Ctrl-C ends")
    one.add_argument("lesson")
    one = command("hint", hint, "get a hint: a question, then the idea, then nearly the line")
    one.add_argument("lesson")
    one.add_argument("exercise", nargs="?", help="(default: the first that does not pass yet)")
    one = command("solution", solution, "show our solution, once yours passes")
    one.add_argument("lesson")
    one.add_argument("exercise", nargs="?", help="(default: all that pass)")
    one.add_argument("--anyway", action="store_true", help="even if yours does not pass yet")
    one = command("reset", reset, "start a lesson's exercises again; asks first, and keeps a copy of yours")
    one.add_argument("lesson")
    one.add_argument("--yes", action="store_true", help="do not ask")
    command("next", show_next, "say what to do now")
    command("doctor", doctor, "list what this machine has, what is missing, and how to get it")
    one = command("grade", grade, "for teachers: check a folder of submissions")
    one.add_argument(
        "submissions", help="a folder that contains one folder of lessonNN.py files for each learner"
    )
    one.add_argument("--csv", metavar="FILE", help="write a table with a row for each exercise")
    one.add_argument("--lesson", action="append", help="only this lesson (may be repeated)")
    one.add_argument(
        "--seed", type=natural, default=None, help="seed of the random inputs (default: drawn, and printed)"
    )
    one = command("handout", handout, "for teachers: make a copy of the course without solutions")
    one.add_argument("destination", help="a folder that does not exist yet")
    one = command(
        "notebooks", notebooks, "for authors: make the lesson.ipynb files, with outputs, from lesson.py"
    )
    one.add_argument("lesson", nargs="*", help="(default: all whose notebook is not fresh)")
    known = commands.choices
    word = next((a for a in argv if not a.startswith("-")), None)
    before = argv[: argv.index(word)] if word else []
    if word and word not in known and "--folder" not in before[-1:]:
        raise CourseError(
            f"there is no command {word!r}{did_you_mean(word, known)}; choose from {', '.join(known)}."
        )
    return parser.parse_args(argv)


def natural(text):
    """Parse a whole number from 0."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"needs a whole number from 0, got {text!r}")
    return int(text)


def _command(commands, name, action, text):
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.prog = f"python -m {DOOR} {name}"
    parser.add_argument(
        "--folder", default=argparse.SUPPRESS, help="your own folder (default: my_minigrad, here or above)"
    )
    parser.set_defaults(action=action, folder_wanted=name not in ("grade", "handout", "notebooks"))
    return parser


# ---------------------------------------------------------------- the map


def show_map(options, mine):
    """Print the lessons with their times, and how far the learner is."""
    total = sum(len(lesson.names) for lesson in lessons())
    hours = sum(lesson.head["reading"] + lesson.head["exercises"] for lesson in lessons()) / 60
    print(f"The course: {len(lessons())} lessons, {total} exercises, about {hours:.0f} hours.\n")
    for lesson in lessons():
        done, count = len(mine.passed(lesson)), len(lesson.names)
        bar = "#" * done + "." * (count - done)
        state = "done" if done == count else f"{done} of {count}" if mine.started(lesson) else ""
        times = f"{lesson.head['reading']:>3} + {lesson.head['exercises']:>3} min"
        print(f"  {lesson.number}  {lesson.title:<48} {times}   [{bar:<8}] {state}".rstrip())
    for lesson in lessons():
        if mine.changes(lesson):
            print(
                f"\n{mine.changes(lesson)}. Your file was not changed; python -m tutorials start "
                f"{int(lesson.number)} puts the new text beside it."
            )
    print(
        f"\nTimes: reading + exercises. A dot is an exercise, a # one that passes. Your folder: {mine.folder}"
    )
    show_next(options, mine)


def show_next(options, mine):
    """Print in one sentence what to do now."""
    lesson = next((lesson for lesson in lessons() if mine.open(lesson)), None)
    if lesson is None:
        print(
            "You have done every exercise there is. Next: a project of your own, or the same in PyTorch "
            "(tutorials/coming_from_pytorch.md)."
        )
    elif not mine.started(lesson):
        print(
            f"Next: read lesson {lesson.number}, {lesson.title} ({_where(lesson)}), then type: "
            f"python -m tutorials start {int(lesson.number)}"
        )
    else:
        what = f"write {mine.open(lesson)[0]} in {mine.file(lesson)}"
        print(f"Next: {what}, then type: python -m tutorials check {int(lesson.number)}")


def _where(lesson):
    notebook = lesson.folder / "lesson.ipynb"
    return _near(notebook if notebook.exists() else lesson.folder / "lesson.py")


def _near(path):
    """Return a path relative to the current folder, if it lies in it."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def start(options, mine):
    lesson = find(options.lesson)
    file = mine.file(lesson)
    if not mine.started(lesson):
        mine.folder.mkdir(parents=True, exist_ok=True)
        with open(file, "x", encoding="utf-8", newline="\n") as new:
            new.write(lesson.stub)
        mine.begin(lesson)
        script = _near(lesson.folder / "lesson.py")
        print(f"Lesson {lesson.number}: {lesson.title}.")
        print(f"  read    {_where(lesson)}  (or run it: python {script})")
        print(f"  write   {file}: {', '.join(lesson.names)}")
        print(f"  check   python -m tutorials check {int(lesson.number)}")
    elif mine.changes(lesson):
        beside = free_path(mine.folder / f"lesson{lesson.number}.new.py")
        beside.write_text(lesson.stub, encoding="utf-8", newline="\n")
        print(
            f"{mine.changes(lesson)}: the new text is in {beside}. Your own file was not changed; copy what "
            "you want."
        )
        mine.begin(lesson)
    else:
        if not mine.entry(lesson)["pieces"]:
            mine.begin(lesson)
        print(
            f"{file} exists already and was not touched. To check it: python -m tutorials check "
            f"{int(lesson.number)}; to start again: python -m tutorials reset {int(lesson.number)}."
        )


# ---------------------------------------------------------------- checking


def check(options, mine):
    """Check one lesson or all that were started. Returns 1 if an exercise does not pass."""
    if options.lesson == "all":
        chosen = [lesson for lesson in lessons() if mine.started(lesson)]
        if not chosen:
            raise CourseError(f"there is nothing in {mine.folder} yet. To begin: python -m tutorials start 1")
    elif options.lesson is None:
        begun = [lesson for lesson in lessons() if mine.started(lesson)]
        if not begun:
            raise CourseError(f"there is nothing in {mine.folder} yet. To begin: python -m tutorials start 1")
        chosen = [next((lesson for lesson in begun if mine.open(lesson)), begun[-1])]
    else:
        holding = [lesson for lesson in lessons() if options.lesson in lesson.names]
        if len(holding) == 1 and options.exercise is None:  # `check softmax`
            options.lesson, options.exercise = holding[0].number, options.lesson
        chosen = [find(options.lesson)]
    return max(check_lesson(lesson, mine, options.exercise) for lesson in chosen)


def check_lesson(lesson, mine, only=None):
    """Print the verdict on each exercise. Returns 1 if one does not pass, else 0."""
    source = read(mine.file(lesson), lesson)
    names = [_check_name(lesson, only)] if only else lesson.names
    print(f"Lesson {lesson.number}: {lesson.title} ({mine.file(lesson)})")
    status, silent = 0, 0
    for name in names:
        key = key_of(lesson, name)
        verdict = judge(key, source, mine.file(lesson).name)
        if verdict.unread:
            print(f"  The file cannot be loaded, so nothing was checked.\n  {verdict.unread}")
            return 1
        passed_before = bool(mine.exercise(lesson, name)["passed"])
        mine.note(lesson, verdict)
        if verdict.written or not silent:
            print(describe(verdict, key, passed_before=passed_before))
        silent += not verdict.written
        status = max(status, 0 if verdict.right else 1)
    if silent > 1:
        print(f"  ...   and {silent - 1} more not written yet.")
    if not status and not only:
        print(f"All {len(names)} exercises of lesson {lesson.number} pass.", end=" ")
        show_next(None, mine)
    elif status:
        print(f"A hint: python -m tutorials hint {int(lesson.number)}")
    return status


def read(file, lesson):
    """Return the learner's file as text. Raises CourseError if it cannot be read."""
    start = f"python -m tutorials start {int(lesson.number)}"
    if file.is_dir():
        raise CourseError(f"{file} is a folder; move it away, and begin with: {start}")
    if not file.exists():
        raise CourseError(f"there is no {file} yet. To begin lesson {lesson.number}: {start}")
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise CourseError(f"{file} is not text in UTF-8; save it as UTF-8 in your editor.") from None


def watch(options, mine):
    lesson = find(options.lesson)
    read(mine.file(lesson), lesson)
    print(f"Watching {mine.file(lesson)}: save it to have it checked; Ctrl-C ends.")
    seen = None
    while True:
        now = mine.file(lesson).stat().st_mtime_ns if mine.file(lesson).exists() else None
        if now is not None and now != seen:
            seen = now
            print(f"\n{time.strftime('%H:%M:%S')}")
            if not check_lesson(lesson, mine):
                return 0
        time.sleep(0.3)


# ---------------------------------------------------------------- help


def hint(options, mine):
    lesson = find(options.lesson)
    left = mine.open(lesson)
    if not left and not options.exercise:
        print(f"Every exercise of lesson {lesson.number} passes; there is nothing to hint at.")
        return 0
    name = options.exercise or left[0]
    key = key_of(lesson, _check_name(lesson, name))
    one = mine.exercise(lesson, name)
    level = min(one["hints"], len(key.hints) - 1)
    print(f"{name}, hint {level + 1} of {len(key.hints)}: {key.hints[level]}")
    one["hints"] = min(one["hints"] + 1, len(key.hints))
    mine.save()
    last = level + 1 == len(key.hints)
    solution = f"python -m tutorials solution {int(lesson.number)} {name} --anyway"
    print(f"({solution if last else 'ask again for a stronger one'}.)")


def _check_name(lesson, name):
    """Return the name of an exercise. Raises CourseError if the lesson does not have it."""
    if name not in lesson.names:
        raise CourseError(
            f"lesson {lesson.number} has no exercise {name!r}{did_you_mean(name, lesson.names)}; it has "
            f"{', '.join(lesson.names)}."
        )
    return name


def solution(options, mine):
    lesson = find(options.lesson)
    if not BLOCK.search(lesson.solution):
        raise CourseError("this build of the course has no solutions; ask your teacher.")
    names = [_check_name(lesson, options.exercise)] if options.exercise else mine.passed(lesson)
    hidden = [name for name in names if name in mine.open(lesson)]
    if not names or hidden and not options.anyway:
        what = f"{hidden[0]} does not pass" if hidden else f"no exercise of lesson {lesson.number} passes"
        raise CourseError(
            f"{what} yet. A hint may be better: python -m tutorials hint {int(lesson.number)}. Add --anyway, "
            "and the exercise's name, to see the solution now."
        )
    for name in names:
        print(f"{lesson.source(name)}\n")


def reset(options, mine):
    lesson = find(options.lesson)
    file = mine.file(lesson)
    if not file.exists():
        raise CourseError(
            f"there is no {file}, so there is nothing to reset. To begin: python -m tutorials start "
            f"{int(lesson.number)}"
        )
    backup = free_path(mine.folder / f"lesson{lesson.number}.backup.py")
    question = (
        f"Start lesson {lesson.number} again? Your {file.name} is kept as {backup.name}. Type yes or no: "
    )
    if not options.yes and ask(question) not in ("yes", "y"):
        print("Nothing was changed.")
        return 0
    file.rename(backup)
    mine.lessons.pop(lesson.number, None)
    file.write_text(lesson.stub, encoding="utf-8", newline="\n")
    mine.begin(lesson)
    print(f"{file} is as it was at the start; your version is in {backup}.")


def ask(question):
    """Return the answer typed at the terminal; "" if there is no terminal."""
    try:
        return input(question).strip().lower()
    except EOFError:
        print()
        return ""


def doctor(options, mine):
    from tutorials.runner.doctor import examine

    return examine(mine)


# ---------------------------------------------------------------- teachers and authors


def grade(options, mine):
    from tutorials.runner.grading import grade_folder

    return grade_folder(Path(options.submissions), options.csv, options.lesson, options.seed)


def handout(options, mine):
    from tutorials.runner.handout import write

    return write(Path(options.destination))


def notebooks(options, mine):
    from tutorials.runner.notebooks import make

    return make([find(one) for one in options.lesson])


if __name__ == "__main__":
    open_door(DOOR, main)
