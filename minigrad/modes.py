"""Temporary settings: are computations recorded, are kernels used?

Each is a context variable: it nests, is restored on exceptions, and differs between threads.
"""

import functools
import inspect
import threading
from contextvars import ContextVar

recording = ContextVar("recording", default=True)  # are computations recorded?
readable = ContextVar("readable", default=False)  # do definitions run instead of their kernels?
# a function to call with every value that is computed, or None (see anomaly.py)
tracing = ContextVar("tracing", default=None)
worker = ContextVar("worker", default=0)  # the number of this worker thread (see random.py)
current_module = ContextVar("current_module", default=None)  # the nn.Module whose forward is running


class Mode:
    """Set a context variable temporarily, as a `with` block or as a decorator."""

    def __init__(self, variable, value):
        self._variable, self._value, self._before = variable, value, {}

    def _values_before(self):
        # several threads may enter one object
        return self._before.setdefault(threading.get_ident(), [])

    def __enter__(self):
        self._values_before().append(self._variable.get())
        self._variable.set(self._value)
        return self

    def __exit__(self, *_):
        self._variable.set(self._values_before().pop())

    def __call__(self, fun):
        def copy():
            return Mode(self._variable, self._value)

        if inspect.isgeneratorfunction(fun):
            # The mode must be on while the generator runs, and off while its caller does, between two items.
            @functools.wraps(fun)
            def wrapped(*args, **kwargs):
                generator, step, value = fun(*args, **kwargs), "send", None
                while True:
                    try:
                        with copy():
                            item = getattr(generator, step)(value)
                    except StopIteration as stop:
                        return stop.value
                    try:
                        step, value = "send", (yield item)
                    except GeneratorExit:
                        generator.close()
                        raise
                    except BaseException as error:  # pass throw() on to the generator
                        step, value = "throw", error

        elif inspect.iscoroutinefunction(fun):

            @functools.wraps(fun)
            async def wrapped(*args, **kwargs):
                with copy():
                    return await fun(*args, **kwargs)

        elif inspect.isasyncgenfunction(fun):
            raise TypeError(
                f"{fun.__name__} is an async generator, which a mode cannot decorate; "
                "use `with` inside it, between its yields."
            )

        else:

            @functools.wraps(fun)
            def wrapped(*args, **kwargs):
                with copy():
                    return fun(*args, **kwargs)

        return wrapped


def no_grad(fun=None):
    """Record nothing: `with no_grad():` or `@no_grad()`.

    Around a `yield`, `with no_grad()` also affects the caller until the generator continues, as any context
    manager does; the decorator on a generator function does not.
    """
    return Mode(recording, False) if fun is None else Mode(recording, False)(fun)


def inference_mode(mode=True):
    """no_grad under PyTorch's newer name; inference_mode(False) is enable_grad.

    In PyTorch values computed inside can never enter a graph; here they can.
    """
    return no_grad(mode) if callable(mode) else Mode(recording, not mode)


def enable_grad(fun=None):
    """Record computations, also inside no_grad."""
    return Mode(recording, True) if fun is None else Mode(recording, True)(fun)


def is_grad_enabled():
    """Check whether computations are recorded."""
    return recording.get()


def definitions():
    """Run the readable definitions of functional/, not their kernels, so that every step inside is an op."""
    return Mode(readable, True)
