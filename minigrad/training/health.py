"""Health checks of a training: find the op that made the first NaN, and warn early of loss spikes, constant
clipping, vanishing gradients and dead units. Warnings are strings in the rows.
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
    "log": (
        "Keep the argument of the logarithm away from 0; cross_entropy and log_softmax take logits and do so."
    ),
    "sqrt": "The slope of a square root is infinite at 0: add a small number under it.",
    "divide": "Keep the divisor away from 0: add a small number to it.",
    "exp": "exp of more than 88 is inf in float32: subtract the largest value first, as softmax does.",
    "power": (
        "A power of 0, or with a fractional exponent, has no finite slope everywhere: add a small number "
        "to the base."
    ),
}


# ---------------------------------------------------------------- the op that made a NaN or an inf


def sick_weights(model):
    """Name of the first parameter that holds a NaN or an inf; None if all are finite."""
    return next((name for name, p in model.named_parameters() if not np.isfinite(p.data).all()), None)


def first_bad(recipe, model, batch, times=1, workers=1):
    """Message that names the op, layer and pass that make the first NaN or inf of a batch, with a hint.

    times     number of parts the batch was split into     workers   number of threads or ranks per part
    Draws from the random streams: the caller sets their state to that before the step, and restores it.
    """
    if name := sick_weights(model):
        return f"The weights {name} hold a NaN or an inf already: the previous step put it there."
    try:
        with detect_anomaly():
            losses = [*_run_again(recipe, model, batch, times, workers)]
    except AnomalyError as found:
        return (
            "The batch was run again, with the same random numbers, to find the first op. "
            f"{_location(model, found)}: {found}.{_hint(found)}"
        )
    finally:
        model.zero_grad()
    if not np.isfinite(losses).all():
        return (
            "No op made it from finite values: the NaN or inf comes from the batch, or from a constant in "
            "the recipe or the model."
        )
    return (
        "Run again op by op, the batch gave no NaN or inf: something outside the model changes, or the "
        "values are near the limit of float32."
    )


def _run_again(recipe, model, batch, times, workers):
    for whole, _ in cut(recipe, batch, times):
        for number, (part, weight) in enumerate(cut(recipe, whole, workers)):
            with random.as_worker(number):
                loss = recipe.loss(model, part) * weight
                if np.isfinite(loss.item()):
                    loss.backward()
            yield loss.item()


def _location(model, found):
    """Location of the op, such as "In the forward pass, in decoder.0.linear1 (Linear)"."""
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


# ---------------------------------------------------------------- warnings while it trains


class Health:
    """A listener of the training loop: adds "warnings", a list of strings, to a row if there are any, and
    "dead units" to rows with an evaluation. Each kind of warning is given at most MOST times.

    clip   the largest gradient norm allowed
    rows   the rows of the earlier steps, whose warnings count
    """

    MOST = 3

    def __init__(self, recipe, model, clip=1.0, rows=()):
        self.recipe, self.model = recipe, model
        self.watchers = [Spikes(), Clipping(clip), Vanishing(), Dying()]
        self.counts = collections.Counter()
        # the log may have been edited by hand
        with contextlib.suppress(TypeError, ValueError, KeyError, AttributeError, IndexError):
            for row in rows:
                self.warnings(row)

    def __call__(self, row):
        if "samples" in row and (dead := dead_units(self.recipe, self.model, row["step"])):
            row[DEAD] = dead
        if warnings := self.warnings(row):
            row[WARNINGS] = warnings

    def warnings(self, row):
        """Warnings after a row; they depend on the rows alone."""
        found = []
        for watcher in self.watchers:
            if (warning := watcher(row)) and self.counts[watcher] < self.MOST:
                self.counts[watcher] += 1
                last = " (Not repeated after this.)" if self.counts[watcher] == self.MOST else ""
                found.append(f"step {row['step']}: {warning}{last}")
        return found


class Spikes:
    """A jump of the loss: above the median of the last WINDOW steps by more than FAR times their spread, and
    by more than LEAST times the first loss, because near 0 every batch is far from the others. The spread is
    1.4826 times the median distance from the median: the standard deviation for normally distributed losses,
    but insensitive to the spikes themselves. Warns where a spike begins; no other within WINDOW steps."""

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
            f"the loss jumped to {loss:.4g}; in the {len(before)} steps before it was about {usual:.4g}, "
            f"give or take {spread:.2g}. A strange batch, or steps that are too large: if it happens again "
            "or the loss stays high, try a third of the --lr, or more warmup."
        )


class Clipping:
    """Gradients that are nearly always clipped, to less than a third of their norm."""

    WINDOW, PART, TIMES = 200, 0.95, 3

    def __init__(self, limit):
        self.limit, self.last, self.warned = limit, collections.deque(maxlen=self.WINDOW), False

    def __call__(self, row):
        self.last.append(row["gradient norm"])
        if "samples" not in row or len(self.last) < self.WINDOW or self.warned:
            return None
        part, usual = np.mean(np.array(self.last) > self.limit), float(np.median(self.last))
        self.warned = bool(part >= self.PART and usual > self.TIMES * self.limit)
        return self.warned and (
            f"{part:.0%} of the last {self.WINDOW} gradients were longer than {self.limit:g} and were "
            f"clipped; half of them were longer than {usual:.3g}. Clipping keeps the direction, but hides "
            "most of the difference between steep and flat regions. Smaller initial weights, a norm before "
            "each sublayer (--norm pre) or a lower --lr may help."
        )


class Vanishing:
    """Layers whose gradient norm has been less than TINY times the largest one for STEPS steps."""

    TINY, STEPS = 1e-6, 100

    def __init__(self):
        self.since, self.warned = {}, set()

    def __call__(self, row):
        norms = row.get(NORMS, {})
        largest = max(norms.values(), default=0.0)
        for layer, norm in norms.items():
            if norm > self.TINY * largest:
                self.since.pop(layer, None)
            else:
                self.since.setdefault(layer, row["step"])
        lasting = [
            layer
            for layer, step in self.since.items()
            if row["step"] - step >= self.STEPS and layer not in self.warned
        ]
        if "samples" not in row or not lasting:
            return None
        self.warned.update(lasting)
        return (
            f"no gradient reaches {', '.join(lasting)}: for {self.STEPS} steps it has been 0, or less than "
            "a millionth of the largest layer's. The model is learning without those layers. Look for a "
            "detach, a saturated sigmoid or softmax, or dead units between them and the loss; residual "
            "sums and norms keep gradients flowing."
        )


class Dying:
    """Units of a ReLU or GELU that gave 0 for every example of each of the last TIMES evaluations."""

    TIMES, PART = 3, 0.1

    def __init__(self):
        self.last, self.warned = collections.deque(maxlen=self.TIMES), {}

    def __call__(self, row):
        if "samples" not in row:
            return None
        self.last.append(row.get(DEAD, {}))
        if len(self.last) < self.TIMES:
            return None
        dead = {
            path: (min(found.get(path, (0,))[0] for found in self.last), of)
            for path, (_, of) in self.last[-1].items()
        }
        more = {
            path: (count, of)
            for path, (count, of) in dead.items()
            if count >= self.PART * of and count > 2 * self.warned.get(path, 0)
        }
        self.warned.update({path: count for path, (count, _) in more.items()})
        listed = ", ".join(f"{count} of the {of} of {path}" for path, (count, of) in more.items())
        return more and (
            f"dead units: {listed} gave 0 for every example of the last {self.TIMES} evaluations. No "
            "gradient passes through them, so they stay dead. Most often a step was too large: try a third "
            "of the --lr, or GELU instead of ReLU."
        )


def dead_units(recipe, model, step):
    """Count the dead units of ReLUs and GELUs: {path: (units whose output is 0 for every example, all
    units)}, on the batch of a step in evaluation mode. Paths without dead units are left out. The random
    streams do not change."""
    largest, paths = {}, {id(module): path for path, module in model.named_modules()}

    def note(fun, arrays, out):
        if name_of(fun) in ("relu", "gelu") and out.ndim:
            path = paths.get(id(current_module.get()), "")
            units = np.abs(out.data).reshape(-1, out.shape[-1]).max(0, initial=0)
            largest[path] = np.maximum(largest.get(path, 0), units)

    with random.isolated("health", step), no_grad(), model.evaluating(), Mode(tracing, note):
        recipe.loss(model, recipe.batch(step))
    dead = {path: (int((units <= 1e-6).sum()), units.size) for path, units in largest.items()}
    return {path: found for path, found in dead.items() if found[0]}


def layer_of(path):
    """Layer of a parameter or module: encoder.0 of encoder.0.linear1.weight, head of head.weight."""
    parts = path.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdigit()), 0)
    return ".".join(parts[: number + 1])


def layer_norms(model):
    """Norm of each layer's gradients in `.grad`, all its parameters taken together: {layer: norm}."""
    squares = {}
    for path, p in model.named_parameters():
        if p.grad is not None:
            flat = p.grad.data.ravel()
            squares[layer_of(path)] = squares.get(layer_of(path), 0.0) + float(np.dot(flat, flat))
    return {layer: square**0.5 for layer, square in squares.items()}
