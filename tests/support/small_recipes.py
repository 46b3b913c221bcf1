"""Every recipe in a size that trains in less than a second."""

import minigrad as mg
from models import recipes

SMALL = {
    "dates": dict(d_model=16, layers=1, heads=2, d_ff=16),
    "text": dict(d_model=16, layers=1, heads=2, d_ff=16, context=8),
    "mlm": dict(d_model=16, layers=1, heads=2, d_ff=16, context=16),
    "recall": dict(distance=3),
}
NAMES = [name for name in recipes.NAMES if name != "translate"]


def made(name, **settings):
    mg.manual_seed(3)
    recipe = recipes.find(name)({**SMALL.get(name, {}), "batch_size": 7, "steps": 3, **settings})
    model = recipe.model()
    model.double()
    return recipe, model.train()
