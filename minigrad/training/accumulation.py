"""A batch in parts, one after another, so that the activations of only one lie in memory: their gradients add up to those of the
whole. Knows recipes; nothing of optimizers.

PyTorch users write it as a loop: loss.backward() for each of N batches, then one optimizer.step(). What is easily got wrong is
the weight of each: the loss is a mean over what the *whole* has to predict, so a part that holds less of it (the last, a smaller
one, or one with much padding) counts less. 1/N for each is right only where all are of one size.
"""

from minigrad.engine.tensor import Tensor


def cut(recipe, batch, parts):
    """[(part, its share of the whole)]: of what the loss is the mean of, not of the examples. Parts without any are left out."""
    if parts == 1:
        return [(batch, 1.0)]
    pieces = [(part, recipe.count(part)) for part in recipe.shares(batch, parts)]
    whole = sum(count for _, count in pieces)
    return [(part, count / whole) for part, count in pieces if count] or [(batch, 1.0)]


def backward_in_parts(recipe, model, parts, backward):
    """The loss of the whole batch, as a number; its gradients are left in the parameters' `.grad`, in place of what was there.

    parts      of `cut`        backward   (recipe, model, part) -> the part's loss, as a number; leaves gradients in `.grad`
    """
    loss, sums = 0.0, {}
    for part, share in parts:
        model.zero_grad()
        loss += share * backward(recipe, model, part)
        for p in model.parameters():
            if p.grad is not None:
                g = p.grad.data * share
                sums[p] = sums[p] + g if p in sums else g
    for p, g in sums.items():
        p.grad = Tensor(g)
    return loss
