"""@definition: connect a readable definition to its kernel."""

import functools

from minigrad.engine.recording import NONE, compute, floating, record
from minigrad.engine.tensor import Tensor
from minigrad.modes import readable, recording, tracing

_SPELLINGS = {"dim": "axis", "input": "x", "target": "targets"}
_NO_DEFAULT = object()


def definition(fun=None, *, kernel=None):
    """Mark `fun` as the definition of a function that may have a kernel.

    Kernels get all arguments by position. @definition(kernel="minigrad/kernels/layers.py") tells the reader
    which file has the kernel and its defkernel.
    """
    if fun is None:
        return functools.partial(definition, kernel=kernel)
    code = fun.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = (_NO_DEFAULT,) * (len(names) - len(fun.__defaults__ or ())) + (fun.__defaults__ or ())
    count, parameters = len(names), tuple(zip(names, defaults, strict=True))

    @functools.wraps(fun)
    def call(*args, **kwargs):
        if len(args) < count:
            args += _rest(fun, parameters[len(args) :], kwargs)
        kernel = call.kernel
        if kernel is None or readable.get():
            return fun(*args)
        if not isinstance(args[0], Tensor) or args[0].data.dtype.kind != "f":
            args = (floating(args[0]), *args[1:])
        if recording.get():
            return record(kernel.forward, args, NONE, True)
        if kernel.value is None or tracing.get() is not None:
            return compute(kernel.forward, args, NONE, True)
        return compute(kernel.value, args)

    call.kernel, call.kernel_file = None, kernel
    DEFINITIONS.append(call)
    return call


DEFINITIONS = []


def _rest(fun, parameters, kwargs):
    """Return the keyword arguments, or their defaults, in order.

    Raises TypeError if one is missing or unknown.
    """
    given = {_SPELLINGS.get(name, name): value for name, value in kwargs.items()}
    rest = tuple(given.pop(name, default) for name, default in parameters)
    missing = [name for (name, _), value in zip(parameters, rest, strict=True) if value is _NO_DEFAULT]
    if missing or given:
        problem = f"needs {', '.join(missing)}" if missing else f"has no argument {', '.join(given)}"
        names = fun.__code__.co_varnames[: fun.__code__.co_argcount]
        raise TypeError(f"{fun.__name__} {problem}; it takes {', '.join(names)}.")
    return rest
