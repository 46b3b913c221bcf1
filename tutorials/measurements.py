"""Measure, on our own layers, the numbers that the pictures of tutorials/figures.py show.

Every function returns arrays, or a dict of them by name. Inputs are drawn from streams of their own, so they
are the same at every call; weights come from the stream "init", so they are the same after manual_seed.
"""

import tracemalloc

import numpy as np

from minigrad import Tensor, grad, no_grad, random, stack
from minigrad import functional as F
from minigrad.nn import Module, ModuleList, init
from minigrad.optim import SGD, Adam
from models.attention import causal_mask, padding_mask
from models.blocks import EncoderLayer
from models.positional import PositionalEncoding, sinusoidal
from models.recurrent import layers


def normal(name, *shape):
    """Draw standard normal numbers, float32, from the stream of a name."""
    return Tensor(random.fresh(f"figure {name}").standard_normal(shape).astype(np.float32))


def norms(gradient, axis):
    """The lengths of a gradient's vectors; float64, since a square of 1e-30 is 0 in float32."""
    return np.sqrt((gradient.data.astype(np.float64) ** 2).sum(axis))


# ---------------------------------------------------------------- positions, scores, masks


def positions(length=100, d_model=64):
    """Return the encoding (length, d_model), and the dot products of each two positions (length, length).

    The dot products are divided by the largest, that of a position with itself: d_model / 2.
    """
    table = sinusoidal(length, d_model)
    return table.data, (table @ table.mT).data / (d_model / 2)


def softmax_saturation(widths=(1, 4, 16, 64, 256, 1024), keys=32, queries=200):
    """Return {"scaled" or "unscaled": {"largest", "gradient": (widths, 3)}}: quartiles over random queries.

    largest    the largest of a query's weights: 1 / keys if it attends to all keys alike, 1 if only to one
    gradient   the norm, at the scores, of the gradient of a sum of the weights with random factors
    """
    rows = {"unscaled": [], "scaled": []}
    for d_k in widths:
        q, k = normal(f"queries {d_k}", queries, 1, d_k), normal(f"keys {d_k}", queries, keys, d_k)
        scores = (q @ k.mT).squeeze(1)  # (queries, keys), of variance d_k
        rows["unscaled"].append(_through_softmax(scores))
        rows["scaled"].append(_through_softmax(scores / d_k**0.5))
    return {
        name: {"largest": np.array([r[0] for r in row]), "gradient": np.array([r[1] for r in row])}
        for name, row in rows.items()
    }


def _through_softmax(scores):
    """Return the quartiles of the largest weight, and of the gradient's norm at the scores."""
    scores = Tensor(scores.data.astype(np.float64)).requires_grad_()
    weights = F.softmax(scores)
    (g,) = grad((weights * normal("factors", *scores.shape)).sum(), scores)
    return [np.quantile(x, (0.25, 0.5, 0.75)) for x in (weights.data.max(-1), norms(g, -1))]


def masks(source=("the", "cat", "sat", "pad", "pad"), target=("le", "chat", "est", "pad"), past=3, new=2):
    """Return {title: (allowed (Tq, Tk), queries, keys)}: True where a query may attend to a key."""
    of_source, of_target = (
        padding_mask(np.array([[word != "pad" for word in words]]), pad=False) for words in (source, target)
    )
    causal, cached = causal_mask(len(target)), [f"t{i}" for i in range(1, past + new + 1)]

    def matrix(mask, queries, keys):
        return np.broadcast_to(mask.data, (1, 1, len(queries), len(keys)))[0, 0], queries, keys

    return {
        "causal": matrix(causal, target, target),
        "padding": matrix(of_source, source, source),
        "causal and padding": matrix(causal & of_target, target, target),
        "cross-attention": matrix(of_source, target, source),
        "with a cache": matrix(causal_mask(new, past + new), cached[past:], cached),
    }


# ---------------------------------------------------------------- how far gradients reach


class NoWayAround(Module):
    """Replaces a Residual, without the path around the sublayer."""

    def forward(self, x, sublayer):
        return sublayer(x)


def encoder(depth, d_model, kind):
    """Make encoder layers with the paper's initial values (Glorot's).

    kind    "post", "pre", or "none": without residuals and norms
    """
    made = ModuleList(
        EncoderLayer(d_model, 4, 4 * d_model, norm="post" if kind == "none" else kind) for _ in range(depth)
    )
    for p in made.parameters():
        if p.ndim > 1:
            init.xavier_uniform_(p)
    for layer in made if kind == "none" else ():
        layer.residual1 = layer.residual2 = NoWayAround()
    return made


def gradient_by_depth(depth=18, kinds=("none", "post", "pre"), d_model=64):
    """Return {kind: (depth,)}: the norm of a loss's gradient at the weights of each layer before training."""
    return {
        kind: _gradient_of_layers(encoder(depth, d_model, kind), normal("tokens", 8, 16, d_model))
        for kind in kinds
    }


def gradient_of_last_layer(depths=(2, 4, 8, 16, 32)):
    """Return {"post", "pre": (depths,)}: the same norm at the last layer, in stacks of different depth.

    Post-norm's is as large in a deep stack as in a shallow one, and pre-norm's falls with the root of the
    depth (Xiong et al. 2020): the reason why post-norm begins with small steps.
    """
    made = [gradient_by_depth(depth, ("post", "pre")) for depth in depths]
    return {kind: np.array([figures[kind][-1] for figures in made]) for kind in ("post", "pre")}


def _gradient_of_layers(encoder, x):
    """Return the norm of the gradient at each layer's weights.

    The loss is the output times random factors, after a final norm, as pre-norm stacks have it.
    """
    y = x
    for layer in encoder:
        y = layer(y)
    y = F.layer_norm(y, y.shape[-1:])
    (y * normal("factors", *y.shape)).mean().backward()
    return np.array([np.sqrt(sum(norms(p.grad, None) ** 2 for p in layer.parameters())) for layer in encoder])


def gradient_by_distance(length=101, width=64, batch=32):
    """Return {"RNN", "LSTM", "attention": (length,)}: the gradient's norm at inputs 0, 1, 2 ... steps back.

    It is the gradient of the last output, divided by its norm at the last input, in one layer before
    training.
    """
    x = normal("inputs", batch, length, width)
    encode, attend = PositionalEncoding(width, length), EncoderLayer(width, 4, 2 * width, norm="pre")
    reads = {
        "RNN": lambda x: layers("rnn", width, width, 1)(x)[0],
        "LSTM": lambda x: layers("lstm", width, width, 1)(x)[0],
        "attention": lambda x: attend(encode(x)),
    }
    return {name: _by_position(read, x)[::-1] for name, read in reads.items()}


def _by_position(read, x):
    """Return the mean norm of the gradient at each position of x (B, T, C), divided by that at the last.

    It is the gradient of the last output times random factors.
    """
    x = Tensor(x.data).requires_grad_()
    last = read(x)[:, -1]
    (g,) = grad((last * normal("factors", *last.shape)).sum(), x)
    by_position = norms(g, -1).mean(0)  # (T,)
    return by_position / by_position[-1]


# ---------------------------------------------------------------- two parameters


STEP_SIZES = {"SGD": 0.15, "Adam": 0.3}  # with 0.25, SGD leaves the valley


def loss_surface(steps=60, grid=81):
    """Fit a line to 20 points with SGD and Adam. Returns the loss surface and the paths.

    {"slope", "intercept": (grid,), "loss": (grid, grid), "lowest": (2,), "SGD", "Adam": (steps + 1, 2)}
    All x lie on one side of 0, so slope and intercept are coupled: the surface is a narrow valley.
    """
    rng = random.fresh("figure line")
    x = Tensor(rng.uniform(0.5, 3.0, 20))
    y = 1.5 * x - 1.0 + Tensor(0.3 * rng.standard_normal(20))

    def loss(parameters):
        """parameters (..., 2) -> the mean squared error of each line (...)."""
        return ((parameters[..., :1] * x + parameters[..., 1:] - y) ** 2).mean(-1)

    slope, intercept = np.linspace(-1.5, 3.5, grid), np.linspace(-3.5, 3.5, grid)
    with no_grad():
        # row: intercept, column: slope
        surface = loss(stack([Tensor(a) for a in np.meshgrid(slope, intercept)], -1)).data
    paths = {
        name: _path(loss, optimizer, STEP_SIZES[name], steps)
        for name, optimizer in (("SGD", SGD), ("Adam", Adam))
    }
    lowest = np.polyfit(x.data, y.data, 1)
    return {"slope": slope, "intercept": intercept, "loss": surface, "lowest": lowest, **paths}


def _path(loss, optimizer, lr, steps, start=(-1.0, 2.5)):
    """Return the path of an optimizer, (steps + 1, 2)."""
    p = Tensor(np.array(start)).requires_grad_()
    optimizer, path = optimizer([p], lr=lr), [p.data.copy()]
    for _ in range(steps):
        optimizer.zero_grad()
        loss(p).backward()
        optimizer.step()
        path.append(p.data.copy())
    return np.array(path)


# ---------------------------------------------------------------- memory


def attention_memory(lengths=(512, 1024, 2048, 4096), d_k=64):
    """Return {"plain", "blocked": {"kept", "peak": (lengths,)}}: bytes besides the inputs, for one head.

    kept   after the forward pass: the output, and what the backward pass needs
    peak   the maximum during forward and backward, as Python's tracemalloc counts
    """
    made = {path: np.array([_memory(path, n, d_k) for n in lengths]) for path in ("plain", "blocked")}
    return {path: {"kept": figures[:, 0], "peak": figures[:, 1]} for path, figures in made.items()}


def _memory(path, n, d_k):
    q, k, v = (normal(name, 1, n, d_k).requires_grad_() for name in ("q", "k", "v"))
    tracemalloc.start()
    try:
        y = F.scaled_dot_product_attention(q, k, v, path=path)
        kept = tracemalloc.get_traced_memory()[0]
        y.backward(Tensor(np.ones(y.shape, y.dtype)))
        return kept, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
