"""Named random streams: who draws what, from one seed. Knows nothing of tensors, and never touches NumPy's global state.

Every purpose ("init", "dropout", "data" ...) has a stream of its own, a Philox counter keyed by the seed and the name, so
that drawing more dropout masks never changes the order of the data, and two layers never start equal.
"""

import zlib
from contextvars import ContextVar

import numpy as np

from minigrad.modes import Mode, worker

_seed = 0
_streams = {}
_own = ContextVar("own streams", default=None)  # inside apart(): its name, its step and its streams


def manual_seed(seed):
    """Start every stream again from `seed` (a whole number >= 0). Two runs with the same seed draw the same numbers."""
    global _seed
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"manual_seed takes a whole number that is not negative, got {seed!r}.")
    _seed = int(seed)
    _streams.clear()


def initial_seed():
    """The number last given to manual_seed (0 before that)."""
    return _seed


def stream(name="default"):
    """The running np.random.Generator of that name; drawing from it moves only this stream. Workers have streams of their own."""
    if _own.get():
        place, step, streams = _own.get()
        if name not in streams:
            streams[name] = fresh(f"{place}: {name}", step)
        return streams[name]
    return _running(name + _suffix())


def isolated(place, step):
    """`with apart("loader", 7):` what is drawn inside depends on the seed, this place and step alone, and moves nobody else's streams:
    so that work done ahead, or on another thread, draws what it would have drawn in its turn."""
    return Mode(_own, (place, step, {}))


def as_worker(number):
    """`with as_worker(1):` what is drawn comes from the streams of that worker (0: the usual ones), so that threads that share the
    work do not disturb each other's."""
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
    """A Generator that depends on (seed, name, step, worker) alone: the same four always draw the same numbers."""
    words = np.random.SeedSequence([_seed, zlib.crc32(name.encode()), step, worker])
    return np.random.Generator(np.random.Philox(words))


def get_state():
    """Everything needed to draw on from here: the seed and where each running stream stands."""
    return {
        "seed": _seed,
        "streams": {name: generator.bit_generator.state for name, generator in list(_streams.items())},
    }


def set_state(state):
    """Go back to where `get_state` was called. Generators that somebody holds go back too: a stream is one object."""
    global _seed
    _seed = state["seed"]
    set_positions({**{name: fresh(name).bit_generator.state for name in list(_streams)}, **state["streams"]})


def check_state(state):
    """A sentence for what no `get_state` has given: a hand-made position may lead a generator outside its own memory."""
    if (
        not isinstance(state, dict)
        or state.get("seed") != _seed
        or not isinstance(state.get("streams"), dict)
    ):
        raise ValueError(f"the random streams are not those of the seed {_seed}")
    for name, position in state["streams"].items():
        own = fresh(name).bit_generator.state
        if not _alike(own, position) or not 0 <= position["buffer_pos"] <= 4:
            raise ValueError(f"there is no such position of the random stream {name}")


def _alike(a, b):
    """Whether b has the parts that a has, of the same kinds and shapes."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    return type(a) is type(b) and (
        a == b
        if isinstance(a, str)
        else np.shape(a) == np.shape(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None)
    )


def set_positions(positions):
    """Set the streams named to these positions; leave the others alone."""
    for name, position in positions.items():
        _running(name).bit_generator.state = position


def moved_since(positions):
    """Of this worker's streams, those that have been drawn from since `positions`, with where they stood then."""
    now = {name: position for name, position in get_state()["streams"].items() if _is_own(name)}
    start = {name: positions.get(name) or fresh(name).bit_generator.state for name in now}
    return {name: start[name] for name in now if not _same(start[name], now[name])}


def _same(a, b):
    """Whether two positions of a generator are the same; they are nested dicts with arrays in them."""
    if isinstance(a, dict):
        return all(_same(a[key], b[key]) for key in a)
    return np.array_equal(a, b)
