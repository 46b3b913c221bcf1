"""python -m benchmarks learn FILE: train nanoGPT's recipe for a CPU on your text, by minigrad and by PyTorch
eager.

The two train in turns, from the same weights on the same batches. The command prints the time of each and the
validation loss it reaches.

github.com/karpathy/nanoGPT (README): 4 layers, 4 heads, width 128, context 64, batch 12, 2,000 steps, dropout
0, no biases, learning rate 1e-3 with 100 steps of warmup and a cosine to 1e-4; it reports a loss of 1.88 on
tinyshakespeare.
"""

import argparse
import math
from contextlib import ExitStack
from functools import partial

import numpy as np

from benchmarks import machine
from benchmarks.case import Side
from benchmarks.gpt import BETAS, CLIP, DECAY, LR, SIZES, WARMUP
from benchmarks.measure import Worker
from minigrad import functional as F
from minigrad import manual_seed, no_grad, optim
from minigrad.data import Characters
from minigrad.data.reading import read
from minigrad.data.text import nine_tenths, windows
from minigrad.machine import keep_freed_memory
from minigrad.nn.utils import clip_grad_norm_
from models.gpt import GPT

# VALIDATE: step(VALIDATE) returns the validation loss
SIZE, TURN, VALIDATE = SIZES["reference"], 250, -1
WINDOWS = 400  # windows of the validation text on which the loss is measured


def main(words):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks learn",
        description="Train nanoGPT's recipe by minigrad and by PyTorch, in turns.",
    )
    parser.add_argument("text", help="a text file, such as tinyshakespeare.txt")
    parser.add_argument(
        "--goal",
        type=float,
        default=1.88,
        help="validation loss whose time is reported (default: 1.88)",
    )
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args(words)
    machine.unset_misleading()
    run(options)
    return 0


def run(options):
    """Train both sides in turns of TURN steps, every other one in reverse order.

    The validation loss is measured after each turn, and its time does not count.
    """
    sides = [
        Side("minigrad", partial(ours, options.text, options.steps)),
        Side("torch", partial(theirs, options.text, options.steps), "torch"),
    ]
    spent, reached = {side.name: 0.0 for side in sides}, {}
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(side, 1)) for side in sides]
        for worker in workers:
            worker.is_built()
        for begin in range(0, options.steps, TURN):
            end = min(begin + TURN, options.steps)
            for worker in workers[:: 1 if begin // TURN % 2 == 0 else -1]:
                name = worker.side.name
                spent[name] += worker.turn(begin, 0, end - begin)["seconds"]
                (loss,) = worker.turn(VALIDATE, 0, 1)["losses"]
                if loss <= options.goal:
                    reached.setdefault(name, spent[name])
                print(
                    f"step {end:5d}  {name:9s} {spent[name]:7.1f} s  validation loss {loss:.3f}", flush=True
                )
    print(f"Time of {options.steps} steps: minigrad / torch = {spent['minigrad'] / spent['torch']:.2f}")
    print(
        "; ".join(f"{name} reached {options.goal} after {seconds:.1f} s" for name, seconds in reached.items())
        or f"{options.goal} was not reached."
    )


class Data:
    """The windows on which both sides are trained and tested."""

    def __init__(self, path):
        text = read(path)
        self.vocabulary, end = Characters(text), nine_tenths(len(text))
        self.training, validation = map(self.vocabulary.encode, (text[:end], text[end:]))
        starts = np.linspace(0, len(validation) - SIZE["context"] - 1, WINDOWS).astype(int)
        self.held = [windows(validation, part, SIZE["context"]) for part in np.array_split(starts, 8)]

    def batch(self, number):
        rng = np.random.default_rng([1337, number])
        return windows(
            self.training,
            rng.integers(len(self.training) - SIZE["context"], size=SIZE["batch"]),
            SIZE["context"],
        )


def rate(step, steps):
    """nanoGPT's learning rate: a linear warmup, then a cosine to a tenth."""
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    return LR * (0.1 + 0.9 * (1 + math.cos(math.pi * (step - WARMUP) / max(1, steps - WARMUP))) / 2)


def our_model(vocabulary):
    manual_seed(1337)
    sizes = dict(
        d_model=SIZE["d_model"], num_heads=SIZE["heads"], num_layers=SIZE["layers"], max_len=SIZE["context"]
    )
    return GPT(len(vocabulary), dropout=0.0, bias=False, **sizes)


def ours(path, steps):
    keep_freed_memory()
    data = Data(path)
    model = our_model(data.vocabulary)
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1]},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = optim.AdamW(groups, betas=BETAS, weight_decay=DECAY)

    def loss(batch):
        tokens, following = batch
        return F.cross_entropy(model(tokens).reshape(following.size, -1), following.reshape(-1))

    def step(number):
        if number == VALIDATE:
            with no_grad():
                return float(np.mean([loss(part).item() for part in data.held]))
        for group in optimizer.param_groups:
            group["lr"] = rate(number, steps)
        found = loss(data.batch(number))
        optimizer.zero_grad()
        found.backward()
        clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        return found.item()

    return step


def theirs(path, steps):
    import torch

    from benchmarks import torch_gpt

    data = Data(path)
    model = torch_gpt.GPT(
        len(data.vocabulary), SIZE["layers"], SIZE["heads"], SIZE["d_model"], SIZE["context"], False
    )
    model.load_state_dict(
        {name: torch.from_numpy(p.data) for name, p in our_model(data.vocabulary).named_parameters()}
    )
    optimizer = torch.optim.AdamW(torch_gpt.groups(model, DECAY), betas=BETAS)

    def loss(batch):
        tokens, following = map(torch.from_numpy, batch)
        return torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())

    def step(number):
        if number == VALIDATE:
            with torch.no_grad():
                return sum(loss(part).item() for part in data.held) / len(data.held)
        for group in optimizer.param_groups:
            group["lr"] = rate(number, steps)
        found = loss(data.batch(number))
        optimizer.zero_grad()
        found.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return found.item()

    return step
