"""When training goes wrong: which op made the first NaN, and what rows tell before it comes to that. Knows models, random streams and
the rows of a training; not the loop that makes them, nor how its sentences are shown.
"""

import collections
import contextlib
import statistics

import numpy as np

from minigrad import random
from minigrad.engine.anomaly import AnomalyError, detect_anomaly
from minigrad.engine.graph import name_of
from minigrad.modes import Mode, current_module, no_grad, tracing
from minigrad.training.accumulation import cut

NORMS, DEAD, WARNINGS = "gradient norm by layer", "dead units", "warnings"  # keys in a row
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
    layer = (
        f"in {path} ({type(found.module).__name__})"
        if path
        else "in the model itself"
        if path == ""
        else "outside the model's layers, such as in the loss"
    )
    return f"In the {'reverse' if found.backward else 'forward'} pass, {layer}"


def _hint(found):
    return f" {HINTS[found.op]}" if found.op in HINTS else ""


# ---------------------------------------------------------------- while it trains: sentences, each said once


class Health:
    """A listener of the training loop: puts "warnings", a list of sentences, into the row where there is something to say, and where
    the model is looked at also "dead units". A sentence of one kind is said MOST times at most.

    clip   the longest gradient allowed
    rows   those of the steps before: what was said then is not said again
    """

    MOST = 3

    def __init__(self, recipe, model, clip=1.0, rows=()):
        self.recipe, self.model = recipe, model
        self.watchers = [Spikes(), Clipping(clip), Vanishing(), Dying()]
        self.said = collections.Counter()
        # a log that somebody has changed
        with contextlib.suppress(TypeError, ValueError, KeyError, AttributeError, IndexError):
            for row in rows:
                self.sentences(row)

    def __call__(self, row):
        if "samples" in row and (dead := dead_units(self.recipe, self.model, row["step"])):
            row[DEAD] = dead
        if sentences := self.sentences(row):
            row[WARNINGS] = sentences

    def sentences(self, row):
        """What there is to say after a row; depends on the rows alone."""
        found = []
        for watcher in self.watchers:
            if (sentence := watcher(row)) and self.said[watcher] < self.MOST:
                self.said[watcher] += 1
                last = " (This is not said again in this run.)" if self.said[watcher] == self.MOST else ""
                found.append(f"step {row['step']}: {sentence}{last}")
        return found


class Spikes:
    """A jump of the loss: above the median of the last WINDOW steps by more than FAR times their spread, and by more than LEAST of
    the first loss, since near 0 every batch is far from the others. The spread is 1.4826 times the median distance from the median:
    the standard deviation, if the losses were normally distributed, but unlike that unmoved by the spikes themselves. A spike is
    said where it begins; no other within WINDOW steps of it is."""

    WINDOW, FEWEST, FAR, LEAST = 50, 20, 6, 0.05

    def __init__(self):
        self.last, self.first, self.quiet_until = collections.deque(maxlen=self.WINDOW), None, 0

    def __call__(self, row):
        loss, before = row["loss"], list(self.last)
        self.last.append(loss)
        if len(before) < self.FEWEST:
            return None
        usual = statistics.median(before)
        self.first = usual if self.first is None else self.first
        if loss <= usual + self.LEAST * abs(self.first):
            return None
        spread = 1.4826 * statistics.median(abs(one - usual) for one in before)
        if loss <= usual + self.FAR * spread:
            return None
        begins, self.quiet_until = row["step"] > self.quiet_until, row["step"] + self.WINDOW
        return begins and (
            f"the loss jumped to {loss:.4g}; that of the {len(before)} steps before was about {usual:.4g}, give or take {spread:.2g}. A strange batch, or steps "
            f"that are too long: if it comes again or stays, try a third of the --lr, or more warmup."
        )


class Clipping:
    """Gradients that are nearly always shortened, to less than a third."""

    WINDOW, PART, TIMES = 200, 0.95, 3

    def __init__(self, longest):
        self.longest, self.last, self.said = longest, collections.deque(maxlen=self.WINDOW), False

    def __call__(self, row):
        self.last.append(row["gradient norm"])
        if "samples" not in row or len(self.last) < self.WINDOW or self.said:
            return None
        part, usual = np.mean(np.array(self.last) > self.longest), float(np.median(self.last))
        self.said = bool(part >= self.PART and usual > self.TIMES * self.longest)
        return self.said and (
            f"{part:.0%} of the last {self.WINDOW} gradients were longer than {self.longest:g} and were shortened; half of them were longer than {usual:.3g}. The direction "
            "is kept, but hardly the difference between steep and flat places. Smaller first weights, a norm before each sublayer (--norm pre) or a lower --lr may help."
        )


class Vanishing:
    """Layers whose gradient has been nothing beside the longest one for many steps."""

    TINY, STEPS = 1e-6, 100

    def __init__(self):
        self.since, self.said = {}, set()

    def __call__(self, row):
        norms = row.get(NORMS, {})
        longest = max(norms.values(), default=0.0)
        for layer, norm in norms.items():
            if norm > self.TINY * longest:
                self.since.pop(layer, None)
            else:
                self.since.setdefault(layer, row["step"])
        lasting = [
            layer
            for layer, step in self.since.items()
            if row["step"] - step >= self.STEPS and layer not in self.said
        ]
        if "samples" not in row or not lasting:
            return None
        self.said.update(lasting)
        return (
            f"no gradient reaches {', '.join(lasting)}: for {self.STEPS} steps it has been 0, or less than a millionth of the longest layer's. What is learned, is learned "
            "without. Look for a detach, a saturated sigmoid or softmax, or dead units on the way to it; residual sums and norms keep the way open."
        )


class Dying:
    """Units of a ReLU or GELU that gave 0 for every example of each of the last TIMES looks."""

    TIMES, PART = 3, 0.1

    def __init__(self):
        self.looks, self.said = collections.deque(maxlen=self.TIMES), {}

    def __call__(self, row):
        if "samples" not in row:
            return None
        self.looks.append(row.get(DEAD, {}))
        if len(self.looks) < self.TIMES:
            return None
        dead = {
            path: (min(look.get(path, (0,))[0] for look in self.looks), of)
            for path, (_, of) in self.looks[-1].items()
        }
        more = {
            path: (count, of)
            for path, (count, of) in dead.items()
            if count >= self.PART * of and count > 2 * self.said.get(path, 0)
        }
        self.said.update({path: count for path, (count, _) in more.items()})
        return more and (
            f"dead units: {', '.join(f'{count} of the {of} of {path}' for path, (count, of) in more.items())} gave 0 for every example of the last {self.TIMES} looks. "
            "No gradient passes them, so they stay so. Most often a step was too long: try a third of the --lr, or GELU in the place of ReLU."
        )


def dead_units(recipe, model, step):
    """{path: (units whose output is 0 for every example, units)} of the model's ReLUs and GELUs, where there are any, for the batch of
    a step in evaluation. Leaves the random streams alone."""
    largest, called = {}, {id(module): path for path, module in model.named_modules()}

    def note(fun, arrays, out):
        if name_of(fun) in ("relu", "gelu") and out.ndim:
            path = called.get(id(current_module.get()), "")
            units = np.abs(out.data).reshape(-1, out.shape[-1]).max(0, initial=0)
            largest[path] = np.maximum(largest.get(path, 0), units)

    with random.isolated("health", step), no_grad(), model.evaluating(), Mode(tracing, note):
        recipe.loss(model, recipe.batch(step))
    dead = {path: (int((units <= 1e-6).sum()), units.size) for path, units in largest.items()}
    return {path: found for path, found in dead.items() if found[0]}


def layer_of(path):
    """The layer that a parameter or module belongs to: encoder.0 of encoder.0.linear1.weight, embedding of embedding.weight."""
    parts = path.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdigit()), 0)
    return ".".join(parts[: number + 1])


def layer_norms(model):
    """{layer: the length of its parameters' gradients together}, as they are now."""
    squares = {}
    for path, p in model.named_parameters():
        if p.grad is not None:
            flat = p.grad.data.ravel()
            squares[layer_of(path)] = squares.get(layer_of(path), 0.0) + float(np.dot(flat, flat))
    return {layer: square**0.5 for layer, square in squares.items()}
