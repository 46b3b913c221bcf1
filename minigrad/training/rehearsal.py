"""Rehearse a training before it starts: print what it would take (--dry-run), or try to overfit one batch
(--overfit-one-batch). No run is created.
"""

import math
import time

import numpy as np

from minigrad import nn, viz
from minigrad.engine.graph import name_of
from minigrad.machine import peak_memory
from minigrad.modes import Mode, tracing
from minigrad.training.health import layer_of
from minigrad.training.loop import Training, TrainingError
from minigrad.training.progress import cell
from minigrad.viz.trace import amount

# default steps to overfit one batch; success means a loss of at most least + NEAR * (first - least)
STEPS, NEAR = 300, 0.02
TIMED = 3  # steps


# ---------------------------------------------------------------- what a training would take


def dry_run(recipe, model, sharing, say=print):
    """Print what training would take; returns the exit status."""
    training = Training(recipe, model.train(), sharing=sharing)
    batch = training.recipe.batch(0)
    say(f"{recipe.name}: a dry run; nothing is trained and no folder is created.")
    say(f"\nA batch{f' (a step takes {training.times} of them)' if training.times > 1 else ''}:")
    for line in shapes(batch):
        say(f"  {line}")
    say(f"\n{type(model).__name__}, parameters by layer:")
    for name, count in by_layer(model):
        say(f"  {name:36s} {count:>12,}")
    loss, classes, _ = first_loss(recipe, model, batch)
    kept = viz.kept_for_backward(loss)
    say(f"\n{judge_first_loss(loss.item(), classes)}")
    step, evaluation = measure_seconds(training)
    say("\nMemory:")
    for name, size in memory(training, kept):
        say(f"  {name:36s} {amount(size)}B")
    if peak := peak_memory():
        say(f"  {'peak of this process':36s} {amount(peak * 2**20)}B")
    say(f"\n{duration(recipe, step, evaluation)}")
    return 0


def shapes(value, name="batch"):
    """List the arrays of a batch, however they are nested: lines of name, shape and dtype."""
    if isinstance(value, (tuple, list)) and any(hasattr(part, "shape") for part in value):
        return [line for number, part in enumerate(value) for line in shapes(part, f"{name}[{number}]")]
    if isinstance(value, dict):
        return [line for key, part in value.items() for line in shapes(part, f"{name}[{key!r}]")]
    return [
        f"{name:12s} {value.shape} {value.dtype}"
        if hasattr(value, "shape")
        else f"{name:12s} {type(value).__name__}"
    ]


def by_layer(model):
    """Count the trainable parameters: [(layer, count)], then their total."""
    counts = {}
    for path, p in model.named_parameters():
        counts[layer_of(path)] = counts.get(layer_of(path), 0) + p.numel() * p.requires_grad
    return [*counts.items(), ("total", sum(counts.values()))]


def first_loss(recipe, model, batch):
    """Compute (loss, classes, label smoothing) of a cross-entropy; without one, classes are None."""
    seen = [(None, 0.0)]

    def note(fun, arrays, out):
        # arguments of the kernel: logits, targets, weight, ignore_index, label_smoothing
        if name_of(fun) == "cross_entropy" and len(arrays) == 5:
            seen.append((arrays[0].shape[-1], arrays[4]))

    with Mode(tracing, note):
        loss = recipe.loss(model, batch)
    if loss.numel() != 1 or not math.isfinite(loss.item()):
        raise TrainingError(
            f"The first loss is {loss.item() if loss.numel() == 1 else f'of shape {loss.shape}'}; training "
            "needs one finite number."
        )
    return loss, *seen[-1]


def judge_first_loss(loss, classes):
    """Compare the first loss with the loss of guessing; returns a message."""
    if classes is None:
        return (
            f"The first loss is {loss:.4g}. (It is no cross-entropy, so there is no ln V to compare it with.)"
        )
    guess = math.log(classes)
    figures = (
        f"The first loss is {loss:.3f}; guessing evenly among {classes:,} classes gives "
        f"ln {classes:,} = {guess:.3f}."
    )
    if loss > 1.5 * guess:
        return (
            f"{figures} It is far above: the model begins confident of wrong answers. Smaller initial "
            "weights of the last layer, or a norm before it, bring it down."
        )
    if loss < 0.5 * guess:
        return (
            f"{figures} It is far below: does the model see the answer that it should predict (a mask, "
            "targets that are not shifted), or is nearly every answer the same?"
        )
    return f"{figures} That is as it should be."


def memory(training, kept):
    """Memory of a training: [(name, bytes)]. `kept` is the measured size of one batch's graph."""
    weights = sum(p.data.nbytes for p in training.model.parameters())
    gradients = sum(p.data.nbytes for p in training.model.parameters() if p.requires_grad)
    state = _bytes(training.optimizer.state_dict()) if hasattr(training.optimizer, "state_dict") else 0
    sizes = [
        ("weights", weights),
        ("gradients", gradients * (1 + (training.times > 1))),
        ("optimizer", state),
        ("activations kept for backward", kept),
    ]
    return [*sizes, ("total", sum(size for _, size in sizes))]


def _bytes(state):
    if isinstance(state, dict):
        return sum(map(_bytes, state.values()))
    if isinstance(state, (list, tuple)):
        return sum(map(_bytes, state))
    return np.asarray(getattr(state, "data", state)).nbytes if hasattr(state, "shape") else 0


def measure_seconds(training):
    """Measure (seconds of a step, of an evaluation): the fastest of TIMED steps, after one warm-up step."""
    times = [training.step()["seconds"] for _ in range(TIMED + 1)]  # cumulative
    start = time.perf_counter()
    training.evaluate()
    return min(np.diff(times)), time.perf_counter() - start


def duration(recipe, step, evaluation):
    """Message: the estimated time of all steps."""
    steps, count = recipe.settings["steps"], -(-recipe.settings["steps"] // recipe.evaluate_every)
    return (
        f"A step takes {1e3 * step:.3g} ms, the fastest of {TIMED}: {steps:,} steps take about "
        f"{clock(steps * step)}, and {count} evaluation{'s' * (count > 1)} of {evaluation:.2g} s each take "
        f"{clock(count * evaluation)} more. A test on held-out data follows at the end."
    )


def clock(seconds):
    """Format seconds: 12 s, 3 min, 2.5 h."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


# ---------------------------------------------------------------- overfitting one batch


def without_dropout(settings):
    return {**settings, "dropout": 0.0} if "dropout" in settings else settings


def overfit(recipe, model, sharing, steps=None, say=print):
    """Train on the first batch only. Returns the exit status: 0 if the loss comes near the least possible."""
    batch = recipe.batch(0)
    recipe.settings.update(steps=steps or STEPS, accumulate=1)
    recipe.batch = lambda step: batch
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    training = Training(recipe, model.train(), sharing=sharing)
    loss, classes, smoothing = first_loss(recipe, model, batch)
    least, first = floor(classes, smoothing), loss.item()
    say(
        f"{recipe.name}: overfitting one batch, without dropout, in at most {recipe.settings['steps']} "
        "steps; nothing is saved."
    )
    if smoothing:
        say(f"With label smoothing {smoothing:g} among {classes} classes no loss is below {least:.4f}.")
    near = least + NEAR * (first - least)
    while not training.over:
        loss = training.step()["loss"]
        if (
            loss <= near
            or training.over
            or training.done & (training.done - 1) == 0
            or training.done % 50 == 0
        ):
            say(f"step {training.done:5d}  loss {loss:8.4f}")
        if loss <= near:
            break
    say(verdict(loss, near, least, training))
    return 0 if loss <= near else 1


def floor(classes, smoothing):
    """Least loss with label smoothing: the entropy of 1 - e + e/V at the right class and e/V elsewhere."""
    if not smoothing or not classes:
        return 0.0
    right, wrong = 1 - smoothing + smoothing / classes, smoothing / classes
    return -right * math.log(right) - (classes - 1) * wrong * math.log(wrong)


def verdict(loss, near, least, training):
    lr = training.recipe.settings.get("lr", 1e-3)
    reached = f"{loss:.4f} after {training.done} steps"
    if loss <= near:
        return (
            f"Yes: the loss came to {reached}, near the least possible ({cell(least, '.4f')}). Model, loss, "
            "gradients and optimizer work together; if training on all the data goes wrong, the reason is "
            "the data, the learning rate, the size of the model or the number of steps."
        )
    return (
        f"No: the loss is {reached}, and should be below {near:.4f}. A model that cannot overfit one batch "
        f"has a bug, or too few steps. Try --lr {lr * 3:.1g} and --lr {lr / 3:.1g}, and more --steps; then "
        "check whether the targets belong to the inputs (the right row, the right shift), whether a mask "
        "hides what is needed, whether the batch holds one input with two answers, and whether every "
        "gradient arrives (python -m minigrad.gradcheck, viz.graph)."
    )
