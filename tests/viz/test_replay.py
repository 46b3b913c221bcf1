"""Tests of replay: values and gradients equal the engine's, and every share is recorded."""

import numpy as np
import pytest
from oracle import leaf, near, same

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.viz.page import embed, page, plain
from minigrad.viz.replay import path_of, replay
from models.blocks import EncoderLayer
from models.gpt import GPT

TOKENS = np.array([[1, 2, 3, 4]])


def gpt_loss(readable):
    mg.manual_seed(0)
    model = GPT(11, 8, 2, 1, 6, 0.0)
    with mg.modes.Mode(mg.modes.readable, readable):
        return model, F.cross_entropy(model(TOKENS).reshape(-1, 11), np.array([2, 3, 4, 5]))


@pytest.mark.parametrize("readable", (False, True))
def test_gradients_are_the_engines_and_every_leaf_has_its_name(readable):
    model, loss = gpt_loss(readable)
    vertices, _ = replay(loss, model)
    found = {v.name: v.gradient for v in vertices if v.kind == "leaf"}
    expected = mg.grad(loss, list(model.parameters()))
    assert set(found) == {name for name, _ in model.named_parameters()}
    for (name, _), g in zip(model.named_parameters(), expected, strict=True):
        same(found[name], g)


def test_values_are_those_of_the_forward_pass():
    x, layer = leaf(2, 3, 4), EncoderLayer(4, 2, 5).double()
    with mg.definitions():
        y = layer(x)
        kept, tracing = [], mg.modes.Mode(mg.modes.tracing, lambda fun, arrays, out: kept.append(out.data))
        with tracing:
            y = layer(x)
    ops = [v for v in replay(y.sum())[0] if v.kind == "op"]
    same(ops[-1].value, y.data.sum())
    recorded = [v.value for v in ops if not isinstance(v.value, tuple)]
    for value in recorded[:-1]:
        assert any(value.shape == other.shape and np.array_equal(value, other) for other in kept)


def test_every_share_is_recorded():
    x, y = mg.tensor([1.0, 2.0], requires_grad=True), mg.tensor(3.0, requires_grad=True)
    vertices, steps = replay(((x * y + x) ** 2).sum())
    assert [step.vertex.name for step in steps] == ["sum", "square", "add", "multiply"]
    to_x, to_y = steps[-1].shares
    near(to_x.raw, [24, 48])
    near(to_x.before, [8, 16])  # from the sum, to which the product's share was added
    assert to_y.summed and to_y.before is None
    near(to_y.raw, [8, 32])
    near(to_y.sent, 40)
    assert [v.kind for v in vertices] == ["leaf", "leaf", "op", "op", "op", "op"]


def test_replay_does_not_free_the_history_and_does_not_change_grad():
    x = leaf(3)
    y = (x * x).sum()
    replay(y)
    assert x.grad is None
    y.backward()
    near(x.grad, 2 * x.data)


def test_functions_of_several_values():
    x = leaf(2, 6)
    a, b = x.chunk(2, -1)
    vertices, steps = replay((a * b).sum())
    (g,) = mg.grad((a * b).sum(), [x])
    same(next(v.gradient for v in vertices if v.kind == "leaf"), g)
    assert {v.name for v in vertices if v.kind == "op"} >= {"split", "take_item"}


def test_the_module_of_an_op_is_known():
    model, loss = gpt_loss(True)
    paths = {path_of(v, model) for v in replay(loss, model)[0] if v.kind == "op"}
    assert {"", "h.0.attn", "h.0.mlp.c_fc", "ln_f"} <= paths


def test_a_tensor_without_history_or_with_a_freed_one_raises():
    x = leaf(3)
    with pytest.raises(ValueError, match="There is no history to show"):
        replay(x)
    with pytest.raises(RuntimeError, match=r"shape \(3,\)"):
        replay(x * 2)
    with pytest.raises(RuntimeError, match=r"\(3,\)"):
        replay(x * 2, gradient=np.ones((1, 3)))
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="earlier backward"):
        replay(y)


def test_a_checkpoint_raises():
    x = leaf(3)
    with pytest.raises(ValueError, match="The values inside a checkpoint were freed"):
        replay(mg.checkpoint(lambda x: x * x, x).sum())


def test_a_gradient_to_start_from():
    x = leaf(3)
    vertices, _ = replay(x * x, gradient=np.array([1.0, 0.0, 2.0]))
    near(vertices[0].gradient, 2 * x.data * [1, 0, 2])


# ---------------------------------------------------------------- pages


def test_data_cannot_end_the_script_that_contains_it():
    text = page("a <b> & c", "<p>hi</p>", {"x": "</script><!-- é"}, "console.log(DATA.x)")
    assert "</script><!--" not in text and "a &lt;b&gt; &amp; c" in text and "é" in text
    assert "http" not in text.replace("http-equiv", "")


def test_data_is_converted_to_json_types():
    assert plain({"a": np.array([1.5, np.nan, np.inf]), 2: np.float32(0.1), "n": np.int64(3)}) == {
        "a": [1.5, "nan", "inf"],
        "2": 0.1,
        "n": 3,
    }
    assert embed([1.0, None, True]) == "[1.0,null,true]"


def test_hooks_change_the_shown_gradient_as_they_change_grad():
    a = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    a.register_hook(lambda g: g + 1)
    b = a * 2
    b.register_hook(lambda g: g * 10)
    b.retain_grad()
    loss = (b * b).sum()
    shown = replay(loss)[0][0].gradient
    assert b.grad is None
    loss.backward()
    same(a.grad, shown)
