"""From files to numbers: vocabularies. Knows text and token numbers, no models."""

from minigrad.data.bpe import BPE, Bytes
from minigrad.data.characters import Characters

TOKENS = ("characters", "bpe")  # what a recipe's setting `tokens` can be


def vocabulary(tokens, text, vocab_size, reserved=0):
    """The vocabulary of a text, of one of the TOKENS."""
    return BPE.train(text, vocab_size, reserved) if tokens == "bpe" else Characters(text, reserved)


def remembered(saved, reserved=0):
    """The vocabulary whose to_json this is."""
    return BPE.from_json(saved) if isinstance(saved, dict) else Characters(saved, reserved)
