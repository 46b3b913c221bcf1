"""Exercises of lesson 06: modules, optimizers, training.

Write each function where it says so. `python -m tutorials check 06` tests this file and explains.
NumPy is all you need. No function may change its arguments.
"""

import numpy as np


def sgd_step(x, g, v, lr, momentum=0.0):
    """Do one step of SGD with momentum, in PyTorch's form.

    x: the parameter, a float array;  g: its gradient;  v: the velocity (initially zeros), all of one shape
    The new velocity is momentum * v + g, and the parameter moves by lr along it, downhill.
    ->  (new x, new v)
    """
    # solution
    v = momentum * v + g
    return x - lr * v, v
    # end


def adam_step(x, g, m, v, t, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
    """Do one step of AdamW (with weight_decay=0: Adam, algorithm 1 of Kingma & Ba 2015).

    x: the parameter;  g: its gradient;  all arrays have one shape
    m, v: the running means of g and of g * g (initially zeros)
    t: the number of this step, 1 for the first
    The means are corrected for their start at 0; eps is added outside the root. The decay multiplies the old
    x by 1 - lr * weight_decay and does not change m or v.
    ->  (new x, new m, new v); m and v without the correction, as the next step needs them.
    """
    # solution
    m = betas[0] * m + (1 - betas[0]) * g
    v = betas[1] * v + (1 - betas[1]) * g * g
    mean, square = m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)
    return x * (1 - lr * weight_decay) - lr * mean / (np.sqrt(square) + eps), m, v
    # end


def clip_grad_norm(grads, max_norm):
    """Scale all gradients, as one long vector, down to the length max_norm, if it is longer.

    grads: a list of float arrays of any shapes;  max_norm: a positive number
    ->  (list of the scaled arrays, the length before). A shorter vector, or one of zeros, is not changed.
    """
    # solution
    norm = np.sqrt(sum((g * g).sum() for g in grads))
    factor = max_norm / norm if norm > max_norm else 1.0
    return [g * factor for g in grads], norm
    # end


def warmup_cosine(step, warmup, total):
    """The factor of the learning rate at a step, counted from 0.

    First a straight line: (step + 1) / warmup, in the steps 0 .. warmup - 1: the last has the full rate.
    Then half a cosine from 1, at step = warmup, down to 0, at step = total; and 0 from there on.
    warmup may be 0; total is larger than warmup.
    """
    # solution
    if step < warmup:
        return (step + 1) / warmup
    done = min(1.0, (step - warmup) / (total - warmup))
    return 0.5 * (1 + np.cos(np.pi * done))
    # end


def minibatches(x, y, size, rng):
    """One epoch: all examples in random order, cut into batches.

    x: array (N, ...);  y: array (N,), y[i] belongs to x[i];  rng: a np.random.Generator
    ->  list of pairs (x of the batch, y of the batch). Every example is in exactly one batch. All batches
    have `size` examples, except the last, which has the rest. Draw the order with rng.permutation(N), once.
    """
    # solution
    order = rng.permutation(len(x))
    parts = [order[start : start + size] for start in range(0, len(x), size)]
    return [(x[part], y[part]) for part in parts]
    # end


def mlp(x, w1, b1, w2, b2):
    """An MLP with one hidden layer. (Given.) x (N, D), w1 (K, D), b1 (K,), w2 (C, K), b2 (C,) -> (N, C)."""
    return np.maximum(x @ w1.T + b1, 0) @ w2.T + b2


def mlp_backward(g, x, w1, b1, w2, b2):
    """The gradients of mlp.

    g: (N, C), the gradient of a loss with respect to mlp's output;  the rest: mlp's arguments
    ->  (dx, dw1, db1, dw2, db2), each in the shape of its argument. Where relu's input is 0, its slope is 0.
    """
    # solution
    a = x @ w1.T + b1
    g1 = (g @ w2) * (a > 0)
    return g1 @ w1, g1.T @ x, g1.sum(axis=0), g.T @ np.maximum(a, 0), g.sum(axis=0)
    # end


def dropout(x, p, rng, training=True):
    """Set random entries of x to 0 in training, and scale up the others.

    x: float array of any shape;  p: the probability to be dropped, 0 <= p < 1;  rng: a np.random.Generator
    In training, draw rng.random(x.shape) once. Where it is at least p, the entry is kept and divided by
    1 - p; elsewhere it becomes 0. In evaluation nothing is drawn and nothing changes.
    ->  (y, scale), both of x's shape, with y = x * scale: scale is 1 / (1 - p) or 0; in evaluation 1.
    """
    # solution
    scale = (rng.random(x.shape) >= p) / (1 - p) if training else np.ones(x.shape)
    return x * scale, scale
    # end


def dropout_backward(g, scale):
    """The gradient of x, where y, scale = dropout(x, ...).

    g: the gradient of y;  scale: what dropout returned  ->  array of their shape.
    """
    # solution
    return g * scale
    # end
