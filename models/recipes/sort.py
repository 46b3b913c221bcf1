"""sort: a small GPT puts the letters of words in order. It must count: how many there are of each, and are written already."""

from models.recipes.words import Words


class Sort(Words):
    """cab -> abc."""

    name, help = "sort", "a small GPT sorts the letters of words (under a minute)"
    defaults = dict(Words.defaults, steps=900)

    def solve(self, question):
        return "".join(sorted(question))
