"""Token numbers as models take them: whole numbers (batch, length). Knows shapes only, no model and no text."""

import numpy as np

from minigrad import Tensor


def token_numbers(tokens, name="tokens"):
    """A Tensor (B, T) of what was given, or a sentence."""
    try:
        tokens = tokens if isinstance(tokens, Tensor) else Tensor(np.asarray(tokens))
    except ValueError:
        lengths = ", ".join(str(np.size(row)) for row in tokens)
        raise ValueError(
            f"{name} must be rows of one length, got rows of lengths {lengths}; fill the short ones up with the padding token, "
            "or give them to models.decoding.generate, which takes rows as they are."
        ) from None
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ValueError(
            f"{name} must be token numbers of shape (batch, length), neither of them 0; got shape {tokens.shape}."
        )
    return tokens
