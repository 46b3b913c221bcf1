"""The jobs `reference`, `tiny`, `small` and `large`: a training step of a GPT.

All sides start from the weights of our model at one seed and see the same windows of Python's manual, whose
characters are mapped to 65 tokens. The text can be learned, so equal losses are evidence of equal work.
PyTorch's model is in torch_gpt.py, that of libraries without modules in functional_gpt.py.
"""

from functools import partial

import numpy as np

from benchmarks import functional_gpt as gpt
from benchmarks import machine
from benchmarks.case import GEMMS, Case, Side
from minigrad import functional as F
from minigrad import manual_seed, optim
from minigrad.machine import keep_freed_memory
from minigrad.nn.utils import clip_grad_norm_
from minigrad.training.recipe import Recipe
from minigrad.training.threads import Sharing
from models.gpt import GPT
from models.recipes.text import manual, windows

SIZES = {  # reference is nanoGPT's recipe for a CPU
    "reference": dict(layers=4, heads=4, d_model=128, context=64, batch=12),
    "tiny": dict(layers=1, heads=2, d_model=32, context=16, batch=16),
    "small": dict(layers=2, heads=4, d_model=64, context=32, batch=64),
    "large": dict(layers=6, heads=6, d_model=384, context=256, batch=4),
}
TRIAL = dict(layers=2, heads=2, d_model=16, context=8, batch=2)  # for --tiny
VOCABULARY = 65
BATCHES = 64  # batches built beforehand; later steps repeat them
LR, WARMUP, BETAS, DECAY, CLIP = 1e-3, 100, (0.9, 0.99), 0.1, 1.0


def cases(name, tiny=False):
    size = TRIAL if tiny else SIZES[name]
    sides = (
        Side("minigrad", partial(ours, size)),
        Side("minigrad, batch shared", partial(ours, size, sharing=True), fewest_threads=2),
        Side("torch", partial(torch_step, size), "torch"),
        Side("torch fused", partial(torch_step, size, fused=True), "torch"),
        Side("torch tuned", partial(torch_step, size, fused=True, tuned=True), "torch"),
        Side("torch manual", partial(torch_step, size, manual=True), "torch"),
        Side("JAX", partial(jax_step, size), "jax", pinned=True),
        Side(GEMMS, partial(gemms, size), checked=False),
    )
    if name == "reference" and not tiny:  # compiling takes a minute
        sides += (
            Side(
                "torch compiled", partial(torch_step, size, fused=True, compiled=True), "torch", may_fail=True
            ),
        )
    if name in ("reference", "tiny"):
        sides += (Side("HIPS autograd", partial(hips_step, size), "autograd"),)
    long = dict(steps=3, warm=1) if name == "large" and not tiny else {}
    return [Case(name, sides, **long)]


# ---------------------------------------------------------------- common to all sides


def our_model(size):
    manual_seed(0)
    sizes = dict(
        d_model=size["d_model"], num_heads=size["heads"], num_layers=size["layers"], max_len=size["context"]
    )
    return GPT(VOCABULARY, dropout=0.0, bias=False, **sizes)


def our_weights(size):
    """Initialize our model and return its parameters as {name: array}."""
    return {name: p.data for name, p in our_model(size).named_parameters()}


def all_batches(size):
    """Build [(tokens (B, T), tokens that follow (B, T))], equal in every process."""
    text = (
        np.frombuffer(manual().encode("ascii", "replace"), np.uint8)[:100_000].astype(np.int64) % VOCABULARY
    )
    rng = np.random.default_rng(0)
    starts = rng.integers(len(text) - size["context"] - 1, size=(BATCHES, size["batch"]))
    return [windows(text, row, size["context"]) for row in starts]


def rate(number):
    """The learning rate of a step: a linear warmup."""
    return LR * min(1.0, (number + 1) / WARMUP)


def set_rate(optimizer, number):
    for group in optimizer.param_groups:
        group["lr"] = rate(number)


# ---------------------------------------------------------------- ours, PyTorch's


class Windows(Recipe):
    """The loss as a recipe, which is what Sharing takes."""

    def loss(self, model, batch):
        tokens, following = batch
        return F.cross_entropy(model(tokens).reshape(-1, VOCABULARY), following.reshape(-1))


def ours(size, sharing=False, dtype=np.float32, keep_memory=True):
    """Build our step.

    sharing  True: threads share each batch, as in `train --threads 2 --share batch`; else each matrix product
    """
    if keep_memory:
        keep_freed_memory()  # as the trainer does
    recipe, shared = Windows({}), []
    model, batches = our_model(size).to(dtype), all_batches(size)
    parameters = list(model.parameters())
    matrices, others = [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim <= 1]
    optimizer = optim.AdamW(
        [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}], betas=BETAS
    )

    def step(number):
        set_rate(optimizer, number)
        batch = batches[number % BATCHES]
        optimizer.zero_grad()
        if sharing:
            if not shared:  # at the first step, because the number of threads is not set before
                shared.append(Sharing(machine.blas()["num_threads"]).__enter__())
            loss = shared[0].backward(recipe, model, batch)
        else:
            loss = recipe.loss(model, batch)
            loss.backward()
        clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        return loss if sharing else loss.item()

    return step


def torch_step(size, fused=None, tuned=False, manual=False, compiled=False):
    """Build the step of PyTorch, eager by default.

    fused   True: its fastest AdamW
    tuned   True: keep freed memory, as ours does
    manual  True: unfused attention
    """
    import torch

    from benchmarks import torch_gpt

    if tuned:
        keep_freed_memory()
    model = torch_gpt.GPT(VOCABULARY, size["layers"], size["heads"], size["d_model"], size["context"], manual)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in our_weights(size).items()})
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(torch_gpt.groups(model, DECAY), betas=BETAS, fused=fused)
    batches = [
        (torch.from_numpy(tokens), torch.from_numpy(following)) for tokens, following in all_batches(size)
    ]
    if compiled:
        model = torch.compile(model)
        model(batches[0][0]).sum().backward()  # compiles, or raises

    def step(number):
        set_rate(optimizer, number)
        tokens, following = batches[number % BATCHES]
        loss = torch.nn.functional.cross_entropy(model(tokens).view(-1, VOCABULARY), following.view(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        return loss.item()

    return step


# ---------------------------------------------------------------- functions: JAX, HIPS autograd


def jax_step(size):
    """Build the step of JAX, compiled as one function that may reuse the memory of its arguments."""
    import jax
    import jax.numpy as jnp

    p = {name: jnp.asarray(array) for name, array in our_weights(size).items()}
    batches = [(jnp.asarray(tokens), jnp.asarray(following)) for tokens, following in all_batches(size)]
    losses_and_gradients = jax.value_and_grad(lambda p, *batch: gpt.loss(jnp, p, *batch, size))

    @partial(jax.jit, donate_argnums=0)
    def train(state, batch, t, lr):
        loss, gradients = losses_and_gradients(state[0], *batch)
        return loss, gpt.adamw(jnp, state[0], gpt.clip(jnp, gradients, CLIP), *state[1:], t, lr, BETAS, DECAY)

    state = [
        (
            p,
            {name: jnp.zeros_like(x) for name, x in p.items()},
            {name: jnp.zeros_like(x) for name, x in p.items()},
        )
    ]

    def step(number):
        loss, state[0] = train(state[0], batches[number % BATCHES], number + 1.0, rate(number))
        return float(loss)

    return step


def hips_step(size):
    import autograd.numpy as anp
    from autograd import value_and_grad

    p, batches = our_weights(size), all_batches(size)
    losses_and_gradients = value_and_grad(lambda p, *batch: gpt.loss(anp, p, *batch, size))
    state = [
        (
            p,
            {name: np.zeros_like(x) for name, x in p.items()},
            {name: np.zeros_like(x) for name, x in p.items()},
        )
    ]

    def step(number):
        p, m, v = state[0]
        loss, gradients = losses_and_gradients(p, *batches[number % BATCHES])
        state[0] = gpt.adamw(
            np, p, gpt.clip(np, gradients, CLIP), m, v, number + 1, rate(number), BETAS, DECAY
        )
        return float(loss)

    return step


# ---------------------------------------------------------------- the limit


def products(size):
    """List the matrix products of a forward pass as (left shape, right shape, count)."""
    B, T, C, H = size["batch"], size["context"], size["d_model"], size["heads"]
    N, D = B * T, C // H
    linear = [((N, C), (C, out)) for out in (3 * C, C, 4 * C)] + [((N, 4 * C), (4 * C, C))]
    attention = [((B, H, T, D), (B, H, D, T)), ((B, H, T, T), (B, H, T, D))]
    return [(*pair, size["layers"]) for pair in linear + attention] + [((N, C), (C, VOCABULARY), 1)]


def gemms(size):
    """Build a step of matrix products only, into preallocated arrays: x @ w, then g @ w^T and x^T @ g."""
    rng = np.random.default_rng(0)
    work = []
    for left, right, count in products(size):
        x, w = rng.random(left, np.float32), rng.random(right, np.float32)
        g, dx, dw = np.matmul(x, w), np.empty_like(x), np.empty_like(w)
        work += [(x, w, g), (g, w.swapaxes(-1, -2), dx), (x.swapaxes(-1, -2), g, dw)] * count

    def step(number):
        for a, b, out in work:
            np.matmul(a, b, out=out)
        return 0.0

    return step
