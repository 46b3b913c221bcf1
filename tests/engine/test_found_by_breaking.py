"""What was once found by trying to break the engine: one test each, so that it stays mended."""

import copy
import pickle
import threading

import numpy as np
import pytest
from oracle import leaf, near, same

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import func, nn, optim, random, saving, train
from minigrad.data import BPE, Characters
from minigrad.engine.recording import apply
from minigrad.engine.table import RULES, Row
from models import recipes


def test_hooks_outside_a_checkpoint_run_once():
    w = mg.tensor([2.0], requires_grad=True)
    w.register_hook(lambda g: g * 10)
    a = mg.tensor([3.0], requires_grad=True)
    h = a * 2
    h.register_hook(lambda g: g * 10)
    h.retain_grad()
    mg.checkpoint(lambda x: (x * w * h).sum(), a).backward()
    assert (w.grad.item(), a.grad.item(), h.grad.item()) == (180, 132, 60)


def test_a_checkpoint_winds_back_only_the_streams_it_draws_from_and_keeps_their_generators():
    data, x = random.stream("data"), leaf(3)
    y = mg.checkpoint(lambda x: F.dropout(x, 0.5).sum(), x)
    before = data.random()
    y.backward()
    assert random.stream("data") is data and data.random() != before


def test_a_checkpoint_sees_that_an_outside_value_was_written():
    a = leaf(3)
    h = a * 2
    y = mg.checkpoint(lambda x: (x * h).sum(), a)
    with mg.no_grad():
        h.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()


def test_the_mixed_slope_of_a_power_at_exponent_0():
    x, y = mg.tensor([3.0], requires_grad=True), mg.tensor([0.0], requires_grad=True)
    (g,) = mg.grad((x**y).sum(), x, create_graph=True)
    near(mg.grad(g.sum(), y)[0], [1 / 3], 1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool", "uint16", "int64"])
def test_functions_of_whole_numbers_are_computed_as_floats(dtype):
    whole = np.array([3, 100], dtype)
    t, x = mg.tensor(whole), mg.tensor(whole.astype(np.float32))
    for fun in (mg.sigmoid, F.softmax, F.log_softmax, F.gelu, mg.sqrt, mg.log, mg.tanh, lambda x: x.norm()):
        assert fun(t).dtype == mg.float32
        near(fun(t), fun(x), 1e-6)
    assert (t**2.0).dtype == mg.float32


@pytest.mark.parametrize("write", ["add_", "sub_", "mul_", "div_", "copy_"])
def test_writing_in_place_never_loses_a_gradient(write):
    with pytest.raises(RuntimeError, match="lose its history"):
        getattr(mg.ones(3), write)(leaf(3) * 2)


def test_an_index_changed_later_does_not_change_the_gradient():
    i, x = mg.tensor([0, 1]), leaf(3)
    y = x[i].sum()
    i.fill_(2)
    y.backward()
    same(x.grad, [1.0, 1.0, 0.0])


def test_a_parameter_shares_the_count_of_writes_with_the_tensor_it_was_made_of():
    w = mg.ones(3)
    p = nn.Parameter(w)
    y = (p * p).sum()
    w.add_(5)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()


def test_a_kept_value_changed_between_two_orders_is_noticed():
    x, w = leaf(2), leaf(2)
    e = x.exp()
    (g,) = mg.grad((w * e).sum(), x, create_graph=True)
    with mg.no_grad():
        e.add_(100)
    with pytest.raises(RuntimeError, match="changed in place"):
        mg.grad(g.sum(), w)


def test_retain_grad_twice_counts_once():
    x = leaf(3)
    h = x * 2
    h.retain_grad()
    h.retain_grad()
    (h * 3).sum().backward()
    same(h.grad, [3.0, 3.0, 3.0])


def test_one_no_grad_object_may_be_entered_by_two_threads():
    mode, entered, leave = mg.no_grad(), threading.Event(), threading.Event()

    def other():
        with mode:
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with mode:
        thread.start()
        entered.wait()
    leave.set()
    thread.join()
    assert mg.is_grad_enabled()


def test_backward_may_go_on_from_where_grad_stopped():
    x = leaf(3)
    h = (x * x).exp()
    (g,) = mg.grad((h * h).sum(), h)
    h.backward(g)
    near(x.grad, 4 * x.data * np.exp(2 * x.data**2), 1e-12)


def test_grad_up_to_a_value_whose_own_history_is_used_up():
    x = leaf(3)
    h = (x * x).exp()
    (h * 2).sum().backward()
    near(mg.grad((h * h).sum(), h)[0], 2 * h.data, 1e-12)


def test_a_copied_model_and_optimizer_go_on_together():
    model = nn.Linear(2, 2)
    adam = optim.Adam(model.parameters())

    def steps(model, adam):
        for _ in range(3):
            adam.zero_grad()
            model(mg.ones(1, 2)).sum().backward()
            adam.step()

    steps(model, adam)
    model2, adam2 = copy.deepcopy((model, adam))
    steps(model, adam)
    steps(model2, adam2)
    same(model.weight, model2.weight)


def test_functional_call_replaces_a_tied_parameter_everywhere():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    same(
        func.functional_call(model, {"0.weight": mg.zeros(2, 2)}, mg.ones(1, 2)), np.zeros((1, 2), np.float32)
    )


def test_a_vector_of_the_wrong_shape_is_refused_by_hvp_and_vjp():
    for call in (
        lambda: func.hvp(lambda x: (x**3).sum(), (mg.ones(2),), (mg.ones(1),)),
        lambda: func.vjp(mg.sin, mg.ones(2))[1](mg.ones(3)),
    ):
        with pytest.raises(ValueError, match="shapes"):
            call()


def test_a_query_that_sees_nothing_may_hold_anything():
    mask = np.array([[True, True], [False, False]])
    q, k, v = leaf(2, 3), leaf(2, 3, seed=1), leaf(2, 3, seed=2)
    q.data[1] = np.nan
    for mode in (mg.enable_grad(), mg.definitions()):
        with mode:
            out = F.scaled_dot_product_attention(q, k, v, mask)
            grads = mg.grad(out.sum(), [q, k, v])
        assert np.isfinite(out.data).all() and all(np.isfinite(g.data).all() for g in grads)


def test_attention_to_no_keys_gives_0_in_both_tiers():
    q, k = leaf(2, 3), mg.zeros(0, 3, dtype=mg.float64)
    same(F.scaled_dot_product_attention(q, k, k), np.zeros((2, 3)))
    with mg.definitions():
        same(F.scaled_dot_product_attention(q, k, k), np.zeros((2, 3)))


def test_the_readable_cross_entropy_is_finite_beside_an_impossible_class():
    logits = mg.tensor([[0.0, -np.inf, 1.0]])
    with mg.definitions():
        near(F.cross_entropy(logits, mg.tensor([0])), np.log(1 + np.e), 1e-6)


def test_clipping_survives_gradients_beyond_float32():
    p = nn.Parameter(mg.zeros(2))
    p.grad = mg.tensor([1e30, 0.0])
    near(nn.utils.clip_grad_norm_([p], 1.0), 1e30, 1e-6)
    near(p.grad, [1, 0], 1e-6)
    with pytest.raises(ValueError, match="must be a number >= 0"):
        nn.utils.clip_grad_norm_([p], -1.0)


def test_a_hook_must_keep_the_shape():
    x = leaf(3)
    x.register_hook(lambda g: mg.ones(2, 2))
    with pytest.raises(RuntimeError, match=r"shape \(3,\).*\(2, 2\)"):
        (x * 2).sum().backward()


def test_numpys_float64_scalars_do_not_widen_a_float32_backward():
    seen, right = [], mg.engine.reverse_pass.fit
    x = mg.ones(3, requires_grad=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mg.engine.reverse_pass, "fit", lambda g, *rest: seen.append(g.dtype) or right(g, *rest))
        (x * np.float64(2) / np.sqrt(2.0) + x ** np.int64(3)).sum().backward()
    assert set(seen) == {np.dtype("float32")}


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize("hidden", (-1e4, -1e9, np.finfo(np.float32).min))
def test_rows_hidden_by_a_large_finite_number_have_the_same_gradients_in_blocks(hidden):
    rng = np.random.default_rng(0)
    mask = np.zeros((400, 400), np.float32)
    mask[:100], mask[200:300, 50:] = hidden, hidden
    arrays = [rng.standard_normal((1, 400, 8)).astype(np.float32) for _ in range(3)]

    def value_and_gradients(path):
        q, k, v = leaves = [mg.tensor(a, requires_grad=True) for a in arrays]
        y = F.scaled_dot_product_attention(q, k, v, mg.tensor(mask), path=path)
        return [y, *mg.grad((y * y * y).sum(), leaves)]

    # A score of about -1e4 is known to 1e-3 in float32, and processors round it differently: a weight may differ by as much.
    tolerance = 1e-3 if hidden == -1e4 else 1e-5
    for fast, plain in zip(value_and_gradients("blocked"), value_and_gradients("plain"), strict=True):
        near(fast.data / abs(plain.data).max(), plain.data / abs(plain.data).max(), tolerance)


def test_a_mask_of_one_value_fits_the_blocked_path():
    q = leaf(1, 5, 3)
    same(F.scaled_dot_product_attention(q, q, q, mg.tensor(True), path="blocked").shape, q.shape)


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_silu_keeps_its_tail(dtype):
    x = np.array([-10, -15, -20, -30, -80, -200, 0.0, 50], dtype)
    t = mg.tensor(x, requires_grad=True)
    y = F.silu(t)
    (slope,) = mg.grad(y.sum(), [t])
    wide = x.astype(np.longdouble)
    s = 1 / (1 + np.exp(-wide))
    tolerance = 20 * np.finfo(dtype).eps
    assert np.all(abs(y.data - wide * s) <= tolerance * abs(wide * s) + np.finfo(dtype).tiny)
    right = s * (1 + wide * (1 - s))
    assert np.all(abs(slope.data - right) <= tolerance * abs(right) + np.finfo(dtype).tiny)


@pytest.mark.parametrize("p", (1e-3, 0.5, 0.999))
def test_dropout_keeps_the_mean_near_0_and_1(p):
    y = F.dropout(mg.ones(4_000_000), p).data
    assert abs(y.mean() - 1) < 5 * np.sqrt(p / (1 - p) / y.size)


def test_dropout_of_whole_numbers_is_floats():
    assert F.dropout(mg.arange(5), 0.3).dtype == np.float32


# ---------------------------------------------------------------- writes


def test_a_squeeze_of_nothing_shares_its_count_of_writes():
    x = mg.ones(3, requires_grad=True)
    h = x * 2
    v = h.squeeze()
    y = (h * h).sum()
    with mg.no_grad():
        v.zero_()
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()


# ---------------------------------------------------------------- optimizers


def adam_steps(p, optimizer, gradients):
    for g in gradients:
        p.grad = mg.tensor(g, dtype=np.float64)
        optimizer.step()
    return p.data


@pytest.mark.parametrize(
    "copied", (lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy), ids=("pickle", "deepcopy")
)
def test_a_copied_optimizer_remembers_what_it_does(copied):
    p = mg.tensor([1.0, 2.0], dtype=np.float64, requires_grad=True)
    o = optim.Adam([p], lr=0.1)
    adam_steps(p, o, [[1.0, 2.0]])
    other = copied(o)
    (q,) = other.param_groups[0]["params"]
    adam_steps(q, other, [[3.0, -1.0]] * 3)
    adam_steps(p, o, [[3.0, -1.0]] * 3)
    same(p, q)
    for name in ("exp_avg", "exp_avg_sq"):
        same(o.state_dict()["state"][0][name], other.state_dict()["state"][0][name])


@pytest.mark.parametrize("tie", (lambda a: a, lambda a: a.T), ids=("same", "transposed"))
def test_parameters_that_share_memory_all_move_it(tie):
    a = mg.tensor(np.zeros((2, 2)), requires_grad=True)
    b = mg.tensor(np.zeros((2, 2)), requires_grad=True)
    b.data = tie(a.data)
    o = optim.SGD([a, b], lr=1.0)
    a.grad, b.grad = mg.tensor(np.full((2, 2), 2.0)), mg.tensor(np.full((2, 2), 3.0))
    o.step()
    same(a.data, np.full((2, 2), -5.0))


@pytest.mark.parametrize("reset", (lambda o, p: o.state.clear(), lambda o, p: setattr(o, "state", {}), lambda o, p: o.state.pop(p)),
                         ids=("clear", "new", "pop"))  # fmt: skip
def test_a_reset_of_the_state_is_a_reset(reset):
    p, q = (mg.tensor([1.0], dtype=np.float64, requires_grad=True) for _ in range(2))
    o = optim.Adam([p], lr=0.1)
    adam_steps(p, o, [[10.0]] * 5)
    q.data[...] = p.data
    reset(o, p)
    adam_steps(p, o, [[-0.01]])
    adam_steps(q, optim.Adam([q], lr=0.1), [[-0.01]])
    same(p, q)


def test_a_moment_that_is_replaced_is_used():
    p = mg.tensor([1.0], dtype=np.float64, requires_grad=True)
    o = optim.Adam([p], lr=0.1)
    adam_steps(p, o, [[1.0]])
    before = p.data.copy()
    o.state[p]["exp_avg"] = np.zeros(1)
    adam_steps(p, o, [[0.0]])
    same(p.data, before)  # no gradient and no momentum: it stands still


def test_a_change_of_dtype_and_back_takes_the_moments_along():
    p, q = (mg.tensor([1.0], requires_grad=True) for _ in range(2))
    one, other = optim.Adam([p], lr=0.1), optim.Adam([q], lr=0.1)
    for number in range(5):
        dtype = np.float64 if number in (2, 3) else np.float32
        p.data = p.data.astype(dtype)
        p.grad, q.grad = mg.tensor([1.0 + number], dtype=dtype), mg.tensor([1.0 + number])
        one.step()
        other.step()
    near(p, q, 1e-6)
    assert one.state[p]["exp_avg"].dtype == np.float32


def test_states_that_do_not_fit_are_sentences():
    p = mg.tensor([1.0, 2.0], requires_grad=True)
    o = optim.Adam([p])
    sgd = optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = mg.ones(2)
    sgd.step()
    for state, words in (
        ({}, "must have state and param_groups"),
        (sgd.state_dict(), "has momentum_buffer, which Adam does not use"),
        ({"state": {7: {}}, "param_groups": o.state_dict()["param_groups"]}, "has a parameter 7"),
    ):
        with pytest.raises(ValueError, match=words):
            o.load_state_dict(state)
    assert not o.state
    for g in (mg.ones(3), mg.ones(1), np.ones(2)):
        p.grad = g
        with pytest.raises(RuntimeError, match="A gradient must be a tensor of its parameter's shape"):
            o.step()
    p.grad = mg.ones(2)
    o.step()
    p.data, p.grad = np.ones(4, np.float32), mg.ones(4)
    with pytest.raises(
        RuntimeError, match=r"has exp_avg of shape \(2,\) for a parameter whose shape is \(4,\)"
    ):
        o.step()
    with pytest.raises(ValueError, match="lr must be a number"):
        optim.SGD([p], lr=mg.tensor(0.1))


# ---------------------------------------------------------------- several values


def twice(x):
    return x * 1, x * 2


def test_anomalies_of_functions_of_several_values_are_found(monkeypatch):
    monkeypatch.setitem(RULES, twice, Row(twice, (lambda g, _y, x: (g[0] + 2 * g[1]) * np.nan,)))
    x = mg.ones(3, requires_grad=True)
    with (
        mg.detect_anomaly(),
        pytest.raises(mg.engine.anomaly.AnomalyError, match="backward of twice made a NaN"),
    ):
        a, b = apply(twice, x)
        (a + b).sum().backward()
    x = mg.ones(2, 6, requires_grad=True)
    w = leaf(3, 4)
    with mg.detect_anomaly(), pytest.raises(mg.engine.anomaly.AnomalyError, match="written into"):
        y, z = (x @ mg.ones(6, 4)).chunk(2, -1)
        states, _ = F.lstm_states(
            mg.ones(2, 1, 4), mg.ones(1, 1), mg.ones(1, 1), (v := mg.ones(4, 1, requires_grad=True))
        )
        v.data[0] = 9
        (states.sum() + y.sum() + z.sum() + w.sum()).backward()


@pytest.mark.parametrize("value", ([1], None, (mg.ones(1), 2)))
def test_a_checkpoint_of_something_else_is_a_sentence(value):
    with pytest.raises(TypeError, match="must return a tensor or a tuple of tensors"):
        mg.checkpoint(lambda x: value, leaf(2))


# ---------------------------------------------------------------- settings and runs


@pytest.mark.parametrize(("recipe", "setting"), [
    ("dates", "layers=0"), ("dates", "layers=-1"), ("reverse", "layers=0"), ("text", "d_ff=0"), ("text", "context=0"), ("mlm", "context=0"),
    ("text", "batch_size=0"), ("dates", "batch_size=-3"), ("dates", "d_model=-4"), ("text", "dropout=1.0"), ("dates", "lr=nan"), ("sort", "model=zzz"),
])  # fmt: skip
def test_settings_that_cannot_be_are_sentences_before_anything_starts(recipe, setting, tmp_path, capsys):
    assert train.main([recipe, "--set", setting, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert setting.split("=")[0] in said and len(said.splitlines()) == 1 and not (tmp_path / "run").exists()


@pytest.mark.parametrize("change", (
    {"layers": 1.5}, {"heads": None}, {"dropout": "x"}, {"d_model": "8"}, {"context": "x"}, {"context": None}, {"vocabulary": None},
    {"vocabulary": 5}, {"vocabulary": [1, 2]}, {"vocabulary": {"reserved": float("inf"), "merges": []}}, {"tokens": "zzz"},
    {"vocabulary": {"reserved": 0, "merges": ["97 98", "97 98"]}}, {"vocabulary": {"reserved": -5, "merges": []}},
), ids=str)  # fmt: skip
def test_a_runs_settings_changed_by_hand_are_a_sentence(change, tmp_path):
    settings = {
        "steps": 1,
        "batch_size": 2,
        "d_model": 8,
        "layers": 1,
        "heads": 1,
        "d_ff": 8,
        "context": 8,
        "vocabulary": "abc",
    }
    saving.save_json(tmp_path / "config.json", {"recipe": "text", "seed": 0, "settings": settings | change})
    saving.save_tensors(tmp_path / "model.safetensors", {})
    with pytest.raises((recipes.RecipeProblem, RuntimeError), match="does not fit"):
        recipes.load_run(tmp_path)


def test_a_text_of_long_tokens_that_is_too_short_is_a_sentence(tmp_path, capsys):
    rng = np.random.default_rng(0)
    (tmp_path / "z.txt").write_text("a" * 9000 + "".join(rng.choice(list("bcdefgh"), 1000)))
    assert (
        train.main(
            [
                "text",
                "--text",
                str(tmp_path / "z.txt"),
                "--tokens",
                "bpe",
                "--vocab-size",
                "300",
                "--context",
                "100",
            ]
        )
        == 2
    )
    assert "its first nine tenths" in capsys.readouterr().err


def test_tokens_outside_a_vocabulary_are_sentences():
    for known in (BPE(), Characters("abc")):
        with pytest.raises(ValueError, match="The token 99999 is not in the vocabulary"):
            known.decode([99999])
