"""The numbers behind the lesson's pictures, each measured on our own layers. Knows no drawing: tutorials/figures.py has the pictures.

Every function returns arrays, or a dict of them by name. What goes in is drawn from streams of its own, the same at every call;
weights come from the stream "init", as everywhere: after manual_seed they are the same too.
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
    """Standard normal numbers, float32, from the stream of a picture's name."""
    return Tensor(random.fresh(f"figure {name}").standard_normal(shape).astype(np.float32))


def norms(gradient, axis):
    """The lengths of a gradient's vectors; float64, since a square of 1e-30 is 0 in float32."""
    return np.sqrt((gradient.data.astype(np.float64) ** 2).sum(axis))


# ---------------------------------------------------------------- positions, scores, masks


def positions(length=100, d_model=64):
    """(table (length, d_model), similarity (length, length)): the encoding, and the dot product of each two positions as a share
    of the largest, which is that of a position with itself, d_model / 2."""
    table = sinusoidal(length, d_model)
    return table.data, (table @ table.mT).data / (d_model / 2)


def softmax_saturation(widths=(1, 4, 16, 64, 256, 1024), keys=32, queries=200):
    """{"scaled" or "unscaled": {"largest", "gradient": (widths, 3)}}: quartiles over random queries.

    largest    the largest of a query's weights: 1 / keys if it looks everywhere alike, 1 if at one key only
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
    """Quartiles of the largest weight, and of the gradient's norm at the scores."""
    scores = Tensor(scores.data.astype(np.float64)).requires_grad_()
    weights = F.softmax(scores)
    (g,) = grad((weights * normal("factors", *scores.shape)).sum(), scores)
    return [np.quantile(x, (0.25, 0.5, 0.75)) for x in (weights.data.max(-1), norms(g, -1))]


def masks(source=("the", "cat", "sat", "pad", "pad"), target=("le", "chat", "est", "pad"), past=3, new=2):
    """{title: (allowed (Tq, Tk), queries' names, keys' names)}: True where a query may look at a key."""
    of_source, of_target = (
        padding_mask(np.array([[word != "pad" for word in words]]), pad=False) for words in (source, target)
    )
    causal, cached = causal_mask(len(target)), [f"t{i}" for i in range(1, past + new + 1)]

    def shown(mask, queries, keys):
        return np.broadcast_to(mask.data, (1, 1, len(queries), len(keys)))[0, 0], queries, keys

    return {
        "causal": shown(causal, target, target),
        "padding": shown(of_source, source, source),
        "causal and padding": shown(causal & of_target, target, target),
        "cross-attention": shown(of_source, target, source),
        "with a cache": shown(causal_mask(new, past + new), cached[past:], cached),
    }


# ---------------------------------------------------------------- how far gradients reach


class NoWayAround(Module):
    """Stands where a Residual does, and leaves the way around the sublayer out."""

    def forward(self, x, sublayer):
        return sublayer(x)


def encoder(depth, d_model, kind):
    """Encoder layers with the paper's first values (Glorot's); kind "post", "pre", or "none" without residuals and norms."""
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
    """{kind: (depth,)}: the norm of a loss's gradient at the weights of each layer, the first layer first, before any training."""
    return {
        kind: _gradient_of_layers(encoder(depth, d_model, kind), normal("tokens", 8, 16, d_model))
        for kind in kinds
    }


def gradient_of_last_layer(depths=(2, 4, 8, 16, 32)):
    """{"post", "pre": (depths,)}: the same at the last layer alone, in stacks of different depth. Post-norm's is as large in a deep
    stack as in a shallow one, pre-norm's falls with the root of the depth (Xiong et al. 2020): why post-norm begins with small steps."""
    made = [gradient_by_depth(depth, ("post", "pre")) for depth in depths]
    return {kind: np.array([figures[kind][-1] for figures in made]) for kind in ("post", "pre")}


def _gradient_of_layers(encoder, x):
    """The loss: the output, normed at last as pre-norm stacks are, times random factors."""
    y = x
    for layer in encoder:
        y = layer(y)
    y = F.layer_norm(y, y.shape[-1:])
    (y * normal("factors", *y.shape)).mean().backward()
    return np.array([np.sqrt(sum(norms(p.grad, None) ** 2 for p in layer.parameters())) for layer in encoder])


def gradient_by_distance(length=101, width=64, batch=32):
    """{"RNN", "LSTM", "attention": (length,)}: how strongly the last output depends on the input 0, 1, 2 ... steps before it: the
    gradient's norm there as a share of that at the last input, in one layer before any training."""
    x = normal("inputs", batch, length, width)
    encode, attend = PositionalEncoding(width, length), EncoderLayer(width, 4, 2 * width, norm="pre")
    reads = {
        "RNN": lambda x: layers("rnn", width, width, 1)(x)[0],
        "LSTM": lambda x: layers("lstm", width, width, 1)(x)[0],
        "attention": lambda x: attend(encode(x)),
    }
    return {name: _by_place(read, x)[::-1] for name, read in reads.items()}


def _by_place(read, x):
    """The mean norm of the gradient at each place of x (B, T, C), over that at the last, of the last output times random factors."""
    x = Tensor(x.data).requires_grad_()
    last = read(x)[:, -1]
    (g,) = grad((last * normal("factors", *last.shape)).sum(), x)
    by_place = norms(g, -1).mean(0)  # (T,)
    return by_place / by_place[-1]


# ---------------------------------------------------------------- two parameters


STEP_SIZES = {"SGD": 0.15, "Adam": 0.3}  # SGD cannot take much longer ones: 0.25 throws it out of the valley


def loss_surface(steps=60, grid=81):
    """{"slope", "intercept": (grid,), "loss": (grid, grid), "lowest": (2,), "SGD", "Adam": (steps + 1, 2)}: a line fitted to 20 points.

    Their x lie on one side of 0, so slope and intercept pull at each other: the surface is a narrow valley.
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
    """Where an optimizer has been, (steps + 1, 2)."""
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
    """{"plain", "blocked": {"kept", "peak": (lengths,)}}: bytes over the inputs, for one head, as Python's tracemalloc counts them.

    kept   after the forward pass: the output, and what the backward pass will need
    peak   the most at any one time, forward and backward
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
