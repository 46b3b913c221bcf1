"""Transforms of functions, with torch.func's names: grad, vjp, jvp, jacrev, hessian, hvp.

Each takes a function and returns a function or its values; all compose. Arguments may be tensors, or tuples,
lists and dicts of them.
"""

import functools

import numpy as np

from minigrad.engine import errors, graph
from minigrad.engine.backward import grad as gradients
from minigrad.engine.recording import apply, as_tensor
from minigrad.engine.tensor import Tensor
from minigrad.modes import enable_grad
from minigrad.ops import stack


def grad(func, argnums=0, has_aux=False):
    """Make the function that computes the gradient of func's scalar value in argument(s) argnums."""
    with_value = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args, **kwargs):
        found, value = with_value(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def grad_and_value(func, argnums=0, has_aux=False):
    """grad, but the function returns (gradient, value).

    With has_aux, func and the value are (value, anything else).
    """

    @functools.wraps(func)
    def both(*args, **kwargs):
        args, chosen = _fresh(args, argnums)
        with enable_grad():
            output = func(*args, **kwargs)
        value = output[0] if has_aux else output
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ValueError(
                f"grad needs a function whose value is a scalar, got {_describe(value)}; "
                "for others use vjp or jacrev."
            )
        result = _without_own_history(value, chosen)  # before the history is released
        return _pull([value], chosen, None), (result, _map(_detach, output[1])) if has_aux else result

    return both


def vjp(func, *primals, has_aux=False):
    """Return (value, pull): pull(v) computes v^T J for each primal, with J the Jacobian of func."""
    primals, chosen = _fresh(primals, tuple(range(len(primals))))
    with enable_grad():
        output = func(*primals)
    value, aux = output if has_aux else (output, None)
    values = _leaves(value)

    def pull(*cotangents):
        return _pull(
            values,
            chosen,
            [v for _, v in _pairs("the pull of vjp", values, _leaves(list(cotangents)))],
            keep=True,
        )

    result = _map(lambda y: _without_own_history(y, chosen), value)
    aux = _map(_detach, aux)
    return (result, pull, aux) if has_aux else (result, pull)


def jvp(func, primals, tangents):
    """Return (value, J t), the derivative along t. v -> v^T J is linear in v, so its own pull is t -> J t."""
    if len(primals) != len(tangents):
        raise ValueError(
            f"jvp needs one tangent for each primal, got {len(primals)} primals and {len(tangents)} tangents."
        )
    primals, chosen = _fresh(tuple(primals), tuple(range(len(primals))))
    with enable_grad():
        value = func(*primals)
        values = _leaves(value)
        seeds = [Tensor(np.zeros_like(y.data)).requires_grad_() for y in values]
        pulled = _gradients(values, _leaves(chosen), seeds, create_graph=True)
        paired = [(g, t) for g, t in zip(pulled, _leaves(list(tangents)), strict=True) if g.requires_grad]
        moved = (
            _gradients([g for g, _ in paired], seeds, [t for _, t in paired], create_graph=True)
            if paired
            else seeds
        )
    moved = iter([_without_own_history(m, [chosen, seeds]) for m in moved])
    return _map(lambda y: _without_own_history(y, chosen), value), _map(lambda _: next(moved), value)


def jacrev(func, argnums=0):
    """Make the function that computes the Jacobian, of shape value.shape + argument.shape.

    It needs one reverse pass for each element of the value.
    """

    @functools.wraps(func)
    def jacobian(*args, **kwargs):
        args, chosen = _fresh(args, argnums)
        with enable_grad():
            value = func(*args, **kwargs)
        size = value.numel()
        basis = np.eye(size, dtype=value.dtype).reshape(size, *value.shape)
        rows = [_pull([value], chosen, [Tensor(row)], keep=True) for row in basis]
        columns = zip(*map(_leaves, rows), strict=True)
        columns = iter([stack(list(column)).reshape(value.shape + column[0].shape) for column in columns])
        return _map(lambda _: next(columns), chosen if isinstance(argnums, tuple) else chosen[0])

    return jacobian


def hessian(func, argnums=0):
    """Make the function that computes func's second derivatives, of shape argument.shape + argument.shape."""
    return jacrev(grad(func, argnums), argnums)


def hvp(func, primals, tangents):
    """Return (value, H t): the Hessian times a vector, computed as the gradient of <gradient, t>."""

    def slope(*primals):
        found, value = grad_and_value(func, tuple(range(len(primals))))(*primals)
        return sum(
            (g * t).sum() for g, t in _pairs("hvp", _leaves(list(found)), _leaves(list(tangents)))
        ), value

    found, (_, value) = grad_and_value(slope, tuple(range(len(primals))), has_aux=True)(*primals)
    return value.detach(), found


def functional_call(module, parameters, args=(), kwargs=None):
    """Compute module(*args) with `parameters` (name -> Tensor), and afterwards restore its own."""
    attributes = [
        (attribute, _parameter(module, name), tensor)
        for name, tensor in parameters.items()
        for attribute in _attributes(module, name)
    ]
    try:
        for (owner, last), _, tensor in attributes:
            setattr(owner, last, tensor)
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for (owner, last), before, _ in attributes:
            setattr(owner, last, before)


def _parameter(module, name):
    """Return the parameter or buffer of that name. Raises KeyError if there is none."""
    for part in name.split("."):
        module = getattr(module, part, None)
    if not isinstance(module, Tensor):
        raise KeyError(f"functional_call: the module has no parameter or buffer {name!r}.")
    return module


def _attributes(module, name):
    """List (module, attribute) of a parameter; tied parameters have several."""
    wanted = _parameter(module, name)
    return [
        (inner, key) for inner in module.modules() for key, value in vars(inner).items() if value is wanted
    ]


def _pairs(what, values, vectors):
    """Pair the values with their vectors. Raises ValueError unless they have the same shapes."""
    shapes, got = [v.shape for v in values], [np.shape(v) for v in vectors]
    if shapes != got:
        raise ValueError(f"{what} needs vectors of the shapes {shapes}, got {got}.")
    return list(zip(values, vectors, strict=True))


# ---------------------------------------------------------------- trees of tensors


def _map(fun, tree):
    if isinstance(tree, dict):
        return {key: _map(fun, tree[key]) for key in tree}
    if isinstance(tree, (list, tuple)):
        items = [_map(fun, item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return fun(tree)


def _leaves(tree):
    found = []
    _map(found.append, tree)
    return found


# ---------------------------------------------------------------- levels


def _fresh(args, argnums):
    """Replace the chosen arguments by tensors of this transform, so that nested transforms do not mix."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise ValueError(f"argnums {n} is not one of the function's {len(args)} positional arguments.")
    numbers = tuple(n % len(args) for n in numbers)
    args = tuple(_map(_alias, arg) if i in numbers else arg for i, arg in enumerate(args))
    return args, _Chosen((args[i] for i in numbers), isinstance(argnums, tuple))


class _Chosen(tuple):
    """The arguments with respect to which a transform differentiates.

    `several`: did the caller give a tuple?
    """

    def __new__(cls, items, several=True):
        chosen = super().__new__(cls, items)
        chosen.several = several
        return chosen


def _alias(x):
    """Return a recorded alias of x if an outer transform differentiates through it, else a new leaf."""
    x = as_tensor(x)
    if x.requires_grad:
        with enable_grad():
            return apply(np.reshape, x, x.shape)
    return x.detach().requires_grad_()


def _pull(values, chosen, seeds, keep=False):
    """Compute the gradients in the chosen arguments, with a history if other leaves are involved."""
    outside = any(_needs_history(y, chosen) for y in [*values, *(seeds or [])])
    found = iter(_gradients(values, _leaves(chosen), seeds, create_graph=outside, keep=keep))
    result = tuple(_map(lambda _: next(found), arg) for arg in chosen)
    return result if chosen.several else result[0]


def _gradients(values, inputs, seeds, create_graph, keep=False):
    """The engine's grad, with zeros for inputs that the values do not depend on."""
    pairs = [(y, None if seeds is None else seeds[i]) for i, y in enumerate(values) if y.requires_grad]
    if not pairs:
        return [Tensor(np.zeros_like(x.data)) for x in inputs]
    outputs, starts = zip(*pairs, strict=True)
    found = gradients(
        outputs,
        inputs,
        None if seeds is None else starts,
        retain_graph=keep or create_graph,
        create_graph=create_graph,
        allow_unused=True,
    )
    return [Tensor(np.zeros_like(x.data)) if g is None else g for g, x in zip(found, inputs, strict=True)]


def _needs_history(y, own):
    """Check whether y depends on a leaf that does not belong to this transform."""
    if not y.requires_grad:
        return False
    mine = {id(x) for x in _leaves(list(own)) if x.node is None}
    if y.node is None:
        return id(y) not in mine
    nodes = graph.oldest_first([y])
    return any(
        p is not None and type(p) is not graph.Node and id(p) not in mine
        for node in nodes
        for p in node.parents
    )


def _detach(x):
    return x.detach() if isinstance(x, Tensor) else x


def _without_own_history(y, own):
    """Detach y, unless it depends on a leaf that does not belong to this transform."""
    return y if _needs_history(y, own) else y.detach()


def _describe(value):
    return f"a tensor of shape {value.shape}" if isinstance(value, Tensor) else f"a {type(value).__name__}"


def __getattr__(name):
    raise errors.Missing(__name__, name)
