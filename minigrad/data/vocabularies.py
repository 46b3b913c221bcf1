"""Make a vocabulary for a text, or restore one from JSON."""

from minigrad.data.bpe import BPE, Bytes
from minigrad.data.characters import Characters

TOKENS = ("characters", "bpe", "bytes")  # values of a recipe's setting `tokens`


def vocabulary(tokens, text, vocab_size=512, reserved=0):
    """Make the vocabulary of a text; `tokens` is one of TOKENS."""
    if tokens == "bpe":
        return BPE.train(text, vocab_size, reserved)
    return Bytes(reserved) if tokens == "bytes" else Characters(text, reserved)


def remembered(saved, reserved=0):
    """Restore a vocabulary from its to_json().

    Raises ValueError for anything else, or if `reserved` differs.
    """
    if isinstance(saved, str):
        return _characters(saved, reserved)
    if not isinstance(saved, dict):
        raise ValueError(
            f"The vocabulary must be a string of characters or from BPE.to_json, got {type(saved).__name__}."
        )
    found = BPE.from_json({"merges": []} | saved if saved.get("kind") == "bytes" else saved)
    if found.reserved != reserved:
        raise ValueError(
            f"The vocabulary reserves {found.reserved} special tokens, where {reserved} are needed."
        )
    return Bytes(reserved) if saved.get("kind") == "bytes" else found


def _characters(saved, reserved):
    halves = [c for c in saved if 0xD800 <= ord(c) < 0xE000]
    if halves or not saved:
        wrong = f"has {halves[0]!r}, half of a surrogate pair" if saved else "is empty"
        raise ValueError(f"The vocabulary of characters {wrong}; the run's config.json was changed.")
    return Characters(saved, reserved)
