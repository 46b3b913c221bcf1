"""copy: a small GPT repeats words, the simplest thing attention can do: each letter is found at one distance."""

from models.recipes.words import Words


class Copy(Words):
    """abc -> abc."""

    name, help = "copy", "a small GPT repeats words (under a minute)"
    defaults = dict(Words.defaults, steps=500)

    fill = str.ljust  # so that each letter is found at one distance

    def solve(self, question):
        return question
