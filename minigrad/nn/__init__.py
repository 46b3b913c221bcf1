"""Layers, with PyTorch's names: each a function of functional.py with the parameters it needs."""

from minigrad.nn import functional, init, utils
from minigrad.nn.activation import GELU, ReLU, Sigmoid, SiLU, Softmax, Tanh
from minigrad.nn.containers import ModuleDict, ModuleList, Sequential
from minigrad.nn.dropout import Dropout
from minigrad.nn.embedding import Embedding
from minigrad.nn.linear import Identity, Linear
from minigrad.nn.loss import CrossEntropyLoss, MSELoss
from minigrad.nn.module import Module, Parameter
from minigrad.nn.norm import LayerNorm

__all__ = [
    "CrossEntropyLoss", "Dropout", "Embedding", "GELU", "Identity", "LayerNorm", "Linear", "MSELoss", "Module", "ModuleDict",
    "ModuleList", "Parameter", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax", "Tanh", "functional", "init", "utils",
]  # fmt: skip
