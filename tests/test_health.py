"""When training goes wrong: the first op that makes a NaN is named, the state before it is kept, sick weights are never saved."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import checkpoints, health, nn, train
from minigrad.sharing import Sharing
from minigrad.trainer import NotFinite, Recipe, Training, fit
from models import recipes
from models.recipes import load_run

SMALL = ["dates", "--steps", "6", "--layers", "1", "--d-model", "16", "--d-ff", "16", "--heads", "2", "--batch-size", "8"]


class Root(nn.Module):
    """The root of what a layer gives, which has no slope at 0 and no value below."""

    def forward(self, x):
        return mg.sqrt(x)


class Rooted(Recipe):
    name, defaults = "rooted", dict(steps=5, batch_size=4, lr=1e-3)
    bad = {3: 0.0}  # step: what stands under the root

    def model(self):
        model = nn.Sequential(nn.Dropout(0.5), nn.Linear(1, 1), Root())
        model[1].weight.data[...], model[1].bias.data[...] = 1.0, 5.0
        return model

    def batch(self, step):
        return np.full((self.settings["batch_size"], 1), self.bad.get(step, 1.0), np.float32)

    def loss(self, model, batch):
        return (model(batch) * (model(batch) * 0 + 1)).mean()


def broken(recipe, **more):
    with pytest.raises(NotFinite) as found:
        fit(recipe, recipe.model(), **more)
    return str(found.value)


def test_a_nan_of_the_forward_pass_is_named_with_op_layer_and_line():
    recipe = Rooted({})
    recipe.bad = {3: -100.0}
    sentence = broken(recipe)
    assert "The loss became nan at step 4." in sentence and "with the same random numbers" in sentence
    assert "In the forward pass, in 2 (Root): sqrt made a NaN" in sentence and "test_health.py, line" in sentence and "return mg.sqrt(x)" in sentence
    assert "add a small number under it" in sentence and "--lr 0.0003" in sentence


def test_an_inf_of_the_reverse_pass_is_named_too():
    recipe = Rooted({})
    recipe.model = lambda: nn.Sequential(nn.Linear(1, 1), Root())
    recipe.loss = lambda model, batch: model[1](model[0](batch) * 0).sum()
    sentence = broken(recipe)
    assert "The gradient became nan at step 1." in sentence and "In the reverse pass, in 1 (Root): backward of sqrt made a" in sentence


def test_what_stands_outside_of_all_layers_and_what_was_put_in():
    recipe = Rooted({})
    recipe.loss = lambda model, batch: mg.log(model[1](batch) * 0).sum()
    assert "In the forward pass, outside the model's layers, such as in the loss: log made an inf" in broken(recipe)
    recipe.loss = lambda model, batch: model[1](batch).sum() * math.nan
    assert "a NaN or an inf is put in" in broken(recipe)


def test_weights_that_are_sick_already_are_named():
    recipe = Rooted({})
    model = recipe.model()
    model[1].bias.data[0] = np.inf
    with pytest.raises(NotFinite, match="The weights 1.bias hold a NaN or an inf already"):
        fit(recipe, model)
    assert health.sick_weights(model) == "1.bias" and health.sick_weights(recipe.model()) is None


def test_what_does_not_come_again_is_said():
    recipe, times = Rooted({}), iter(range(9))
    recipe.loss = lambda model, batch: model[1](batch).sum() * (math.inf if next(times) == 2 else 1.0)
    assert "Run again, op by op, the batch gave none" in broken(recipe)


@pytest.mark.parametrize(("threads", "times"), [(1, 2), (2, 1), (2, 2)])
def test_it_is_found_in_shared_batches_and_in_parts(threads, times):
    recipe = Rooted({"accumulate": times})
    recipe.bad = {2: -100.0}
    with Sharing(threads) as sharing:
        assert "In the forward pass, in 2 (Root): sqrt made a NaN" in broken(recipe, sharing=sharing if threads > 1 else None)


def test_the_state_is_that_before_the_step_random_streams_included():
    def after(steps, bad):
        mg.manual_seed(1)
        recipe = Rooted({})
        recipe.bad = bad
        training = Training(recipe, recipe.model().train())
        for _ in range(steps):
            training.step()
        return training

    broken_off, whole = after(3, {3: -100.0}), after(3, {})
    with pytest.raises(NotFinite):
        broken_off.step()
    assert broken_off.done == 3 and all(p.grad is None for p in broken_off.model.parameters())
    assert str(broken_off.state() | {"seconds": 0}) == str(whole.state() | {"seconds": 0})


def spoil(monkeypatch, good):
    loss, count = recipes.find("dates").loss, iter(range(100))
    monkeypatch.setattr(recipes.find("dates"), "loss", lambda self, *given: loss(self, *given) * (1.0 if next(count) < good else float("nan")))


def test_a_run_that_breaks_off_keeps_the_state_before_and_goes_on_from_it(tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        spoil(patch, 3)
        assert train.main([*SMALL, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr()
    assert "The loss became nan at step 4." in said.err and "kept, as the checkpoint of step 3" in said.out and "--resume" in said.out
    assert checkpoints.found(tmp_path / "run")[0][0] == 3
    load_run(tmp_path / "run")
    assert train.main(["--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert train.main([*SMALL, "--quiet", "--out", str(tmp_path / "whole")]) == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


def test_sick_weights_are_not_saved_over_good_ones(tmp_path, monkeypatch, capsys):
    step = Training.step

    def burst(self):
        row = step(self)
        if self.done == 3:
            next(self.model.parameters()).data[...] = np.inf
        return row

    monkeypatch.setattr(Training, "step", burst)
    assert train.main([*SMALL, "--save-every", "1", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr()
    assert "hold a NaN or an inf after step 3; they are not saved" in said.err and "hold a NaN or an inf already" in said.err
    assert checkpoints.found(tmp_path / "run")[0][0] == 2 and health.sick_weights(load_run(tmp_path / "run")[1]) is None
