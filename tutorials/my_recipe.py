"""A recipe of your own: python -m minigrad.train tutorials/my_recipe.py --set hidden=16
then ask the trained model: python -m minigrad.generate runs/parity-0001 110100

Is the number of ones in a row of bits odd? Change anything: the data, the model, the loss.
"""

import numpy as np

import minigrad.nn.functional as F
from minigrad import nn, random
from minigrad.training import Recipe


class Parity(Recipe):
    name, help, metric = "parity", "an MLP learns whether the number of ones is odd", "accuracy"
    defaults = dict(steps=1500, batch_size=64, lr=1e-2, bits=6, hidden=64)
    example = property(lambda self: "1" * self.settings["bits"])  # a question to ask the trained model

    def model(self):
        bits, hidden = self.settings["bits"], self.settings["hidden"]
        return nn.Sequential(
            nn.Linear(bits, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2)
        )

    def draw(self, rng, count):
        bits = rng.integers(2, size=(count, self.settings["bits"]))
        return bits.astype(np.float32), bits.sum(1) % 2

    def batch(self, step):
        return self.draw(random.fresh("data", step), self.settings["batch_size"])

    def loss(self, model, batch):
        x, odd = batch
        return F.cross_entropy(model(x), odd)

    def evaluate(self, model, final=False):
        x, odd = self.draw(random.fresh("test"), 500)
        return {"accuracy": float((model(x).data.argmax(-1) == odd).mean())}

    def answer(self, model, prompts):
        for prompt in prompts:
            if len(prompt) != len(self.example) or set(prompt) - set("01"):
                raise ValueError(
                    f"Ask with {len(self.example)} bits, such as {self.example}; got {prompt!r}."
                )
        rows = np.array([[int(c) for c in prompt] for prompt in prompts], np.float32)
        return ["odd" if odd else "even" for odd in model(rows).data.argmax(-1)]
