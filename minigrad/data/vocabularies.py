"""Which vocabularies there are: makes one for a text, and makes it again from what JSON kept. Knows no files."""

from minigrad.data.bpe import BPE, Bytes
from minigrad.data.characters import Characters

TOKENS = ("characters", "bpe", "bytes")  # what a recipe's setting `tokens` can be


def vocabulary(tokens, text, vocab_size=512, reserved=0):
    """The vocabulary of a text, of one of the TOKENS."""
    if tokens == "bpe":
        return BPE.train(text, vocab_size, reserved)
    return Bytes(reserved) if tokens == "bytes" else Characters(text, reserved)


def remembered(saved, reserved=0):
    """The vocabulary whose to_json this is, with so many special tokens; a sentence for anything else."""
    if isinstance(saved, str):
        return _characters(saved, reserved)
    if not isinstance(saved, dict):
        raise ValueError(
            f"The vocabulary must be a text of characters or what BPE.to_json made, got {type(saved).__name__}."
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
        raise ValueError(f"The vocabulary of characters {'is empty' if not saved else f'holds {halves[0]!r}, half of a surrogate pair'}; the run's config.json was changed.")  # fmt: skip
    return Characters(saved, reserved)
