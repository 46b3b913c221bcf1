"""The files of a run: who may name them, and what a config must be."""

import ast

import pytest
from helpers import ROOT
from oracle import refuses

from minigrad import saving
from minigrad.training.folder import RunFolder

# "tensorboard" is also the name of an option
NAMES = {path.name for path in vars(RunFolder("")).values()} - {"", "tensorboard"}
FILES = [path for folder in ("minigrad", "models/recipes") for path in (ROOT / folder).rglob("*.py")]


def literals(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_only_run_folder_spells_out_the_names_of_a_runs_files():
    named = {
        path.relative_to(ROOT).as_posix()
        for path in FILES
        if {text.strip("/") for text in literals(path)} & NAMES
    }
    assert len(NAMES) == 12 and named == {"minigrad/training/folder.py"}


def test_a_run_folder_stands_for_its_path(tmp_path):
    folder = RunFolder(RunFolder(tmp_path / "run"))
    assert f"{folder}" == str(tmp_path / "run") and not folder.is_run()
    folder.checkpoints.mkdir(parents=True)
    for name in (
        "step-000004.safetensors",
        "step-000010.safetensors",
        "step-4.safetensors",
        "step-000004.part",
    ):
        (folder.checkpoints / name).touch()
    assert folder.is_run() and folder.found_checkpoints() == [
        (step, folder.checkpoint(step)) for step in (10, 4)
    ]


@pytest.mark.parametrize(
    "config", [[], {"recipe": "dates"}, {"recipe": "dates", "seed": "0", "settings": {}}]
)
def test_what_is_no_config_is_refused(tmp_path, config):
    folder = RunFolder(tmp_path)
    folder.write_config(config)
    with refuses(saving.FileProblem, "config.json", "must hold recipe, seed and settings"):
        folder.read_config()
    with refuses(saving.FileProblem, "there is no run", "minigrad.train"):
        RunFolder(tmp_path / "nowhere").read_config()
