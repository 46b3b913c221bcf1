"""Draw two graphs that the engine records: an expression of single numbers, and the encoder-decoder of 2017.

python tutorials/graphs.py FOLDER        writes scalar_graph.png and encoder_decoder_graph.svg
"""

import sys
from pathlib import Path

import numpy as np

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.viz import graph
from models.transformer import Transformer


def expression():
    """The graph of L = (a b + c) b: b is used twice, so two gradients arrive at it and are added."""
    a, b, c = (mg.tensor(x, requires_grad=True) for x in (2.0, -3.0, 10.0))
    d = a * b
    e = d + c
    L = e * b
    return graph(L, names=dict(a=a, b=b, c=c, d=d, e=e, L=L))


def encoder_decoder(depth=1):
    """The graph of the paper's model, smaller: six layers each, d_model 64, 4 heads, 7 and 5 tokens."""
    model = Transformer(vocab_size=100, d_model=64, num_heads=4, num_layers=6, d_ff=256)
    source, target = np.arange(1, 8)[None], np.arange(1, 7)[None]
    logits = model(source, target[:, :-1])
    return graph(
        F.cross_entropy(logits[0], target[0, 1:]),
        model,
        depth,
        names=dict(source=source, target=target[:, :-1], answer=target[0, 1:]),
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    print(
        expression().save(folder / "scalar_graph.png"),
        encoder_decoder().save(folder / "encoder_decoder_graph.svg"),
    )
