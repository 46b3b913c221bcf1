"""The lesson's pictures: their numbers say what the lesson says, and each function writes a PNG that a page can show."""

import struct

import numpy as np
import pytest

import minigrad as mg
from minigrad import functional as F
from minigrad import nn, optim
from models.positional import PositionalEncoding
from tutorials import figures
from tutorials.measurements import encoder

ARGUMENTS = {  # as few as the claims need
    figures.softmax_saturation: dict(widths=(1, 64, 1024)),
    figures.gradient_by_depth: dict(depth=18, depths=(1, 4, 16)),
    figures.attention_memory: dict(lengths=(1024, 2048)),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """found(picture) -> (its numbers, the PNG's bytes), made once."""
    made, folder = {}, tmp_path_factory.mktemp("figures")

    def find(picture):
        if picture not in made:
            path = folder / "picture.png"
            made[picture] = picture(path, **ARGUMENTS.get(picture, {})), path.read_bytes()
        return made[picture]

    return find


@pytest.mark.parametrize("picture", figures.PICTURES, ids=lambda picture: picture.__name__)
def test_each_writes_a_png_that_is_readable_at_700_pixels(picture, found):
    png = found(picture)[1]
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert 700 <= width <= 900 and height < 900  # shown at 700, letters shrink by less than a quarter
    assert len(png) < 300_000  # matplotlib 3.10 packs less densely than 3.11


def test_without_a_path_there_is_no_picture_and_the_numbers_are_the_same(found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbers = figures.loss_surface()
    assert np.array_equal(numbers["Adam"], found(figures.loss_surface)[0]["Adam"]) and not list(
        tmp_path.iterdir()
    )


def test_the_product_of_two_encodings_depends_on_their_distance_alone(found):
    table, similarity = found(figures.positions)[0]
    assert table[0].tolist() == [0, 1] * 32  # the lesson's worked example: sines 0, cosines 1
    for distance in (0, 1, 7, 50):
        diagonal = np.diagonal(similarity, distance)
        assert np.allclose(diagonal, diagonal[0], atol=1e-5)
    assert np.allclose(np.diagonal(similarity), 1, atol=1e-6) and np.argmax(similarity, 1).tolist() == list(
        range(100)
    )


def test_q3_unscaled_scores_of_width_1024_are_nearly_one_hot_and_their_gradient_vanishes(found):
    numbers, _ = found(figures.softmax_saturation)
    unscaled, scaled = (
        {what: quartiles[:, 1] for what, quartiles in numbers[name].items()}
        for name in ("unscaled", "scaled")
    )
    assert unscaled["largest"][-1] > 0.99 and unscaled["gradient"][-1] < 1e-2 * scaled["gradient"][-1]
    assert np.all(np.diff(unscaled["largest"]) > 0) and np.all(np.diff(unscaled["gradient"]) < 0)
    # whatever the width
    assert scaled["largest"][-1] < 0.25 and 0.5 < scaled["gradient"][-1] / scaled["gradient"][0] < 2
    assert unscaled["largest"][0] == scaled["largest"][0]  # sqrt(1) = 1


def test_each_mask_hides_what_its_name_says(found):
    allowed = {title: mask for title, (mask, _, _) in found(figures.masks)[0].items()}
    assert np.array_equal(allowed["causal"], np.tri(4, dtype=bool))
    assert allowed["padding"].tolist() == [[True] * 3 + [False] * 2] * 5
    assert np.array_equal(allowed["causal and padding"], allowed["causal"] & (np.arange(4) < 3))
    # 4 queries, 5 keys: not square
    assert allowed["cross-attention"].tolist() == [[True] * 3 + [False] * 2] * 4
    assert allowed["with a cache"].tolist() == [[True] * 4 + [False], [True] * 5]  # counted from the last key


def test_q10_residuals_carry_the_gradient_to_the_first_layer(found):
    by_layer, _ = found(figures.gradient_by_depth)[0]
    reached = {kind: norms[0] / norms[-1] for kind, norms in by_layer.items()}
    assert reached["none"] < 1e-3
    assert 0.2 < reached["post"] < 5 and 1 < reached["pre"] < 10


def test_post_norms_last_gradient_stays_large_in_deep_stacks_and_pre_norms_falls_with_the_root_of_the_depth(
    found,
):
    _, last = found(figures.gradient_by_depth)[0]  # depths 1, 4, 16: each four times the one before
    assert np.all(np.abs(np.log(last["post"][1:] / last["post"][:-1])) < 0.35)
    # 1/2 in the limit
    assert np.all((0.35 < last["pre"][1:] / last["pre"][:-1]) & (last["pre"][1:] / last["pre"][:-1] < 0.8))
    # so post-norm without warm-up takes first steps that are too long
    assert last["post"][-1] > 2 * last["pre"][-1]


def test_q8_gradients_fade_with_the_distance_in_an_rnn_and_an_lstm_and_not_in_attention(found):
    numbers, _ = found(figures.gradient_by_distance)
    assert all(ratio[0] == 1 for ratio in numbers.values())
    assert numbers["RNN"][100] < 1e-20 < numbers["LSTM"][100] < 1e-6
    assert np.all(np.diff(np.log(numbers["RNN"])) < 0)
    assert 0.7 < numbers["attention"][100] / numbers["attention"][1] < 1.4
    assert numbers["attention"][100] > 1e3 * numbers["LSTM"][100]


def test_sgd_and_adam_go_down_and_adam_comes_nearer_to_the_lowest_loss(found):
    numbers, _ = found(figures.loss_surface)
    start, sgd, adam = (
        np.linalg.norm(p - numbers["lowest"])
        for p in (numbers["SGD"][0], numbers["SGD"][-1], numbers["Adam"][-1])
    )
    assert adam < sgd / 2 < start / 4
    row, column = np.unravel_index(numbers["loss"].argmin(), numbers["loss"].shape)
    lowest = numbers["slope"][column], numbers["intercept"][row]
    assert np.allclose(lowest, numbers["lowest"], atol=0.1)  # of the drawn points, that is a neighbour


def test_plain_attentions_memory_grows_fourfold_when_the_length_doubles_and_blocked_twofold(found):
    numbers, _ = found(figures.attention_memory)
    growth = {
        name: {what: last / first for what, (first, last) in figures.items()}
        for name, figures in numbers.items()
    }
    assert 3.5 < growth["plain"]["kept"] < 4.1 and 3.4 < growth["plain"]["peak"] < 4.1
    # a block's buffer does not grow
    assert 1.9 < growth["blocked"]["kept"] < 2.1 and 1.4 < growth["blocked"]["peak"] < 2.1
    assert 1024**2 * 4 < numbers["plain"]["kept"][0] < 1.25 * 1024**2 * 4  # the weights, float32


def test_the_script_writes_what_is_listed_into_a_new_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "PICTURES", (figures.loss_surface,))
    assert figures.write_all(tmp_path / "new") == [tmp_path / "new" / "loss_surface.png"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["loss_surface.png"]


@pytest.mark.slow
def test_without_warm_up_pre_norm_learns_and_post_norm_does_not_and_warm_up_helps_it():
    pre, post = losses("pre"), losses("post")
    assert pre < 2.4 and post > 2.65  # chance: log 16 = 2.77
    assert losses("post", warm_up=40) < post - 0.05


def losses(kind, warm_up=1, lr=3e-3, depth=12, width=32, steps=120):
    """The mean loss of the last twenty steps: twelve layers learn to write eight tokens of sixteen backwards."""
    mg.manual_seed(0)
    read = nn.Sequential(
        nn.Embedding(16, width),
        PositionalEncoding(width),
        *encoder(depth, width, kind),
        nn.LayerNorm(width),
        nn.Linear(width, 16),
    )
    optimizer, rng, seen = optim.Adam(read.parameters(), lr), np.random.default_rng(0), []
    schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / warm_up))
    for _ in range(steps):
        tokens = rng.integers(16, size=(16, 8))
        loss = F.cross_entropy(read(tokens).reshape(-1, 16), tokens[:, ::-1].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        seen.append(float(loss))
    return np.mean(seen[-20:])
