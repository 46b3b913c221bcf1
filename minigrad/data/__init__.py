"""From files to numbers: vocabularies. Knows text and token numbers, no models."""

from minigrad.data.bpe import BPE, Bytes
from minigrad.data.characters import Characters

TOKENS = ("characters", "bpe")  # what a recipe's setting `tokens` can be


def vocabulary(tokens, text, vocab_size, reserved=0):
    """The vocabulary of a text, of one of the TOKENS."""
    return BPE.train(text, vocab_size, reserved) if tokens == "bpe" else Characters(text, reserved)


def remembered(saved, reserved=0):
    """The vocabulary whose to_json this is, with so many special tokens; a sentence for anything else."""
    if isinstance(saved, str):
        return Characters(saved, reserved)
    if not isinstance(saved, dict):
        raise ValueError(f"The vocabulary must be a text of characters or what BPE.to_json made, got {type(saved).__name__}.")
    found = BPE.from_json(saved)
    if found.reserved != reserved:
        raise ValueError(f"The vocabulary reserves {found.reserved} special tokens, where {reserved} are needed.")
    return found
