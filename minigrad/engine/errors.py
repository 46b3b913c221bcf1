"""Error messages of the engine: what was wrong, what was got, what to do.

Each function returns the exception or its message, and the caller raises.
"""

import sys

import numpy as np

from minigrad.engine.graph import name_of


class Missing(AttributeError):
    """Missing(module, name): a name that a module does not have.

    The message is composed when it is read, which hasattr never does.
    """

    def __str__(self):
        from minigrad.pytorch.absent import message

        return message(*self.args)


class OldPaths:
    """The last finder in sys.meta_path. Raises ModuleNotFoundError with the new path if a module moved."""

    def find_spec(name, path=None, target=None):
        if name.startswith(("minigrad.", "models.")):
            from minigrad.pytorch.moved import MOVED

            if name in MOVED:
                # without name=: Python would discard an error with the requested name in `from minigrad
                # import trainer`
                raise ModuleNotFoundError(f"{name} is {MOVED[name]} now.")


sys.meta_path.append(OldPaths)


LEAVES_THE_GRAPH = (
    "{what}: this tensor requires a gradient, and the array would leave the graph without it. "
    "Write x.detach().numpy() if no gradient is wanted."
)

WRITES_A_GRADIENT_AWAY = (
    "Writing a tensor that requires a gradient into another would lose its history. Build the result with "
    "where, stack or concatenate, or with the operator that is not in place (a + b); or write x.detach() if "
    "no gradient is wanted."
)


def failed_call(error, fun, arrays, kwargs):
    """The exception for a NumPy function that refused its arguments: same kind, with the shapes and a fix."""
    kind, name = kind_of(error), name_of(fun)
    shapes = [tuple(a.shape) for a in arrays if isinstance(a, np.ndarray)]
    if name == "matmul" and len(arrays) == 2:
        return kind(_matmul(*map(np.shape, arrays)))
    if len(shapes) >= 2 and "broadcast" in str(error):
        listed = " and ".join(map(str, shapes))
        return kind(
            f"{name}: shapes {listed} do not broadcast. Aligned at the right, each pair of axes must be "
            "equal, or one of them 1; reshape or unsqueeze one of them."
        )
    if name == "reshape":
        return kind(
            f"reshape: a tensor of shape {shapes[0]} has {_count(shapes[0])} elements, "
            f"which do not fill {_given(arrays, kwargs)}."
        )
    settings = ", ".join(
        f"{key}={value!r}" for key, value in kwargs.items() if not isinstance(value, np.ndarray)
    )
    of = f" of shape {' and '.join(map(str, shapes))}" if shapes else ""
    return kind(f"{name}{of}{' with ' + settings if settings else ''}: {str(error).rstrip('.')}.")


def kind_of(error):
    """The class to raise in place of one of NumPy's errors, whose own classes do not all accept a message."""
    return next(
        kind
        for kind in (np.exceptions.AxisError, IndexError, ValueError, TypeError)
        if isinstance(error, kind)
    )


def _count(shape):
    return int(np.prod(shape, dtype=object)) if shape else 1


def _given(arrays, kwargs):
    return kwargs.get("shape", arrays[1] if len(arrays) > 1 else "the new shape")


def _matmul(a, b):
    if not a or not b:
        return (
            f"matmul: needs tensors of at least one axis, got shapes {a} and {b}. Use * to scale by a scalar."
        )
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        hint = " Transposing the second would fit: x @ y.mT." if len(b) > 1 and a[-1] == b[-1] else ""
        return (
            f"matmul: shapes {a} and {b} do not fit: the last axis of the first ({a[-1]}) must equal "
            f"the {'second-to-last' if len(b) > 1 else 'only'} axis of the second ({inner}).{hint}"
        )
    return f"matmul: the leading axes of {a} and {b} do not broadcast: {a[:-2]} against {b[:-2]}."


def no_rule(fun):
    return NotImplementedError(
        f"{name_of(fun)} has no rule for its gradient in minigrad. Compose it from functions that have one, "
        "add a rule with defvjp, or compute it outside the graph: on x.detach()."
    )


def not_dispatched(fun, what):
    """The exception for a call of a NumPy function on tensors that would silently leave the graph."""
    return TypeError(f"{fun.__name__} on a tensor cannot take {what}, which would bypass the history.")


def hidden_tensor(fun):
    return NotImplementedError(
        f"np.{fun.__name__} reads a list or a keyword argument, where minigrad cannot follow its tensors. "
        "Join them first, with mg.concatenate or mg.stack, or compute outside the graph: on "
        "x.detach().numpy()."
    )


def unsupported_dtype(fun, dtype):
    where = f"{name_of(fun)} gave" if fun else "This would make"
    return TypeError(f"{where} a tensor of dtype {dtype}; minigrad has floats, integers and booleans only.")


def integer_gradient(dtype):
    return TypeError(
        f"Only floating point tensors can require a gradient, got {dtype}: an integer cannot change by a "
        "little. Write 3.0 instead of 3, or x.float()."
    )


def nothing_to_differentiate(output):
    return (
        f"There is nothing to differentiate: this tensor of shape {output.shape} was computed from no tensor "
        "that requires a gradient, or under no_grad. Set requires_grad=True on the inputs before computing."
    )


def not_a_scalar(output):
    return (
        f"backward of a tensor of shape {output.shape} needs a gradient to start from. Reduce the tensor to "
        f"a scalar (.sum(), .mean()), or pass that gradient, of shape {output.shape}."
    )


def wrong_seed(output, gradient):
    return (
        f"The gradient to start from must have the output's shape {output.shape} and be floating point, "
        f"got shape {gradient.shape} and dtype {gradient.dtype}."
    )


def in_place(tensor):
    if tensor.node is None:
        return (
            "A leaf that requires a gradient cannot be changed in place while computations are recorded; "
            "wrap the update in `with minigrad.no_grad():`, as optimizers do."
        )
    return (
        f"This tensor was computed (by {tensor.node.name}) and is part of a graph; changing it in place "
        "would falsify its history. Make a new tensor (x = x + y), or work on x.detach().clone()."
    )


def tensor_repr(tensor):
    """Format the elements, then an unusual dtype, the shape if some are hidden, grad_fn or requires_grad."""
    prefix = type(tensor).__name__.lower() + "("
    body = np.array2string(
        tensor.data, prefix=prefix, separator=", ", precision=4, suppress_small=True, threshold=200
    )
    notes = [] if tensor.dtype in (np.float32, np.int64, np.bool_) else [f"dtype={tensor.dtype}"]
    if tensor.data.size == 0 or tensor.data.size > 200:
        notes.append(f"shape={tensor.shape}")
    if tensor.node is not None:
        notes.append(f"grad_fn=<{tensor.node.name}>")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return prefix + ", ".join([body, *notes]) + ")"
