"""README, docs/ and the pages of tutorials: their code and commands run, and their lists are complete."""

import configparser
import os
import re
import subprocess
import sys
import tokenize

import pytest
from helpers import ROOT, exists
from pages import PAGES, blocks, commands, links, text_of

from minigrad.pytorch.differences import as_markdown
from minigrad.viz.graph import INSTALL, renderer
from tutorials.runner.doctor import totals
from tutorials.runner.lessons import lessons

HERE = {**os.environ, "PYTHONPATH": str(ROOT)}
README = text_of(ROOT / "README.md")
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def test_the_table_of_differences_is_the_one_the_tests_read():
    assert as_markdown() in (ROOT / "tutorials" / "coming_from_pytorch.md").read_text(encoding="utf-8")


def test_the_page_coming_from_pytorch_runs_and_names_the_functions_that_convert_states():
    pytest.importorskip(
        "torch", reason="PyTorch is not installed; only tests need it, as an oracle (pip install torch)."
    )
    page = (ROOT / "tutorials" / "coming_from_pytorch.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    for block in blocks:
        exec(compile(block, "coming_from_pytorch.md", "exec"), {})
    assert all(any(name in block for block in blocks) for name in ("from_torch_state", "from_gpt2_state"))


@pytest.mark.parametrize(
    "page",
    sorted(
        p
        for p in (ROOT / "tutorials").glob("*.py")
        if p.name not in ("__init__.py", "__main__.py", "course.py")
    ),
    ids=lambda p: p.name,
)
def test_every_page_that_is_a_script_runs(page, tmp_path):
    if page.name == "graphs.py" and renderer() is None:
        pytest.skip(INSTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(page)], capture_output=True, text=True, cwd=tmp_path, env=HERE
    )
    assert done.returncode == 0, done.stderr


def test_readmes_two_commands_are_the_ones_ci_runs():
    ours = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in (
        "pip install -e . && python -m minigrad.train",
        'pip install -e ".[test]" && python -m pytest -n auto',
    ):
        assert f"\n{command}\n" in README and command in ours


def test_every_requirement_has_a_lower_bound():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    lists = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    for requirement in "".join(lists).strip().splitlines():
        assert re.fullmatch(r"[\w-]+ >= [\d.]+(; .+)?", requirement), requirement


@pages
def test_a_pages_python_runs_and_prints_what_it_shows(page, capsys):
    for language, code in blocks(page):
        if language == "python":
            exec(compile(code, page.name, "exec"), {})
            assert without_figures(capsys.readouterr().out) in without_figures(text_of(page))


def test_the_pages_have_no_fewer_commands_code_and_links_than_when_readme_was_one_page(capsys):
    found = {
        "commands": sum(len(commands(page)) for page in PAGES),
        "blocks of Python": sum(language == "python" for page in PAGES for language, _ in blocks(page)),
        "links": sum(len(links(page)) for page in PAGES),
    }
    with capsys.disabled():
        print(f" {found} ", end="")
    before = {"commands": 46, "blocks of Python": 4, "links": 15}
    assert all(found[name] >= count for name, count in before.items())


def test_readme_is_short_and_says_how_long_the_engine_is():
    assert len(README.splitlines()) <= 150
    lines = {path.name: len(text_of(path).splitlines()) for path in (ROOT / "minigrad/engine").glob("*.py")}
    table = re.findall(r"^\| \[`(\w+\.py)`\]\(minigrad/engine/\1\) \| (\d+) \|", README, re.M)
    assert {name: int(count) for name, count in table}.items() <= lines.items() and len(table) == 9
    afternoon = sum(int(count) for _, count in table)
    words = " ".join(README.split())
    assert (
        f"is {sum(lines.values()):,} lines long" in words and f"afternoon are {afternoon:,} of them" in words
    )


def without_figures(text):
    """Replace decimal numbers by #: their last digits may differ on another machine."""
    return re.sub(r"\d+\.\d+", "#", text)


def test_the_output_of_the_course_shown_in_readme_is_real(tmp_path):
    run = lambda *words: subprocess.run(
        [sys.executable, "-m", "tutorials", *words], capture_output=True, text=True, cwd=tmp_path, env=HERE
    )  # noqa: E731
    assert run("start", "1").returncode == 0
    mine = tmp_path / "my_minigrad" / "lesson01.py"
    unwritten, line = (
        'raise NotImplementedError("numerical_derivative is not written yet")',
        "return (f(x + h) - f(x)) / h",
    )
    assert f"write `{line}`" in README
    mine.write_text(mine.read_text(encoding="utf-8").replace(unwritten, line), encoding="utf-8")
    shown = run("check", "1").stdout.split("\n", 1)[1]
    assert f"```\n{shown}```" in README


def test_the_courses_page_lists_each_lesson_with_its_times():
    page = (ROOT / "tutorials" / "README.md").read_text(encoding="utf-8")
    for lesson in lessons():
        link = f"[{lesson.title}]({lesson.folder.name}/lesson.ipynb)"
        times = f"{lesson.head['reading']} + {lesson.head['exercises']}"
        row = f"| {lesson.number} | {link} | {times} | {', '.join(f'`{name}`' for name in lesson.names)} |"
        assert row in page, row
    hours = sum(lesson.head["reading"] + lesson.head["exercises"] for lesson in lessons()) / 60
    assert f"in {hours:.0f} hours" in page and f"takes about {hours:.0f} hours" in README
    counts = re.search(
        r"There are (\d+) lessons and (\d+) exercises with (\d+) checks; (\d+) wrong\sanswers", README
    ).groups()
    assert totals() == "{} lessons, {} exercises, {} checks, {} wrong answers that are recognised".format(
        *counts
    )


def test_the_recipe_that_is_shown_is_the_one_that_runs():
    code = text_of(ROOT / "tutorials" / "my_recipe.py").split('"""', 2)[2].strip()
    assert f"```python\n{code}\n```" in text_of(ROOT / "docs" / "training.md")


DOORS = sorted(
    {
        door
        for page in PAGES
        for line in commands(page)
        for door in re.findall(r"python -m (minigrad\.\w+)", line)
    }
)


@pytest.mark.parametrize("door", DOORS)
def test_a_command_explains_itself_and_knows_every_option_that_a_page_gives_it(door):
    done = subprocess.run([sys.executable, "-m", door, "--help"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "usage: python -m " + door in done.stdout
    lines = [line for page in PAGES for line in commands(page) if f"-m {door}" in line]
    options = {option for line in lines for option in re.findall(r"(--[a-z-]+)", line.split(door)[1])}
    assert options - {"--help"} <= set(re.findall(r"--[a-z-]+", done.stdout))


@pages
def test_what_a_page_links_to_is_there(page):
    for name in links(page):
        assert (page.parent / name).exists(), name


SOURCES = sorted(
    p for folder in ("minigrad", "models", "benchmarks", "tutorials") for p in (ROOT / folder).rglob("*.py")
)
MARKDOWN = sorted(
    p for folder in (".", "tests", "benchmarks", "tutorials", "docs") for p in (ROOT / folder).glob("*.md")
)
# names with a part that the reader, or the program, puts in
PLACEHOLDERS = set(
    "minigrad.X NAME.py tutorials/NN_name tutorials/NN_name/lesson.ipynb tutorials.lesson".split()
)
MOVED = ROOT / "minigrad" / "pytorch" / "moved.py"  # names the old paths


def prose(page):
    """The text of a page that people read: all of it, or the strings and comments of a Python file."""
    if page.suffix == ".md":
        return page.read_text(encoding="utf-8")
    code = (tokenize.NAME, tokenize.OP, tokenize.NUMBER)
    with tokenize.open(page) as lines:
        return "\n".join(
            token.string for token in tokenize.generate_tokens(lines.readline) if token.type not in code
        )


@pytest.mark.parametrize(
    "page", [p for p in MARKDOWN + SOURCES if p != MOVED], ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_each_path_and_module_named_in_prose_exists(page):
    text, ours = prose(page), "(?<![\\w./-])(?:minigrad|models|tests|tutorials|benchmarks)"
    paths = set(re.findall(ours + r"/[\w./-]*\w", text))
    modules = set(re.findall(ours + r"(?:\._?[A-Za-z]\w*)+", text))
    missing = {path for path in paths if not (ROOT / path).exists() and not (page.parent / path).exists()}
    # a file that is there is not imported: it may need PyTorch
    files = {module for module in modules if (ROOT / module.replace(".", "/")).with_suffix(".py").exists()}
    missing |= {module for module in modules - files if not exists(module)}
    if page.relative_to(ROOT).parts[0] in ("minigrad", "models"):  # the course names the learner's files too
        names = set(re.findall(r"[\w/]+\.py\b", text)) - paths
        missing |= {name for name in names if not any(p.as_posix().endswith(f"/{name}") for p in SOURCES)}
    assert missing <= PLACEHOLDERS
