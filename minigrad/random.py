"""Named random streams from one seed. NumPy's global state is never used.

Every purpose ("init", "dropout", "data" ...) has its own stream, a Philox counter keyed by the seed and the
name. So drawing more dropout masks never changes the order of the data, and two layers never start with equal
values.
"""

import zlib
from contextvars import ContextVar

import numpy as np

from minigrad.modes import Mode, worker

_seed = 0
_streams = {}
_own = ContextVar("own streams", default=None)  # inside isolated(): its name, its step and its streams


def manual_seed(seed):
    """Restart every stream from `seed`, an integer >= 0.

    Two runs with the same seed draw the same numbers.
    """
    global _seed
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"manual_seed takes an integer >= 0, got {seed!r}.")
    _seed = int(seed)
    _streams.clear()


def initial_seed():
    """Return the last seed of manual_seed (0 before that)."""
    return _seed


def stream(name="default"):
    """Return the np.random.Generator of that name. Drawing moves only this stream; workers have their own."""
    if _own.get():
        owner, step, streams = _own.get()
        if name not in streams:
            streams[name] = fresh(f"{owner}: {name}", step)
        return streams[name]
    return _running(name + _suffix())


def isolated(owner, step):
    """`with isolated("loader", 7):` draw from streams that depend on the seed, this name and this step alone.

    All other streams stay where they are, so that work done ahead or on another thread draws the same
    numbers.
    """
    return Mode(_own, (owner, step, {}))


def as_worker(number):
    """`with as_worker(1):` draw from the streams of that worker (0: the usual ones).

    So threads that share the work do not move each other's streams.
    """
    return Mode(worker, number)


def _suffix():
    return f" of worker {worker.get()}" if worker.get() else ""


def _is_own(name):
    return name.endswith(_suffix()) if worker.get() else " of worker " not in name


def _running(name):
    if name not in _streams:
        _streams[name] = fresh(name)
    return _streams[name]


def fresh(name, step=0, worker=0):
    """Make a Generator that depends on (seed, name, step, worker) alone: same arguments, same numbers."""
    words = np.random.SeedSequence([_seed, zlib.crc32(name.encode()), step, worker])
    return np.random.Generator(np.random.Philox(words))


def get_state():
    """Return what is needed to continue drawing: the seed and the position of each stream."""
    return {
        "seed": _seed,
        "streams": {name: generator.bit_generator.state for name, generator in list(_streams.items())},
    }


def set_state(state):
    """Return to the state of `get_state`. Also affects generators already in use: a stream is one object."""
    global _seed
    _seed = state["seed"]
    set_positions({**{name: fresh(name).bit_generator.state for name in list(_streams)}, **state["streams"]})


def check_state(state):
    """Raise ValueError unless `state` could come from get_state().

    A forged position can make Philox read out of bounds.
    """
    if (
        not isinstance(state, dict)
        or state.get("seed") != _seed
        or not isinstance(state.get("streams"), dict)
    ):
        raise ValueError(f"the random streams do not belong to the seed {_seed}")
    for name, position in state["streams"].items():
        start = fresh(name).bit_generator.state
        if not _has_form_of(start, position) or not 0 <= position["buffer_pos"] <= 4:
            raise ValueError(f"the position of the random stream {name} is invalid")


def _has_form_of(a, b):
    """Check whether b has the same parts as a, of the same types and shapes."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_has_form_of(a[key], b[key]) for key in a)
    return type(a) is type(b) and (
        a == b
        if isinstance(a, str)
        else np.shape(a) == np.shape(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None)
    )


def set_positions(positions):
    """Set the named streams to these positions. The others do not change."""
    for name, position in positions.items():
        _running(name).bit_generator.state = position


def moved_since(positions):
    """Return this worker's streams that have been drawn from since `positions`, with their positions then."""
    now = {name: position for name, position in get_state()["streams"].items() if _is_own(name)}
    start = {name: positions.get(name) or fresh(name).bit_generator.state for name in now}
    return {name: start[name] for name in now if not _same(start[name], now[name])}


def _same(a, b):
    """Compare two positions of a generator: nested dicts with arrays in them."""
    if isinstance(a, dict):
        return all(_same(a[key], b[key]) for key in a)
    return np.array_equal(a, b)
