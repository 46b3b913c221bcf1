"""reverse: a small GPT spells words backwards. It must attend as far before the "=" as it writes after it."""

from models.recipes.words import Words


class Reverse(Words):
    """abc -> cba."""

    name, help = "reverse", "a small GPT spells words backwards (under a minute)"
    defaults = dict(Words.defaults, steps=500)

    def solve(self, question):
        return question[::-1]
