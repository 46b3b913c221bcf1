"""A text encoder with a classification head."""

from minigrad import Tensor
from minigrad import functional as F
from minigrad.nn import Dropout, Linear, Module
from models.attention import padding_mask


class Classifier(Module):
    """A linear layer on the mean of the encoder's vectors, without those of padding.

    encoder   a BERT, such as load("minilm").model
    """

    def __init__(self, encoder, classes, dropout=0.0):
        self.encoder = encoder
        self.dropout = Dropout(dropout)
        self.head = Linear(encoder.tokens.embedding_dim, classes)

    def forward(self, tokens):
        """tokens (B, T) -> logits (B, classes)."""
        mask = padding_mask(tokens, self.encoder.pad)
        x = self.encoder.encode(tokens, mask=mask)  # (B, T, C)
        real = mask.data[:, 0]  # (B, 1, T)
        shares = Tensor((real / real.sum(-1, keepdims=True)).astype(x.dtype))
        return self.head(self.dropout((shares @ x)[:, 0]))

    def loss(self, tokens, classes):
        return F.cross_entropy(self(tokens), classes)
