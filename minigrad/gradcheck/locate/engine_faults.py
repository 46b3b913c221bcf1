"""Check the engine itself: its order of nodes, its sums after broadcasting, its accumulation of gradients.

A slow second version of the reverse pass serves for comparison: visit the nodes by birth, sum over the axes
that broadcasting stretched, add up every contribution.
"""

from dataclasses import dataclass

import numpy as np

from minigrad.engine import reverse_pass
from minigrad.engine.graph import Node, nodes_behind
from minigrad.engine.tensor import Tensor
from minigrad.gradcheck.diagnosis.evidence import sum_to
from minigrad.gradcheck.numeric import relative_error
from minigrad.gradcheck.results import Diagnosis

CLOSE = 1e-9


@dataclass(frozen=True)
class EngineFault:
    sentence: str
    diagnosis: Diagnosis


def examine_engine(values, rng):
    """Return the first EngineFault in the history of some tensors, or None."""
    starts = [y.node for y in values]
    order = reverse_pass.oldest_first(starts)  # the order of the engine under test
    positions = {node: i for i, node in enumerate(order)}
    for node in order:
        for parent in node.parents:
            if type(parent) is Node and positions.get(parent, -1) > positions[node]:
                return _fault(
                    "order",
                    f"{node.name} comes before {parent.name}, its argument",
                    "the nodes are visited in the wrong order: a node's gradient is complete only after "
                    "every node that used its value was visited. Visit newest first.",
                )
    seeds = {node: rng.standard_normal(node.shape).astype(node.dtype) for node in starts}
    contributions, fault = _collect_contributions(starts, seeds)
    return fault or _check_accumulation(contributions, seeds)


def _fault(name, what, sentence):
    return EngineFault(
        f"every op's own rule is right, but the engine is not: {what}.", Diagnosis(name, sentence)
    )


def _collect_contributions(starts, seeds):
    """Collect the contributions to each node and leaf, in the order of arrival.

    Returns them with the first EngineFault in fitting a gradient to its argument, or None.
    """
    contributions = {node: [("the seed", g)] for node, g in seeds.items()}
    for node in sorted(nodes_behind(starts), key=lambda node: -node.birth):
        if node not in contributions:
            continue
        g = _total([part for _, part in contributions[node]])
        for i, (parent, raw) in enumerate(
            zip(node.parents, reverse_pass.vjp(node, g, node.needs, None), strict=False)
        ):
            if parent is None or raw is None:
                continue
            right = raw if type(raw) is tuple else sum_to(np.asarray(raw), parent.shape)
            if right is not None and type(raw) is not tuple:
                right = right.astype(parent.dtype)
                fault = _check_fit(raw, right, parent, node, i)
                if fault:
                    return contributions, fault
            contributions.setdefault(parent, []).append((f"argument {i} of {node.name}", right))
    return contributions, None


def _total(parts):
    total = parts[0]
    for part in parts[1:]:
        total = (
            total + part
            if type(part) is not tuple
            else tuple(
                y if x is None else x if y is None else x + y for x, y in zip(total, part, strict=True)
            )
        )
    return total


def _check_fit(raw, right, parent, node, i):
    """Return the EngineFault in fitting a gradient to its argument's shape and dtype, or None."""
    what = (
        f"the gradient of shape {np.shape(raw)} for argument {i} of {node.name}, which has the shape "
        f"{parent.shape}"
    )
    try:
        given = reverse_pass.fit(raw, parent, node)
    except Exception as error:
        return _fault("broadcasting", f"it cannot fit {what}: {type(error).__name__}: {error}", _STRETCHED)
    if given.shape != parent.shape:
        return _fault("broadcasting", f"it passes on {what}, unchanged", _STRETCHED)
    if given.dtype != parent.dtype or not _same(given, right):
        if given.dtype != parent.dtype or _same(given, right.astype(np.float32)):
            return _fault(
                "dtype",
                f"{what} goes through {np.dtype(np.float32) if given.dtype == parent.dtype else given.dtype}",
                "a gradient must keep the dtype of its argument; find the cast.",
            )
        factor = right.size / max(1, np.size(raw))
        how = (
            "by a mean instead of a sum"
            if _same(given, right * factor)
            else "by keeping one slice instead of adding up all"
            if raw.shape != parent.shape
            else "though nothing was stretched"
        )
        return _fault("broadcasting", f"it fits {what} {how}", _STRETCHED)
    return None


_STRETCHED = (
    "broadcasting is not undone correctly: an element that was stretched along an axis was used once for "
    "each position, so its gradient is the sum over that axis."
)


def _check_accumulation(contributions, seeds):
    """Return the EngineFault if the engine's gradient of a node or leaf is not the sum of its parts."""
    found = reverse_pass.pull_back(dict(seeds), set(contributions), retain_graph=True)
    newest_first = sorted(contributions, key=lambda key: -key.birth if type(key) is Node else 0)
    for key in newest_first:
        parts = contributions[key]
        given, right = found.get(key), _total([part for _, part in parts])
        if type(right) is tuple or (key.hooks and type(key) is Node):
            continue
        name = f"the value of {key.name}" if type(key) is Node else f"a leaf of shape {key.shape}"
        if isinstance(given, Tensor):
            given = given.data
        if given is None or not _same(given, right):
            only = next((label for label, part in parts if given is not None and _same(given, part)), None)
            if len(parts) > 1:
                what = (
                    f"only the gradient through {only} arrives"
                    if only
                    else "their gradients are not added up"
                )
                what = f"{name} is used {len(parts)} times, and {what}"
                return _fault(
                    "accumulation",
                    what,
                    "the gradients of all uses of a value add up: pending[x] = pending[x] + g, never "
                    "pending[x] = g.",
                )
            return _fault(
                "accumulation",
                f"{name} does not get the gradient that was sent to it",
                "look at how pending gradients are stored until their node is visited.",
            )
    return None


def _same(a, b):
    return np.shape(a) == np.shape(b) and relative_error(a, b) <= CLOSE
