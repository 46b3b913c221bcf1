"""What an optimizer remembers, side by side in one array for all parameters, and a way through them piece by piece. Knows arrays
and gradients; not how a parameter moves."""

from itertools import groupby

import numpy as np

# numbers: 128 KiB of float32, and as much again for each thing remembered, all of which stay in the cache
PIECE = 2**15


class Flat:
    """For parameters of one dtype, `memory`: {name: one array for all of them}, 0 at first, or what stands in `state` (parameter
    -> {name: array}) already, whose arrays become views of it. The parameters stay where they are."""

    def __init__(self, params, names, state):
        self.params, self.names, self.shapes = params, names, [p.shape for p in params]
        self.starts = np.cumsum([0, *(p.data.size for p in params)]).tolist()
        self.memory = {name: np.zeros(self.starts[-1], params[0].dtype) for name in names}
        self.used = set()  # the ids of parameters whose memory is no longer 0
        for p in params:
            if p in state:
                self.adopt(p, state[p])

    def adopt(self, p, state):
        """Let what is remembered of p be views of the memory, filled with what was there before."""
        self.used.add(id(p))
        for name, own in self.remembered_of(p).items():
            if name in state:
                if np.shape(state[name]) != p.shape:
                    raise RuntimeError(f"The optimizer remembers {name} of shape {np.shape(state[name])} for a parameter that has {p.shape} now. Make a new optimizer, or del optimizer.state[parameter].")  # fmt: skip
                own[...] = state[name]
            state[name] = own

    def fits(self, params, names, state):
        """Is this the memory of these parameters, under these names? Not if somebody has put other arrays into `state`, or copied it."""
        same = names == self.names and [(id(p), p.shape) for p in params] == [
            (id(p), s) for p, s in zip(self.params, self.shapes, strict=True)
        ]
        return same and all(self._holds(p, state.get(p)) for p in params)

    def _holds(self, p, state):
        if state is None:
            return id(p) not in self.used
        return all(getattr(state.get(name), "base", None) is array for name, array in self.memory.items())

    def remembered_of(self, p):
        """{name: array in the parameter's shape}, views of the memory."""
        start = self.starts[[q is p for q in self.params].index(True)]
        return {
            name: array[start : start + p.data.size].reshape(p.shape) for name, array in self.memory.items()
        }

    def pieces(self, key):
        """(numbers, gradients, slice of the memory, key) of all parameters that have a gradient, piece by piece; those in a piece
        have the same key(p). Whatever is written into the numbers before the next piece is asked for is the parameters' new value."""
        for (has_gradient, same), run in groupby(
            zip(self.params, self.starts), lambda at: (at[0].grad is not None, key(at[0]))
        ):
            if has_gradient:
                for x, g, part in _pieces(list(run)):
                    yield x, g, part, same


def _pieces(run):
    """(numbers, gradients, slice) for neighbours (parameter, start): large ones are cut, small ones joined, up to PIECE numbers."""
    small, size = [], 0
    for p, start in run:
        large = p.data.size > PIECE and p.data.flags.c_contiguous
        if small and (large or size + p.data.size > PIECE):
            yield from _joined(small)
            small, size = [], 0
        if large:
            yield from _cut(p, start)
        else:
            small, size = [*small, (p, start)], size + p.data.size
    if small:
        yield from _joined(small)


def _cut(p, start):
    x, g = p.data.reshape(-1), p.grad.data.reshape(-1)
    for i in range(0, x.size, PIECE):
        yield x[i : i + PIECE], g[i : i + PIECE], slice(start + i, start + min(i + PIECE, x.size))


def _joined(small):
    """Copies, written back when the next piece is asked for: a dozen operations on one array instead of on each parameter."""
    owners = {id(p.data if p.data.base is None else p.data.base) for p, _ in small}
    # those that share memory move in turn
    for together in [small] if len(owners) == len(small) else [[one] for one in small]:
        x, g = (
            np.concatenate([array.reshape(-1) for array in arrays])
            for arrays in ([p.data for p, _ in together], [p.grad.data for p, _ in together])
        )
        first = together[0][1]
        yield x, g, slice(first, first + x.size)
        for p, start in together:
            p.data[...] = x[start - first : start - first + p.data.size].reshape(p.shape)
