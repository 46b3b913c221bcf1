"""The programs that the ranks of tests/training/test_distributed.py run. Rank 0 prints JSON.

mpiexec -n 2 python tests/support/ranks.py NAME
"""

import json
import sys

import numpy as np

import minigrad as mg
from minigrad import nn
from minigrad.training import Recipe
from minigrad.training.job import job, only_rank_0_prints, world
from minigrad.training.loop import fit
from minigrad.training.ranks import Ranks
from minigrad.training.threads import Sharing
from models import recipes


def made(name="text", double=True, **settings):
    mg.manual_seed(3)
    small = dict(d_model=16, layers=1, heads=2, d_ff=16, context=8) if name == "text" else {}
    recipe = recipes.find(name)({**small, "batch_size": 7, "steps": 50, **settings})
    recipe.evaluate, recipe.metric, recipe.samples = lambda model: {}, None, lambda model: []
    model = recipe.model()
    return recipe, (model.double() if double else model).train()


def train(sharing, **settings):
    """Train and return (losses, weights). sharing None: in this process alone."""
    recipe, model = made(**settings)
    losses = [row["loss"] for row in fit(recipe, model, sharing=sharing)]
    return losses, np.concatenate([p.data.ravel() for p in model.parameters()])


def apart(a, b):
    return float(np.abs(np.subtract(a, b)).max())


def gradients(model):
    return [None if p.grad is None else p.grad.data.copy() for p in model.parameters()]


def fifty_steps(ranks):
    """Compare trainings by these ranks with the same by one process, and by as many threads."""
    found = {}
    for name, settings in {"float64": {}, "float32": {"double": False}}.items():
        together, repeated = train(ranks, **settings), train(ranks, **settings)
        alone = train(None, **settings)
        found[name] = {"losses": apart(together[0], alone[0]), "weights": apart(together[1], alone[1])}
        found[name]["twice"] = apart(together[1], repeated[1])
    found["float32"]["gradients"] = worst_gradient(ranks)
    with Sharing(2) as threads:
        by_threads = train(threads, dropout=0.3)
    by_ranks = train(ranks, dropout=0.3)
    found["dropout"] = {
        "losses": apart(by_ranks[0], by_threads[0]),
        "weights": apart(by_ranks[1], by_threads[1]),
    }
    return found


def worst_gradient(ranks):
    """The largest error of a reduced gradient in 50 steps.

    The error is the difference from the gradient of the whole batch, relative to the gradient's largest
    element (or 1).
    """
    recipe, model = made(double=False)
    optimizer, schedule = recipe.optimizer(model)
    worst = 0.0
    for step in range(50):
        optimizer.zero_grad()
        recipe.loss(model, recipe.batch(step)).backward()
        alone = gradients(model)
        ranks.backward(recipe, model, recipe.batch(step))
        worst = max(
            worst,
            *(apart(a, b) / max(1, np.abs(a).max()) for a, b in zip(alone, gradients(model), strict=True)),
        )
        optimizer.step()
        schedule.step()
    return worst


class Gates(Recipe):
    """A model with three branches: an example uses the first or the second, and nothing uses the third."""

    defaults = {"first": 3}

    def model(self):
        return nn.ModuleDict(
            {"even": nn.Linear(2, 1), "odd": nn.Linear(2, 1), "idle": nn.Linear(2, 1)}
        ).double()

    def batch(self, step):
        return np.arange(10.0).reshape(5, 2)

    def loss(self, model, batch):
        # the first of two ranks has the row that begins with 0
        branch = model["even" if batch[0, 0] == 0 else "odd"]
        return (branch(batch) ** 2).mean()


def corners(ranks):
    """Run corner cases.

    They are uneven shares, a batch of one example, gradients that one rank or none has, and weights changed
    on one rank only.
    """
    found, recipe = {}, Gates({"batch_size": 5})
    mg.manual_seed(world().rank)  # other weights on each rank until they are rank 0's
    model, alone = recipe.model(), recipe.model()
    ranks.begin(model)
    alone.load_state_dict(model.state_dict())
    loss = ranks.backward(recipe, model, recipe.batch(0))
    parts = recipe.shares(recipe.batch(0), 2)
    expected = sum(recipe.loss(alone, part) * (len(part) / 5) for part in parts)
    expected.backward()
    found["loss"] = abs(loss - expected.item())
    found["none"] = (
        [g is None for g in gradients(model)]
        == [g is None for g in gradients(alone)]
        == [False] * 4 + [True] * 2
    )
    found["uneven"] = max(
        apart(a, b) for a, b in zip(gradients(model), gradients(alone), strict=True) if b is not None
    )
    found["one example"] = one_example(ranks)
    found["small buckets"] = small_buckets(ranks)
    found["over"] = [ranks.stop(world().rank == 1, False), ranks.stop(False, False)]
    try:
        with mg.no_grad():
            model["odd"].weight.data[...] += world().rank
        watchful = Ranks(world(), check_every=1)
        watchful.begin(model)
        watchful.backward(recipe, model, recipe.batch(0))
        model["odd"].weight.data[...] += world().rank
        watchful.backward(recipe, model, recipe.batch(0))
    except RuntimeError as error:
        found["changed"] = str(error)
    return found


def one_example(ranks):
    """Compare loss and gradients of a batch smaller than the number of ranks with those of one process."""
    recipe, model = made(batch_size=1)
    alone = recipe.loss(model, recipe.batch(0))
    alone.backward()
    expected = gradients(model)
    together = ranks.backward(recipe, model, recipe.batch(0))
    return max(
        abs(together - alone.item()), *(apart(a, b) for a, b in zip(gradients(model), expected, strict=True))
    )


def small_buckets(ranks):
    """Compare the gradients of one bucket per parameter with those of one bucket for all."""
    recipe, model = made()
    ranks.backward(recipe, model, recipe.batch(0))
    expected = gradients(model)
    Ranks(world(), bucket_bytes=1).backward(recipe, model, recipe.batch(0))
    return max(apart(a, b) for a, b in zip(gradients(model), expected, strict=True))


def failing(ranks):
    """Raise an error on rank 1 at step 3, while rank 0 waits for its gradients."""
    recipe, model = made()
    loss = recipe.loss

    def failing_loss(model, batch):
        failing_loss.calls += 1
        return loss(model, batch) if failing_loss.calls < 3 or ranks.rank == 0 else 1 / 0

    recipe.loss, failing_loss.calls = failing_loss, 0
    fit(recipe, model, sharing=ranks)


if __name__ == "__main__":
    with only_rank_0_prints(), job(True, say=lambda *_: None) as ranks:
        print(json.dumps(globals()[sys.argv[1]](ranks)))
        ranks.ended = True
