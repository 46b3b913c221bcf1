"""The job `mlp`: a training step of 784-256-10, the size of a first network for digits, with Adam and with
SGD.

Inputs are random. The label is the one of ten random directions with the largest product with the input, so
it can be learned.
"""

from functools import partial

import numpy as np

from benchmarks import functional_gpt as functional
from benchmarks.case import Case, Side
from minigrad import functional as F
from minigrad import manual_seed, optim
from minigrad.machine import keep_freed_memory
from models.mlp import MLP

SIZES, BATCH, BATCHES = (784, 256, 10), 64, 64
LR = {"Adam": 1e-3, "SGD": 0.1}


def cases(job="mlp", tiny=False):
    sizes = (8, 6, 10) if tiny else SIZES
    return [
        Case(f"{job}, {how}", (
            Side("minigrad", partial(ours, sizes, how)),
            Side("torch", partial(torch_step, sizes, how), "torch"),
            Side("torch fused", partial(torch_step, sizes, how, fused=True), "torch"),
            Side("torch tuned", partial(torch_step, sizes, how, fused=True, tuned=True), "torch"),
            Side("JAX", partial(jax_step, sizes, how), "jax", pinned=True),
            Side("HIPS autograd", partial(hips_step, sizes, how), "autograd"),
            Side("MyGrad", partial(mygrad_step, sizes, how), "mygrad"),
            Side("tinygrad", partial(tinygrad_step, sizes, how), "tinygrad", may_fail=True, pinned=True),
        ), steps=100)
        for how in LR
    ]  # fmt: skip


def our_model(sizes):
    manual_seed(0)
    return MLP(*sizes)


def our_weights(sizes):
    """Initialize our model and return {name: array}: weights (out, in) and biases of layers 0 and 2."""
    return {name: p.data for name, p in our_model(sizes).named_parameters()}


def all_batches(sizes):
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((sizes[0], sizes[-1]), np.float32)
    inputs = [rng.standard_normal((BATCH, sizes[0]), np.float32) for _ in range(BATCHES)]
    return [(x, (x @ directions).argmax(1)) for x in inputs]


def ours(sizes, how):
    keep_freed_memory()
    model, batches = our_model(sizes), all_batches(sizes)
    optimizer = getattr(optim, how)(model.parameters(), lr=LR[how])
    return module_step(model, optimizer, F.cross_entropy, batches)


def torch_step(sizes, how, fused=None, tuned=False):
    import torch

    if tuned:
        keep_freed_memory()
    before, hidden, after = sizes
    model = torch.nn.Sequential(
        torch.nn.Linear(before, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, after)
    )
    model.load_state_dict({name: torch.from_numpy(array) for name, array in our_weights(sizes).items()})
    optimizer = getattr(torch.optim, how)(model.parameters(), lr=LR[how], fused=fused)
    batches = [(torch.from_numpy(x), torch.from_numpy(y)) for x, y in all_batches(sizes)]
    return module_step(model, optimizer, torch.nn.functional.cross_entropy, batches)


def module_step(model, optimizer, cross_entropy, batches):
    """Build the step of minigrad or PyTorch."""

    def step(number):
        x, y = batches[number % BATCHES]
        loss = cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


# ---------------------------------------------------------------- libraries without optimizers


def loss_of(np, p, x, y):
    hidden = np.maximum(x @ p["0.weight"].T + p["0.bias"], 0.0)
    return functional.cross_entropy(np, hidden @ p["2.weight"].T + p["2.bias"], y)


def first_state(p):
    """Return the initial state (parameters, running means, running squares)."""
    return p, {name: 0 * x for name, x in p.items()}, {name: 0 * x for name, x in p.items()}


def update(np, how, state, gradients, t):
    """Compute the state after step t of Adam or SGD."""
    p, m, v = state
    if how == "SGD":
        return {name: x - LR[how] * gradients[name] for name, x in p.items()}, m, v
    return functional.adamw(np, p, gradients, m, v, t, LR[how], (0.9, 0.999))


def jax_step(sizes, how):
    import jax
    import jax.numpy as jnp

    state = [first_state({name: jnp.asarray(array) for name, array in our_weights(sizes).items()})]
    batches = [(jnp.asarray(x), jnp.asarray(y)) for x, y in all_batches(sizes)]

    @partial(jax.jit, donate_argnums=0)
    def train(state, x, y, t):
        loss, gradients = jax.value_and_grad(lambda p: loss_of(jnp, p, x, y))(state[0])
        return loss, update(jnp, how, state, gradients, t)

    def step(number):
        loss, state[0] = train(state[0], *batches[number % BATCHES], number + 1.0)
        return float(loss)

    return step


def hips_step(sizes, how):
    import autograd.numpy as anp
    from autograd import value_and_grad

    state, batches = [first_state(our_weights(sizes))], all_batches(sizes)
    loss_and_gradients = value_and_grad(lambda p, x, y: loss_of(anp, p, x, y))

    def step(number):
        loss, gradients = loss_and_gradients(state[0][0], *batches[number % BATCHES])
        state[0] = update(np, how, state[0], gradients, number + 1)
        return float(loss)

    return step


def mygrad_step(sizes, how):
    import mygrad
    from mygrad.nnet import relu, softmax_crossentropy

    state, batches = [first_state(our_weights(sizes))], all_batches(sizes)

    def step(number):
        x, y = batches[number % BATCHES]
        p = {name: mygrad.tensor(array, copy=False) for name, array in state[0][0].items()}
        hidden = relu(x @ p["0.weight"].T + p["0.bias"])
        loss = softmax_crossentropy(hidden @ p["2.weight"].T + p["2.bias"], y)
        loss.backward()
        state[0] = update(np, how, state[0], {name: tensor.grad for name, tensor in p.items()}, number + 1)
        return float(loss)

    return step


def tinygrad_step(sizes, how):
    """Build the step of tinygrad under its TinyJit. On a CPU it needs a C compiler (clang)."""
    from tinygrad import Tensor, TinyJit, nn
    from tinygrad.helpers import Context

    p = {name: Tensor(array.copy()) for name, array in our_weights(sizes).items()}
    batches = [(Tensor(x).realize(), Tensor(y).realize()) for x, y in all_batches(sizes)]
    optimizer = getattr(nn.optim, how)(list(p.values()), lr=LR[how])

    @TinyJit
    def train(x, y):
        hidden = x.linear(p["0.weight"].T, p["0.bias"]).relu()
        loss = hidden.linear(p["2.weight"].T, p["2.bias"]).sparse_categorical_crossentropy(y)
        optimizer.zero_grad()
        loss.backward()
        return loss.realize(*optimizer.schedule_step())  # together: the loss is the one before the update

    def step(number):
        with Context(TRAINING=1):
            return train(*batches[number % BATCHES]).item()

    return step
