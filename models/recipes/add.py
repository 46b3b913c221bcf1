"""add: a small GPT learns to add numbers, digit by digit, from examples (the adder of Karpathy's minGPT).

The answer has its units first, as in addition on paper: each digit then needs only the carry of the one
before. With the highest digit first, the model would need all carries before it writes anything.
"""

import string

from models.recipes.sequences import Sequences


class Add(Sequences):
    """Sums of two numbers of `digits` digits, with leading zeros: 007+095 has the answer 2010, for 0102."""

    name, symbols = "add", string.digits + "+"
    help = "a small GPT learns to add numbers (a minute or two)"
    looking = (
        "Attention of layer {} of {} to the question while it writes each digit, from the units (below) up"
    )
    defaults = dict(Sequences.defaults, digits=3, d_model=64, layers=2, steps=1500)

    def __init__(self, settings):
        super().__init__(settings)
        if not 1 <= self.settings["digits"] <= 18:
            raise ValueError(f"The numbers can have 1 to 18 digits, got {self.settings['digits']}.")
        self.help = f"a small GPT learns to add numbers of {self.settings['digits']} digits"
        self.example = self._format(*(int(number[-self.settings["digits"] :]) for number in ("123", "989")))

    def question(self, rng):
        a, b = rng.integers(10 ** self.settings["digits"], size=2)
        return self._format(a, b)

    def _format(self, a, b):
        return f"{a:0{self.settings['digits']}}+{b:0{self.settings['digits']}}"

    def solve(self, question):
        """The sum with one more digit, units first."""
        a, b = map(int, question.split("+"))
        return f"{a + b:0{self.settings['digits'] + 1}}"[::-1]

    def longest(self):
        return 2 * self.settings["digits"] + 1, self.settings["digits"] + 1

    def check(self, question):
        if question != self._normalize(question):
            raise ValueError(
                f"The model adds two numbers of {self.settings['digits']} digits, "
                f"as in {self._format(12, 7)}; got {question!r}."
            )

    def _normalize(self, question):
        """The question in the model's format. Raises ValueError unless it is a sum the model knows."""
        a, plus, b = question.replace(" ", "").partition("+")
        if not (plus and a.isdecimal() and b.isdecimal() and max(len(a), len(b)) <= self.settings["digits"]):
            raise ValueError(
                f"The model adds two numbers of up to {self.settings['digits']} digits, as in 12+7; "
                f"got {question!r}."
            )
        return self._format(int(a), int(b))

    def samples(self, model, count=3):
        """(question, prediction, target) rows, the sums with the highest digit first."""
        return [
            (question, answer[::-1], right[::-1]) for question, answer, right in super().samples(model, count)
        ]

    def reading(self, model, text):
        return super().reading(model, self._normalize(text))

    def attention(self, model, text):
        """As in Sequences, with the highest digit first and without the end token."""
        written, weights = super().attention(model, text)
        return written[-2::-1], weights[:, -2::-1]

    def stream(self, model, prompt):
        """Yield the sum as people write it."""
        yield str(int(self.answer(model, [self._normalize(prompt)])[0][::-1] or "0"))
