"""Optimizers by hand: formulas, refusals, memory; clipping; schedules; and that backward sees that a step was made."""

import math

import numpy as np
import pytest
from oracle import leaf, near, refuses, same

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn.utils import clip_grad_norm_
from minigrad.optim.lr_scheduler import LambdaLR, NoamLR, WarmupCosineLR

KINDS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1), "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1),
    "nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True), "Adam": lambda p: optim.Adam(p, lr=0.1),
    "AdamW": lambda p: optim.AdamW(p, lr=0.1),
}  # fmt: skip
kinds = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


def weight(*values):
    return mg.tensor(values, dtype=np.float64, requires_grad=True)


def step(optimizer, p, *g):
    """One step with a gradient given by hand; returns the parameter's numbers."""
    p.grad = mg.tensor(g, dtype=np.float64)
    optimizer.step()
    return p.data


# ---------------------------------------------------------------- formulas


def test_three_steps_of_adam_computed_by_hand():
    p = weight(1.0)
    optimizer = optim.Adam([p], lr=0.1, betas=(0.9, 0.99), eps=1e-8)
    # g = 1: m = 0.1, v = 0.01; corrected by 1 - 0.9 and 1 - 0.99 both are 1, so the first step is lr whatever the gradient
    near(step(optimizer, p, 1.0), [0.9], 1e-8)
    # g = 2: m = 0.09 + 0.2 = 0.29, v = 0.0099 + 0.04 = 0.0499; over 0.19 and 0.0199: 1.526315789, 2.507537688
    near(step(optimizer, p, 2.0), [0.9 - 0.1 * 1.5263157894736843 / math.sqrt(2.507537688442211)], 1e-8)
    # g = -3: m = 0.261 - 0.3 = -0.039, v = 0.049401 + 0.09 = 0.139401; over 0.271 and 0.029701
    near(
        step(optimizer, p, -3.0),
        [0.8036125 + 0.1 * 0.14391143911439114 / math.sqrt(4.6934783340628265)],
        1e-6,
    )
    assert optimizer.state_dict()["state"][0]["step"] == 3


def test_the_first_step_of_adam_is_lr_in_the_direction_of_the_sign():
    p = weight(0.0, 0.0, 0.0)
    near(step(optim.Adam([p], lr=0.1), p, 1e-3, -50.0, 0.0), [-0.1, 0.1, 0.0], 1e-5)


def test_adam_adds_decay_to_the_gradient_and_adamw_takes_it_from_the_parameter():
    p, q = weight(2.0), weight(2.0)
    # a gradient of 1, normalised to a step of lr
    near(step(optim.Adam([p], lr=0.1, weight_decay=0.5), p, 0.0), [1.9], 1e-6)
    near(step(optim.AdamW([q], lr=0.1, weight_decay=0.5), q, 0.0), [2.0 * (1 - 0.1 * 0.5)], 1e-15)


def test_sgd_by_hand():
    p, optimizer = (p := weight(1.0)), optim.SGD([p], lr=0.1, momentum=0.5, weight_decay=1.0)
    near(step(optimizer, p, 2.0), [1 - 0.1 * 3], 1e-15)  # v = 2 + 1
    near(step(optimizer, p, 1.0), [0.7 - 0.1 * (1.5 + 1.7)], 1e-15)  # v = 0.5 * 3 + 1 + 0.7
    q, optimizer = (q := weight(1.0)), optim.SGD([q], lr=0.1, momentum=0.5, nesterov=True)
    near(step(optimizer, q, 2.0), [1 - 0.1 * (2 + 0.5 * 2)], 1e-15)
    near(step(optimizer, q, 1.0), [0.7 - 0.1 * (1 + 0.5 * 2)], 1e-15)  # v = 0.5 * 2 + 1


@kinds
def test_every_optimizer_finds_the_bottom_of_a_bowl(make):
    p = weight(3.0, -2.0)
    optimizer = make([p])
    for _ in range(400):
        optimizer.zero_grad()
        ((p - mg.tensor([1.0, 0.5], dtype=np.float64)) ** 2).sum().backward()
        optimizer.step()
    near(p, [1.0, 0.5], 0.06 if optimizer.defaults.get("weight_decay") else 1e-3)


@kinds
def test_parameters_without_a_gradient_stay_and_remember_nothing(make):
    p, q = weight(1.0), weight(1.0)
    optimizer = make([p, q])
    step(optimizer, p, 1.0)
    assert q.data == 1 and p.data != 1 and set(optimizer.state_dict()["state"]) <= {0}


def test_the_gradient_itself_is_left_as_it_was():
    for make in KINDS.values():
        p = weight(1.0, 2.0)
        step(make([p]), p, 3.0, 4.0)
        assert p.grad.tolist() == [3.0, 4.0]


def test_zero_grad_forgets_gradients_so_that_they_do_not_add_up():
    p = weight(1.0)
    optimizer = optim.SGD([p], lr=0.1)
    for expected in (2.0, 2.0):
        optimizer.zero_grad()
        assert p.grad is None
        (p * 2).sum().backward()
        assert p.grad.tolist() == [expected]
    (p * 2).sum().backward()
    assert p.grad.tolist() == [4.0]


# ---------------------------------------------------------------- groups


def test_groups_have_settings_of_their_own_and_defaults_for_the_rest():
    p, q, r = weight(1.0), weight(1.0), weight(1.0)
    optimizer = optim.SGD([{"params": [p]}, {"params": q, "lr": 1.0}], lr=0.1)
    optimizer.add_param_group({"params": [r], "weight_decay": 0.5})
    for x in (p, q, r):
        x.grad = mg.tensor([0.2], dtype=np.float64)
    optimizer.step()
    near(np.concatenate([p.data, q.data, r.data]), [0.98, 0.8, 1 - 0.1 * 0.7], 1e-15)
    assert [(g["lr"], g["weight_decay"]) for g in optimizer.param_groups] == [
        (0.1, 0.0),
        (1.0, 0.0),
        (0.1, 0.5),
    ]


def test_decay_groups_decay_matrices_only():
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)).double()
    before = {name: p.data.copy() for name, p in model.named_parameters()}
    matrices, others = (
        [p for p in model.parameters() if p.ndim > 1],
        [p for p in model.parameters() if p.ndim < 2],
    )
    optimizer = optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=0.5
    )
    for p in model.parameters():
        p.grad = mg.zeros_like(p)
    optimizer.step()
    for name, p in model.named_parameters():
        near(p, before[name] * (0.95 if name == "0.weight" else 1.0), 1e-15)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("error, words, run", [
    (ValueError, ("no parameters", "used up"), lambda: optim.SGD([])),
    (ValueError, ("no parameters",), lambda: optim.Adam(nn.Tanh().parameters())),
    (ValueError, ("same parameter", "twice"), lambda: optim.SGD([p := weight(1.0), p])),
    (ValueError, ("same parameter", "twice"), lambda: optim.SGD([{"params": [p := weight(1.0)]}, {"params": [p]}])),
    (TypeError, ("leaf tensors", "ndarray"), lambda: optim.SGD([np.ones(2)])),
    (TypeError, ("leaf tensors",), lambda: optim.SGD([weight(1.0) * 2])),
    (TypeError, ("SGD", "betas", "momentum"), lambda: optim.SGD([{"params": [weight(1.0)], "betas": (0, 0)}])),
    (ValueError, ("lr", "must be a number >= 0", "-1"), lambda: optim.SGD([weight(1.0)], lr=-1)),
    (ValueError, ("lr", "nan"), lambda: optim.Adam([weight(1.0)], lr=math.nan)),
    (ValueError, ("weight_decay", "-0.1"), lambda: optim.AdamW([weight(1.0)], weight_decay=-0.1)),
    (ValueError, ("betas", "[0, 1)", "1.0"), lambda: optim.Adam([weight(1.0)], betas=(0.9, 1.0))),
    (ValueError, ("Nesterov", "momentum"), lambda: optim.SGD([weight(1.0)], nesterov=True)),
    (ValueError, ("warmup", "at least one"), lambda: NoamLR(optim.SGD([weight(1.0)]), 64, 0)),
    (ValueError, ("warmup (30", "20 steps"), lambda: WarmupCosineLR(optim.SGD([weight(1.0)]), 30, 20)),
])  # fmt: skip
def test_what_makes_no_sense_is_refused_in_a_sentence(error, words, run):
    with refuses(error, *words):
        run()


# ---------------------------------------------------------------- memory


@kinds
def test_state_survives_a_reload_and_the_run_goes_on_exactly(make):
    def train(optimizer, model, steps, start=0):
        for i in range(start, start + steps):
            optimizer.zero_grad()
            (model(leaf(4, 3, seed=i, dtype=np.float32)).tanh() ** 2).sum().backward()
            optimizer.step()

    one = nn.Linear(3, 2)
    first = make(one.parameters())
    train(first, one, 5)
    other = nn.Linear(3, 2)
    other.load_state_dict(one.state_dict())
    second = make(other.parameters())
    state = first.state_dict()
    second.load_state_dict(state)
    train(first, one, 5, start=5)
    train(second, other, 5, start=5)  # the saved state was a copy, so the first run has not moved it
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        same(p, q)
    assert second.state_dict()["param_groups"] == first.state_dict()["param_groups"]


def test_a_state_of_other_groups_or_shapes_is_refused_and_nothing_is_taken_over():
    p, q = weight(1.0, 2.0), weight(1.0)
    saved = optim.Adam([p], lr=0.5)
    step(saved, p, 1.0, 1.0)
    other = optim.Adam([q])
    with refuses(ValueError, "exp_avg", "(2,)", "(1,)"):
        other.load_state_dict(saved.state_dict())
    with refuses(ValueError, "groups of [1]", "[2]"):
        optim.Adam([weight(1.0), weight(2.0)]).load_state_dict(saved.state_dict())
    assert not other.state and other.param_groups[0]["lr"] == 1e-3


def test_a_state_in_float64_becomes_the_parameters_float32():
    p, q = weight(1.0), mg.tensor([1.0], requires_grad=True)
    saved, other = optim.Adam([p]), optim.Adam([q])
    step(saved, p, 1.0)
    other.load_state_dict(saved.state_dict())
    assert {x.dtype for x in other.state[q].values() if isinstance(x, np.ndarray)} == {np.dtype("float32")}


# ---------------------------------------------------------------- a step is a write


@kinds
def test_a_backward_through_values_of_before_the_step_is_refused(make):
    p = weight(1.0, 2.0)
    optimizer = make([p])
    loss = (p * p).sum()
    step(optimizer, p, 1.0, 1.0)
    with refuses(RuntimeError, "backward of", "changed in place", "clone"):
        loss.backward()
    (p * p).sum().backward()  # computed again it is fine


def test_a_step_does_not_disturb_what_did_not_need_the_old_values():
    p = weight(1.0, 2.0)
    loss = (p + 3).sum()
    step(optim.SGD([p], lr=0.1), p, 1.0, 1.0)
    p.grad = None
    loss.backward()
    assert p.grad.tolist() == [1.0, 1.0]


def test_steps_keep_the_parameters_own_memory():
    p = weight(1.0)
    kept = p.data
    step(optim.Adam([p], lr=0.1), p, 1.0)
    assert p.data is kept and p.is_leaf and p.requires_grad


# ---------------------------------------------------------------- piece by piece


def textbook_adamw(x, g, m, v, t):
    """A step with lr 0.1, betas 0.9 and 0.99, decay 0.5."""
    m[...], v[...] = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    x[...] = x * (1 - 0.1 * 0.5) - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)


def test_large_small_and_transposed_parameters_all_move_as_the_textbook_says(monkeypatch):
    """Pieces of 8 numbers: some parameters are joined, some cut; one has no gradient at first, one lies transposed in memory."""
    monkeypatch.setattr("minigrad.optim.flat.PIECE", 8)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in ((3,), (), (2, 2), (5, 5), (1,), (4, 8), (3,), (0,))]
    arrays[5] = np.asfortranarray(arrays[5])
    own = [mg.tensor(a, dtype=np.float64, requires_grad=True) for a in arrays]
    own[5].data = np.asfortranarray(own[5].data)
    assert not own[5].data.flags.c_contiguous
    expected, counts = [(a.copy(), np.zeros_like(a), np.zeros_like(a)) for a in arrays], [0] * len(arrays)
    optimizer = optim.AdamW(own, lr=0.1, betas=(0.9, 0.99), weight_decay=0.5)
    for step_number in range(4):
        for i, p in enumerate(own):
            used = not (i == 2 and step_number < 2)
            g = rng.standard_normal(p.shape)
            p.grad = mg.tensor(g, dtype=np.float64) if used else None
            if used:
                counts[i] += 1
                textbook_adamw(expected[i][0], g, *expected[i][1:], counts[i])
        optimizer.step()
    for p, (x, m, v), count in zip(own, expected, counts, strict=True):
        near(p.data, x, 1e-13)
        state = optimizer.state[p]
        near(state["exp_avg"], m, 1e-13)
        near(state["exp_avg_sq"], v, 1e-13)
        assert state["step"] == count


def test_a_change_of_dtype_takes_the_memory_along():
    model = nn.Linear(3, 2)
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (model(mg.ones(4, 3)) ** 2).sum().backward()
        optimizer.step()
    before = optimizer.state[model.weight]["exp_avg"].copy()
    model.double()
    model.weight.grad = mg.zeros(2, 3, dtype=np.float64)
    optimizer.step()
    state = optimizer.state[model.weight]
    assert state["exp_avg"].dtype == np.float64 and state["step"] == 3
    near(state["exp_avg"], 0.9 * before, 1e-7)


# ---------------------------------------------------------------- clipping


def test_clipping_scales_all_gradients_together_and_tells_the_length():
    p, q, r = weight(0.0), weight(0.0, 0.0), weight(0.0)
    p.grad, q.grad = mg.tensor([3.0], dtype=np.float64), mg.tensor([0.0, 4.0], dtype=np.float64)
    assert clip_grad_norm_([p, q, r], 10.0) == 5.0 and p.grad.tolist() == [3.0]
    assert clip_grad_norm_(iter([p, q, r]), 1.0) == 5.0
    near(np.concatenate([p.grad.data, q.grad.data]), [0.6, 0.0, 0.8], 1e-6)
    assert clip_grad_norm_([r], 1.0) == 0.0 and r.grad is None


def test_clipping_takes_a_single_tensor_too():
    p = weight(0.0, 0.0)
    p.grad = mg.tensor([3.0, 4.0], dtype=np.float64)
    assert clip_grad_norm_(p, 1.0) == 5.0
    near(p.grad, [0.6, 0.8], 1e-6)


@pytest.mark.parametrize("bad", (math.nan, math.inf))
def test_a_gradient_that_is_not_a_number_is_told_and_on_request_refused(bad):
    p = weight(0.0, 0.0)
    p.grad = mg.tensor([bad, 1.0], dtype=np.float64)
    with refuses(RuntimeError, "NaN or an inf"):
        clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    assert not math.isfinite(clip_grad_norm_([p], 1.0)) and p.grad.tolist()[1] == 1.0


# ---------------------------------------------------------------- schedules


def rates(make, steps, lr=1.0):
    optimizer = optim.SGD([weight(1.0)], lr=lr)
    schedule, found = make(optimizer), []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        assert schedule.get_last_lr() == found[-1:] and type(found[-1]) is float
        schedule.step()
    return found


def test_noam_is_equation_three_of_the_paper():
    found = rates(lambda o: NoamLR(o, 512, 40), 200)
    expected = [512**-0.5 * min(t**-0.5, t * 40**-1.5) for t in range(1, 201)]
    near(found, expected, 1e-15)
    assert int(np.argmax(found)) == 39 and math.isclose(
        max(found), (512 * 40) ** -0.5
    )  # the two branches meet at the warmup's end
    near(np.diff(found[:40]), np.full(39, found[0]), 1e-12)  # a line up
    assert math.isclose(found[159] / found[39], 0.5)  # four times the steps, half the rate
    assert rates(lambda o: NoamLR(o, 512, 40), 3, lr=2.0)[0] == 2 * found[0]


def test_warmup_cosine_goes_up_in_a_line_and_down_half_a_cosine_and_stays():
    found = rates(lambda o: WarmupCosineLR(o, 4, 20, min_factor=0.1), 30, lr=2.0)
    near(found[:4], [0.5, 1.0, 1.5, 2.0], 1e-15)
    assert found[4] == 2.0 and math.isclose(found[12], 2 * 0.55) and math.isclose(found[20], 0.2)
    assert found[20:] == [found[20]] * 10 and found[4:21] == sorted(found[4:21], reverse=True)
    assert rates(lambda o: WarmupCosineLR(o, 0, 10), 1) == [1.0] and rates(
        lambda o: WarmupCosineLR(o, 5, 5), 6
    )[4:] == [
        1.0,
        1.0,
    ]


def test_a_schedule_scales_each_groups_own_rate():
    optimizer = optim.SGD([{"params": [weight(1.0)]}, {"params": [weight(1.0)], "lr": 3.0}], lr=1.0)
    schedule = LambdaLR(optimizer, lambda step: 0.5**step)
    schedule.step()
    assert schedule.get_last_lr() == [0.5, 1.5]


def test_a_schedule_goes_on_where_it_was_saved():
    one, other = (NoamLR(optim.SGD([weight(1.0)], lr=lr), 64, 10) for lr in (2.0, 1.0))
    for _ in range(7):
        one.step()
    other.load_state_dict(one.state_dict())
    assert other.get_last_lr() == one.get_last_lr()
    one.step()
    other.step()
    assert other.get_last_lr() == one.get_last_lr() and other.last_epoch == 8


def test_a_tensor_in_the_place_of_a_list_is_a_sentence():
    with pytest.raises(TypeError, match=r"takes a list of tensors, such as \[x\] or model.parameters\(\)"):
        optim.Adam(mg.zeros(3, requires_grad=True))
