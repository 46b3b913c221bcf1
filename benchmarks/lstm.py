"""The job `lstm`: a training step of a character model with one LSTM, 128 wide, over 16 rows of 64
characters.

Our LSTM and PyTorch's have the same names of weights.
"""

from functools import partial

from benchmarks.case import Case, Side
from benchmarks.gpt import BATCHES, VOCABULARY, all_batches
from minigrad import functional as F
from minigrad import manual_seed, nn, optim
from minigrad.machine import keep_freed_memory
from minigrad.nn.utils import clip_grad_norm_

SIZE, TRIAL = dict(width=128, context=64, batch=16), dict(width=8, context=6, batch=2)
LR, CLIP = 1e-3, 1.0


def cases(job="lstm", tiny=False):
    size = TRIAL if tiny else SIZE
    return [
        Case(job, (
            Side("minigrad", partial(ours, size)),
            Side("torch", partial(torch_step, size), "torch"),
            Side("torch fused", partial(torch_step, size, fused=True), "torch"),
            Side("torch tuned", partial(torch_step, size, fused=True, tuned=True), "torch"),
        ))
    ]  # fmt: skip


def parts(nn, width):
    """Build embedding, LSTM and output of either library, whose classes have the same names."""
    return nn.ModuleList(
        [
            nn.Embedding(VOCABULARY, width),
            nn.LSTM(width, width, batch_first=True),
            nn.Linear(width, VOCABULARY),
        ]
    )


def our_parts(size):
    manual_seed(0)
    return parts(nn, size["width"])


def ours(size):
    keep_freed_memory()
    model = our_parts(size)
    optimizer = optim.AdamW(model.parameters(), lr=LR)
    return step_of(model, optimizer, F.cross_entropy, clip_grad_norm_, all_batches(size))


def torch_step(size, fused=None, tuned=False):
    import torch

    if tuned:
        keep_freed_memory()
    model = parts(torch.nn, size["width"])
    model.load_state_dict({name: torch.from_numpy(p.data) for name, p in our_parts(size).named_parameters()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, fused=fused)
    batches = [
        (torch.from_numpy(tokens), torch.from_numpy(following)) for tokens, following in all_batches(size)
    ]
    return step_of(
        model, optimizer, torch.nn.functional.cross_entropy, torch.nn.utils.clip_grad_norm_, batches
    )


def step_of(model, optimizer, cross_entropy, clip, batches):
    """Build the step of either library."""
    embedding, lstm, output = model
    parameters = list(model.parameters())

    def step(number):
        tokens, following = batches[number % BATCHES]
        states, _ = lstm(embedding(tokens))
        loss = cross_entropy(output(states).reshape(-1, VOCABULARY), following.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        clip(parameters, CLIP)
        optimizer.step()
        return loss.item()

    return step
