"""Switches that hold for a while: whether computations are recorded, whether kernels are used. Knows nothing of tensors.

Each is a context variable: it nests, is restored on exceptions, and one thread's setting is not another's.
"""

import functools
import inspect
import threading
from contextvars import ContextVar

recording = ContextVar("recording", default=True)  # are computations remembered?
readable = ContextVar("readable", default=False)  # are kernels passed over for their definitions?
# if set: what to do with every value as it is computed (see anomaly.py)
tracing = ContextVar("tracing", default=None)
worker = ContextVar("worker", default=0)  # which of the threads that share the work this is (see random.py)
current_module = ContextVar("current_module", default=None)  # the nn.Module whose forward is running


class Mode:
    """A context variable set for a while: as a `with` block or as a decorator."""

    def __init__(self, variable, value):
        self._variable, self._value, self._before = variable, value, {}

    def _values_before(self):
        # one object may be entered by several threads
        return self._before.setdefault(threading.get_ident(), [])

    def __enter__(self):
        self._values_before().append(self._variable.get())
        self._variable.set(self._value)
        return self

    def __exit__(self, *_):
        self._variable.set(self._values_before().pop())

    def __call__(self, fun):
        def again():
            return Mode(self._variable, self._value)

        if inspect.isgeneratorfunction(fun):
            # The mode must hold while the generator runs, and not while its caller does, between two items.
            @functools.wraps(fun)
            def wrapped(*args, **kwargs):
                generator, step, value = fun(*args, **kwargs), "send", None
                while True:
                    try:
                        with again():
                            item = getattr(generator, step)(value)
                    except StopIteration as stop:
                        return stop.value
                    try:
                        step, value = "send", (yield item)
                    except GeneratorExit:
                        generator.close()
                        raise
                    except BaseException as error:  # throw() is for the generator inside
                        step, value = "throw", error

        elif inspect.iscoroutinefunction(fun):

            @functools.wraps(fun)
            async def wrapped(*args, **kwargs):
                with again():
                    return await fun(*args, **kwargs)

        elif inspect.isasyncgenfunction(fun):
            raise TypeError(
                f"{fun.__name__} is an async generator, which a mode cannot decorate; use `with` inside it, between its yields."
            )

        else:

            @functools.wraps(fun)
            def wrapped(*args, **kwargs):
                with again():
                    return fun(*args, **kwargs)

        return wrapped


def no_grad(fun=None):
    """Record nothing: `with no_grad():` or `@no_grad()`. (A `with no_grad()` around a `yield` leaks to the caller until the
    generator goes on, as any context manager does; the decorator on a generator function does not.)"""
    return Mode(recording, False) if fun is None else Mode(recording, False)(fun)


def inference_mode(mode=True):
    """no_grad by PyTorch's newer name, which promises more: that what is computed inside never enters a graph. Here it may.
    With False: enable_grad."""
    return no_grad(mode) if callable(mode) else Mode(recording, not mode)


def enable_grad(fun=None):
    """Record again inside no_grad."""
    return Mode(recording, True) if fun is None else Mode(recording, True)(fun)


def is_grad_enabled():
    """Whether computations are being recorded here."""
    return recording.get()


def definitions():
    """Use the readable definitions of functional/ in place of their kernels, so that every step inside is an op."""
    return Mode(readable, True)
