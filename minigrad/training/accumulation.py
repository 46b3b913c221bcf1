"""Gradient accumulation: process a batch in parts, so that only one part's activations are in memory.

PyTorch users write it as a loop: loss.backward() for each of N batches, then one optimizer.step(). The usual
mistake is the weight of each part: the loss is a mean over everything that the *whole* batch predicts. A part
that predicts less (a smaller last one, one with much padding) must weigh less. 1/N for each is right only if
all parts have the same size.
"""

from minigrad.engine.tensor import Tensor


def cut(recipe, batch, parts):
    """Split a batch into [(part, weight)], weighted by `recipe.count`; parts that count 0 are dropped."""
    if parts == 1:
        return [(batch, 1.0)]
    pieces = [(part, recipe.count(part)) for part in recipe.shares(batch, parts)]
    whole = sum(count for _, count in pieces)
    return [(part, count / whole) for part, count in pieces if count] or [(batch, 1.0)]


def backward_in_parts(recipe, model, parts, backward):
    """Put the whole batch's gradients into `.grad`, replacing the old ones; returns its loss as a number.

    parts      from `cut`        backward   (recipe, model, part) -> the part's loss as a number; sets `.grad`
    """
    loss, sums = 0.0, {}
    for part, weight in parts:
        model.zero_grad()
        loss += weight * backward(recipe, model, part)
        for p in model.parameters():
            if p.grad is not None:
                g = p.grad.data * weight
                sums[p] = sums[p] + g if p in sums else g
    for p, g in sums.items():
        p.grad = Tensor(g)
    return loss
