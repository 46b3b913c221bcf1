"""--dry-run and --overfit-one-batch: what they say, and that they leave nothing behind."""

import math
import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import functional as F
from minigrad import nn, train
from minigrad.training import Recipe, rehearsal
from minigrad.training.rehearsal import by_layer, clock, first_loss, floor, judge_first_loss, shapes
from models import recipes

SMALL = ["--layers", "1", "--d-model", "16", "--d-ff", "16", "--heads", "2", "--batch-size", "4"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.glob("runs"))


def test_a_dry_run_says_shapes_parameters_memory_first_loss_and_time(capsys):
    assert train.main(["dates", *SMALL, "--dropout", "0.1", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert (
        "batch[1]     (4, 12) int64" in out and "guessing evenly among 70 classes gives ln 70 = 4.248" in out
    )
    mg.manual_seed(0)
    model = recipes.find("dates")(
        {"layers": 1, "d_model": 16, "d_ff": 16, "heads": 2, "batch_size": 4}
    ).model()
    total = sum(p.numel() for p in model.parameters())
    assert re.search(rf"total +{total:,}\n", out) and re.search(rf"weights +{4 * total / 1000:.3g} kB", out)
    assert re.search(rf"optimizer +{8 * total / 1000:.3g} kB", out) and "activations kept for backward" in out
    assert "800 steps take about" in out and "8 evaluations of" in out


def test_a_dry_run_of_parts_and_of_few_steps(capsys):
    assert train.main(["reverse", *SMALL, "--accumulate", "3", "--steps", "1", "--dry-run"]) == 0
    assert "A batch (a step takes 3 of them):" in capsys.readouterr().out


def test_the_first_loss_beside_that_of_guessing():
    assert (
        "That is as it should be." in judge_first_loss(4.3, 70)
        and "far above" in judge_first_loss(9.0, 70)
        and "see the answer" in judge_first_loss(0.5, 70)
    )
    assert "no cross-entropy" in judge_first_loss(0.5, None)


def test_classes_and_smoothing_are_read_off_the_loss():
    recipe = recipes.find("dates")(
        {"label_smoothing": 0.2, "d_model": 16, "layers": 1, "heads": 2, "d_ff": 16, "batch_size": 4}
    )
    assert first_loss(recipe, recipe.model(), recipe.batch(0))[1:] == (70, 0.2)


def test_no_loss_is_below_the_floor_of_label_smoothing():
    for classes, smoothing in ((5, 0.1), (70, 0.3), (2, 1.0)):
        q = np.full(classes, smoothing / classes)
        q[1] += 1 - smoothing
        best = mg.tensor(np.log(q)[None])
        assert floor(classes, smoothing) == pytest.approx(
            F.cross_entropy(best, np.array([1]), label_smoothing=smoothing).item(), rel=1e-6
        )
    assert floor(None, 0.0) == floor(9, 0.0) == 0.0


def test_shapes_layers_and_times():
    assert shapes({"a": (np.zeros((2, 3), np.float32), [1])}) == [
        "batch['a'][0] (2, 3) float32",
        "batch['a'][1] list",
    ]
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1).requires_grad_(False))
    assert by_layer(model) == [("0", 9), ("1", 0), ("total", 9)]
    assert [clock(s) for s in (1.234, 33.3, 200, 9000)] == ["1.2 s", "33 s", "3 min", "2.5 h"]


def test_one_batch_is_learned_by_heart(capsys):
    assert (
        train.main(
            [
                "reverse",
                *SMALL,
                "--dropout",
                "0.5",
                "--lr",
                "0.02",
                "--accumulate",
                "2",
                "--overfit-one-batch",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "Yes: the loss came to" in out and float(re.findall(r"loss +(\d\.\d+)", out)[-1]) < 0.1


def test_with_label_smoothing_the_floor_counts(capsys):
    assert (
        train.main(["dates", *SMALL, "--label-smoothing", "0.3", "--lr", "0.03", "--overfit-one-batch"]) == 0
    )
    out = capsys.readouterr().out
    least = floor(70, 0.3)
    assert (
        f"no loss is below {least:.4f}" in out
        and least < float(re.findall(r"loss +(\d\.\d+)", out)[-1]) < least + 0.1
    )


class Hopeless(Recipe):
    name, defaults = "hopeless", dict(batch_size=2, steps=9, lr=0.1)

    def model(self):
        return nn.Sequential(nn.Dropout(0.9), nn.Linear(1, 1))

    def batch(self, step):
        return np.ones((2, 1), np.float32), np.array([[0], [1]], np.float32)  # one input, two answers

    def loss(self, model, batch):
        return F.mse_loss(model(batch[0]), batch[1])


def test_what_cannot_be_learned_is_said_with_what_to_look_at():
    recipe, said = Hopeless({}), []
    model = recipe.model()
    assert rehearsal.overfit(recipe, model, None, 40, said.append) == 1
    assert "No: the loss is 0.2" in said[-1] and "one input with two answers" in said[-1] and model[0].p == 0
    assert not math.isnan(model[1].weight.item())


@pytest.mark.parametrize(("words", "said"), [
    (["--dry-run", "--out", "x"], "--dry-run creates no run; leave out --out"), (["--overfit-one-batch", "--tensorboard"], "creates no run and saves nothing; leave out --tensorboard"),
    (["--dry-run", "--overfit-one-batch"], "leave out --overfit-one-batch"), (["--resume", "x", "--dry-run"], "leave out --dry-run"),
])  # fmt: skip
def test_what_does_not_go_together_is_a_sentence(words, said, capsys):
    with pytest.raises(SystemExit) as ending:
        train.main(words)
    assert ending.value.code == 2 and said in capsys.readouterr().err
