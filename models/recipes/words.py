"""Words of lowercase letters, the base of the tasks that show what attention does: reverse, sort, copy."""

import string

from models.recipes.sequences import Sequences


class Words(Sequences):
    """Words of 1 to `length` letters."""

    symbols = string.ascii_lowercase
    defaults = dict(Sequences.defaults, length=10)

    def __init__(self, settings):
        super().__init__(settings)
        if self.settings["length"] < 1:
            raise ValueError(
                f"The longest word must have at least one letter, got length {self.settings['length']}."
            )
        self.example = "attention"[: self.settings["length"]]

    def question(self, rng):
        length = rng.integers(1, self.settings["length"] + 1)
        return "".join(self.symbols[i] for i in rng.integers(len(self.symbols), size=length))

    def longest(self):
        return self.settings["length"], self.settings["length"]

    def check(self, question):
        if not 1 <= len(question) <= self.settings["length"] or not set(question) <= set(self.symbols):
            raise ValueError(
                f"The model knows words of 1 to {self.settings['length']} lowercase letters a-z, "
                f"got {question!r}."
            )
