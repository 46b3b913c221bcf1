"""Samples with square inputs, for the mutation run: a gradient transposed by mistake goes unnoticed unless it is square.

Knows minigrad's functions; nothing of what is done to their rules. Symmetric a gradient must not be either, or nothing shows.
"""

import functools

import numpy as np

import minigrad as mg
from minigrad import functional as F
from minigrad.engine import array_functions
from minigrad.engine.graph import name_of
from minigrad.engine.recording import apply
from minigrad.gradcheck.samples import Sample
from minigrad.gradcheck.samples.ops import draw, sine_and_cosine

SQUARE = []


def square(name, fun, *kinds):
    specs = [(kind, (3, 3)) if kind else (3, 3) for kind in kinds]
    SQUARE.append(
        Sample("square", f"{name} {len(SQUARE)}", lambda rng: (fun, [draw(rng, spec) for spec in specs]))
    )


# fmt: off
for _fun in (
    np.exp, np.exp2, np.expm1, np.tanh, np.sin, np.cos, np.arctan, np.sinh, np.cosh, np.arcsinh, np.square, np.negative,
    array_functions.sigmoid, array_functions.erf, array_functions.erfc, array_functions.softplus,
):
    square(name_of(_fun), functools.partial(apply, _fun), None)
for _fun in (np.log, np.log2, np.log10, np.log1p, np.sqrt):
    square(name_of(_fun), functools.partial(apply, _fun), "positive")
for _fun in (np.tan, np.arcsin, np.arccos, np.arctanh):
    square(name_of(_fun), functools.partial(apply, _fun), "inside")
for _fun in (np.absolute, array_functions.relu):
    square(name_of(_fun), functools.partial(apply, _fun), "apart")
square("arccosh", lambda x: mg.arccosh(1 + x), "positive")
for _fun in (
    np.add,
    np.subtract,
    np.multiply,
    np.true_divide,
    np.power,
    array_functions.quotient,
    np.maximum,
    np.minimum,
    np.matmul,
    np.arctan2,
    np.hypot,
    np.logaddexp,
):
    square(name_of(_fun), functools.partial(apply, _fun), "positive", "positive")
for _fun in (mg.fmod, mg.remainder):
    square(_fun.__name__, _fun, "apart", "positive")
for _fun in (lambda x: mg.norm(x, 2, 1), lambda x: mg.prod(x, 0), lambda x: mg.cumsum(x, 0)):
    square("norm, prod, cumsum", _fun, None)
for _fun in (lambda x: mg.amax(x, 1), lambda x: mg.amin(x, 0)):
    square("amax, amin", _fun, "apart")
for _fun in (mg.det, mg.inv, lambda x: mg.slogdet(x).logabsdet, lambda x: mg.cholesky(x + x.mT + 9 * np.eye(3))):
    square("det, inv, slogdet, cholesky", _fun, "positive")
square("split", lambda x: mg.split(x, [3, 0])[0], None)
square("solve", mg.solve, "positive", None)
square("cast", lambda x: x.clone(), None)
square("where", lambda x, y: mg.where(np.tri(3) > 0, x, y), None, None)
square("triangles", lambda x: mg.tril(x) + 2 * mg.triu(x, 1), None)
square("shapes", lambda x: x.T + x.swapaxes(0, 1) * 2 + x.reshape(9).reshape(3, 3) + x.unsqueeze(0).squeeze(0), None)
square("places", lambda x: x[:, ::-1] + apply(array_functions.scatter_add, x, np.array([0, 0, 1]), (3, 3)), None)
square("joined", lambda x, y: mg.concatenate([x, y]), None, None)
square("broadcast_to", lambda x: x.broadcast_to(2, 3, 3), None)
square("take_item", lambda x: apply(sine_and_cosine, x)[0], None)
square("linear", F.linear, None, None)
square("softmax", lambda x: F.softmax(x) + F.log_softmax(x), None)
square("cross_entropy", lambda x: F.cross_entropy(x, np.array([0, 2, 1])), None)
square("layer_norm, gelu", lambda x, w: F.layer_norm(F.gelu(x), (3, 3), w, w), None, None)
square("silu", F.silu, None)
square("embedding", lambda w: F.embedding(np.array([2, 0, 0]), w), None)
square("attention", F.scaled_dot_product_attention, None, None, None)
square("attention, learned bias", F.scaled_dot_product_attention, None, None, None, None)
square("rotate", lambda x, cos, sin: F.rotate(x[:2, :2], cos[:2, :1], sin[:2, :1]), None, None, None)
square("rotate, angles", lambda a, b, cos, sin: F.rotate(mg.concatenate([a, b], -1), cos, sin), None, None, None, None)
# fmt: on
