"""What a model's attention looked at: runs the model once and hands over the weights of every attention layer, with labels.

Knows layers that can keep their weights (`keep_weights`, as MultiHeadAttention and AdditiveAttention have it), so a model of
your own works as well; not what the tokens mean, nor how the weights are drawn (minigrad.viz.attention does that).
"""

from collections import namedtuple
from contextlib import contextmanager

import numpy as np

from minigrad import no_grad

Attended = namedtuple("Attended", "path kind weights queries keys writes")
Attended.__doc__ = """One attention layer's weights of one text.

path      where the layer stands in the model, such as decoder.1.cross_attention
kind      "encoder" (tokens look at all tokens of the same text), "decoder" (at those so far), "cross" (at another text)
weights   an array (H, Tq, Tk), each row summing to 1
queries   a label for each of the Tq tokens that look;   keys   for each of the Tk that are looked at
writes    what the model writes at each query, "" where nothing; None for tokens that write nothing at all
"""


@no_grad()
def attended(model, *inputs, names=None, writes=None):
    """[Attended] of each attention layer while model(*inputs) runs, in the order of its modules; of a batch the first row.

    names    a list of labels for each input, such as the characters; its numbers, if not given
    writes   what is written at each place of the last input
    A layer that is called several times shows its last call. Without attention the list is empty.
    """
    names = [_numbers(tokens) for tokens in inputs] if names is None else names
    layers = {path: module for path, module in model.named_modules() if hasattr(module, "keep_weights")}
    with model.evaluating(), keeping(layers.values()):
        model(*inputs)
        found = [
            (path, layer, layer.weights[0]) for path, layer in layers.items() if layer.weights is not None
        ]
    return [_labelled(path, layer, weights, names, writes) for path, layer, weights in found]


def recorded(recipe, model, text):
    """(name, rows) of what a recipe's model looks at while it answers a text: the name says what was read and what was written."""
    inputs, labels = recipe.reading(model, text)
    written = "".join(labels["writes"]).removesuffix("end").replace("␣", " ").strip()
    return f"{text} → {written}", attended(model, *inputs, **labels)


@contextmanager
def keeping(layers):
    """Let these layers keep their weights for a while."""
    layers = list(layers)
    for layer in layers:
        layer.keep_weights, layer.weights = True, None
    try:
        yield
    finally:
        for layer in layers:
            layer.keep_weights, layer.weights = False, None


def _labelled(path, layer, weights, names, writes):
    queries, keys = weights.shape[-2:]
    kind = kind_of(path, layer, weights)
    looking, seen = {"encoder": (0, 0), "decoder": (-1, -1), "cross": (-1, 0)}[kind]
    last = writes is not None and looking in (-1, len(names) - 1) and len(writes) == queries
    return Attended(
        path,
        kind,
        weights,
        _fitting(names[looking], queries),
        _fitting(names[seen], keys),
        list(writes) if last else None,
    )


def kind_of(path, layer, weights):
    """encoder, decoder or cross: by what the layer was given, and by whether anything later was seen."""
    queries, keys = weights.shape[-2:]
    if getattr(layer, "across", queries != keys):
        return "cross"
    return "encoder" if "encoder" in path or np.triu(weights, 1).any() else "decoder"


def _fitting(labels, length):
    """The labels, or, where the model has made more or fewer places of them, the numbers of the places."""
    return list(map(str, labels)) if len(labels) == length else [str(place + 1) for place in range(length)]


def _numbers(tokens):
    return list(np.asarray(getattr(tokens, "data", tokens))[0])
