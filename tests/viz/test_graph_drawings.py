"""Tests of drawings of a history: their boxes and arrows, and values equal to the engine's.

The tests read the DOT source. The look of the pictures was checked by eye.
"""

import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from oracle import leaf

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn
from minigrad.viz import graph
from minigrad.viz.boxes import Layout, levels
from minigrad.viz.dot import describe_sum, exact, number, numbers
from minigrad.viz.replay import replay
from models.gpt import GPT
from models.transformer import Transformer

module = sys.modules["minigrad.viz.graph"]
draws = pytest.mark.skipif(module.renderer() is None, reason=module.INSTALL)


def numbers_loss():
    a, b, c, f = (mg.tensor(x, requires_grad=True) for x in (2.0, -3.0, 10.0, -2.0))
    d = a * b + c
    return d * f, dict(a=a, b=b, c=c, f=f, d=d)


def encoder_decoder(**settings):
    model = Transformer(20, 8, 2, 4, 16, **settings)
    source, target = np.array([[1, 2, 3]]), np.array([[1, 2, 3, 4]])
    return model, F.cross_entropy(model(source, target)[0], np.array([2, 3, 4, 5]))


def words(drawing):
    """Extract the text of the boxes, {id: text}, and the arrows, [(start, end, text, True if backward)]."""
    boxes, arrows = {}, []
    for line in drawing.source.splitlines():
        label = re.search(r"label=<(.*)> (fill)?color=", line)
        text = re.sub(r"\s+", " ", re.sub(r"<[^<>]+>", " ", label[1])).strip() if label else ""
        if arrow := re.match(r"\s*(n\d+) -> (n\d+)", line):
            arrows.append((*arrow.groups(), text, "dir=back" in line))
        elif box := re.match(r"\s*(n\d+) \[", line):
            boxes[box[1]] = text
    return boxes, arrows


def boxes_text(drawing):
    return " | ".join(words(drawing)[0].values())


def boxes_with(drawing, text):
    return [key for key, label in words(drawing)[0].items() if text in label]


# ---------------------------------------------------------------- small graphs


def test_numbers_are_the_engines():
    L, names = numbers_loss()
    boxes, _ = words(graph(L, names=names))
    for name, g in zip("abcf", mg.grad(L, [names[n] for n in "abcf"], retain_graph=True), strict=True):
        assert f"{name} value {number(names[name].item())} gradient {number(g.item())}" in boxes.values()
    assert "d = + add value 4 gradient −2" in boxes.values()


def test_each_arrow_has_a_twin_that_brings_the_gradient_back():
    L, names = numbers_loss()
    drawing = graph(L, names=names)
    (a,), (product,) = boxes_with(drawing, "a value"), boxes_with(drawing, "value −6")
    arrows = words(drawing)[1]
    assert [(back, text) for start, end, text, back in arrows if (start, end) == (a, product)] == [
        (False, ""),
        (True, "6"),
    ]
    assert sum(back for *_, back in arrows) == sum(not back for *_, back in arrows) == 6
    assert not any(back for *_, back in words(graph(L, backward=False))[1])


def test_a_value_used_twice_shows_that_gradients_are_added():
    x = mg.tensor(3.0, requires_grad=True)
    back = [text for *_, text, back in words(graph(x * x + 2 * x, names=dict(x=x)))[1] if back]
    assert sorted(back) == ["+= 3", "+= 3", "1", "1", "2"]


def test_the_drawing_says_how_broadcasting_was_undone():
    x, bias, scale = leaf(2, 3), leaf(3), leaf(2, 1)
    source = graph(((x + bias) * scale).sum(), names=locals()).source
    assert "summed over rows" in source and "each row summed" in source and "broadcasting undone" in source
    assert "broadcasting undone" not in graph((x * x).sum()).source
    assert describe_sum((2, 4, 8), (8,)) == "summed: 2 × 4 × 8 to 8 elements"
    assert describe_sum((2, 4, 8), ()) == "summed: 2 × 4 × 8 to a scalar"


def test_a_matrix_is_shown_in_rows_and_a_large_one_by_its_shape():
    x, w = mg.tensor([[1.0, 2.0], [3.0, 4.5]], requires_grad=True), leaf(7, 2)
    boxes, _ = words(graph((w @ x).sum(), names=dict(x=x, w=w)))
    (g,) = mg.grad((w @ x).sum(), [x])
    texts = " ".join(text for row in numbers(g.data) for text in row)
    assert f"x value gradient 1.00 2.00 3.00 4.50 {texts}" in boxes.values()
    largest = np.abs(mg.grad((w @ x).sum(), [w])[0].data).max()
    assert f"w shape 7 × 2 gradient up to ±{number(largest)}" in boxes.values()


def test_numbers_are_short_and_true():
    found = [number(x) for x in (-0.0, 2.0, -1.23456, 1e-9, np.inf, 3, True)]
    assert found == ["0", "2", "−1.23", "1e−09", "inf", "3", "True"]
    assert numbers(np.array([0.5, 0.0123, 0.0])) == [["0.500", "0.012", "0"]]
    assert numbers(np.array([[1.0, -np.inf]])) == [["1", "−inf"]]
    assert numbers(np.array([1e-9, 0.0])) == [["1e−09", "0"]]


def test_a_constant_is_not_rounded_to_another():
    given = [1.0001, 2.0, -0.5, 1e-5, 0.1, 123456789.25, np.float32(0.1), np.array(1.00001), 7]
    exactly = ["1.0001", "2", "−0.5", "1e−05", "0.1", "123456789.25", "0.1", "1.00001", "7"]
    assert [exact(x) for x in given] == exactly
    assert [exact(x) for x in (np.nan, -np.inf, 1 / 3)] == ["nan", "−inf", "0.3333333333333333"]
    y = (leaf(3) * 1.0001).sum()
    assert "1.0001" in words(graph(y))[0].values()
    assert "× 1.0001 multiply" in boxes_text(graph(mg.tanh(y * leaf(50)) * 1.0001, depth=1, model=nn.ReLU()))


def test_names_come_from_the_model_or_from_locals():
    model, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), mg.randn(2, 3)
    y = F.cross_entropy(model(x), np.array([0, 1]))
    source = graph(y, model, names=locals()).source
    assert all(f'tooltip="{name}"' in source for name, _ in model.named_parameters())
    assert "<B>x</B>" in source and "<B>y = </B>" in source and source.count("<B>weight</B>") == 2


def test_functions_of_several_values():
    x = leaf(2, 6)
    (a, b), parts = x.chunk(2, -1), x.split([1, 5], -1)
    assert "split 2 of 2 × 3" in " ".join(
        text.replace(" shape", "") for text in words(graph((a * b).sum()))[0].values()
    )
    assert "2 values" in graph(parts[0].sum()).source


def test_text_cannot_break_the_drawing():
    x = mg.tensor(1.0, requires_grad=True)
    assert "<B>a&lt;b&gt; &amp; &quot;c&quot;</B>" in graph(x * 2, names={'a<b> & "c"': x}).source


def test_a_long_name_is_shortened_in_its_box_and_complete_in_the_tooltip():
    name, path = "x" * 500 + "y" * 500, "layer_" + "z" * 1000
    model = nn.Module()
    setattr(model, path, nn.Linear(2, 2))
    x = leaf(1, 2)
    source = graph(getattr(model, path)(x * 1).sum(), model, names={name: x}).source
    assert "<B>xxxxxxxxxxx…yyyyyyyyyyyy</B>" in source and f"tooltip={name}" in source.replace('"', "")
    drawing = graph(getattr(model, path)(x).sum(), model, depth=1)
    assert max(map(len, words(drawing)[0].values())) < 100 and f"tooltip={path}" in drawing.source.replace(
        '"', ""
    )


def broken_loss(n=5):
    """A loss with two non-finite logarithms among n.

    The gradient at 0 is NaN: x gets +inf and -inf from its two uses.
    """
    x = mg.tensor(np.array([-1.0, 0.0, *range(1, n - 1)]), requires_grad=True)
    with np.errstate(all="ignore"):
        return (x.log() - x.log()).sum()


@pytest.mark.parametrize("n", [4, 5], ids=["shown as numbers", "shown by its shape"])
def test_non_finite_elements_are_marked_and_cause_no_warning(n):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        boxes = boxes_text(graph(broken_loss(n)))
    assert f"value: 2 of {n} are NaN or infinite" in boxes and "value: 1 of 1 is NaN or infinite" in boxes
    assert f"gradient: 1 of {n} is NaN or infinite" in boxes, "1 / 0 - 1 / 0"


def test_a_closed_module_shows_that_its_value_is_not_finite():
    model, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), mg.tensor([[np.inf, 1.0]])
    with np.errstate(all="ignore"):
        loss = model(x).sum()
    assert "NaN or infinite" in next(
        text for text in words(graph(loss, model, depth=1))[0].values() if "Linear" in text
    )


# ---------------------------------------------------------------- models


def test_the_encoder_decoder_at_depth_1():
    model, loss = encoder_decoder()
    drawing = graph(loss, model, depth=1)
    boxes = words(drawing)[0].values()
    assert (
        "encoder.0 … 3 EncoderLayer ×4 1 × 3 × 8" in boxes
        and "decoder.0 … 3 DecoderLayer ×4 1 × 4 × 8" in boxes
    )
    assert sum("PositionalEncoding" in box for box in boxes) == 2  # one for the source, one for the target
    assert sum("embedding.weight" in box for box in boxes) == 1  # shared three times over
    assert "Each module at depth 1 is one box" in drawing.caption and "self_attention" not in drawing.source


def test_memory_goes_from_the_encoder_to_the_decoder_and_its_gradient_back():
    drawing = graph(*reversed(encoder_decoder()), depth=1)
    (encoder,), (decoder,), (weight,) = (
        boxes_with(drawing, text) for text in ("EncoderLayer", "DecoderLayer", "embedding.weight")
    )
    arrows = words(drawing)[1]
    assert [back for start, end, _, back in arrows if (start, end) == (encoder, decoder)] == [False, True]
    assert sorted(text for start, _, text, back in arrows if start == weight and back) == ["", "+=", "+="]


def test_one_level_more_shows_what_is_in_a_layer():
    boxes = words(graph(*reversed(encoder_decoder()), depth=2))[0].values()
    inside = [box.split()[0] for box in boxes if "1 × 4 × 8" in box]
    assert {"self_attention", "cross_attention", "feed_forward", "residual1", "residual3"} <= set(inside)
    assert [name for name, _ in encoder_decoder()[0].named_buffers()] == ["positions.table"]
    assert "table 4 × 8 floats" in boxes  # as many rows of it as there are tokens
    assert sum("MultiHeadAttention" in box for box in boxes) == 3  # of eight layers, two are drawn


def test_a_module_that_runs_in_parts_names_them():
    boxes = words(graph(*reversed(encoder_decoder(norm="pre")), depth=2))[0].values()
    assert (
        sum("residual1.norm LayerNorm" in box for box in boxes) == 2
        and sum("residual1 Residual" in box for box in boxes) == 2
    )


class Repeated(nn.Module):
    """Calls one module three times, each time on its previous output or on another input."""

    def __init__(self, in_a_row):
        self.a, self.in_a_row = nn.Linear(2, 2), in_a_row

    def forward(self, x):
        if not self.in_a_row:
            return self.a(x) + self.a(2 * x) + self.a(3 * x)
        for _ in range(3):
            x = self.a(x)
        return x


def test_calls_in_a_row_are_one_box_and_the_caption_says_so():
    model = Repeated(in_a_row=True)
    drawing = graph(model(leaf(1, 2)).sum(), model, depth=1)
    assert (
        len(boxes_with(drawing, "Linear")) == 1
        and "is one box, also if called several times in a row" in drawing.caption
    )
    model = Repeated(in_a_row=False)
    assert len(boxes_with(graph(model(leaf(1, 2)).sum(), model, depth=1), "Linear")) == 3


def test_layers_that_differ_are_not_drawn_as_one():
    def layout(*sizes):
        model = nn.Sequential(*(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])))
        vertices, steps = replay(model(mg.randn(2, sizes[0])).sum(), model)
        return Layout(vertices, steps, model).times

    assert layout(3, 3, 3, 3) == {"0": (3, "2")}
    assert layout(3, 3, 4, 4, 4) == {"2": (2, "3")}
    assert layout(3, 4, 3) == {}


def test_a_layer_that_reads_an_earlier_layer_is_not_folded():
    """The last layer adds the first one's value: drawn as one, that arrow would be lost."""

    class Far(nn.Module):
        def __init__(self):
            self.h = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

        def forward(self, x):
            first = self.h[0](x)
            return self.h[2](self.h[1](first) + first)

    model = Far()
    vertices, steps = replay(model(mg.randn(2, 3)).sum(), model)
    assert Layout(vertices, steps, model).times == {}


def test_every_op_of_a_small_gpt_in_frames():
    model = GPT(11, 8, 2, 3, 6, 0.0)
    loss = F.cross_entropy(model(np.array([[1, 2, 3, 4]]))[0], np.array([2, 3, 4, 5]))
    source = graph(loss, model).source
    assert (
        "<B>h.0 … 2</B>" in source
        and "×3" in source
        and "<B>attn</B>" in source
        and 'tooltip="h.0.attn.c_proj.weight"' in source
    )
    assert "h.1" not in source


def test_levels_of_a_modules_path():
    assert (
        levels("") == () and levels("h.0.attn.c_proj") == ("h.0", "attn", "c_proj") and levels("0") == ("0",)
    )


# ---------------------------------------------------------------- limits and errors


def test_too_many_boxes():
    x = leaf(2)
    y = x
    for _ in range(300):
        y = mg.tanh(y)
    drawing = graph(y.sum(), most=50)
    assert "Shown: the 50 boxes nearest to the result, of 302" in drawing.caption
    assert len(words(drawing)[0]) == 50 and "nearest to the" in drawing.source


def test_a_large_model_is_closed_until_it_fits():
    model, loss = encoder_decoder()
    drawing = graph(loss, model, most=40)
    assert "Each module at depth 2 is one box" in drawing.caption and len(words(drawing)[0]) <= 40


def test_a_value_that_is_no_scalar_is_drawn_forward_only():
    x = leaf(3)
    drawing = graph(x * x)
    assert "Forward only" in drawing.caption and not any(back for *_, back in words(drawing)[1])
    assert (
        "gradient 2" in words(graph(mg.tensor([1.0], requires_grad=True) * 2, gradient=np.ones(1)))[0]["n1"]
    )


def test_misuse_raises_a_clear_error():
    x = leaf(3)
    for nothing in (x, None, 3.0, np.ones(3), nn.Linear(2, 2)):
        with pytest.raises(ValueError, match="There is no history to show: give a tensor"):
            graph(nothing)
    with pytest.raises(ValueError, match="give the model too"):
        graph((x * x).sum(), depth=1)
    with pytest.raises(ValueError, match="counts the levels of modules from 1"):
        graph((x * x).sum(), nn.Linear(2, 2), depth=0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="earlier backward"):
        graph(y)


def test_drawing_does_not_free_the_history():
    x = leaf(3)
    y = (x * x).sum()
    graph(y)
    y.backward()
    assert x.grad is not None


# ---------------------------------------------------------------- pictures


@draws
def test_notebooks_get_svg():
    L, names = numbers_loss()
    svg = graph(L, names=names)._repr_svg_()
    root = ElementTree.fromstring(svg[svg.index("<svg") :])
    assert root.tag.endswith("svg") and "prefers-color-scheme: dark" in svg and "×" in svg


@draws
def test_files(tmp_path):
    drawing = graph(numbers_loss()[0])
    assert (drawing.save(tmp_path / "y.svg")).read_text(encoding="utf-8").count("<svg") == 1
    assert drawing.save(tmp_path / "y.png").read_bytes().startswith(b"\x89PNG")
    assert drawing.save(tmp_path / "y.dot").read_text(encoding="utf-8") == drawing.source
    with pytest.raises(ValueError, match="cannot write xyz"):
        drawing.save(tmp_path / "y.xyz")
    with pytest.raises(ValueError, match="has none"):
        drawing.save(tmp_path / "y")


def test_dot_is_preferred_to_graphviz_pure(monkeypatch):
    there = {"dot", "graphviz-pure"}
    monkeypatch.setattr(
        module.shutil, "which", lambda name, path=None: f"/somewhere/{name}" if name in there else None
    )
    assert module.renderer() == "/somewhere/dot"
    there.remove("dot")
    assert module.renderer() == "/somewhere/graphviz-pure"


def test_without_a_renderer_the_dot_source_is_written_and_a_warning_says_what_to_install(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(module.shutil, "which", lambda *_, **__: None)
    drawing = graph(numbers_loss()[0])
    assert drawing._repr_svg_() is None and "pip install graphviz-pure" in repr(drawing)
    with pytest.warns(UserWarning, match="pip install graphviz-pure"):
        path = drawing.save(tmp_path / "y.svg")
    assert path.name == "y.dot" and path.read_text(encoding="utf-8") == drawing.source
    with pytest.raises(RuntimeError, match="install Graphviz"):
        drawing.svg()


def test_graphviz_is_loaded_only_for_a_drawing():
    code = "import sys, minigrad, minigrad.viz; assert not {'graphviz', 'matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@draws
def test_the_pictures_of_the_course(tmp_path):
    from tutorials.graphs import encoder_decoder, expression

    assert sorted(text for *_, text, back in words(expression())[1] if back and "+=" in text) == ["+= −6"]
    drawing = encoder_decoder()
    assert "×6" in drawing.source and "<B>source</B>" in drawing.source
    assert drawing.save(tmp_path / "g.svg").stat().st_size < 60_000
