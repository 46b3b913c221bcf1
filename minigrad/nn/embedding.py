"""Embedding: a table of vectors, one for each token."""

from minigrad import functional as F
from minigrad.modes import no_grad
from minigrad.nn import init
from minigrad.nn.module import Module, Parameter
from minigrad.ops.creation import empty


class Embedding(Module):
    """A table `weight` (num_embeddings, embedding_dim), initially normal. The row padding_idx stays zero."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None):
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"padding_idx {padding_idx} is not one of the {num_embeddings} rows.")
        self.weight = Parameter(empty(num_embeddings, embedding_dim))
        init.normal_(self.weight)
        if padding_idx is not None:
            with no_grad():
                self.weight[padding_idx] = 0

    def forward(self, index):
        """index (...) of integers -> (..., embedding_dim)."""
        return F.embedding(index, self.weight, self.padding_idx)

    def extra_repr(self):
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
