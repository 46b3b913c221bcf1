"""The base of reverse, sort, copy and add: a GPT reads a question and "=", and continues with the answer.

A task is a subclass that draws questions and solves them, both as strings. Short questions are filled up with
spaces, so that the "=" always has the same position: the model counts from there.
"""

import numpy as np

from minigrad import functional as F
from minigrad import random
from minigrad.data import Characters
from minigrad.training.recipe import Recipe
from models import decoding
from models.attended import attended
from models.gpt import GPT
from models.llama import Llama

PAD, END, EQUALS = 0, 1, "="
IGNORED = -100
HELD_OUT = 8  # one question in 8 is never trained on


def held_out(question):
    """True if this question is kept for testing, for every seed: no run tests on another's training data."""
    return hash_of(question) % HELD_OUT == 0


def hash_of(text):
    """A hash that is the same on every machine (FNV-1a)."""
    number = 2166136261
    for byte in text.encode():
        number = (number ^ byte) * 16777619 % 2**32
    return number ^ number >> 16


class Sequences(Recipe):
    """A recipe that draws new questions at every step; the loss counts only the answer's characters.

    Subclasses define symbols (all characters), question(rng) -> string, solve(question) -> string,
    check(question).
    """

    defaults = dict(
        model="gpt", steps=1000, batch_size=64, lr=3e-3, d_model=64, layers=2, heads=4, d_ff=256, dropout=0.0
    )
    choices = {"model": ("gpt", "llama")}
    metric = "exact match"
    last_lr = 0.02
    # the picture's title
    looking = "Attention of layer {} of {} to the question while it writes each character"
    fill = str.rjust  # spaces on the left: the question ends at the "="
    example = symbols = ""

    def __init__(self, settings):
        super().__init__(settings)
        self.vocabulary = Characters(self.symbols + " " + EQUALS, reserved=2)

    # -------- defined by a task

    def question(self, rng):
        raise NotImplementedError(f"{type(self).__name__} must define question(rng).")

    def solve(self, question):
        raise NotImplementedError(f"{type(self).__name__} must define solve(question).")

    def longest(self):
        """The length of the longest question and of the longest answer."""
        raise NotImplementedError(f"{type(self).__name__} must define longest().")

    def check(self, question):
        """Raises ValueError if the model cannot have learned such a question."""

    # -------- data

    def draw(self, rng, count, test):
        """Draw `count` questions with held_out(question) == test."""
        found = []
        while len(found) < count:
            question = self.question(rng)
            if held_out(question) == test:
                found.append(question)
        return found

    def prompt(self, question):
        """The tokens of a question, all of one length."""
        return self.vocabulary.encode(type(self).fill(question, self.longest()[0]) + EQUALS)

    def rows(self, questions):
        """Convert questions to (tokens (B, T), next tokens (B, T)), IGNORED outside answer and end."""
        width = sum(self.longest()) + 2  # with = and the end
        table, asked = np.full((len(questions), width), PAD), np.full((len(questions), width), IGNORED)
        for row, answer, question in zip(table, asked, questions, strict=True):
            prompt = self.prompt(question)
            solution = [*self.vocabulary.encode(self.solve(question)), END]
            end = len(prompt) + len(solution)
            row[:end] = [*prompt, *solution]
            answer[len(prompt) : end] = solution
        return table[:, :-1], asked[:, 1:]

    def batch(self, step):
        return self.rows(self.draw(random.fresh("data", step), self.settings["batch_size"], test=False))

    def loss(self, model, batch):
        tokens, following = batch
        return F.cross_entropy(
            model(tokens).reshape(-1, len(self.vocabulary)), following.reshape(-1), ignore_index=IGNORED
        )

    def count(self, batch):
        return int((batch[1] != IGNORED).sum())

    # -------- model

    def model(self):
        s = self.settings
        sizes = dict(
            d_model=s["d_model"],
            num_heads=s["heads"],
            num_layers=s["layers"],
            max_len=sum(self.longest()) + 2,
            d_ff=s["d_ff"],
        )
        return (GPT if s["model"] == "gpt" else Llama)(len(self.vocabulary), dropout=s["dropout"], **sizes)

    def answer(self, model, prompts):
        """The model's answer to each question, greedily."""
        for prompt in prompts:
            self.check(prompt)
        questions = [self.prompt(prompt) for prompt in prompts]
        found = decoding.generate(model, questions, self.longest()[1] + 1, stop=(END,), temperature=0)
        return [self.vocabulary.decode(tokens) for tokens in found]

    def evaluate(self, model, final=False):
        """The fraction of held-out questions answered exactly right: of 2,000 at the end, of 256 before."""
        questions = self.draw(random.fresh("test", int(final)), 2000 if final else 256, test=True)
        answers = self.answer(model, questions)
        return {
            self.metric: float(np.mean([a == self.solve(q) for a, q in zip(answers, questions, strict=True)]))
        }

    def samples(self, model, count=3):
        questions = self.draw(random.fresh("test", 2), count, test=True)
        return [(q, a, self.solve(q)) for q, a in zip(questions, self.answer(model, questions), strict=True)]

    def reading(self, model, text):
        """The question and the model's answer as its input, and labels for `attended`; "=" writes first."""
        prompt = type(self).fill(text, self.longest()[0]) + EQUALS
        # an answer without an end is cut off
        written = [*self.answer(model, [text])[0], "end"][: self.longest()[1] + 1]
        read = [*prompt, *written[:-1]]
        return (self.vocabulary.encode("".join(read))[None],), {
            "names": [read],
            "writes": [""] * (len(prompt) - 1) + written,
        }

    def attention(self, model, text):
        """(answer, weights (H, answer, question)) of the layer with the sharpest attention."""
        inputs, labels = self.reading(model, text)
        start = type(self).fill(text, self.longest()[0]).index(text)
        answer = [*filter(None, labels["writes"])]
        seen = [
            layer.weights[:, -len(answer) :, start : start + len(text)]
            for layer in attended(model, *inputs, **labels)
        ]
        sharpest = int(np.argmax([weights.max(-1).mean() for weights in seen]))
        self.attention_title = self.looking.format(sharpest + 1, len(seen))
        return answer, seen[sharpest]
