"""The job `decoding`: greedy decoding of 64 tokens with the reference model and a cache of keys and values.

The cache of the PyTorch side, in torch_gpt.py, is preallocated as ours is.
"""

from functools import partial

import numpy as np

from benchmarks import gpt
from benchmarks.case import Case, Side
from minigrad.machine import keep_freed_memory
from models import decoding

PROMPTS = 16  # number of different first tokens


def cases(job="decoding", tiny=False):
    size = gpt.TRIAL if tiny else gpt.SIZES["reference"]
    return [
        Case(job, (
            Side("minigrad", partial(ours, size)),
            Side("minigrad, no cache", partial(ours, size, cache=False)),
            Side("torch", partial(torch_step, size), "torch"),
        ), unit="token", units=size["context"], steps=3, warm=1, checked=4)
    ]  # fmt: skip


def figure(tokens):
    """A number that distinguishes one list of tokens from another."""
    return float(np.dot(tokens, np.arange(1, len(tokens) + 1))) / len(tokens)


def ours(size, cache=True):
    keep_freed_memory()
    model = gpt.our_model(size).eval()

    def step(number):
        (tokens,) = decoding.generate(
            model, [[number % PROMPTS]], max_new=size["context"], cache=cache, temperature=0
        )
        return figure(tokens)

    return step


def torch_step(size):
    import torch

    from benchmarks import torch_gpt

    model = torch_gpt.GPT(
        gpt.VOCABULARY, size["layers"], size["heads"], size["d_model"], size["context"]
    ).eval()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in gpt.our_weights(size).items()})

    @torch.inference_mode()
    def step(number):
        cache = [
            torch_gpt.KVCache(size["heads"], size["context"], size["d_model"] // size["heads"])
            for _ in model.h
        ]
        token, tokens = torch.tensor([[number % PROMPTS]]), []
        for past in range(size["context"]):
            token = model(token, past, cache)[:, -1].argmax(-1, keepdim=True)
            tokens.append(token.item())
        return figure(tokens)

    return step
