"""Beside PyTorch: values, gradients, layers, optimizers, schedules, the encoder-decoder; and where we differ on purpose."""

import math
import warnings

import numpy as np
import pytest
from oracle import array, by, near

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed; it serves as an oracle only (pip install torch)."
)

import minigrad as mg  # noqa: E402
from minigrad import functional as F  # noqa: E402
from minigrad import nn, optim  # noqa: E402
from minigrad.nn.utils import clip_grad_norm_  # noqa: E402
from minigrad.pytorch.differences import DIFFERENCES  # noqa: E402
from models.attention import MultiHeadAttention, causal_mask  # noqa: E402
from models.transformer import Transformer  # noqa: E402

TF, tnn = torch.nn.functional, torch.nn
tiers = pytest.mark.parametrize("tier", ("kernel", "definition"))
FLOAT64, FLOAT32 = ("float64", 1e-12), ("float32", 2e-5)


def numbers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def both(ours, theirs, *arrays, dtype="float64", tolerance=1e-12):
    """The same value, and the same gradient of every array for a random incoming gradient."""
    xs = [mg.tensor(a.astype(dtype), requires_grad=True) for a in arrays]
    ts = [torch.tensor(a.astype(dtype), requires_grad=True) for a in arrays]
    y, t = ours(*xs), theirs(*ts)
    assert str(y.dtype) == dtype
    near(y, t, tolerance)
    g = numbers(*y.shape, seed=9).astype(dtype)
    y.backward(mg.tensor(g))
    t.backward(torch.tensor(g))
    for x, t in zip(xs, ts, strict=True):
        near(x.grad, t.grad, tolerance)


# ---------------------------------------------------------------- functions

CLASSES = np.array([1, 0, 3, 3, 2, 1])
SOME_IGNORED = np.array([1, -100, 3, -100, 2, 1])
WEIGHT = np.array([0.5, 2.0, 1.0, 0.1])
IMAGE = np.array([[[0, 1], [2, 3], [1, -100]], [[3, 3], [0, -100], [2, 1]]])  # (2, 3, 2)


def t(x):
    return torch.tensor(x)


def entropy(targets, weight=None, **settings):
    """cross_entropy in both libraries."""

    def ours(x):
        return F.cross_entropy(
            x, targets, None if weight is None else mg.tensor(weight.astype(x.dtype)), **settings
        )

    def theirs(x):
        their_targets = t(targets).to(x.dtype) if targets.dtype.kind == "f" else t(targets)
        return TF.cross_entropy(
            x, their_targets, None if weight is None else t(weight).to(x.dtype), **settings
        )

    return ours, theirs


def alike(fun):
    """The same line in both libraries: fun(F, *arguments)."""
    return (lambda *xs: fun(F, *xs)), (lambda *ts: fun(TF, *ts))


def rows_named(index, **settings):
    """embedding in both libraries."""
    return (lambda w: F.embedding(index, w, **settings)), (lambda w: TF.embedding(t(index), w, **settings))


SOFT = np.random.default_rng(3).dirichlet(np.ones(4), 6)
SOFT_IMAGE = np.random.default_rng(3).dirichlet(np.ones(4), (2, 3, 2)).transpose(0, 3, 1, 2)
TRI, KEEP = (
    np.tri(3, 5, dtype=bool),
    np.array([[True, False, True, True, False], [True, True, True, False, True]])[:, None, :],
)
ADDED = numbers(3, 5, seed=4)
q, k, v = (2, 3, 4), (2, 5, 4), (2, 5, 6)


def sdpa(mask=None, **settings):
    return (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, _as(mask, q, np.asarray), **settings),
        lambda q, k, v: TF.scaled_dot_product_attention(q, k, v, _as(mask, q, t), **settings),
    )


def _as(mask, like, make):
    if mask is None or mask.dtype == bool:
        return None if mask is None else make(mask)
    return make(mask.astype(np.float32 if "32" in str(like.dtype) else np.float64))


FUNCTIONS = {
    "softmax": (*alike(lambda F, x: F.softmax(x, -1)), (3, 5)),
    "softmax, axis 0": (*alike(lambda F, x: F.softmax(x, dim=0)), (3, 5, 2)),
    "log_softmax": (*alike(lambda F, x: F.log_softmax(x, -1)), (3, 5)),
    "log_softmax, axis 1": (*alike(lambda F, x: F.log_softmax(x, dim=1)), (3, 5, 2)),
    "logsumexp": (lambda x: F.logsumexp(x, 1), lambda x: torch.logsumexp(x, 1), (3, 5)),
    "cross_entropy": (*entropy(CLASSES), (6, 4)),
    "cross_entropy, one example": (*entropy(np.array(2)), (4,)),
    "cross_entropy, ignored": (*entropy(SOME_IGNORED), (6, 4)),
    "cross_entropy, ignore 1": (*entropy(CLASSES, ignore_index=1), (6, 4)),
    "cross_entropy, sum": (*entropy(SOME_IGNORED, reduction="sum"), (6, 4)),
    "cross_entropy, none": (*entropy(SOME_IGNORED, reduction="none"), (6, 4)),
    "cross_entropy, smoothed": (*entropy(SOME_IGNORED, label_smoothing=0.1), (6, 4)),
    "cross_entropy, weighted": (*entropy(SOME_IGNORED, WEIGHT), (6, 4)),
    "cross_entropy, weighted and smoothed": (*entropy(SOME_IGNORED, WEIGHT, label_smoothing=0.3), (6, 4)),
    "cross_entropy, weighted, smoothed, sum": (*entropy(SOME_IGNORED, WEIGHT, label_smoothing=0.3, reduction="sum"), (6, 4)),
    "cross_entropy, probabilities, sum": (*entropy(SOFT, reduction="sum"), (6, 4)),
    "cross_entropy, probabilities, images": (*entropy(SOFT_IMAGE, WEIGHT, label_smoothing=0.2), (2, 4, 3, 2)),
    "cross_entropy, smoothed, none": (*entropy(SOME_IGNORED, WEIGHT, label_smoothing=0.3, reduction="none"), (6, 4)),
    "cross_entropy, images": (*entropy(IMAGE), (2, 4, 3, 2)),
    "cross_entropy, images, all at once": (
        *entropy(np.maximum(IMAGE, 0), WEIGHT, label_smoothing=0.2, ignore_index=3), (2, 4, 3, 2)),
    "cross_entropy, images, none": (*entropy(IMAGE, WEIGHT, label_smoothing=0.2, reduction="none"), (2, 4, 3, 2)),
    "cross_entropy, sequences": (*entropy(IMAGE[..., 0], reduction="none"), (2, 4, 3)),
    "cross_entropy, probabilities": (*entropy(SOFT), (6, 4)),
    "cross_entropy, probabilities, weighted, smoothed": (*entropy(SOFT, WEIGHT, label_smoothing=0.2), (6, 4)),
    "cross_entropy, probabilities, none": (*entropy(SOFT, WEIGHT, reduction="none"), (6, 4)),
    "mse_loss": (*alike(lambda F, x, y: F.mse_loss(x, y)), (3, 4), (3, 4)),
    "mse_loss, sum": (*alike(lambda F, x, y: F.mse_loss(x, y, reduction="sum")), (3, 4), (3, 4)),
    "layer_norm": (*alike(lambda F, x, w, b: F.layer_norm(x, (4,), w, b)), (2, 3, 4), (4,), (4,)),
    "layer_norm, two axes, eps": (*alike(lambda F, x, w: F.layer_norm(x, (3, 4), w, eps=0.1)), (2, 3, 4), (3, 4)),
    "rms_norm": (*alike(lambda F, x, w: F.rms_norm(x, (4,), w)), (2, 3, 4), (4,)),
    "rms_norm, two axes, eps": (*alike(lambda F, x, w: F.rms_norm(x, (3, 4), w, eps=0.1)), (2, 3, 4), (3, 4)),
    "gelu": (*alike(lambda F, x: F.gelu(x)), (5, 6)),
    "gelu, tanh": (*alike(lambda F, x: F.gelu(x, approximate="tanh")), (5, 6)),
    "silu": (*alike(lambda F, x: F.silu(x)), (5, 6)),
    "relu, sigmoid, tanh": (*alike(lambda F, x: F.relu(x) + F.sigmoid(x) * F.tanh(x)), (5, 6)),
    "linear": (*alike(lambda F, x, w, b: F.linear(x, w, b)), (2, 3, 4), (5, 4), (5,)),
    "linear of one row, no bias": (*alike(lambda F, x, w: F.linear(x, w)), (4,), (5, 4)),
    "embedding": (*rows_named(np.maximum(IMAGE, 0)), (5, 3)),
    "embedding, padding_idx": (*rows_named(CLASSES, padding_idx=1), (5, 3)),
    "embedding, padding_idx from the end": (*rows_named(CLASSES, padding_idx=-2), (5, 3)),
    "embedding of a large vocabulary": (*rows_named(CLASSES * 90), (300, 3)),
    "attention": (*sdpa(), q, k, v),
    "attention, four axes": (*sdpa(), (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6)),
    "attention, causal, top left": (*sdpa(is_causal=True), q, k, v),
    "attention, boolean": (*sdpa(TRI), q, k, v),
    "attention, boolean of a batch": (*sdpa(TRI & KEEP), q, k, v),
    "attention, padding": (*sdpa(KEEP), q, k, v),
    "attention, added": (*sdpa(ADDED), q, k, v),
    "attention, added -inf": (*sdpa(np.where(TRI, ADDED, -np.inf)), q, k, v),
    "attention, scale": (*sdpa(scale=0.3), q, k, v),
    "attention, a row hidden": (*sdpa(TRI & (np.arange(3) != 1)[:, None]), q, k, v),
}  # fmt: skip


@pytest.mark.parametrize("dtype, tolerance", (FLOAT64, FLOAT32), ids=("float64", "float32"))
@tiers
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_their_gradients(name, tier, dtype, tolerance):
    ours, theirs, *shapes = FUNCTIONS[name]
    with by(tier):
        both(
            ours,
            theirs,
            *(numbers(*shape, seed=i) for i, shape in enumerate(shapes)),
            dtype=dtype,
            tolerance=tolerance,
        )


@tiers
@pytest.mark.parametrize(
    "name",
    (
        "softmax",
        "log_softmax",
        "logsumexp",
        "cross_entropy",
        "cross_entropy, smoothed",
        "gelu",
        "gelu, tanh",
        "silu",
        "attention",
    ),
)
def test_extreme_values_and_their_gradients(name, tier):
    ours, theirs, *shapes = FUNCTIONS[name]
    scale, tolerance = (100.0, 1e-10) if name == "attention" else (1e4, 1e-12)
    with by(tier):
        both(
            ours,
            theirs,
            *(np.sign(numbers(*s, seed=i)) * scale + numbers(*s) for i, s in enumerate(shapes)),
            tolerance=tolerance,
        )


@pytest.mark.parametrize(
    "name",
    (
        "softmax",
        "log_softmax",
        "cross_entropy, weighted and smoothed",
        "layer_norm",
        "gelu",
        "gelu, tanh",
        "attention",
    ),
)
def test_second_gradients(name):
    ours, theirs, *shapes = FUNCTIONS[name]
    arrays = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    xs, ts = (
        [mg.tensor(a, requires_grad=True) for a in arrays],
        [torch.tensor(a, requires_grad=True) for a in arrays],
    )
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        ours = mg.grad((ours(*xs) ** 2).sum(), xs, create_graph=True)
        theirs = torch.autograd.grad((theirs(*ts) ** 2).sum(), ts, create_graph=True)
        seconds = (
            mg.grad(sum((g**2).sum() for g in ours), xs),
            torch.autograd.grad(sum((g**2).sum() for g in theirs), ts),
        )
    for a, b in zip(*seconds, strict=True):
        near(a, b, 1e-10)


# ---------------------------------------------------------------- layers, with PyTorch's states

LAYERS = {
    "Linear": (lambda n: n.Linear(4, 3), (2, 4)),
    "Linear, no bias": (lambda n: n.Linear(4, 3, bias=False), (2, 5, 4)),
    "LayerNorm": (lambda n: n.LayerNorm(4), (2, 3, 4)),
    "LayerNorm, two axes": (lambda n: n.LayerNorm((3, 4), eps=1e-3), (2, 3, 4)),
    "LayerNorm, no bias": (lambda n: n.LayerNorm(4, bias=False), (2, 4)),
    "LayerNorm, plain": (lambda n: n.LayerNorm(4, elementwise_affine=False), (2, 4)),
    "RMSNorm": (lambda n: n.RMSNorm(4), (2, 3, 4)),
    "RMSNorm, two axes": (lambda n: n.RMSNorm((3, 4), eps=0.1), (2, 3, 4)),
    "RMSNorm, plain": (lambda n: n.RMSNorm(4, elementwise_affine=False), (2, 4)),
    "Embedding": (lambda n: n.Embedding(6, 3), None),
    "Embedding, padding": (lambda n: n.Embedding(6, 3, padding_idx=1), None),
    "Sequential": (lambda n: n.Sequential(n.Linear(4, 5), n.GELU(), n.LayerNorm(5), n.Linear(5, 2), n.Softmax(dim=-1)), (2, 4)),
    "activations": (
        lambda n: n.Sequential(n.Tanh(), n.ReLU(), n.SiLU(), n.Sigmoid(), n.GELU(approximate="tanh"), n.Identity()), (2, 4)),
    "Dropout in evaluation": (lambda n: n.Sequential(n.Linear(4, 4), n.Dropout(0.5)).eval(), (2, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_have_pytorchs_state_names_values_and_gradients(name):
    make, shape = LAYERS[name]
    ours, theirs = make(nn).double(), make(tnn).double()
    for p in theirs.parameters():
        torch.nn.init.normal_(p)
    ours.load_state_dict({name: p.detach().numpy() for name, p in theirs.state_dict().items()})
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = np.array([[1, 0, 5, 1]]) if shape is None else numbers(*shape)
    y, z = ours(mg.tensor(x)), theirs(torch.tensor(x))
    near(y, z, 1e-13)
    if not list(theirs.parameters()):
        return
    g = numbers(*y.shape, seed=5)
    y.backward(mg.tensor(g))
    z.backward(torch.tensor(g))
    for p, r in zip(ours.parameters(), theirs.parameters(), strict=True):
        near(p.grad, r.grad, 1e-12)
    # and back
    theirs.load_state_dict({name: torch.tensor(p.numpy()) for name, p in ours.state_dict().items()})


def test_losses_as_layers():
    x, weight = numbers(6, 4), WEIGHT
    ours = nn.CrossEntropyLoss(mg.tensor(weight), ignore_index=1, label_smoothing=0.1)(mg.tensor(x), CLASSES)
    near(ours, tnn.CrossEntropyLoss(t(weight), ignore_index=1, label_smoothing=0.1)(t(x), t(CLASSES)), 1e-14)
    near(
        nn.MSELoss(reduction="sum")(mg.tensor(x), mg.tensor(x * 2)),
        tnn.MSELoss(reduction="sum")(t(x), t(x * 2)),
        1e-14,
    )


def test_first_values_have_pytorchs_spread():
    for make, bound in ((lambda n: n.Linear(100, 200), 0.1), (lambda n: n.Embedding(200, 100), None)):
        ours, theirs = make(nn).weight.data, make(tnn).weight.detach().numpy()
        assert abs(ours.std() / theirs.std() - 1) < 0.03 and abs(ours.mean()) < 0.01
        assert bound is None or max(np.abs(ours).max(), np.abs(theirs).max()) <= bound


@pytest.mark.parametrize("name", ("xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"))
def test_initialisations_have_pytorchs_spread(name):
    torch.manual_seed(0)
    ours = getattr(nn.init, name)(mg.empty(150, 400)).data
    theirs = getattr(torch.nn.init, name)(torch.empty(150, 400)).numpy()
    assert (
        abs(ours.std() / theirs.std() - 1) < 0.02 and abs(np.abs(ours).max() / np.abs(theirs).max() - 1) < 0.3
    )


# ---------------------------------------------------------------- optimizers and schedules

OPTIMIZERS = {
    "SGD": lambda o, p: o.SGD(p, lr=0.05),
    "SGD, decay": lambda o, p: o.SGD(p, lr=0.05, weight_decay=0.1),
    "SGD, momentum": lambda o, p: o.SGD(p, lr=0.02, momentum=0.9),
    "SGD, dampening": lambda o, p: o.SGD(p, lr=0.02, momentum=0.9, dampening=0.3),
    "SGD, dampening, decay": lambda o, p: o.SGD(p, lr=0.02, momentum=0.9, dampening=0.3, weight_decay=0.1),
    "SGD, nesterov, decay": lambda o, p: o.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.1),
    "Adam": lambda o, p: o.Adam(p, lr=0.05),
    "Adam, decay": lambda o, p: o.Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
    "AdamW": lambda o, p: o.AdamW(p, lr=0.05),
    "AdamW, decay": lambda o, p: o.AdamW(p, lr=0.05, betas=(0.8, 0.95), weight_decay=0.3),
    "SGD, maximize": lambda o, p: o.SGD(p, lr=0.001, momentum=0.9, weight_decay=0.1, maximize=True),
    "Adam, amsgrad": lambda o, p: o.Adam(p, lr=0.05, betas=(0.5, 0.6), amsgrad=True),
    "AdamW, amsgrad, maximize": lambda o, p: o.AdamW(p, lr=0.05, betas=(0.5, 0.6), amsgrad=True, maximize=True),
    "AdamW, groups": lambda o, p: o.AdamW(
        [{"params": p[:1], "weight_decay": 0.5}, {"params": p[1:], "lr": 0.01, "weight_decay": 0.0}], lr=0.05),
}  # fmt: skip


@pytest.mark.parametrize(
    "dtype, tolerance", (("float64", 1e-12), ("float32", 1e-4)), ids=("float64", "float32")
)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps_of_an_optimizer(name, dtype, tolerance):
    first = [numbers(4, 3).astype(dtype), numbers(3, seed=1).astype(dtype)]
    ours, theirs = (
        [mg.tensor(a, requires_grad=True) for a in first],
        [torch.tensor(a, requires_grad=True) for a in first],
    )
    one, other = OPTIMIZERS[name](optim, ours), OPTIMIZERS[name](torch.optim, theirs)
    for step in range(50):
        x = numbers(5, 4, seed=step).astype(dtype)
        one.zero_grad()
        other.zero_grad()
        ((mg.tensor(x) @ ours[0] + ours[1]).tanh() ** 2).sum().backward()
        ((torch.tensor(x) @ theirs[0] + theirs[1]).tanh() ** 2).sum().backward()
        one.step()
        other.step()
        for p, r in zip(ours, theirs, strict=True):
            near(p, r, tolerance)


def test_an_optimizers_state_goes_to_pytorch_and_back():
    p, r = mg.tensor(numbers(3), requires_grad=True), torch.tensor(numbers(3), requires_grad=True)
    ours, theirs = optim.Adam([p], lr=0.1), torch.optim.Adam([r], lr=0.1)
    for x, optimizer in ((p, ours), (r, theirs)):
        (x**2).sum().backward()
        optimizer.step()
    state, other = ours.state_dict(), theirs.state_dict()
    assert (
        set(state["state"][0]) == set(other["state"][0])
        and state["param_groups"][0]["params"] == other["param_groups"][0]["params"]
    )
    for key, value in state["state"][0].items():
        near(value, other["state"][0][key], 1e-15)


@pytest.mark.parametrize("max_norm", (0.5, 1.0, 1e3))
def test_clipping_the_gradient(max_norm):
    ours, theirs = (
        [mg.tensor(numbers(3), requires_grad=True) for _ in "ab"],
        [torch.tensor(numbers(3), requires_grad=True) for _ in "ab"],
    )
    for i, (p, r) in enumerate(zip(ours, theirs, strict=True)):
        p.grad, r.grad = mg.tensor(numbers(3, seed=i)), torch.tensor(numbers(3, seed=i))
    near(np.array(clip_grad_norm_(ours, max_norm)), torch.nn.utils.clip_grad_norm_(theirs, max_norm), 1e-15)
    for p, r in zip(ours, theirs, strict=True):
        near(p.grad, r.grad, 1e-14)


def paper(step, d_model=64, warmup=10):
    return d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)


def cosine(step, warmup=5, total=20, low=0.1):
    done = min(1.0, (step - warmup) / (total - warmup))
    return (step + 1) / warmup if step < warmup else low + (1 - low) * (1 + math.cos(math.pi * done)) / 2


@pytest.mark.parametrize("make, factor", [
    (lambda o: optim.lr_scheduler.LambdaLR(o, lambda step: 0.9**step), lambda step: 0.9**step),
    (lambda o: optim.lr_scheduler.NoamLR(o, 64, 10), paper),
    (lambda o: optim.lr_scheduler.WarmupCosineLR(o, 5, 20, 0.1), cosine),
], ids=("lambda", "noam", "warmup cosine"))  # fmt: skip
def test_schedules(make, factor):
    p, r = mg.tensor(numbers(3), requires_grad=True), torch.tensor(numbers(3), requires_grad=True)
    ours, theirs = optim.SGD([p], lr=0.5), torch.optim.SGD([r], lr=0.5)
    one, other = make(ours), torch.optim.lr_scheduler.LambdaLR(theirs, factor)
    for _ in range(50):
        assert math.isclose(ours.param_groups[0]["lr"], theirs.param_groups[0]["lr"], rel_tol=1e-14)
        assert math.isclose(one.get_last_lr()[0], other.get_last_lr()[0], rel_tol=1e-14)
        for x, optimizer, schedule in ((p, ours, one), (r, theirs, other)):
            optimizer.zero_grad()
            (x.sin() ** 2).sum().backward()
            optimizer.step()
            schedule.step()
        near(p, r, 1e-12)


@pytest.mark.parametrize(
    "name, settings",
    [
        ("CosineAnnealingLR", dict(T_max=7, eta_min=0.03)),
        ("CosineAnnealingLR", dict(T_max=10)),
        ("StepLR", dict(step_size=3, gamma=0.5)),
    ],
)
def test_schedules_of_pytorchs_names_give_each_group_pytorchs_rates(name, settings):
    rates = []
    for library, package in ((mg, optim), (torch, torch.optim)):
        groups = [
            {"params": [library.ones(2, requires_grad=True)]},
            {"params": [library.ones(1, requires_grad=True)], "lr": 0.2},
        ]
        optimizer = package.SGD(groups, lr=0.5)
        schedule = getattr(package.lr_scheduler, name)(optimizer, **settings)
        rates.append([])
        for _ in range(18):  # beyond T_max: PyTorch's recursion goes up again, as the cosine does
            rates[-1].append(schedule.get_last_lr())
            optimizer.step()
            schedule.step()
    near(np.array(rates[0]), np.array(rates[1]), 1e-14)


# ---------------------------------------------------------------- attention layer and the whole encoder-decoder

SRC, TGT, NEXT = (
    np.array([[3, 1, 4, 0], [2, 2, 5, 1]]),
    np.array([[1, 3, 3], [1, 4, 0]]),
    np.array([[3, 3, 2], [4, 2, 0]]),
)
INNER = {
    "self_attention": "self_attn", "cross_attention": "multihead_attn",
    "feed_forward.linear1": "linear1", "feed_forward.linear2": "linear2",
    "residual1.norm": "norm1", "residual2.norm": "norm2", "residual3.norm": "norm3",
}  # fmt: skip


def attention_state(get, name, to):
    """PyTorch stacks the three projections into one."""
    return {
        f"{to}.in_proj_weight": np.concatenate([get(f"{name}.{part}_proj.weight") for part in "qkv"]),
        f"{to}.in_proj_bias": np.concatenate([get(f"{name}.{part}_proj.bias") for part in "qkv"]),
        f"{to}.out_proj.weight": get(f"{name}.out_proj.weight"),
        f"{to}.out_proj.bias": get(f"{name}.out_proj.bias"),
    }


def layer_state(get, layer):
    """The numbers of one of our layers (or their gradients) under PyTorch's names."""
    state = {}
    for name, to in INNER.items():
        if "attention" in name and hasattr(layer, name):
            state |= attention_state(get, name, to)
        elif "attention" not in name and hasattr(layer, name.split(".")[0]):
            state |= {f"{to}.{part}": get(f"{name}.{part}") for part in ("weight", "bias")}
    return state


def whole_state(get, model):
    """The same of the whole model, without its embedding, under the names of nn.Transformer."""
    state = {}
    for side in ("encoder", "decoder"):
        for i, layer in enumerate(getattr(model, side)):
            inner = layer_state(lambda name: get(f"{side}.{i}.{name}"), layer)
            state |= {f"{side}.layers.{i}.{name}": x for name, x in inner.items()}
        state |= {
            f"{side}.norm.{name}": get(f"{side}_norm.{name}")
            for name, _ in getattr(model, f"{side}_norm").named_parameters()
        }
    return state


def their_transformer(ours, norm, activation):
    """PyTorch's with the numbers of ours; in post-norm without the two norms that it puts behind the last layers' own."""
    theirs = tnn.Transformer(
        8, 2, 2, 2, 12, 0.0, activation, batch_first=True, norm_first=norm == "pre", dtype=torch.float64
    )
    if norm == "post":
        theirs.encoder.norm = theirs.decoder.norm = None
    parameters = dict(ours.named_parameters())
    theirs.load_state_dict(
        {name: t(x) for name, x in whole_state(lambda name: parameters[name].data, ours).items()}
    )
    return theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("smoothing", (0.0, 0.1))
@pytest.mark.parametrize("activation", ("relu", "gelu"))
@pytest.mark.parametrize("norm", ("post", "pre"))
@tiers
def test_logits_loss_and_every_gradient_of_the_encoder_decoder_equal_pytorchs(
    tier, norm, activation, smoothing
):
    model = Transformer(6, 8, 2, 2, 12, 0.0, 10, norm=norm, activation=activation).double()
    rng = np.random.default_rng(0)
    for p in model.parameters():
        p.data += rng.normal(0, 0.1, p.shape)  # biases and norms away from 0 and 1
    with by(tier):
        logits = model(SRC, TGT)
        loss = F.cross_entropy(
            logits.reshape(-1, 6), NEXT.reshape(-1), ignore_index=0, label_smoothing=smoothing
        )
        loss.backward()

    theirs, table = (
        their_transformer(model, norm, activation),
        torch.tensor(model.embedding.weight.data, requires_grad=True),
    )
    src, tgt = (
        table[t(tokens)] * 8**0.5 + t(model.positions.table.data)[: tokens.shape[1]] for tokens in (SRC, TGT)
    )
    hidden, future = t(SRC == 0), ~t(causal_mask(3).data[0, 0])  # PyTorch's layers are told what to hide
    masks = dict(
        tgt_mask=future,
        src_key_padding_mask=hidden,
        tgt_key_padding_mask=t(TGT == 0),
        memory_key_padding_mask=hidden,
    )
    their_logits = theirs(src, tgt, **masks) @ table.T
    their_loss = TF.cross_entropy(
        their_logits.reshape(-1, 6), t(NEXT).reshape(-1), ignore_index=0, label_smoothing=smoothing
    )
    their_loss.backward()

    near(logits, their_logits, 1e-12)
    near(loss, their_loss, 1e-12)
    parameters, compared = dict(model.named_parameters()), ["embedding.weight"]
    near(model.embedding.weight.grad, table.grad, 1e-11)
    grads = whole_state(lambda name: compared.append(name) or parameters[name].grad.data, model)
    for name, p in theirs.named_parameters():
        near(grads.pop(name), p.grad, 1e-11)
    assert not grads and sorted(compared) == sorted(parameters)


# ---------------------------------------------------------------- where we differ on purpose


def number(x):
    """How a number, or the worst of several, is called in the table of differences."""
    x = np.asarray(array(x), dtype=float)
    return "nan" if np.isnan(x).any() else "0" if (x == 0).all() else "finite"


def outcome(run):
    """What running it gives: a word, or the name of the error, or "warning"."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = run()
        except Exception as error:
            return type(error).__name__
    return (
        "warning"
        if caught and not isinstance(result, str)
        else result
        if isinstance(result, str)
        else "works"
    )


def slope_of_sqrt_unused(library):
    x = library.tensor([0.0], requires_grad=True)
    (library.sqrt(x) * 0).sum().backward()
    return number(x.grad)


def hidden_value(library, functional):
    values = np.ones((3, 2))
    values[2] = np.nan
    ones = library.tensor(np.ones((3, 2)))
    mask = library.tensor(np.broadcast_to(np.array([True, True, False]), (3, 3)).copy())
    return number(functional.scaled_dot_product_attention(ones, ones, library.tensor(values), mask))


def their_blind_layer():
    x = t(numbers(1, 2, 4))
    return number(
        tnn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64)(
            x, x, x, key_padding_mask=t(np.ones((1, 2), bool))
        )[0]
    )


def polarity(weights):
    """What a mask of [True, False] did to the first key."""
    return "may attend" if array(weights)[0, 0, 0] == 1 else "hidden"


def which_axis(y):
    sums = [np.allclose(array(y).sum(axis), 1) for axis in range(3)]
    return ("the first axis", "the middle axis", "the last axis")[sums.index(True)]


def plus_equals(library):
    x = library.tensor([1.0], requires_grad=True) * 2
    before = x
    x += 1
    return "the same tensor" if x is before else "a new tensor"


def tied_state(n):
    pair = n.Sequential(n.Linear(3, 3, bias=False), n.Linear(3, 3, bias=False))
    pair[1].weight = pair[0].weight
    return {1: "once", 2: "under each name"}[len(pair.state_dict())]


def hidden_list(n):
    class Model(n.Module):
        def __init__(self):
            super().__init__()
            self.layers = [n.Linear(2, 2)]

    return "found" if list(Model().parameters()) else "not found"


def early_layer(n):
    class Model(n.Module):
        def __init__(self):
            self.layer = n.Linear(2, 2)
            super().__init__()

    return Model()


KINDS = {
    np.ndarray: "a NumPy array",
    torch.Tensor: "a tensor",
    tuple: "a tuple",
    torch.Size: "a torch.Size",
    float: "a float",
}


def kind(x):
    return KINDS[type(x)]


def clipped(library, clip):
    x = library.tensor([1.0], requires_grad=True)
    (x * 2).sum().backward()
    return kind(clip([x], 1.0))


def twice(library, sgd):
    x = library.tensor([1.0], requires_grad=True)
    return sgd([x, x], lr=0.1)


def second_backward(library):
    (library.tensor([1.0], requires_grad=True) ** 2).sum().backward(create_graph=True)


IGNORED, FIRST_ONLY = np.array([-100, -100]), np.array([[True, False]])


def slope_at(library, fun, numbers):
    """The gradient of fun at these numbers, as a list."""
    x = library.tensor(numbers, requires_grad=True)
    fun(x).sum().backward()
    return x.grad.tolist()


def t21(library):
    return library.tensor(np.array([21.0]))


def receivers(library):
    """Who gets the gradient of two numbers written to one place."""
    found = slope_at(
        library, lambda src: library.zeros(1).scatter(0, library.tensor([0, 0]), src), [1.0, 2.0]
    )
    return {(0.0, 1.0): "the last one", (1.0, 1.0): "both"}[tuple(found)]


SHOWN = {
    "cross_entropy, every target ignored": (
        lambda: number(F.cross_entropy(mg.randn(2, 3), IGNORED)),
        lambda: number(TF.cross_entropy(torch.randn(2, 3), t(IGNORED)))),
    "attention layer, a query that may attend to no key": (
        lambda: number(MultiHeadAttention(4, 2)(mg.randn(1, 2, 4), mask=np.zeros((2, 2), bool))), their_blind_layer),
    "attention, NaN in a value to which no query may attend": (lambda: hidden_value(mg, F), lambda: hidden_value(torch, TF)),
    "attention layer's boolean mask, True means": (
        lambda: polarity(MultiHeadAttention(4, 1)(mg.randn(1, 2, 4), mask=FIRST_ONLY, need_weights=True)[1].data[0]),
        lambda: polarity(tnn.MultiheadAttention(4, 1, batch_first=True)(*[torch.randn(1, 2, 4)] * 3, t(FIRST_ONLY))[1])),
    "gradient of sqrt at 0 if the incoming gradient is 0": (
        lambda: slope_of_sqrt_unused(mg), lambda: slope_of_sqrt_unused(torch)),
    "mse_loss of shapes (3,) and (3, 1)": (
        lambda: F.mse_loss(mg.randn(3), mg.randn(3, 1)), lambda: TF.mse_loss(torch.randn(3), torch.randn(3, 1))),
    "nll_loss, every target ignored": (
        lambda: number(F.nll_loss(mg.randn(2, 3), IGNORED)), lambda: number(TF.nll_loss(torch.randn(2, 3), t(IGNORED)))),
    "gradient of binary_cross_entropy at p = 0 where the target is 1": (
        lambda: number(slope_at(mg, lambda p: F.binary_cross_entropy(p, mg.ones(1)), [0.0])),
        lambda: number(slope_at(torch, lambda p: TF.binary_cross_entropy(p, torch.ones(1)), [0.0]))),
    "softplus(21.0) in float64": (
        lambda: "21" if F.softplus(t21(mg)).item() == 21 else "log(1 + exp(21))",
        lambda: "21" if TF.softplus(t21(torch)).item() == 21 else "log(1 + exp(21))"),
    "scatter of two elements to one position: the gradient goes to": (lambda: receivers(mg), lambda: receivers(torch)),
    "gradient of median() of three equal elements": (
        lambda: "one gets all" if max(slope_at(mg, mg.median, [2.0] * 3)) == 1 else "shared",
        lambda: "one gets all" if max(slope_at(torch, torch.median, [2.0] * 3)) == 1 else "shared"),
    "gradient of hypot at (0, 0)": (
        lambda: number(slope_at(mg, lambda x: mg.hypot(x[0], x[1]), [0.0, 0.0])),
        lambda: number(slope_at(torch, lambda x: torch.hypot(x[0], x[1]), [0.0, 0.0]))),
    "gradient of det of a singular matrix": (
        lambda: slope_at(mg, mg.det, [[1.0, 2.0], [2.0, 4.0]]) and "works",
        lambda: slope_at(torch, torch.det, [[1.0, 2.0], [2.0, 4.0]]) and "works"),
    "float_power of float32": (
        lambda: str(mg.float_power(mg.ones(2), 2).dtype), lambda: str(torch.float_power(torch.ones(2), 2).dtype).removeprefix("torch.")),
    "prod over two axes": (lambda: mg.ones(2, 3).prod((0, 1)), lambda: torch.ones(2, 3).prod((0, 1))),
    "softmax of three axes, without axis=": (
        lambda: which_axis(F.softmax(mg.randn(2, 3, 4))),
        lambda: which_axis(TF.softmax(torch.randn(2, 3, 4))) + ", with a warning"),
    "empty": (lambda: "zeros" if number(mg.empty(50)) == "0" else "other", None),
    "x += y on a computed x": (lambda: plus_equals(mg), lambda: plus_equals(torch)),
    "backward(create_graph=True)": (lambda: second_backward(mg), None),
    "x.data": (lambda: kind(mg.ones(2).data), lambda: kind(torch.ones(2).data)),
    "x.size()": (lambda: kind(mg.ones(2).size()), lambda: kind(torch.ones(2).size())),
    "a plain list of modules as an attribute": (lambda: hidden_list(nn), lambda: hidden_list(tnn)),
    "assigning a layer before super().__init__()": (lambda: early_layer(nn), lambda: early_layer(tnn)),
    "state_dict of tied weights": (lambda: tied_state(nn), lambda: tied_state(tnn)),
    "the same parameter twice in one group": (lambda: twice(mg, optim.SGD), lambda: twice(torch, torch.optim.SGD)),
    "clip_grad_norm_ returns": (lambda: clipped(mg, clip_grad_norm_), lambda: clipped(torch, torch.nn.utils.clip_grad_norm_)),
    "a recurrent layer called with lengths=": (
        lambda: nn.GRU(2, 3)(mg.ones(4, 1, 2), lengths=[3]) and "works",
        lambda: tnn.GRU(2, 3)(torch.ones(4, 1, 2), lengths=[3]) and "works"),
    "LSTM with proj_size": (lambda: nn.LSTM(2, 3, proj_size=1) and "works", lambda: tnn.LSTM(2, 3, proj_size=1) and "works"),
    ".cuda()": (lambda: mg.ones(2).cuda(), None),
}  # fmt: skip


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda d: d.name)
def test_every_row_of_the_table_of_differences_is_so_in_both_libraries(difference):
    ours, theirs = SHOWN[difference.name]
    assert outcome(ours) == difference.minigrad != difference.pytorch
    assert theirs is None or outcome(theirs) == difference.pytorch


def test_the_table_and_what_shows_it_name_the_same_things_and_give_reasons():
    assert [d.name for d in DIFFERENCES] == list(SHOWN)
    assert all(len(d.reason.split()) > 2 for d in DIFFERENCES)
