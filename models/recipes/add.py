"""add: a small GPT learns to add numbers, digit by digit, from examples alone (the adder of Karpathy's minGPT).

The answer is written with the units first, as one adds on paper: each digit then needs the carry of the one before only.
With the highest digit first the carries of all would have to be known before anything is written.
"""

import string

from models.recipes.sequences import Sequences


class Add(Sequences):
    """Sums of two numbers of up to `digits` digits, both written with all of them: 007+095, answered 2010 for 0102."""

    name, symbols = "add", string.digits + "+"
    help = "a small GPT learns to add numbers (a minute or two)"
    looking = (
        "What layer {} of {} looks at in the question while it writes each digit, from the units (below) up"
    )
    defaults = dict(Sequences.defaults, digits=3, d_model=64, layers=2, steps=1500)

    def __init__(self, settings):
        super().__init__(settings)
        if not 1 <= self.settings["digits"] <= 18:
            raise ValueError(f"The numbers can have 1 to 18 digits, got {self.settings['digits']}.")
        self.help = f"a small GPT learns to add numbers of {self.settings['digits']} digits"
        self.example = self._written(*(int(number[-self.settings["digits"] :]) for number in ("123", "989")))

    def question(self, rng):
        a, b = rng.integers(10 ** self.settings["digits"], size=2)
        return self._written(a, b)

    def _written(self, a, b):
        return f"{a:0{self.settings['digits']}}+{b:0{self.settings['digits']}}"

    def solve(self, question):
        """The sum with one digit more, units first."""
        a, b = map(int, question.split("+"))
        return f"{a + b:0{self.settings['digits'] + 1}}"[::-1]

    def longest(self):
        return 2 * self.settings["digits"] + 1, self.settings["digits"] + 1

    def check(self, question):
        if question != self._tidied(question):
            raise ValueError(
                f"The model adds two numbers of {self.settings['digits']} digits, as in {self._written(12, 7)}; got {question!r}."
            )

    def _tidied(self, question):
        """The question as the model knows it; a sentence if it is not two numbers it can add."""
        a, plus, b = question.replace(" ", "").partition("+")
        if not (plus and a.isdecimal() and b.isdecimal() and max(len(a), len(b)) <= self.settings["digits"]):
            raise ValueError(
                f"The model adds two numbers of up to {self.settings['digits']} digits, as in 12+7; got {question!r}."
            )
        return self._written(int(a), int(b))

    def samples(self, model, count=3):
        """The sums as they are read, with the highest digit first."""
        return [
            (question, answer[::-1], right[::-1]) for question, answer, right in super().samples(model, count)
        ]

    def reading(self, model, text):
        return super().reading(model, self._tidied(text))

    def attention(self, model, text):
        """The digits from top to bottom as they are read; what says that the answer is over belongs to none of them."""
        written, weights = super().attention(model, text)
        return written[-2::-1], weights[:, -2::-1]

    def stream(self, model, prompt):
        """The sum as people write it."""
        yield str(int(self.answer(model, [self._tidied(prompt)])[0][::-1] or "0"))
