"""When training goes wrong: the first op that makes a NaN is named, the state before it is kept, sick weights are never saved."""

import json
import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import functional as F
from minigrad import nn, train
from minigrad.training import Recipe, health, progress
from minigrad.training.folder import RunFolder
from minigrad.training.health import (
    DEAD,
    NORMS,
    WARNINGS,
    Clipping,
    Dying,
    Health,
    Spikes,
    Vanishing,
    dead_units,
)
from minigrad.training.loop import NotFinite, Training, fit
from minigrad.training.threads import Sharing
from models import recipes
from models.recipes import load_run

SMALL = [
    "dates",
    "--steps",
    "6",
    "--layers",
    "1",
    "--d-model",
    "16",
    "--d-ff",
    "16",
    "--heads",
    "2",
    "--batch-size",
    "8",
]


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
    assert (
        "In the forward pass, in 2 (Root): sqrt made a NaN" in sentence
        and "test_health.py, line" in sentence
        and "return mg.sqrt(x)" in sentence
    )
    assert "add a small number under it" in sentence and "--lr 0.0003" in sentence


def test_an_inf_of_the_reverse_pass_is_named_too():
    recipe = Rooted({})
    recipe.model = lambda: nn.Sequential(nn.Linear(1, 1), Root())
    recipe.loss = lambda model, batch: model[1](model[0](batch) * 0).sum()
    sentence = broken(recipe)
    assert (
        "The gradient became nan at step 1." in sentence
        and "In the reverse pass, in 1 (Root): backward of sqrt made a" in sentence
    )


def test_what_stands_outside_of_all_layers_and_what_was_put_in():
    recipe = Rooted({})
    recipe.loss = lambda model, batch: mg.log(model[1](batch) * 0).sum()
    assert "In the forward pass, outside the model's layers, such as in the loss: log made an inf" in broken(
        recipe
    )
    recipe.loss = lambda model, batch: model[1](batch).sum() * math.nan
    assert "the NaN or inf comes from the batch, or from a constant" in broken(recipe)


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
    assert "Run again op by op, the batch gave no NaN or inf" in broken(recipe)


@pytest.mark.parametrize(("threads", "times"), [(1, 2), (2, 1), (2, 2)])
def test_it_is_found_in_shared_batches_and_in_parts(threads, times):
    recipe = Rooted({"accumulate": times})
    recipe.bad = {2: -100.0}
    with Sharing(threads) as sharing:
        assert "In the forward pass, in 2 (Root): sqrt made a NaN" in broken(
            recipe, sharing=sharing if threads > 1 else None
        )


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
    monkeypatch.setattr(
        recipes.find("dates"),
        "loss",
        lambda self, *given: loss(self, *given) * (1.0 if next(count) < good else float("nan")),
    )


def test_a_run_that_breaks_off_keeps_the_state_before_and_goes_on_from_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "finish", lambda *_: None)  # the test at the end takes longest
    with monkeypatch.context() as patch:
        spoil(patch, 3)
        assert train.main([*SMALL, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr()
    assert (
        "The loss became nan at step 4." in said.err
        and "saved as the checkpoint of step 3" in said.out
        and "--resume" in said.out
    )
    assert RunFolder(tmp_path / "run").found_checkpoints()[0][0] == 3
    load_run(tmp_path / "run")
    assert train.main(["--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert train.main([*SMALL, "--quiet", "--out", str(tmp_path / "whole")]) == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


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
    assert (
        "hold a NaN or an inf after step 3; they are not saved" in said.err
        and "hold a NaN or an inf already" in said.err
    )
    assert (
        RunFolder(tmp_path / "run").found_checkpoints()[0][0] == 2
        and health.sick_weights(load_run(tmp_path / "run")[1]) is None
    )


# ---------------------------------------------------------------- before it comes to that


def row(step, loss=1.0, norm=0.5, looked=False, **more):
    return {"step": step, "loss": loss, "gradient norm": norm, **({"samples": []} if looked else {}), **more}


def said_at(watcher, rows):
    return {r["step"]: sentence for r in rows if (sentence := watcher(r))}


def noisy(count, level=2.0):
    rng = np.random.default_rng(0)
    return [row(step, level + 0.05 * float(rng.standard_normal())) for step in range(1, count + 1)]


def test_a_spike_is_said_once_where_it_begins():
    rows = noisy(300)
    for step in (120, 121, 122, 125, 250):
        rows[step - 1]["loss"] = 7.5
    said = said_at(Spikes(), rows)
    assert (
        [*said] == [120, 250]
        and "the loss jumped to 7.5" in said[120]
        and "was about 2" in said[120]
        and "--lr" in said[120]
    )


@pytest.mark.parametrize("losses", [
    [5 * 0.97**step for step in range(300)], [2.0] * 300, [0.01 + 0.2 * (step % 40 == 0) for step in range(300)][::-1] + [5.0],
])  # fmt: skip
def test_falling_level_and_noise_near_nothing_are_no_spikes(losses):
    losses = [5.0] * 20 + losses[:299]
    assert said_at(Spikes(), [row(step, loss) for step, loss in enumerate(losses, 1)]) == {}


def test_a_loss_that_stays_high_is_said_once():
    assert [*said_at(Spikes(), noisy(100) + [r | {"step": r["step"] + 100} for r in noisy(200, 6.0)])] == [
        101
    ]


def test_steps_that_are_nearly_always_shortened_are_said_where_it_is_looked():
    rows = [row(step, norm=8.0 if step % 50 else 0.5, looked=step % 100 == 0) for step in range(1, 601)]
    said = said_at(Clipping(1.0), rows)
    assert (
        [*said] == [200]
        and "98% of the last 200 gradients were longer than 1" in said[200]
        and "longer than 8." in said[200]
    )
    assert (
        said_at(Clipping(4.0), rows)
        == said_at(Clipping(1.0), [r | {"gradient norm": 0.9} for r in rows])
        == {}
    )


def test_a_layer_that_no_gradient_reaches_is_said_after_many_steps():
    rows = [
        row(
            step,
            looked=step % 50 == 0,
            **{NORMS: {"a": 1.0, "b": 1e-9, "c": 0.0 if step > 120 else 1e-3}} if step % 10 == 0 else {},
        )
        for step in range(1, 401)
    ]
    said = said_at(Vanishing(), rows)
    assert (
        [*said] == [150, 250]
        and "no gradient reaches b:" in said[150]
        and "no gradient reaches c:" in said[250]
    )


def test_dead_units_are_said_when_they_stay_so():
    looks = [
        {},
        {"mlp": (60, 64)},
        {"mlp": (40, 64)},
        {"mlp": (42, 64), "x": (60, 64)},
        {"mlp": (43, 64)},
        {"mlp": (64, 64)},
    ]
    said = said_at(
        Dying(), [row(step, looked=True, **{DEAD: look} if look else {}) for step, look in enumerate(looks)]
    )
    assert (
        [*said] == [3]
        and "40 of the 64 of mlp gave 0" in said[3]
        and "x" not in said[3].split("gave")[0].replace("examples", "")
    )


def test_one_kind_of_sentence_is_said_three_times_at_most_and_not_again_after_a_resume():
    rows = noisy(600)
    for step in (100, 200, 300, 400, 500):
        rows[step - 1]["loss"] = 9.0
    whole = Health(None, None)
    for r in rows:
        whole(r)
    assert [r["step"] for r in rows if WARNINGS in r] == [100, 200, 300] and "Not repeated" in rows[299][
        WARNINGS
    ][0]
    resumed = Health(None, None, rows=json.loads(json.dumps(rows[:250])))
    again = [dict(r) for r in rows[250:]]
    for r in again:
        r.pop(WARNINGS, None)
        resumed(r)
    assert again == rows[250:]
    Health(None, None, rows=[{"step": 1}, {"loss": "?"}])  # not a log of ours: nothing to learn from it


class Dead(Rooted):
    def model(self):
        model = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 2), nn.GELU(), nn.Linear(2, 1))
        model[0].weight.data[...], model[0].bias.data[...] = 0.0, np.array([-1, 1, -1, 0], np.float32)
        model[2].weight.data[...], model[2].bias.data[...] = 0.0, np.array([1, -50], np.float32)
        return model

    def loss(self, model, batch):
        return F.mse_loss(model(F.dropout(batch, 0.5)), np.zeros((len(batch), 1), np.float32))


def test_dead_units_are_counted_by_layer_and_no_stream_moves():
    recipe = Dead({})
    model = recipe.model().train()
    mg.random.stream("dropout").random(3)
    before = str(mg.random.get_state())
    assert dead_units(recipe, model, 7) == {"1": (3, 4), "3": (1, 2)}
    assert str(mg.random.get_state()) == before and model.training and model[0].weight.grad is None
    assert dead_units(Rooted({}), Rooted({}).model(), 0) == {}


def test_a_run_says_and_keeps_what_was_noticed(tmp_path, capsys, monkeypatch):
    for name, value in {"FEWEST": 3, "WINDOW": 4}.items():
        monkeypatch.setattr(Spikes, name, value)
    loss, count = recipes.find("dates").loss, iter(range(100))
    monkeypatch.setattr(
        recipes.find("dates"),
        "loss",
        lambda self, *given: loss(self, *given) + (50.0 if next(count) == 4 else 0.0),
    )
    assert train.main([*SMALL, "--quiet", "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr()
    assert "minigrad.train: step 5: the loss jumped to 5" in said.err and len(said.out.splitlines()) == 1
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [WARNINGS in r for r in rows] == [False] * 4 + [True, False]
    assert "Warning at step 5: the loss jumped" in (tmp_path / "run" / "report.html").read_text(
        encoding="utf-8"
    )
