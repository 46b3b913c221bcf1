"""Layers with PyTorch's names: each is a function of functional with its parameters."""

from minigrad.engine import errors
from minigrad.nn import functional, init, utils
from minigrad.nn.activation import (
    ELU, GELU, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, ReLU, ReLU6, Sigmoid, SiLU, Softmax, Softplus, Tanh,
)  # fmt: skip
from minigrad.nn.containers import ModuleDict, ModuleList, Sequential
from minigrad.nn.dropout import Dropout
from minigrad.nn.embedding import Embedding
from minigrad.nn.linear import Flatten, Identity, Linear
from minigrad.nn.loss import (
    BCELoss, BCEWithLogitsLoss, CosineEmbeddingLoss, CosineSimilarity, CrossEntropyLoss, HuberLoss, KLDivLoss,
    L1Loss, MSELoss, NLLLoss, SmoothL1Loss,
)  # fmt: skip
from minigrad.nn.module import Module, Parameter
from minigrad.nn.norm import LayerNorm, RMSNorm
from minigrad.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss", "Dropout", "ELU",
    "Embedding", "Flatten", "GELU", "GRU", "GRUCell", "Hardtanh", "HuberLoss", "Identity", "KLDivLoss", "L1Loss", "LSTM", "LSTMCell",
    "LayerNorm", "LeakyReLU", "Linear", "LogSigmoid", "LogSoftmax", "MSELoss", "Module", "ModuleDict", "ModuleList",
    "NLLLoss", "Parameter", "RMSNorm", "RNN", "RNNCell", "ReLU", "ReLU6", "Sequential", "SiLU", "Sigmoid", "SmoothL1Loss",
    "Softmax", "Softplus", "Tanh", "functional", "init", "utils",
]  # fmt: skip


def __getattr__(name):
    raise errors.Missing(__name__, name)
