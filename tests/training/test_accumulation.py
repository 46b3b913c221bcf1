"""A batch in parts gives the loss, the gradients and the steps of the whole, whatever the recipe and however uneven the parts."""

import json
import math

import numpy as np
import pytest
from oracle import near, refuses
from small_recipes import NAMES, made

import minigrad as mg
from minigrad import functional as F
from minigrad import nn, optim, train
from minigrad.data import padded
from minigrad.training import Recipe
from minigrad.training.accumulation import cut
from minigrad.training.loop import Training, TrainingError, fit
from minigrad.training.threads import Sharing


def gradients(training, step=0):
    training.clip = math.inf
    loss, _ = training._gradients(training.batch(step), mg.random.get_state())
    return loss, {
        name: p.grad.data.copy() for name, p in training.model.named_parameters() if p.grad is not None
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("threads", (1, 2))
def test_parts_add_up_to_the_batch_that_is_as_large(name, threads):
    whole_loss, whole = gradients(Training(*made(name, batch_size=6)))
    with Sharing(threads) as sharing:
        loss, parts = gradients(
            Training(*made(name, batch_size=2, accumulate=3), sharing=sharing if threads > 1 else None)
        )
    assert loss == pytest.approx(whole_loss, rel=1e-6) and parts.keys() == whole.keys()
    scale = max(np.abs(g).max() for g in whole.values())
    for path, g in whole.items():
        near(parts[path] / scale, g / scale, 1e-6)


def test_the_steps_are_those_of_the_large_batch_too():
    losses = [
        [row["loss"] for row in fit(*made("text", **sizes))]
        for sizes in (dict(batch_size=8), dict(batch_size=2, accumulate=4))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6) and len(set(losses[0])) == 3


class Uneven(Recipe):
    """Batches that end with the data: 7 rows, so that 3 x 3 give a last part of one; the loss is a mean over what is not padding."""

    defaults = dict(batch_size=3, steps=1, lr=1e-3)
    rows = [[1] * n for n in (1, 2, 9, 1, 1, 5, 3)]

    def model(self):
        return nn.Embedding(4, 1).double()

    def batch(self, step):
        return padded(self.rows[: self.settings["batch_size"]])

    def loss(self, model, batch):
        return (model(batch)[..., 0] * (batch != 0) * np.arange(1, batch.shape[1] + 1)).sum() / max(
            1, self.count(batch)
        )

    def count(self, batch):
        return int((batch != 0).sum())

    def shares(self, batch, parts):
        size = self.settings["batch_size"]
        return [batch[start : start + size] for start in range(0, len(batch), size)]


def test_a_last_part_that_is_smaller_and_padding_count_by_what_they_hold():
    recipe = Uneven({"accumulate": 3})
    model = recipe.model()
    loss, parts = gradients(Training(recipe, model))
    whole = recipe.loss(model, padded(recipe.rows))
    model.zero_grad()
    whole.backward()
    assert loss == pytest.approx(whole.item(), rel=1e-12)
    near(parts["weight"], model.weight.grad.data, 1e-12)
    pieces = cut(recipe, padded(recipe.rows), 3)
    assert (
        [len(part) for part, _ in pieces] == [3, 3, 1]
        and sum(share for _, share in pieces) == pytest.approx(1)
        and pieces[2][1] == 3 / 22
    )


def test_parts_without_anything_to_predict_are_left_out():
    assert [share for _, share in cut(Uneven({}), np.array([[0], [0], [0], [1]]), 2)] == [1.0]
    # nothing anywhere: the batch as it is
    assert [share for _, share in cut(Uneven({}), np.zeros((4, 1)), 2)] == [1.0]


class Fixed(Recipe):
    defaults = dict(batch_size=2, steps=2)

    def __init__(self, settings):
        super().__init__(settings)
        self.x = np.ones((self.settings["batch_size"], 1), np.float32)

    def model(self):
        return nn.Linear(1, 1)

    def batch(self, step):
        return self.x

    def loss(self, model, batch):
        return F.mse_loss(model(batch), batch)

    def optimizer(self, model):
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        return optimizer, optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)


def test_a_recipe_whose_batches_do_not_grow_is_told_so():
    recipe = Fixed({"accumulate": 2})
    with refuses(TrainingError, "must return 2 x 2 examples, and returned 2", "self.settings['batch_size']"):
        fit(recipe, recipe.model())


def test_the_command_line_remembers_and_repeats_it(tmp_path):
    folder = tmp_path / "run"
    small = [
        "reverse",
        "--steps",
        "2",
        "--layers",
        "1",
        "--d-model",
        "8",
        "--heads",
        "1",
        "--d-ff",
        "8",
        "--quiet",
        "--out",
        str(folder),
    ]
    assert train.main([*small, "--batch-size", "3", "--accumulate", "2"]) == 0
    config = json.loads((folder / "config.json").read_text())
    assert config["settings"]["accumulate"] == 2 and "--accumulate 2" in config["command"]
