"""backward, grad and hooks: check the arguments and start the reverse pass.

reverse_pass.py walks the graph, and rules.py has the derivatives. The methods here are attached to Tensor.
"""

import sys
import weakref

import numpy as np

from minigrad.engine import errors
from minigrad.engine.recording import apply, as_tensor, take_item_of
from minigrad.engine.reverse_pass import plus, pull_back
from minigrad.engine.tensor import Tensor, attach
from minigrad.modes import Mode, readable, recording


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=False):
    """Return the gradients of `outputs` with respect to `inputs` as a tuple of Tensors. Changes no `.grad`.

    outputs       a Tensor or several; scalars, unless grad_outputs has a gradient of the same shape for each
    inputs        a Tensor or several; leaves or computed values
    create_graph  record the gradients' own history, so that they can be differentiated again (the only way to
                  that)
    allow_unused  return None for an input that the outputs do not depend on, instead of raising RuntimeError
    """
    outputs, inputs = _listed(outputs), _listed(inputs)
    seeds = _listed(grad_outputs) if grad_outputs is not None else [None] * len(outputs)
    if len(seeds) != len(outputs):
        raise ValueError(f"grad got {len(outputs)} outputs but {len(seeds)} grad_outputs; give one for each.")
    for x in inputs:
        if not x._requires_grad:
            raise RuntimeError(
                f"grad: an input of shape {x.shape} does not require a gradient. "
                "Call x.requires_grad_() before computing with it."
            )
    keep = create_graph if retain_graph is None else retain_graph
    gradients = gradients_of(outputs, inputs, seeds, keep, create_graph)
    for x, gradient in zip(inputs, gradients):
        if gradient is None and not allow_unused:
            raise RuntimeError(
                f"grad: an input of shape {x.shape} was not used to compute the outputs. "
                "Pass allow_unused=True to get None for it."
            )
    for i in range(len(gradients)):
        g, gradients[i] = gradients[i], None
        gradients[i] = g if g is None or isinstance(g, Tensor) else Tensor(private_copy(g))
    return tuple(gradients)


def gradients_of(outputs, inputs, seeds, retain_graph, create_graph, run_hooks=True):
    """Return the gradients of the inputs (arrays, or Tensors with a history), None where there is none."""
    keys = [_key(x) for x in inputs]
    with Mode(recording, create_graph):
        found = _reverse(
            outputs, seeds, set(keys), retain_graph, History if create_graph else None, run_hooks
        )
    return [found.get(key) for key in keys]


def _reverse(outputs, seeds, wanted, retain_graph, history, run_hooks=True):
    """Check the outputs and run the reverse pass from the seeds."""
    pending = {}
    for output, seed in zip(outputs, seeds):
        if not output._requires_grad:
            raise RuntimeError(errors.nothing_to_differentiate(output))
        g = seed_of(output, seed)
        g = g if history else g.data
        key = _key(output)
        pending[key] = plus(pending[key], g) if key in pending else g
    return pull_back(pending, wanted, retain_graph, history, run_hooks)


def private_copy(g):
    """Return a gradient that its receiver may write to. A copy, because the reverse pass shares gradients.

    Returns g itself if nothing but the caller's variable refers to it.
    """
    unshared = type(g) is np.ndarray and g.base is None and sys.getrefcount(g) <= UNSHARED
    return g if unshared else np.array(g)


def _count_of_one():
    """Return Python's count in `private_copy` for an array that only the caller's variable refers to.

    Versions of Python differ in it.
    """
    g = np.empty(0)
    return (lambda g: sys.getrefcount(g))(g)


UNSHARED = _count_of_one()


def seed_of(output, gradient):
    """Return the gradient to start from: 1 for a scalar, else the caller's, of the output's shape."""
    if gradient is None:
        if output.data.size != 1:
            raise RuntimeError(errors.not_a_scalar(output))
        return Tensor(np.ones_like(output.data))
    data = gradient.data if isinstance(gradient, Tensor) else np.asarray(gradient)
    if data.shape != output.shape or data.dtype.kind != "f":
        raise RuntimeError(errors.wrong_seed(output, data))
    if data.dtype == output.dtype and isinstance(gradient, Tensor):
        return gradient
    return Tensor(data.astype(output.dtype))


def _key(tensor):
    """Return the vertex of a tensor in the graph: its node, or the tensor itself if it is a leaf."""
    return tensor if tensor.node is None else tensor.node


def _listed(tensors):
    return [tensors] if isinstance(tensors, (Tensor, np.ndarray)) else list(tensors)


class History:
    """Make rules compute with Tensors, so that a gradient can have a gradient."""

    @staticmethod
    def tensor(array, node):
        """Turn an array that the graph kept back into its Tensor, or a tuple of arrays into Tensors."""
        if type(array) is tuple:
            items = [(i, Tensor(y)) for i, y in enumerate(array)]
            return tuple(take_item_of(y, node, i) if y.dtype.kind == "f" else y for i, y in items)
        out = Tensor(array)
        if node is not None:
            out.node, out._requires_grad, out.writes = node, True, node.writes
        return out

    @staticmethod
    def differentiate(definition, args, kwargs, g, needs):
        """Compute a kernel's gradients with a history, by differentiating its definition instead."""
        with Mode(readable, True):
            aliases = [apply(np.reshape, a, a.shape) if needed else a for a, needed in zip(args, needs)]
            y = definition(*aliases, **kwargs)
            wanted = [a for a, needed in zip(aliases, needs) if needed]
            found = iter(grad(y, wanted, g, create_graph=True, allow_unused=True))
        return [next(found) if needed else None for needed in needs]


# ---------------------------------------------------------------- methods of Tensor


def backward(self, gradient=None, retain_graph=False):
    """Add the gradient of this value to `.grad` of every leaf it was computed from.

    gradient      the gradient of this value, in its shape; may be left out for a scalar
    retain_graph  keep the history for another backward
    """
    found = _reverse([self], [gradient], None, retain_graph, None)
    while found:  # one by one, so that at most one gradient is in memory twice
        leaf, g = found.popitem()
        if leaf.grad is None:
            leaf.grad = Tensor(private_copy(g))
        else:
            leaf.grad.data = leaf.grad.data + g


def register_hook(self, hook):
    """Call hook(gradient) when this tensor's gradient is complete. Its result, if any, replaces the gradient.

    Returns a handle with a method remove().
    """
    if not self._requires_grad:
        raise RuntimeError(
            "A hook is called with a gradient, but this tensor does not require one; "
            "call x.requires_grad_() first."
        )

    def call_hook(g):
        out = hook(g if isinstance(g, Tensor) else Tensor(g))
        if out is None:
            return g
        out = as_tensor(out, g.dtype)
        if out.shape != g.shape:
            raise RuntimeError(
                f"A hook must return a gradient of the tensor's shape {g.shape}, or None; "
                f"it returned shape {out.shape}."
            )
        return out if isinstance(g, Tensor) else out.data

    owner = _key(self)
    owner.hooks = owner.hooks or {}
    return _Handle(owner.hooks, call_hook)


def retain_grad(self):
    """Make backward store the gradient of this computed value in `.grad`, as it does for leaves."""
    if self.node is None:
        return
    here = weakref.ref(self)
    if any(handle.keeps_for is here for handle in self.node.hooks or ()):
        return

    def keep(g):
        tensor = here()
        if tensor is not None:
            tensor.grad = g.detach().clone() if tensor.grad is None else tensor.grad + g.detach()

    self.register_hook(keep).keeps_for = here


class _Handle:
    """A registered hook, with a method to remove it."""

    keeps_for = None  # the tensor, if the hook is retain_grad's

    def __init__(self, hooks, hook):
        self._hooks = hooks
        hooks[self] = hook

    def remove(self):
        self._hooks.pop(self, None)


for _method in (backward, register_hook, retain_grad):
    attach(_method.__name__, _method)
