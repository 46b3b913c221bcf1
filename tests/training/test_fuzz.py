"""Hostile files, a few for each reader at every run of the suite; thousands in a process of little memory with -m slow (fuzzing.py)."""

import subprocess
import sys
from pathlib import Path

import fuzzing
import numpy as np
import pytest

READERS = (
    "safetensors",
    "weights of a run",
    "checkpoint",
    "config.json",
    "tokenizer JSON",
    "pairs",
    "text",
    "metrics.jsonl",
    "config.toml",
    "list of runs",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return fuzzing.Files(tmp_path_factory.mktemp("files"))


def test_every_reader_is_tried(files):
    assert (*files.inputs(),) == READERS


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_gives_a_result_or_a_sentence(files, reader):
    """And starts no program, unpickles nothing, writes nowhere else, and comes to an end."""
    tried, refused = fuzzing.fuzz(*files.inputs()[reader], files.folder, count=60)
    # a log is read as far as it is whole, and a run is listed in any case
    assert tried >= 60 and (refused or reader in ("metrics.jsonl", "list of runs"))


def test_valid_files_are_read(files):
    files.weights_of_a_run(files.weights)
    files.config_of_a_run(fuzzing.json.dumps(files.config).encode())
    files.config_of_a_run(fuzzing.json.dumps(files.other).encode())
    files.from_file(
        lambda path: np.testing.assert_array_equal(fuzzing.checkpoints.read(path).state["list"][0], range(3))
    )(files.checkpoint)


def test_the_watch_would_see_a_crash_a_hang_and_code_that_runs(files, monkeypatch):
    import os
    import pickle

    def written(path):
        Path(path).write_text("")

    class Evil:
        def __reduce__(self):
            return os.getcwd, ()

    spoiled = pickle.dumps(Evil())
    for read, kind in (
        (lambda _: {}["x"], KeyError), (lambda _: fuzzing.json.loads("x"), AssertionError), (lambda _: pickle.loads(spoiled), AssertionError),
        (lambda _: os.system("true"), AssertionError), (lambda _: written(files.folder.parent / "outside"), AssertionError),
    ):  # fmt: skip
        with pytest.raises(kind):
            fuzzing.fuzz(fuzzing.st.none(), read, files.folder, 1)
    monkeypatch.setattr(fuzzing, "SECONDS", 1)
    with pytest.raises(TimeoutError):
        fuzzing.fuzz(fuzzing.st.none(), lambda _: fuzzing.signal.pause(), files.folder, 1)


@pytest.mark.slow
def test_thousands_of_inputs_with_little_memory():
    run = subprocess.run([sys.executable, fuzzing.__file__, "2000"], capture_output=True, text=True)
    assert run.returncode == 0 and "20,000 inputs, 0 readers with crashes or hangs" in run.stdout, (
        run.stdout + run.stderr
    )
