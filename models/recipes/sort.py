"""sort: a small GPT sorts the letters of words. It must count each letter in the question and its answer."""

from models.recipes.words import Words


class Sort(Words):
    """cab -> abc."""

    name, help = "sort", "a small GPT sorts the letters of words (under a minute)"
    defaults = dict(Words.defaults, steps=900)

    def solve(self, question):
        return "".join(sorted(question))
