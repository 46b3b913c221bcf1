"""Sentence embeddings: the mean of an encoder's vectors, scaled to length 1 (Reimers & Gurevych 2019).

The dot product of two sentences' vectors measures their similarity.
"""

import numpy as np

from minigrad import no_grad
from minigrad.data import padded


@no_grad()
def embed(published, sentences, batch_size=32):
    """sentences (N strings) -> (N, C) float32, each of length 1. A batch has sentences of similar lengths."""
    if isinstance(sentences, str):
        raise TypeError(f"embed takes a list of sentences, got one string; write [{sentences[:20]!r}].")
    if not hasattr(published.model, "encode"):
        raise ValueError(
            f"embed needs an encoder, such as minilm; a {type(published.model).__name__} continues text."
        )
    rows = [published.tokenizer.encode(sentence) for sentence in sentences]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    out = np.empty((len(rows), published.config["hidden_size"]), np.float32)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        out[chosen] = vectors(published.model, [rows[i] for i in chosen])
    return out


def vectors(model, rows):
    """Rows of token ids, of any lengths -> (N, C): the mean of the tokens' vectors, scaled to length 1."""
    tokens = padded(rows, model.pad)
    real = np.arange(tokens.shape[1]) < np.array([len(row) for row in rows])[:, None]  # (N, T)
    encoded = model.encode(tokens, mask=real[:, None, None, :]).data  # (N, T, C)
    mean = (encoded * real[..., None]).sum(1) / real.sum(1, keepdims=True)
    return mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)
