"""Threads that share a batch: the same loss and gradients as one, whatever the recipe; and the same bits every time."""

import numpy as np
import pytest
from oracle import near, same
from small_recipes import NAMES, made

import minigrad as mg
from minigrad import train
from minigrad.cli.options import Compute
from minigrad.training.loop import fit
from minigrad.training.threads import Sharing, cores, trial


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("threads", (2, 3))
def test_loss_and_gradients_are_those_of_the_whole_batch(name, threads):
    recipe, model = made(name)
    batch = recipe.batch(0)
    loss = recipe.loss(model, batch)
    loss.backward()
    # BERT's summary is not asked for
    alone = {p: p.grad.data.copy() for p in model.parameters() if p.grad is not None}
    with Sharing(threads) as sharing:
        together = sharing.backward(recipe, model, batch)
    assert together == pytest.approx(loss.item(), rel=1e-6)
    scale = max(np.abs(g).max() for g in alone.values())
    assert {p for p in model.parameters() if p.grad is not None} == set(alone)
    for p, expected in alone.items():
        near(p.grad.data / scale, expected / scale, 1e-6)


def test_the_same_threads_give_the_same_bits_dropout_included():
    def losses():
        recipe, model = made("text", dropout=0.3)
        with Sharing(2) as sharing:
            return [row["loss"] for row in fit(recipe, model, sharing=sharing)]

    first = losses()
    assert first == losses() and len(set(first)) == 3


def test_each_thread_drops_other_numbers():
    with mg.random.as_worker(0):
        one = mg.random.stream("dropout").random(5)
    with mg.random.as_worker(1):
        other = mg.random.stream("dropout").random(5)
    assert not np.array_equal(one, other)


def test_a_batch_smaller_than_the_threads_is_shared_as_far_as_it_goes():
    recipe, model = made("reverse", batch_size=2)
    with Sharing(4) as sharing:
        assert np.isfinite(sharing.backward(recipe, model, recipe.batch(0)))


def test_a_mistake_in_a_thread_is_raised():
    recipe, model = made("reverse")
    recipe.loss = lambda model, batch: 1 / 0
    with Sharing(2) as sharing, pytest.raises(ZeroDivisionError):
        sharing.backward(recipe, model, recipe.batch(0))


def test_the_trial_leaves_no_trace():
    recipe, model = made("text", dropout=0.2)
    before, state = [p.data.copy() for p in model.parameters()], mg.random.get_state()
    seconds = trial(recipe, model, 2)
    assert set(seconds) == {"batch", "products", "one"} and min(seconds.values()) > 0
    for p, data in zip(model.parameters(), before, strict=True):
        same(p.data, data)
        assert p.grad is None
    now = mg.random.get_state()
    assert str(now["streams"]["dropout"]) == str(
        state["streams"].get("dropout", mg.random.fresh("dropout").bit_generator.state)
    )


@pytest.mark.parametrize(("seconds", "share", "threads", "words"), [
    ({"batch": 0.035, "products": 0.05, "one": 0.06}, "batch", 2, "2 threads share each batch. Time per step in a trial: shared batches 35 ms, shared products 50 ms, one thread 60 ms (see"),
    ({"batch": 0.05, "products": 0.035, "one": 0.06}, "products", 2, "2 threads share each matrix product."),
    ({"batch": 0.05, "products": 0.035, "one": 0.03}, "auto", 1, "One thread, because 2 are slower."),
])  # fmt: skip
def test_the_fastest_way_is_taken_and_the_times_are_said(seconds, share, threads, words, capsys):
    compute = train.choose_fastest(Compute(threads=2), seconds, print)
    assert (compute.share, compute.threads) == (share, threads) and words in capsys.readouterr().out


def test_more_threads_than_cores_are_a_sentence(capsys):
    assert train.main(["--threads", str(cores() + 1)]) == 2
    assert f"this machine has {cores()} core" in capsys.readouterr().err
