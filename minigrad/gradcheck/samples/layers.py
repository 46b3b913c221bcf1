"""The samples of the layers, each checked with all its parameters."""

import numpy as np

from minigrad import functional as F
from minigrad import nn, tensor
from minigrad.gradcheck.samples import Sample, leaf

SAMPLES = []


def layer(name, make, *shapes, fast=False):
    def sample(rng):
        return make().double(), [leaf(rng.standard_normal(s)) for s in shapes]

    SAMPLES.append(Sample("layer", name, sample, fast=fast))


# fmt: off
layer("Linear", lambda: nn.Linear(3, 4), (2, 3))
layer("LayerNorm", lambda: nn.LayerNorm(4), (2, 3, 4))
layer("RMSNorm", lambda: nn.RMSNorm(4), (2, 3, 4))
layer("Dropout", lambda: nn.Sequential(nn.Dropout(0.4), nn.Tanh()), (3, 4))
for _activation in (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softmax, nn.Identity):
    layer(_activation.__name__, _activation, (3, 4))
for _activation in (nn.LeakyReLU, nn.ELU, nn.Softplus, nn.LogSigmoid, nn.LogSoftmax, nn.Hardtanh, nn.ReLU6):
    layer(_activation.__name__, _activation, (3, 4))
layer("Flatten", nn.Flatten, (2, 3, 4))
layer("Sequential", lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), (2, 3))
SAMPLES.append(Sample("layer", "Embedding", lambda rng: (_Tokens(nn.Embedding(5, 3, padding_idx=0)).double(), [])))
SAMPLES.append(Sample("layer", "CrossEntropyLoss", lambda rng: (lambda x: nn.CrossEntropyLoss()(x, np.array([1, 0])), [leaf(rng.standard_normal((2, 3)))])))
for _loss in (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.CosineSimilarity):
    layer(_loss.__name__, _loss, (2, 3), (2, 3))
# fmt: on


def loss(name, make, prepare, *others):
    """Add the sample of a loss: of one input, passed through `prepare`, and of constants."""

    def sample(rng):
        return lambda x: make().double()(prepare(x), *others), [leaf(rng.standard_normal((2, 3)))]

    SAMPLES.append(Sample("layer", name, sample))


# fmt: off
loss("NLLLoss", lambda: nn.NLLLoss(tensor([1.0, 2.0, 0.5])), F.log_softmax, np.array([2, 0]))
loss("BCELoss", nn.BCELoss, F.sigmoid, np.array([[0.0, 1.0, 0.3], [1.0, 1.0, 0.0]]))
loss("BCEWithLogitsLoss", lambda: nn.BCEWithLogitsLoss(pos_weight=tensor([1.0, 2.0, 3.0])), lambda x: x, np.array([[0.0, 1.0, 0.3], [1.0, 1.0, 0.0]]))
loss("KLDivLoss", lambda: nn.KLDivLoss("batchmean"), F.log_softmax, np.array([[0.2, 0.8, 0.0], [0.5, 0.25, 0.25]]))
loss("CosineEmbeddingLoss", lambda: nn.CosineEmbeddingLoss(-0.9), lambda x: x, np.array([[0.2, 0.8, 0.0], [0.5, 0.2, 0.2]]), np.array([1, -1]))
# fmt: on


class _Tokens(nn.Module):
    """An embedding of constant token ids: a function of its parameters only."""

    def __init__(self, embedding):
        self.embedding = embedding

    def forward(self):
        return self.embedding(np.array([[0, 1], [1, 4]])) ** 2


class Outputs(nn.Module):
    """A recurrent layer or cell whose outputs all contribute to one tensor."""

    def __init__(self, layer, **settings):
        self.layer, self.settings = layer, settings

    def forward(self, x):
        given = self.layer(x, **self.settings)
        parts = list(given) if isinstance(given, tuple) else [given]
        parts += parts.pop() if isinstance(parts[-1], tuple) else []
        return sum((part * part).sum() for part in parts) + parts[0]


_BOTH_WAYS = dict(num_layers=2, bidirectional=True)
for _name in ("RNN", "LSTM", "GRU"):
    layer(f"{_name}Cell", lambda name=_name: Outputs(getattr(nn, name + "Cell")(3, 2)), (4, 3))
    layer(_name, lambda name=_name: Outputs(getattr(nn, name)(3, 2)), (3, 2, 3))
    layer(
        f"{_name}, two layers both ways, padded",
        lambda name=_name: Outputs(getattr(nn, name)(2, 2, **_BOTH_WAYS), lengths=[3, 1]),
        (3, 2, 2),
        fast=True,
    )
