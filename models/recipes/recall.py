"""recall: how far back can a model remember? Pairs of key and value, noise, then a key: which value had it?

RNN, LSTM, GRU and Transformer learn the same questions side by side, each with weights and a loss of its own.
Measures the accuracy, and the gradient of the answer's loss, against the distance between the pair and the
question. An RNN's signal passes through every step between them (path length = distance), attention's through
one (path length 1).
"""

import numpy as np

from minigrad import Tensor, nn, no_grad, random
from minigrad import functional as F
from minigrad.nn.utils import clip_grad_norm_
from minigrad.training.recipe import Recipe
from models.blocks import EncoderLayer
from models.positional import PositionalEncoding
from models.recurrent import CELLS, Reader

KEYS, VALUES, NOISE = "abcdefgh", "01234567", ".,:;"
# a pair is one token; a key with ? is another
TOKENS = [*NOISE, *(key + value for key in KEYS for value in VALUES + "?")]
NUMBER = {token: i for i, token in enumerate(TOKENS)}
PAIRS = 2  # in each sequence, side by side; the question asks for one of them
ACCURACY = "accuracy by distance (share of questions answered right)"
GRADIENT = (
    "gradient by distance (how strongly the answer's loss depends on the pair, "
    "as a multiple of how strongly on the question)"
)
UNTRAINED = "gradient by distance, before training"
LEAST = PAIRS  # the shortest distance with both pairs before the question


def questions(rng, count, distance, asked):
    """Draw (tokens (B, T), values (B,)): pairs, then noise, then the question.

    The question asks for the pair at position `asked`, `distance` steps before it. Nothing before the
    question reveals which pair that will be."""
    keys = rng.permuted(np.tile(np.arange(len(KEYS)), (count, 1)), axis=1)[:, :PAIRS]  # all different
    values = rng.integers(len(VALUES), size=(count, PAIRS))
    tokens = rng.integers(len(NOISE), size=(count, asked + distance + 1))
    tokens[:, :PAIRS] = len(NOISE) + keys * (len(VALUES) + 1) + values
    tokens[:, -1] = len(NOISE) + keys[:, asked] * (len(VALUES) + 1) + len(VALUES)
    return tokens, values[:, asked]


class AttentionReader(nn.Module):
    """Classifies tokens with encoder layers, at the last position: models.recurrent.Reader with attention."""

    def __init__(self, vocab_size, outputs, d_model=64, num_layers=1, num_heads=2, max_len=512):
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positions = PositionalEncoding(d_model, max_len)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, 2 * d_model, norm="pre") for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(d_model)
        self.output = nn.Linear(d_model, outputs)

    def read(self, x):
        """x (B, T, C), the tokens' vectors -> logits (B, outputs)."""
        x = self.positions(x)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x[:, -1]))

    def forward(self, tokens):
        """tokens (B, T) -> logits (B, outputs)."""
        return self.read(self.embedding(tokens))


class SideBySide(nn.ModuleDict):
    """Models by name that get the same questions: tokens -> {name: logits}."""

    def forward(self, tokens):
        return {name: model(tokens) for name, model in self.items()}


class Recall(Recipe):
    """The same questions for all models; no model's loss or gradient affects another's."""

    name = "recall"
    help = "which value had the key? RNN, LSTM, GRU and Transformer against the distance (two minutes)"
    defaults = dict(
        steps=1500, batch_size=64, lr=6e-3, d_model=64, layers=1, heads=2, distance=64, model="all"
    )
    choices = {"model": ("all", *CELLS, "transformer")}
    example = "c7 a3 . , ; : . . , c?"

    def __init__(self, settings):
        super().__init__(settings)
        if self.settings["distance"] < LEAST:
            raise ValueError(
                f"recall needs a distance of at least {LEAST}, so that {PAIRS} pairs fit before the "
                f"question; got {self.settings['distance']}."
            )
        chosen = self.settings["model"]
        self.names = [name for name in (*CELLS, "transformer") if chosen in ("all", name)]
        longest = self.settings["distance"]
        self.distances = sorted(
            {d for d in (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256) if d < longest} | {longest}
        )
        self.metric = self.accuracy_of(self.names[-1])

    def accuracy_of(self, name):
        """The name of a model's accuracy in the metrics."""
        return f"accuracy of the {name} at distance {self.settings['distance']}"

    def model(self):
        s = self.settings
        sizes = (len(TOKENS), len(VALUES), self.settings["d_model"], self.settings["layers"])
        return SideBySide({
            name: Reader(*sizes, name, pad=-1) if name in CELLS else AttentionReader(*sizes, s["heads"], s["distance"] + PAIRS)
            for name in self.names
        })  # fmt: skip

    def batch(self, step):
        """Questions at one distance, drawn uniformly: from more short ones an RNN would learn to remember."""
        rng = random.fresh("data", step)
        distance = int(rng.integers(LEAST, self.settings["distance"] + 1))
        return questions(rng, self.settings["batch_size"], distance, int(rng.integers(PAIRS)))

    def loss(self, model, batch):
        """The sum of the models' losses: each model gets the gradient of its own loss."""
        tokens, values = batch
        return sum(F.cross_entropy(logits, values) for logits in model(tokens).values())

    def clip(self, model, longest):
        """Clip each model separately, so that no other's gradient slows it down. Returns the largest norm."""
        return max(clip_grad_norm_(one.parameters(), longest) for one in model.values())

    # -------- measurements

    def held_out(self, distance, count):
        """Yield held-out questions (tokens, values, asked) for each pair, from a separate random stream."""
        for asked in range(PAIRS):
            yield *questions(random.fresh("recall", distance, asked), count // PAIRS, distance, asked), asked

    @no_grad()
    def accuracy(self, model, distance, count):
        """{name: the fraction of questions answered right}."""
        right = {name: [] for name in model.keys()}
        for tokens, values, _ in self.held_out(distance, count):
            for name, logits in model(tokens).items():
                right[name].append(logits.data.argmax(-1) == values)
        return {name: float(np.mean(parts)) for name, parts in right.items()}

    def evaluate(self, model, final=False):
        """The accuracy of each model at the longest distance; at the end at all distances, with gradients."""
        longest = self.settings["distance"]
        figures = {
            self.accuracy_of(name): share
            for name, share in self.accuracy(model, longest, 1000 if final else 256).items()
        }
        if final:
            figures[ACCURACY] = self.by_distance(lambda d: self.accuracy(model, d, 1000))
            figures[GRADIENT] = self.by_distance(lambda d: self.gradient(model, d))
            untrained = self.model()
            figures[UNTRAINED] = self.by_distance(lambda d: self.gradient(untrained, d))
        return figures

    def by_distance(self, measure):
        """{name: {distance: figure}} of measure(distance) -> {name: figure}."""
        found = {distance: measure(distance) for distance in self.distances}
        return {name: {distance: found[distance][name] for distance in self.distances} for name in self.names}

    def gradient(self, model, distance, count=64):
        """{name: the loss's gradient norm at the vector of the pair, divided by that at the question's}."""
        asked = list(self.held_out(distance, count))
        return {
            name: float(np.mean([reach(one, *question) for question in asked])) for name, one in model.items()
        }

    def samples(self, model, count=3):
        """(question, answers, right answer) at 3 distances; the last two agree if all models are right."""
        rows = []
        for distance in self.distances[:: max(1, len(self.distances) // count)][-count:]:
            tokens, values, _ = next(self.held_out(distance, PAIRS))
            answers, right = self.answers(model, tokens)[0], VALUES[values[0]]
            by_name = self.with_names(answers)
            rows.append((shorten(tokens[0]), by_name, by_name if set(answers) == {right} else right))
        return rows

    @no_grad()
    def answers(self, model, tokens):
        """The answers of all models, in order, for each row."""
        logits = model(tokens).values()
        return [*zip(*([VALUES[i] for i in one.data.argmax(-1)] for one in logits), strict=True)]

    def with_names(self, answers):
        """Each model's name and its answer, as "rnn 3, lstm 5"."""
        return ", ".join(f"{name} {value}" for name, value in zip(self.names, answers, strict=True))

    def answer(self, model, prompts):
        """The answers of all models to each prompt, such as "c7 a3 . , ; c?"."""
        questions = [np.array([encode(prompt, self.settings["distance"] + PAIRS)]) for prompt in prompts]
        return [self.with_names(self.answers(model, question)[0]) for question in questions]

    def reading(self, model, text):
        """The question as the models' input; its last label is the last model's answer."""
        tokens = np.array([encode(text, self.settings["distance"] + PAIRS)])
        words = text.split()
        return (tokens,), {
            "names": [words],
            "writes": [""] * (len(words) - 1) + [self.answers(model, tokens)[0][-1]],
        }

    def pictures(self, model, folder, rows, figures):
        """Draw recall.png: accuracy and gradient against distance."""
        from minigrad import viz

        untrained = {f"{name}--": points for name, points in figures[UNTRAINED].items()}
        across = "distance: steps between the pair and the question"
        accuracy = dict(
            title="fraction of questions answered right", xlabel=across, ylabel="accuracy", curves=figures[ACCURACY],
            level=(1 / len(VALUES), "chance"),
        )  # fmt: skip
        gradient = dict(
            title="how strongly the loss depends on the pair (dashed: before training)", xlabel=across, log=True,
            ylabel="gradient at the pair / gradient at the question", curves={**figures[GRADIENT], **untrained},
        )  # fmt: skip
        viz.charts([accuracy, gradient], folder / "recall.png", "Which value had the key?")
        return ["recall.png"]


def reach(model, tokens, values, place):
    """The mean norm of the loss's gradient at one position, divided by that at the last position."""
    x = Tensor(model.embedding(tokens).data).requires_grad_()  # (B, T, C)
    with model.evaluating():
        F.cross_entropy(model.read(x), values, reduction="sum").backward()
    norms = np.sqrt((x.grad.data.astype(np.float64) ** 2).sum(-1)).mean(0)  # (T,)
    return norms[place] / norms[-1]


def encode(text, longest):
    """Convert a prompt to token ids. Raises ValueError if it is empty, too long or has unknown words."""
    words = text.split()
    unknown = [word for word in words if word not in NUMBER]
    if unknown or not words or len(words) > longest:
        raise ValueError(
            f"A question is up to {longest} words separated by spaces: pairs of a letter {KEYS[0]}-{KEYS[-1]}"
            f" and a digit {VALUES[0]}-{VALUES[-1]}, noise from {' '.join(NOISE)}, and at the end "
            f"a letter with ?; got {text!r}."
        )
    return [NUMBER[word] for word in words]


def shorten(tokens):
    """The tokens as text, without the middle of long noise."""
    words = [TOKENS[t] for t in tokens]
    return " ".join(
        words if len(words) <= 8 else [*words[: 2 * PAIRS - 1], f"({len(words) - 2 * PAIRS} more)", words[-1]]
    )
