"""Token ids as models take them: integers (batch, length)."""

import numpy as np

from minigrad import Tensor


def token_ids(tokens, name="tokens"):
    """Convert tokens to a Tensor (B, T). Raises ValueError if the rows differ in length or are empty."""
    try:
        tokens = tokens if isinstance(tokens, Tensor) else Tensor(np.asarray(tokens))
    except ValueError:
        lengths = ", ".join(str(np.size(row)) for row in tokens)
        raise ValueError(
            f"{name} must be rows of one length, got rows of lengths {lengths}; fill the short ones up with "
            "the padding token, or pass them to models.decoding.generate, which takes rows of any lengths."
        ) from None
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ValueError(
            f"{name} must be token ids of shape (batch, length), neither of them 0; got shape {tokens.shape}."
        )
    return tokens
