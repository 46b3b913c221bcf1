"""Typical mistakes in a hand-written backward, in plain NumPy, each with the diagnosis it must get.

`python -m minigrad.gradcheck --mistakes` prints them. Each is a forward, a backward with one mistake, and
inputs. A gradient check cannot find a mistake in the forward; comparing its value with a reference can.
"""

from dataclasses import dataclass

import numpy as np

from minigrad import functional as F
from minigrad.engine.recording import as_tensor
from minigrad.gradcheck.by_hand import check_pair, gradcheck_pair
from minigrad.gradcheck.oracle import compare_values
from minigrad.gradcheck.results import GradcheckError

MISTAKES = []


@dataclass(frozen=True)
class Mistake:
    """A pair with one mistake; the words `names` must appear in its diagnosis."""

    name: str
    forward: object
    backward: object
    inputs: tuple
    names: tuple
    reference: object = None  # given if the mistake is in the forward

    def verdict(self):
        """Return the message of gradcheck, and that of the comparison with the reference, or ""."""
        gradient = _message(lambda: _check(self))
        if not self.reference:
            return gradient, ""
        return gradient, _message(lambda: compare_values(self.forward, self.reference, self.inputs))


def _check(mistake):
    gradcheck_pair(mistake.forward, mistake.backward, mistake.inputs)
    report = check_pair(mistake.forward, mistake.backward, mistake.inputs)
    notes = "; ".join(f"{r.name}: {r.note}" for r in report if r.note)
    return "The gradient is right" + (f" ({notes})." if notes else ": it is the gradient of this forward.")


def _message(check):
    try:
        return check()
    except GradcheckError as error:
        return str(error)


def main():
    """Print each mistake and its diagnosis. Returns 1 if a diagnosis lacks one of the expected words."""
    for number, mistake in enumerate(MISTAKES, 1):
        gradient, value = mistake.verdict()
        print(f"{number}. {mistake.name}")
        print(_indent(f"gradcheck: {gradient}"))
        if value:
            print(_indent(f"comparison with a reference: {value}"))
        print()
    named = sum(all(word in " ".join(m.verdict()) for word in m.names) for m in MISTAKES)
    print(f"{len(MISTAKES)} mistakes, {named} of them named by the diagnosis.")
    return 0 if named == len(MISTAKES) else 1


def _indent(text):
    return "\n".join(f"   {line}" for line in text.split("\n"))


def mistake(name, forward, backward, *inputs, names, reference=None):
    MISTAKES.append(Mistake(name, forward, backward, inputs, names, reference))


def numbers(*shape):
    return np.random.default_rng(shape).standard_normal(shape)


# ---------------------------------------------------------------- products


def matmul(x, w):
    return x @ w  # (N, D) @ (D, M)


mistake("matmul without the transpose (a square W hides it from the shapes)", matmul,
        lambda g, x, w: (g @ w, x.T @ g),
        numbers(5, 3), numbers(3, 3), names=("transpose", "g @ W.T"))  # fmt: skip

mistake("matmul without the transpose, W not square", matmul,
        lambda g, x, w: (g @ w, x.T @ g),
        numbers(5, 3), numbers(3, 4), names=("transpose is missing",))  # fmt: skip

mistake("bias without the sum over the batch", lambda x, b: x + b,
        lambda g, x, b: (g, g),
        numbers(5, 3), numbers(3), names=("broadcasting stretched it", ".sum"))  # fmt: skip

mistake("bias of the last example only", lambda x, b: x + b,
        lambda g, x, b: (g, g[-1]),
        numbers(5, 3), numbers(3), names=("last of the 5 positions", "Sum over that axis"))  # fmt: skip

mistake("residual that forgets the skip", lambda x: x + np.tanh(x),
        lambda g, x: g * (1 - np.tanh(x) ** 2),
        numbers(4, 3), names=("residual", "dx = g + "))  # fmt: skip

# ---------------------------------------------------------------- elementwise

mistake("tanh's derivative as a function of x instead of y", np.tanh,
        lambda g, x: g * (1 - x**2),
        numbers(4, 3), names=("reads the input where it should read the output", "1 - y²"))  # fmt: skip

mistake("relu's mask from y >= 0, which is always true", lambda x: np.maximum(x, 0),
        lambda g, x: g * (np.maximum(x, 0) >= 0),
        numbers(4, 3), names=("passed on unchanged", "relu"))  # fmt: skip

mistake("relu with >= at exactly 0: a choice, not an error, but not the usual one",
        lambda x: np.maximum(x, 0),
        lambda g, x: g * (x >= 0),
        np.array([1.5, 0.0, -0.5, 2.0]), names=("1 kinks skipped", "take 0 at 0"))  # fmt: skip


def dropout(x, kept, p):
    return x * kept / (1 - p)


mistake("dropout without the scale in backward", dropout,
        lambda g, x, kept, p: g * kept,
        numbers(4, 5), numbers(4, 5) > -0.5, 0.3, names=("1/(1-p)", "dropout"))  # fmt: skip

# ---------------------------------------------------------------- softmax and its loss


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


mistake("softmax backward without the cross terms", softmax,
        lambda g, x: g * softmax(x) * (1 - softmax(x)),
        numbers(3, 5), names=("treated as elementwise", "cross terms"))  # fmt: skip

mistake("softmax backward without the sum", softmax,
        lambda g, x: g * softmax(x),
        numbers(3, 5), names=("second term", "Softmax"))  # fmt: skip


def cross_entropy(x, target):
    return -np.log(softmax(x)[np.arange(len(x)), target]).mean()


def cross_entropy_sum_gradient(g, x, target):
    d = softmax(x)
    d[np.arange(len(x)), target] -= 1
    return g * d


mistake("cross-entropy without 1/N", cross_entropy,
        cross_entropy_sum_gradient,
        numbers(7, 5), np.array([1, 0, 4, 2, 2, 3, 1]), names=("7 times", "mean", "Divide by 7"))  # fmt: skip

mistake("cross-entropy without the -1 at the target", cross_entropy,
        lambda g, x, target: g * softmax(x) / len(x),
        numbers(7, 5), np.array([1, 0, 4, 2, 2, 3, 1]), names=("target", "onehot"))  # fmt: skip

# ---------------------------------------------------------------- embedding


def assign_gradient(g, w, index):
    dw = np.zeros_like(w)
    dw[index] = g
    return dw


mistake("embedding: gradients assigned instead of added", lambda w, index: w[index],
        assign_gradient,
        numbers(6, 3), np.array([2, 0, 2, 5]), names=("names several times", "np.add.at"))  # fmt: skip

# ---------------------------------------------------------------- layer norm


def layer_norm(x, weight, ddof=0):
    centred = x - x.mean(-1, keepdims=True)
    return weight * centred / np.sqrt(x.var(-1, keepdims=True, ddof=ddof) + 1e-5)


def layer_norm_gradient(g, x, weight, ddof=0):
    n = x.shape[-1]
    sigma = np.sqrt(x.var(-1, keepdims=True, ddof=ddof) + 1e-5)
    xhat, h = (x - x.mean(-1, keepdims=True)) / sigma, g * weight
    dx = (h - h.mean(-1, keepdims=True) - xhat * (h * xhat).sum(-1, keepdims=True) / (n - ddof)) / sigma
    return dx, (g * xhat).sum(0)


def as_if_constant(g, x, weight):
    sigma = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return g * weight / sigma, (g * (x - x.mean(-1, keepdims=True)) / sigma).sum(0)


mistake("layer norm without the mean terms", layer_norm,
        as_if_constant,
        numbers(3, 6), numbers(6),
        names=("mean and the variance", "mean(h) and xhat * mean(h * xhat) was left out"))  # fmt: skip

mistake("layer norm with ddof=1, forward and backward alike", lambda x, weight: layer_norm(x, weight, 1),
        lambda g, x, weight: layer_norm_gradient(g, x, weight, 1),
        numbers(3, 6), numbers(6), names=("gradient is right", "ddof=1"),
        reference=lambda x, weight: F.layer_norm(as_tensor(x), 6, as_tensor(weight)))  # fmt: skip

# ---------------------------------------------------------------- attention


def attention(q, k, v, mask):
    scores = np.where(mask, q @ k.mT / np.sqrt(q.shape[-1]), -np.inf)
    return softmax(scores) @ v


def attention_gradient(g, q, k, v, mask, scaled=True, crossed=True):
    scale = 1 / np.sqrt(q.shape[-1])
    p = softmax(np.where(mask, q @ k.mT * scale, -np.inf))
    dp = g @ v.mT
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) if crossed else p * dp
    ds = ds * scale if scaled else ds
    return ds @ k, ds.mT @ q, p.mT @ g


QKV = (numbers(4, 3), numbers(5, 3), numbers(5, 2))
SEEN = np.tri(4, 5, 1, dtype=bool)

mistake("attention without the scale in backward", attention,
        lambda *given: attention_gradient(*given, scaled=False),
        *QKV, SEEN, names=("1/sqrt(3)", "attention"))  # fmt: skip

mistake("attention whose softmax is treated as elementwise", attention,
        lambda *given: attention_gradient(*given, crossed=False),
        *QKV, SEEN, names=("attention weights", "ds = p * (dp - "))  # fmt: skip


def attention_masked_late(q, k, v, mask):
    return (softmax(q @ k.mT / np.sqrt(q.shape[-1])) * mask) @ v


def attention_masked_late_gradient(g, q, k, v, mask):
    scale = 1 / np.sqrt(q.shape[-1])
    p = softmax(q @ k.mT * scale)
    dp = (g @ v.mT) * mask
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    return ds @ k, ds.mT @ q, (p * mask).mT @ g


mistake("the mask applied after the softmax, forward and backward alike", attention_masked_late,
        attention_masked_late_gradient,
        *QKV, SEEN, names=("gradient is right", "mask belongs before the softmax"),
        reference=lambda q, k, v, mask: F.scaled_dot_product_attention(*map(as_tensor, (q, k, v)), mask))  # fmt: skip

mistake("the mask forgotten in backward", lambda x, mask: np.where(mask, x * x, 0.0),
        lambda g, x, mask: g * 2 * x,
        numbers(4, 5), np.tri(4, 5, dtype=bool), names=("where the mask is False",))  # fmt: skip
