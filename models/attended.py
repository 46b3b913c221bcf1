"""The weights of every attention layer of a model, recorded in one run and labelled.

Works with any layer that has `keep_weights`, as MultiHeadAttention and AdditiveAttention do, so also with a
model of your own. minigrad.viz.attention draws the weights.
"""

from collections import namedtuple
from contextlib import contextmanager

import numpy as np

from minigrad import no_grad

Attended = namedtuple("Attended", "path kind weights queries keys writes")
Attended.__doc__ = """The weights of one attention layer on one text.

path      the layer's name in the model, such as decoder.1.cross_attention
kind      "encoder" (tokens attend to all tokens of the same text), "decoder" (to those so far) or
          "cross" (to another text)
weights   an array (H, Tq, Tk), each row summing to 1
queries   a label for each of the Tq queries;   keys   for each of the Tk keys
writes    the model's output at each query, "" for none; None if the queries are not at the output
"""


@no_grad()
def attended(model, *inputs, names=None, writes=None):
    """Run model(*inputs) and return [Attended] of its attention layers, in module order, for the first row.

    names    a list of labels for each input, such as the characters; by default the token ids
    writes   the model's output at each position of the last input
    A layer that is called several times shows its last call. Without attention the list is empty.
    """
    names = [_ids(tokens) for tokens in inputs] if names is None else names
    layers = {path: module for path, module in model.named_modules() if hasattr(module, "keep_weights")}
    with model.evaluating(), keeping(layers.values()):
        model(*inputs)
        found = [
            (path, layer, layer.weights[0]) for path, layer in layers.items() if layer.weights is not None
        ]
    return [_label(path, layer, weights, names, writes) for path, layer, weights in found]


def recorded(recipe, model, text):
    """(name, [Attended]) of a recipe's model while it answers a text; the name is "text → answer"."""
    inputs, labels = recipe.reading(model, text)
    written = "".join(labels["writes"]).removesuffix("end").replace("␣", " ").strip()
    return f"{text} → {written}", attended(model, *inputs, **labels)


@contextmanager
def keeping(layers):
    """Set keep_weights of these layers inside a with block."""
    layers = list(layers)
    for layer in layers:
        layer.keep_weights, layer.weights = True, None
    try:
        yield
    finally:
        for layer in layers:
            layer.keep_weights, layer.weights = False, None


def _label(path, layer, weights, names, writes):
    queries, keys = weights.shape[-2:]
    kind = kind_of(path, layer, weights)
    asking, seen = {"encoder": (0, 0), "decoder": (-1, -1), "cross": (-1, 0)}[kind]
    last = writes is not None and asking in (-1, len(names) - 1) and len(writes) == queries
    return Attended(
        path,
        kind,
        weights,
        _fit_labels(names[asking], queries),
        _fit_labels(names[seen], keys),
        list(writes) if last else None,
    )


def kind_of(path, layer, weights):
    """encoder, decoder or cross, from the layer's inputs and from whether a query saw a later key."""
    queries, keys = weights.shape[-2:]
    if getattr(layer, "across", queries != keys):
        return "cross"
    return "encoder" if "encoder" in path or np.triu(weights, 1).any() else "decoder"


def _fit_labels(labels, length):
    """The labels, or 1 to length if the model changed the number of positions."""
    return list(map(str, labels)) if len(labels) == length else [str(i + 1) for i in range(length)]


def _ids(tokens):
    return list(np.asarray(getattr(tokens, "data", tokens))[0])
