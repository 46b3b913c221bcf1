"""copy: a small GPT repeats words. The simplest task for attention: each letter is at the same distance."""

from models.recipes.words import Words


class Copy(Words):
    """abc -> abc."""

    name, help = "copy", "a small GPT repeats words (under a minute)"
    defaults = dict(Words.defaults, steps=500)

    fill = str.ljust  # puts each letter at the same distance

    def solve(self, question):
        return question
