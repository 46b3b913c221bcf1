"""What to check of the layers: each with all its parameters."""

import numpy as np

from minigrad import nn
from minigrad.gradcheck import Sample, leaf

SAMPLES = []


def layer(name, make, *shapes):
    SAMPLES.append(Sample("layer", name, lambda rng: (make().double(), [leaf(rng.standard_normal(s)) for s in shapes])))


layer("Linear", lambda: nn.Linear(3, 4), (2, 3))
layer("LayerNorm", lambda: nn.LayerNorm(4), (2, 3, 4))
layer("Dropout", lambda: nn.Sequential(nn.Dropout(0.4), nn.Tanh()), (3, 4))
for _activation in (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softmax, nn.Identity):
    layer(_activation.__name__, _activation, (3, 4))
layer("Sequential", lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), (2, 3))
SAMPLES.append(Sample("layer", "Embedding", lambda rng: (_Tokens(nn.Embedding(5, 3, padding_idx=0)).double(), [])))
SAMPLES.append(Sample("layer", "CrossEntropyLoss", lambda rng: (lambda x: nn.CrossEntropyLoss()(x, np.array([1, 0])), [leaf(rng.standard_normal((2, 3)))])))  # fmt: skip
SAMPLES.append(Sample("layer", "MSELoss", lambda rng: (nn.MSELoss(), [leaf(rng.standard_normal((2, 3))) for _ in range(2)])))


class _Tokens(nn.Module):
    """A layer of token numbers as a function of its parameters alone."""

    def __init__(self, embedding):
        self.embedding = embedding

    def forward(self):
        return self.embedding(np.array([[0, 1], [1, 4]])) ** 2
