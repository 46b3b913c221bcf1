"""What a training that goes wrong can tell: which op made the first NaN. Knows models and random streams; not the training loop."""

import numpy as np

from minigrad import random
from minigrad.accumulation import cut
from minigrad.anomaly import AnomalyError, detect_anomaly

HINTS = {
    "log": "Keep what stands under the logarithm away from 0: cross_entropy and log_softmax take logits and do so.",
    "sqrt": "At 0 the slope of a root is infinite: add a small number under it.",
    "divide": "Keep the divisor away from 0, by a small number added to it.",
    "exp": "exp of more than 88 is inf in float32: take off the largest value first, as softmax does.",
    "power": "A power with a broken exponent, or of 0, has no finite slope everywhere: add a small number to the base.",
}


# ---------------------------------------------------------------- a NaN or an inf: who made it


def sick_weights(model):
    """The name of the first parameter that holds a NaN or an inf, None if all are sound."""
    return next((name for name, p in model.named_parameters() if not np.isfinite(p.data).all()), None)


def first_bad(recipe, model, batch, times=1, workers=1):
    """Sentences: which op, in which layer, forward or backward, makes the first NaN or inf of a batch, and what may help.

    times     in how many parts the batch was taken     workers   by how many threads or ranks each was shared
    Draws from the random streams: whoever calls it has set them to where they stood, and sets them back.
    """
    if name := sick_weights(model):
        return f"The weights {name} hold a NaN or an inf already: the step before has made them so."
    try:
        with detect_anomaly():
            losses = [*_run_again(recipe, model, batch, times, workers)]
    except AnomalyError as found:
        return f"The batch was run again, with the same random numbers, to find the first op. {_place(model, found)}: {found}.{_hint(found)}"
    finally:
        model.zero_grad()
    if not np.isfinite(losses).all():
        return "No op made it out of finite numbers: a NaN or an inf is put in, by the batch or as a constant in the recipe or the model."
    return "Run again, op by op, the batch gave none: something changes outside of the model, or the numbers are at the edge of what float32 can hold."


def _run_again(recipe, model, batch, times, workers):
    for whole, _ in cut(recipe, batch, times):
        for number, (part, share) in enumerate(cut(recipe, whole, workers)):
            with random.as_worker(number):
                loss = recipe.loss(model, part) * share
                if np.isfinite(loss.item()):
                    loss.backward()
            yield loss.item()


def _place(model, found):
    """`In the forward pass, in decoder.0.linear1 (Linear)`."""
    path = next((path for path, module in model.named_modules() if module is found.module), None)
    layer = f"in {path} ({type(found.module).__name__})" if path else "in the model itself" if path == "" else "outside the model's layers, such as in the loss"
    return f"In the {'reverse' if found.backward else 'forward'} pass, {layer}"


def _hint(found):
    return f" {HINTS[found.op]}" if found.op in HINTS else ""
