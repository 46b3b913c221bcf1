"""A run that was stopped, however, goes on as if it had not been: the same losses and the same weights, to the last bit."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import stopping
from helpers import ROOT

from minigrad import generate, nn, optim, saving, train
from minigrad import random as streams
from minigrad.training import checkpoints, loop, progress, recipe
from minigrad.training.diary import Diary
from minigrad.training.folder import RunFolder
from minigrad.training.signals import Interruption
from minigrad.training.threads import cores
from models import recipes

SIZES = {"d_model": 8, "layers": 1, "heads": 2, "d_ff": 16, "batch_size": 4, "dropout": 0.2}
OWN = {
    "recall": {"distance": 4},
    "text": {"context": 8},
    "mlm": {"context": 8},
    "translate": {"tokens": "characters"},
    "sort": {"model": "llama"},
}
DATES = [
    "dates",
    "--layers",
    "1",
    "--d-model",
    "16",
    "--heads",
    "2",
    "--d-ff",
    "16",
    "--batch-size",
    "4",
    "--dropout",
    "0.2",
    "--quiet",
]


@pytest.fixture
def no_test(monkeypatch):
    """Leave out what comes after the training."""
    monkeypatch.setattr(progress, "finish", lambda *given: None)


@pytest.fixture
def quick_test(monkeypatch):
    """Do not test the model and draw no pictures; the report is written."""
    monkeypatch.setattr(
        recipes.find("dates"), "evaluate", lambda self, model, final=False: {"exact match": 0.5}
    )
    monkeypatch.setattr(progress, "pictures", lambda *given: [])
    monkeypatch.setattr(Diary, "picture", lambda *given: [])


def arguments(name, folder, steps):
    """Of minigrad.train, for a small run of a recipe; what it reads is written into the folder."""
    defaults = recipes.find(name).defaults
    settings = {
        key: value
        for key, value in (SIZES | OWN.get(name, {})).items()
        if key in {**recipe.GENERAL, **defaults}
    }
    words = [
        name,
        "--quiet",
        "--steps",
        str(steps),
        *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")),
    ]
    if "text" in defaults:
        (folder / "text.txt").write_text("Now is the time for all good men. The quick brown fox jumps. " * 20)
        words += ["--text", str(folder / "text.txt")]
    if "pairs" in defaults:
        (folder / "pairs.tsv").write_text("".join(f"number {i}\tZahl {i}\n" for i in range(400)))
        words += ["--pairs", str(folder / "pairs.tsv")]
    return words


def rows(folder):
    return saved_rows(folder, ("seconds", "peak memory MB"))


def saved_rows(folder, without):
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in without} for row in found]


def weights(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def same_runs(one, other):
    return weights(one) == weights(other) and rows(one) == rows(other)


def ended(how, number, *words, **options):
    """A process of minigrad.train that is stopped."""
    words = [
        sys.executable,
        str(ROOT / "tests" / "support" / "stopping.py"),
        how,
        str(number),
        *map(str, words),
    ]
    return subprocess.run(
        words,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **options,
    )


def stop_at(monkeypatch, step, what=stopping.boom):
    """Let something happen when the batch of that step is asked for, once."""
    real, left = loop.Training.step, [what]

    def taken(self):
        if self.done == step and left:
            left.pop()()
        return real(self)

    monkeypatch.setattr(loop.Training, "step", taken)


# ---------------------------------------------------------------- the same to the last bit


@pytest.mark.parametrize("name", recipes.NAMES)
def test_every_recipe_that_was_stopped_ends_as_if_it_had_not_been(name, tmp_path, monkeypatch, no_test):
    words = [*arguments(name, tmp_path, 7), "--save-every", "2"]
    assert train.main([*words, "--out", str(tmp_path / "whole")]) == 0
    step = random.Random(name).randrange(1, 7)
    stop_at(monkeypatch, step)
    with pytest.raises(RuntimeError, match="boom"):
        train.main([*words, "--out", str(tmp_path / "run")])
    assert RunFolder(tmp_path / "run").found_checkpoints()[0][0] == step // 2 * 2
    assert train.main(["--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert same_runs(tmp_path / "run", tmp_path / "whole")
    assert [row["step"] for row in rows(tmp_path / "run")] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.skipif(cores() < 2, reason="one core only")
def test_threads_that_share_batches_go_on_with_the_same_bits(tmp_path, monkeypatch, no_test):
    words = [*DATES, "--steps", "6", "--save-every", "2", "--threads", "2", "--share", "batch"]
    train.main([*words, "--out", str(tmp_path / "whole")])
    stop_at(monkeypatch, 5)
    with pytest.raises(RuntimeError):
        train.main([*words, "--out", str(tmp_path / "run")])
    assert train.main(["--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert same_runs(tmp_path / "run", tmp_path / "whole")


def test_a_resumed_run_ends_with_the_same_report_and_samples(tmp_path, monkeypatch, capsys, quick_test):
    monkeypatch.setattr(recipes.find("dates"), "evaluate_every", 2)
    words = [*DATES, "--steps", "6", "--save-every", "3"]
    for name in ("whole", "run"):  # the page bears the folder's name
        (tmp_path / name).mkdir()
    train.main([*words, "--out", str(tmp_path / "whole" / "x")])
    stop_at(monkeypatch, 5)
    with pytest.raises(RuntimeError):
        train.main([*words, "--out", str(tmp_path / "run" / "x")])
    assert train.main(["--resume", str(tmp_path / "run" / "x"), "--quiet"]) == 0

    def page(name):
        text = (tmp_path / name / "x" / "report.html").read_text(encoding="utf-8")
        for seconds in {
            row["seconds"]
            for row in map(json.loads, (tmp_path / name / "x" / "metrics.jsonl").read_text().splitlines())
        }:
            text = text.replace(f"{seconds:.1f} s of training", "some time")
        return text

    assert page("whole") == page("run") and "before training" in page("run")
    result = [json.loads((tmp_path / name / "x" / "result.json").read_text()) for name in ("whole", "run")]
    for one in result:
        one.pop("training seconds"), one.pop("peak memory MB")
    assert result[0] == result[1]


OWN_RECIPE = """
import numpy as np
from minigrad import functional as F, nn, optim, random
from minigrad.training import Recipe

class Slower:  # a schedule that knows nothing but steps
    def __init__(self, optimizer):
        self.optimizer = optimizer
    def get_last_lr(self):
        return [group["lr"] for group in self.optimizer.param_groups]
    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] *= 0.9

class Mine(Recipe):
    defaults = dict(steps=8, batch_size=4, lr=0.1)
    def model(self):
        return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    def batch(self, step):  # from a stream that runs on, which steps do not tell
        return random.stream("mine").standard_normal((self.settings["batch_size"], 3)).astype(np.float32)
    def loss(self, model, batch):
        return F.mse_loss(model(batch), batch.sum(1, keepdims=True))
    def optimizer(self, model):
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return optimizer, Slower(optimizer)
"""


def test_a_recipe_of_ones_own_resumes_without_a_line_for_it(tmp_path, monkeypatch, no_test, capsys):
    (tmp_path / "mine.py").write_text(OWN_RECIPE)
    words = [str(tmp_path / "mine.py"), "--quiet", "--save-every", "3"]
    train.main([*words, "--out", str(tmp_path / "whole")])
    stop_at(monkeypatch, 7)
    with pytest.raises(RuntimeError):
        train.main([*words, "--out", str(tmp_path / "run")])
    assert train.main(["--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert same_runs(tmp_path / "run", tmp_path / "whole")
    assert capsys.readouterr().err == ""  # no complaint that the data are others: the stream is where it was


def test_data_that_have_changed_since_are_said(tmp_path, monkeypatch, no_test, capsys):
    stop_at(monkeypatch, 3)
    with pytest.raises(RuntimeError):
        train.main([*arguments("text", tmp_path, 6), "--save-every", "2", "--out", str(tmp_path / "run")])
    (tmp_path / "text.txt").write_text("The quick brown fox jumps. Now is the time for all good men. " * 20)
    assert train.main(["--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert "The batch of step 2 is not the one that the run was trained on" in capsys.readouterr().err


def test_training_is_the_same_object_after_a_round_trip_through_a_file(tmp_path):
    """A dict with a name that holds a dot, arrays of no axes, transposed ones, pairs: all come back."""
    state = {
        "step": 3,
        "best": None,
        "a": {"b": np.arange(6.0).reshape(2, 3).T},
        "a.b": np.array(2.5),
        "betas": (0.9, 0.99),
        "words": ["x", None, True],
    }
    checkpoints.write(tmp_path / "c.safetensors", state)
    back = checkpoints.read(tmp_path / "c.safetensors").state
    assert np.array_equal(back["a"]["b"], state["a"]["b"]) and back["a.b"].shape == () and back["a.b"] == 2.5
    assert back["betas"] == [0.9, 0.99] and back["words"] == ["x", None, True]


# ---------------------------------------------------------------- signals


signals = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")


@signals
@pytest.mark.parametrize(
    ("how", "status"),
    [("SIGTERM", 143), ("SIGINT", 130), ("twice", 130), ("SIGKILL", -9), ("before rename", -9)],
)
def test_a_process_that_is_stopped_leaves_a_run_that_goes_on(how, status, tmp_path, no_test):
    words = [*DATES, "--steps", "8", "--save-every", "3"]
    train.main([*words, "--out", str(tmp_path / "whole")])
    done = ended(how, 4, *words, "--out", tmp_path / "run")
    assert done.returncode == status and "Traceback" not in done.stderr, done.stderr
    if status > 0:
        assert f"python -m minigrad.train --resume {tmp_path / 'run'}" in done.stdout
        assert RunFolder(tmp_path / "run").found_checkpoints()[0][0] == (3 if how == "twice" else 5)
    recipes.load_run(tmp_path / "run")
    assert train.main(["--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert same_runs(tmp_path / "run", tmp_path / "whole")
    assert not [*(tmp_path / "run").rglob(".*.part")]


def test_control_c_saves_tests_says_how_to_go_on_and_the_model_answers(
    tmp_path, monkeypatch, capsys, quick_test
):
    stop_at(monkeypatch, 3, lambda: signal.raise_signal(signal.SIGINT))
    folder = tmp_path / "run"
    assert train.main([*DATES, "--steps", "6", "--out", str(folder)]) == 130
    out = capsys.readouterr().out
    assert (
        "Stopped after 4 steps" in out
        and "its last checkpoint is of step 4" in out
        and f"--resume {folder}" in out
    )
    assert "The run was stopped at step 4 of 6." in (folder / "report.html").read_text(encoding="utf-8")
    assert generate.main([str(folder), "29/11/26"]) == 0
    assert train.main(["--resume", str(folder), "--quiet"]) == 0
    assert "was stopped" not in (folder / "report.html").read_text(encoding="utf-8")


@signals
def test_sigterm_leaves_the_report_so_far_without_a_test(tmp_path, monkeypatch, capsys, quick_test):
    stop_at(monkeypatch, 3, lambda: signal.raise_signal(signal.SIGTERM))
    assert train.main([*DATES, "--steps", "6", "--out", str(tmp_path / "run")]) == 143
    assert "The run was stopped at step 4 of 6." in (tmp_path / "run" / "report.html").read_text(
        encoding="utf-8"
    )
    assert not (tmp_path / "run" / "result.json").exists()


@signals
def test_a_signal_is_remembered_a_second_one_raises_and_the_handlers_come_back(capfd):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruption("Wait.") as stop:
        assert stop.asked is None and stop.status == 130
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked == signal.SIGTERM and stop.status == 143
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert capfd.readouterr().err == "\nWait.\n"


@signals
def test_what_was_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.asked is None
    finally:
        signal.signal(signal.SIGHUP, before)


# ---------------------------------------------------------------- what --resume says


@pytest.fixture
def stopped(tmp_path, monkeypatch, no_test, capsys):
    """A run of 8 steps that was stopped in its seventh, with checkpoints of steps 0, 4 and 6."""
    stop_at(monkeypatch, 6)
    with pytest.raises(RuntimeError):
        train.main([*DATES, "--steps", "8", "--save-every", "2", "--out", str(tmp_path / "run")])
    capsys.readouterr()
    return tmp_path / "run"


def test_the_last_and_the_first_checkpoint_stay(stopped):
    assert [step for step, _ in RunFolder(stopped).found_checkpoints()] == [6, 4, 0]


def test_the_best_checkpoint_stays_and_is_saved_when_it_is_found(tmp_path, monkeypatch, no_test):
    figures = iter([0.1, 0.5, 0.3, 0.2, 0.4, 0.1])
    monkeypatch.setattr(recipes.find("dates"), "evaluate", lambda self, model: {"exact match": next(figures)})
    monkeypatch.setattr(recipes.find("dates"), "evaluate_every", 1)
    train.main([*DATES, "--steps", "6", "--save-every", "6", "--keep", "1", "--out", str(tmp_path / "run")])
    assert [step for step, _ in RunFolder(tmp_path / "run").found_checkpoints()] == [6, 2, 0]
    assert checkpoints.read(RunFolder(tmp_path / "run").checkpoint(6)).best == {"step": 2, "figure": 0.5}


@pytest.mark.parametrize("metric", ["bits per character", "validation loss"])
def test_of_a_loss_the_least_is_the_best(metric, tmp_path, monkeypatch, no_test):
    figures = iter([0.5, 0.1, 0.3])
    monkeypatch.setattr(recipes.find("dates"), "evaluate", lambda self, model: {metric: next(figures)})
    for name, value in {"evaluate_every": 1, "metric": metric, "share": False}.items():
        monkeypatch.setattr(recipes.find("dates"), name, value)
    train.main([*DATES, "--steps", "3", "--save-every", "3", "--keep", "1", "--out", str(tmp_path / "run")])
    assert [step for step, _ in RunFolder(tmp_path / "run").found_checkpoints()] == [3, 2, 0]


@pytest.mark.parametrize(("words", "sentence"), [
    (["--batch-size", "8"], "leave out --batch-size"),
    (["dates"], "leave out recipe"),
    (["--seed", "0", "--threads", "1"], "leave out --seed, --threads"),
    (["--set", "d_model=32"], "leave out --set"),
])  # fmt: skip
def test_other_settings_beside_resume_are_refused(words, sentence, capsys):
    with pytest.raises(SystemExit) as stop:
        train.main(["--resume", "runs/x", *words])
    assert stop.value.code == 2 and sentence in capsys.readouterr().err


def test_a_finished_run_says_so_and_learns_on_with_more_steps(tmp_path, capsys, quick_test):
    folder = tmp_path / "run"
    train.main([*DATES, "--steps", "2", "--out", str(folder)])
    before = weights(folder)
    capsys.readouterr()
    assert train.main(["--resume", str(folder)]) == 0
    assert (
        "is finished after 2 steps. To train it longer" in capsys.readouterr().out
        and weights(folder) == before
    )
    assert train.main(["--resume", str(folder), "--steps", "1"]) == 2
    assert "would make it shorter" in capsys.readouterr().err
    assert train.main(["--resume", str(folder), "--steps", "4"]) == 0
    assert "follows the schedule of the longer run" in capsys.readouterr().out
    assert [row["step"] for row in rows(folder)] == [1, 2, 3, 4] and json.loads(
        (folder / "result.json").read_text()
    )["steps"] == 4
    assert "--resume RUN --steps 4" in (folder / "report.html").read_text(encoding="utf-8")
    rate = (
        recipe.Recipe({"steps": 4, "lr": 1e-3}).optimizer(nn.Linear(1, 1))[1].factor(2)
        * recipes.find("dates").defaults["lr"]
    )
    assert rows(folder)[2]["lr"] == pytest.approx(rate)


def test_a_run_that_another_process_trains_is_left_alone(stopped, capsys):
    pytest.importorskip("fcntl")
    before = {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}
    log = saving.Lines(stopped / "metrics.jsonl")
    assert train.main(["--resume", str(stopped)]) == 2
    assert "being written by another process" in capsys.readouterr().err
    log.close()
    assert before == {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}


def test_no_run_an_older_run_and_one_killed_at_its_first_file(tmp_path, capsys, no_test):
    assert train.main(["--resume", str(tmp_path / "nowhere")]) == 2
    assert "there is no run" in capsys.readouterr().err
    folder = tmp_path / "run"
    train.main([*DATES, "--steps", "2", "--out", str(folder)])
    config, whole = saving.load_json(folder / "config.json"), weights(folder)
    for path in [folder / "model.safetensors", folder / "metrics.jsonl", *(folder / "checkpoints").iterdir()]:
        path.unlink()
    assert generate.main([str(folder), "x"]) == 2
    assert (
        f"interrupted before it had saved anything. To start it again: python -m minigrad.train --resume {folder}"
        in capsys.readouterr().err
    )
    assert train.main(["--resume", str(folder), "--quiet"]) == 0
    assert weights(folder) == whole and "starts again from step 0, with its seed" in capsys.readouterr().err
    saving.save_json(folder / "config.json", {key: config[key] for key in ("recipe", "seed", "settings")})
    assert train.main(["--resume", str(folder)]) == 2
    assert "made by an older minigrad" in capsys.readouterr().err
    recipes.load_run(folder)


def test_another_learning_rate_from_there_on(stopped, tmp_path, capsys):
    train.main([*DATES, "--steps", "8", "--lr", "2e-3", "--out", str(tmp_path / "whole")])
    before = rows(stopped)
    assert train.main(["--resume", str(stopped), "--lr", "2e-3"]) == 0
    assert "was 0.004 and is 0.002 from here on" in capsys.readouterr().out
    config = saving.load_json(stopped / "config.json")
    assert config["settings"]["lr"] == 2e-3 and config["command"].endswith("--resume RUN --lr 0.002")
    assert rows(stopped)[:6] == before[:6]
    assert [row["lr"] for row in rows(stopped)[6:]] == [row["lr"] for row in rows(tmp_path / "whole")[6:]]


def test_a_config_that_no_run_has_written_is_a_sentence(stopped, capsys):
    config = saving.load_json(stopped / "config.json")
    for change in (
        {"threads": 10**9},
        {"share": "everything"},
        {"command": 3},
        {"saving": {}},
        {"saving": {**config["saving"], "keep": 0}},
        {"saving": {**config["saving"], "minutes": "1"}},
    ):
        saving.save_json(stopped / "config.json", config | change)
        assert train.main(["--resume", str(stopped)]) == 2
        assert "is not a run's configuration" in capsys.readouterr().err


# ---------------------------------------------------------------- files that are broken, or want to break something


def spoil(path, change):
    """Change the state in a checkpoint."""
    state = checkpoints.read(path).state
    change(state)
    checkpoints.write(path, state)


def set_first(state, name, value):
    stream = state["random"]["streams"][min(state["random"]["streams"])]
    stream[name] = value


SPOILED = {
    "an optimizer's setting": lambda s: s["optimizer"]["param_groups"][0].update(lr="fast"),
    "an optimizer's shape": lambda s: s["optimizer"]["state"]["0"].update(exp_avg=np.zeros(3)),
    "a count below 0": lambda s: s["optimizer"]["state"]["0"].update(step=-5),
    "a weight's shape": lambda s: s["model"].update({min(s["model"]): np.zeros((2, 2), np.float32)}),
    "a weight that is missing": lambda s: s["model"].pop(min(s["model"])),
    "an unknown weight": lambda s: s["model"].update(other=np.zeros(2)),
    "a step beyond the end": lambda s: s.update(step=10**9),
    "a step that is text": lambda s: s.update(step="../../6"),
    "no step": lambda s: s.pop("step"),
    "the step of another file": lambda s: s.update(step=5),
    "a random position outside": lambda s: set_first(s, "buffer_pos", -100),
    "a random number too large": lambda s: set_first(s, "uinteger", 2**70),
    "a random stream of text": lambda s: set_first(s, "buffer", "x"),
    "another seed": lambda s: s["random"].update(seed=7),
    "no random numbers": lambda s: s.update(random=None),
    "another schedule": lambda s: s["schedule"].update(last_epoch=None),
    "a best that is none": lambda s: s.update(best={"step": [], "figure": {}}),
}


@pytest.mark.parametrize("change", SPOILED.values(), ids=SPOILED.keys())
def test_a_checkpoint_that_does_not_fit_is_passed_over_for_the_one_before(change, stopped, capsys):
    spoil(RunFolder(stopped).checkpoint(6), change)
    assert train.main(["--resume", str(stopped), "--quiet"]) == 0
    err = capsys.readouterr().err
    assert (
        "It is skipped." in err
        and "step-000006" in err
        and "Traceback" not in err
        and len(err.splitlines()) == 1
    ), err
    assert [step for step, _ in RunFolder(stopped).found_checkpoints()] == [8, 6, 0] and [
        row["step"] for row in rows(stopped)
    ] == [*range(1, 9)]


HEADERS = {
    "none": {}, "no JSON": {"minigrad": "{"}, "no dict": {"minigrad": "[1]"}, "no version": {"minigrad": "{}"}, "deep": {"minigrad": "[" * 100_000},
    "a version that is text": {"minigrad": '{"version": "x", "state": {}}'}, "an array that is not there": {"minigrad": '{"version": 1, "state": {"array": "x"}}'},
    "another kind": {"minigrad": '{"version": 1, "state": {"class": "os.system"}}'}, "newer": {"minigrad": '{"version": 2, "state": {}}'},
}  # fmt: skip


@pytest.mark.parametrize("note", HEADERS.values(), ids=HEADERS.keys())
def test_a_header_that_is_none_is_a_sentence(note, tmp_path):
    saving.save_tensors(tmp_path / "x", {"a": np.zeros(1)}, note)
    with pytest.raises(
        saving.FileProblem, match="newer minigrad" if "2" in str(note) else "is not a checkpoint"
    ):
        checkpoints.read(tmp_path / "x")


def test_a_half_written_checkpoint_is_passed_over_and_the_run_ends_the_same(stopped, tmp_path, capsys):
    train.main([*DATES, "--steps", "8", "--out", str(tmp_path / "whole")])
    path = RunFolder(stopped).checkpoint(6)
    path.write_bytes(path.read_bytes()[:-100])
    (stopped / "checkpoints" / ".step-000008.safetensors.123.part").write_bytes(b"half")
    with open(stopped / "metrics.jsonl", "a") as file:
        file.write('{"step": 7, "loss": 1.')
    capsys.readouterr()
    assert train.main(["--resume", str(stopped), "--quiet"]) == 0
    assert "not a whole safetensors file" in capsys.readouterr().err
    assert same_runs(stopped, tmp_path / "whole") and not [*stopped.rglob(".*.part")]


def test_rows_that_are_missing_are_said_and_the_weights_are_the_same(stopped, tmp_path, capsys):
    train.main([*DATES, "--steps", "8", "--out", str(tmp_path / "whole")])
    lines = (stopped / "metrics.jsonl").read_text().splitlines(keepends=True)
    (stopped / "metrics.jsonl").write_text("".join([*lines[:2], '{"step": 3, "loss": "x"}\n', *lines[3:]]))
    assert train.main(["--resume", str(stopped), "--quiet"]) == 0
    assert "holds the rows of only 2 steps" in capsys.readouterr().err
    assert weights(stopped) == weights(tmp_path / "whole") and [row["step"] for row in rows(stopped)] == [
        1,
        2,
        7,
        8,
    ]


# ---------------------------------------------------------------- a disk that is full, a folder that may not be written


def test_a_full_disk_is_said_the_training_goes_on_and_the_last_good_checkpoint_stays(
    tmp_path, monkeypatch, no_test, capsys
):
    replace, calls = os.replace, []

    def full(*names):
        calls.append(names)
        # before: config.json, config.toml, the weights and the checkpoint of step 0, the weights of step 2
        if 5 < len(calls) < 10:
            raise OSError(28, "No space left on device")
        replace(*names)

    monkeypatch.setattr(os, "replace", full)
    assert train.main([*DATES, "--steps", "12", "--save-every", "2", "--out", str(tmp_path / "run")]) == 0
    err = capsys.readouterr().err
    assert (
        err.count("No space left on device") == 2
        and "unchanged" in err
        and "The training continues" in err
        and "Traceback" not in err
    )
    assert RunFolder(tmp_path / "run").found_checkpoints()[0][0] == 12 and len(rows(tmp_path / "run")) == 12


@signals
def test_a_disk_that_stays_full_loses_nothing_that_was_saved(tmp_path, no_test):
    words = [*DATES, "--d-model", "32", "--steps", "8", "--save-every", "3"]
    train.main([*words, "--out", str(tmp_path / "whole")])
    done = ended("full", 4, *words, "--out", tmp_path / "run")
    assert (
        done.returncode == 2
        and "so the run is not finished" in done.stderr
        and "could not be written: File too large" in done.stderr
        and "Traceback" not in done.stderr
    )
    assert [step for step, _ in RunFolder(tmp_path / "run").found_checkpoints()] == [3, 0] and not [
        *(tmp_path / "run").rglob(".*.part")
    ]
    assert train.main(["--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert same_runs(tmp_path / "run", tmp_path / "whole")


def test_rows_wait_for_room_and_no_half_line_is_left(tmp_path):
    class Full:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            if data.count(b"\n") > 1:
                self.file.write(data[:5])
                raise OSError(28, "No space left on device")
            return self.file.write(data)

        def __getattr__(self, name):
            return getattr(self.file, name)

    log = saving.Lines(tmp_path / "x.jsonl")
    log.append({"step": 1})
    log.flush()
    real, log._file = log._file, Full(log._file)
    log.append({"step": 2}), log.append({"step": 3})
    with pytest.raises(saving.FileProblem, match="No space left"):
        log.flush()
    assert (tmp_path / "x.jsonl").read_text() == '{"step": 1}\n'
    log._file = real
    log.close()
    assert (tmp_path / "x.jsonl").read_text() == '{"step": 1}\n{"step": 2}\n{"step": 3}\n'


def test_a_folder_that_may_not_be_written_is_a_sentence(stopped, monkeypatch, capsys):
    def refused(path, mode="r", *given, **named):
        if set(mode) & set("wa+"):
            raise PermissionError(13, "Permission denied")
        return open(path, mode, *given, **named)

    before = {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}
    monkeypatch.setattr(saving, "open", refused, raising=False)
    assert train.main(["--resume", str(stopped)]) == 2
    assert "metrics.jsonl could not be opened to write: Permission denied." in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}


def test_an_optimizer_that_cannot_be_saved_is_said_once_and_trains(tmp_path, monkeypatch, no_test, capsys):
    class Bare:
        def __init__(self, params):
            self.inner = optim.SGD(params, lr=0.1)
            self.param_groups, self.zero_grad, self.step = (
                self.inner.param_groups,
                self.inner.zero_grad,
                self.inner.step,
            )

    def optimizer(self, model):
        bare = Bare(model.parameters())
        return bare, optim.lr_scheduler.LambdaLR(bare, lambda step: 1.0)

    monkeypatch.setattr(recipes.find("dates"), "optimizer", optimizer)
    assert train.main([*DATES, "--steps", "2", "--out", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().err.count("The recipe's optimizer, of the type Bare, has no state_dict()") == 1
    recipes.load_run(tmp_path / "run")


# ---------------------------------------------------------------- random positions


def test_positions_that_get_state_gives_are_accepted_and_no_others():
    streams.stream("x").random(3)
    state = streams.get_state()
    streams.check_state(state)
    for spoiled in (
        {},
        None,
        {**state, "seed": 5},
        {**state, "streams": []},
        {**state, "streams": {"x": {}}},
    ):
        with pytest.raises(ValueError, match="random stream"):
            streams.check_state(spoiled)


# ---------------------------------------------------------------- the whole experiment


WAYS = ("exception", "SIGTERM", "SIGINT", "twice", "SIGKILL", "later", *stopping.WRITES)
STOPS = 6  # of each recipe


@pytest.mark.slow
@signals
def test_every_recipe_stopped_again_and_again_in_every_way(tmp_path, capsys, no_test):
    """python -m pytest -m slow tests/training/test_resume.py -s prints the totals."""
    rng, total, began = random.Random(1), dict.fromkeys(WAYS, 0), time.perf_counter()
    resumed = again = different = unloadable = 0
    ways = iter(WAYS * 100)
    for name in recipes.NAMES:
        (tmp_path / name).mkdir()
        words = [*arguments(name, tmp_path / name, 24), "--save-every", "3"]
        assert ended("nothing", 0, *words, "--out", tmp_path / name / "whole").returncode == 0
        stops = number = 0
        while stops < STOPS:
            folder, begun = tmp_path / name / f"run{number}", False
            number += 1
            while True:  # one run, until it is finished
                how = next(ways) if stops < STOPS else "nothing"
                when = {"later": rng.randrange(120), **dict.fromkeys(stopping.WRITES, rng.randrange(9))}.get(
                    how, rng.randrange(8)
                )
                begun |= (folder / "config.json").exists()
                done = ended(
                    how, when, *(["--resume", folder, "--quiet"] if begun else [*words, "--out", folder])
                )
                if done.returncode == 0:
                    break
                assert done.returncode in (1, 130, 143, -9) and ("Traceback" in done.stderr) == (
                    how == "exception"
                ), done.stderr
                assert "It is skipped" not in done.stderr, done.stderr
                stops, total[how] = stops + 1, total[how] + 1
                resumed += (folder / "config.json").exists()
                again += not (folder / "config.json").exists()
                if (folder / "model.safetensors").exists():
                    try:
                        recipes.load_run(folder)
                    except ValueError:
                        unloadable += 1
            different += not same_runs(folder, tmp_path / name / "whole")
    with capsys.disabled():
        print(f"\n{sum(total.values())} stops ({', '.join(f'{how} {count}' for how, count in total.items())}), {resumed} resumed, {again} before there was a run; "
              f"runs that ended otherwise: {different}, that could not be loaded: {unloadable}; {time.perf_counter() - began:.0f} s")  # fmt: skip
    assert sum(total.values()) >= 50 and different == unloadable == 0


# ---------------------------------------------------------------- what was learned is never given up


RECIPE = """
import numpy as np
from minigrad import nn
from minigrad.training import Recipe

class Little(Recipe):
    name, help, metric = "little", "", "error"
    defaults = dict(steps=6, batch_size=2, lr=1e-2)
    example = ""
    def model(self):
        return nn.Sequential(nn.Linear(2, 1))
    def batch(self, step):
        return np.full((2, 2), step, np.float32)
    def loss(self, model, batch):
        return (model(batch) ** 2).mean()
    def evaluate(self, model, final=False):
        return {"error": 1.0}
    def answer(self, model, prompts):
        return [""] * len(prompts)
"""


def bytes_of(folder):
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "report.html"
    }


@pytest.mark.parametrize(("change", "said"), [
    (("nn.Linear(2, 1))", "nn.Linear(2, 1), nn.LayerNorm(1))"), "none of the 3 checkpoints of the run"),
    (("return np.full", "raise OSError('data.bin is gone')\n        return np.full"), "The batch of step 4 can no longer be read (OSError: data.bin is gone)"),
], ids=["another model", "data that are gone"])  # fmt: skip
def test_a_run_whose_recipe_has_changed_is_left_as_it_is_until_it_is_put_back(
    change, said, tmp_path, monkeypatch, no_test, capsys
):
    (file := tmp_path / "little.py").write_text(RECIPE)
    stop_at(monkeypatch, 4)
    with pytest.raises(RuntimeError):
        train.main([str(file), "--save-every", "2", "--quiet", "--out", str(folder := tmp_path / "run")])
    before = bytes_of(folder)
    file.write_text(RECIPE.replace(*change))
    assert train.main(["--resume", str(folder)]) == 2
    assert said in capsys.readouterr().err and bytes_of(folder) == before
    file.write_text(RECIPE)
    assert train.main(["--resume", str(folder), "--quiet"]) == 0 and len(rows(folder)) == 6


def test_checkpoints_of_a_newer_minigrad_are_left_alone(stopped, monkeypatch, capsys):
    before = bytes_of(stopped)
    monkeypatch.setattr(checkpoints, "VERSION", 0)
    assert train.main(["--resume", str(stopped)]) == 2
    assert "written by a newer minigrad" in capsys.readouterr().err and bytes_of(stopped) == before


def test_what_may_not_be_read_or_never_ends_is_a_sentence(stopped, monkeypatch, capsys):
    (stopped / "metrics.jsonl").rename(stopped / "rows")
    if hasattr(os, "mkfifo"):
        os.mkfifo(stopped / "metrics.jsonl")
        assert (
            train.main(["--resume", str(stopped)]) == 2
            and "metrics.jsonl is a pipe or a device" in capsys.readouterr().err
        )
        (stopped / "metrics.jsonl").unlink()
    (stopped / "rows").rename(stopped / "metrics.jsonl")
    before = bytes_of(stopped)
    read = open

    def locked(path, *how, **more):
        if "checkpoints" in str(path):
            raise PermissionError(13, "Permission denied")
        return read(path, *how, **more)

    monkeypatch.setattr(saving, "open", locked, raising=False)
    assert train.main(["--resume", str(stopped)]) == 2
    assert "could not be read: Permission denied" in capsys.readouterr().err
    monkeypatch.undo()
    assert bytes_of(stopped) == before
