"""Tests of the matplotlib pictures: axes, titles and sizes, read from the Figure."""

import numpy as np
import pytest

from minigrad.viz import pictures


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """A function draw(function, ...) that returns the figure which `function` saved."""
    figures, make = [], pictures._figure

    def record(*size):
        figures.append(make(*size))
        return figures[-1]

    monkeypatch.setattr(pictures, "_figure", record)

    def draw(picture, *arguments, **settings):
        picture(*arguments, path=tmp_path / "picture.png", **settings)
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
        return figures[-1]

    return draw


def rows(*losses, **measured):
    """Rows as fit makes them, with these losses. The last row also has the measured metrics."""
    made = [{"step": i + 1, "loss": loss} for i, loss in enumerate(losses)]
    made[-1] |= measured
    return made


def ticks(axes):
    low, high = axes.get_ylim()
    return [
        label.get_text().replace("\N{MINUS SIGN}", "-")
        for label, place in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True)
        if low <= place <= high
    ]


@pytest.mark.parametrize("losses", ([6.3, 6.1, 6.2], [5.0, 1.0, 0.07], [9.0, 1e-5]))
def test_a_losss_ticks_are_plain_numbers_however_far_it_falls(losses, drawn):
    axes = drawn(pictures.curve, rows(*losses)).axes[0]
    shown = ticks(axes)
    assert (
        len(shown) >= 2 and [float(label) for label in shown] and not any("10^" in label for label in shown)
    )
    assert axes.get_yscale() == "log" and "lower is better" in axes.get_ylabel()


def test_a_loss_below_zero_is_drawn_on_a_plain_axis(drawn):
    assert drawn(pictures.curve, rows(1.0, -2.0)).axes[0].get_yscale() == "linear"


def test_a_single_measurement_is_labelled_with_its_value_and_several_make_a_line(drawn):
    alone = drawn(pictures.curve, rows(2.0, 1.0, accuracy=0.5), metric="accuracy").axes[1]
    assert [text.get_text() for text in alone.texts] == ["50.0%"]
    several = drawn(
        pictures.curve, [{"step": i, "loss": 1.0, "accuracy": 0.1 * i} for i in (1, 2)], metric="accuracy"
    ).axes[1]
    assert not several.texts


@pytest.mark.parametrize(
    ("metric", "share", "lower"),
    [("bits per character", False, True), ("chrF", False, False), ("exact match", True, False)],
)
def test_the_label_of_a_metric_says_if_lower_is_better(metric, share, lower, drawn):
    label = (
        drawn(pictures.curve, rows(2.0, 1.0, **{metric: 0.5}), metric=metric, share=share)
        .axes[1]
        .get_ylabel()
        .replace("\n", " ")
    )
    assert label == f"{metric} on held-out data" + " (lower is better)" * lower


def test_an_attention_map_shows_the_whole_line_and_what_a_colour_means(drawn):
    figure = drawn(
        pictures.attention_map, np.full((2, 3, 4), 0.25), "$ 4", ["␣fo", "ur", "end"], title="Layer 2"
    )
    assert figure.get_suptitle() == "Layer 2\n$ 4 → four"
    assert "attention weight" in [axes.get_ylabel() for axes in figure.axes]


@pytest.mark.parametrize(("count", "tall"), [(5, 700), (27, 950), (65, 1200)])
def test_many_rows_do_not_make_a_picture_taller_than_a_screen(count, tall, drawn):
    labels = [f"word{i}" for i in range(count)]
    figure = drawn(pictures.attention_map, np.full((4, count, count), 1 / count), labels, labels, title="t")
    assert figure.get_figheight() * 120 <= tall
    named = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert named[:2] == ["word0", "word1"] if count < 30 else len(named) == 33


def test_three_heads_leave_the_fourth_panel_empty(drawn):
    figure = drawn(pictures.attention_map, np.full((3, 2, 2), 0.5), "ab", list("cd"), title="t")
    assert sum(axes.get_title().startswith("head") for axes in figure.axes) == 3
