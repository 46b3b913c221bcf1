"""An optimizer's memory, such as its running means: one array for all parameters, updated piece by piece."""

from itertools import groupby

import numpy as np

# elements: 128 KiB of float32, and as much for each array of the memory, all of which stay in the cache
PIECE = 2**15


class Flat:
    """The memory of parameters of one dtype: {name: one array for all parameters}, initially 0.

    Arrays that `state` (parameter -> {name: array}) already has are copied in, and become views of it. The
    parameters themselves are not moved.
    """

    def __init__(self, params, names, state):
        self.params, self.names, self.shapes = params, names, [p.shape for p in params]
        self.starts = np.cumsum([0, *(p.data.size for p in params)]).tolist()
        self.memory = {name: np.zeros(self.starts[-1], params[0].dtype) for name in names}
        self.used = set()  # the ids of parameters whose memory is no longer 0
        for p in params:
            if p in state:
                self.adopt(p, state[p])

    def adopt(self, p, state):
        """Copy p's state into the memory and replace it by views.

        Raises RuntimeError if a shape has changed.
        """
        self.used.add(id(p))
        for name, view in self.views_of(p).items():
            if name in state:
                if np.shape(state[name]) != p.shape:
                    raise RuntimeError(
                        f"The optimizer has {name} of shape {np.shape(state[name])} for a parameter whose "
                        f"shape is {p.shape} now. Make a new optimizer, or del optimizer.state[parameter]."
                    )
                view[...] = state[name]
            state[name] = view

    def fits(self, params, names, state):
        """Is this the memory of these parameters and names? Not if `state` was copied or has other arrays."""
        same = names == self.names and [(id(p), p.shape) for p in params] == [
            (id(p), s) for p, s in zip(self.params, self.shapes, strict=True)
        ]
        return same and all(self._holds(p, state.get(p)) for p in params)

    def _holds(self, p, state):
        if state is None:
            return id(p) not in self.used
        return all(getattr(state.get(name), "base", None) is array for name, array in self.memory.items())

    def views_of(self, p):
        """Return {name: view of the memory in the parameter's shape}."""
        start = self.starts[[q is p for q in self.params].index(True)]
        return {
            name: array[start : start + p.data.size].reshape(p.shape) for name, array in self.memory.items()
        }

    def pieces(self, key):
        """Yield (elements, gradients, slice of the memory, key) in pieces, of parameters with a gradient.

        Parameters in a piece have the same key(p). What is written into the elements before the next piece
        becomes the parameters' new value.
        """
        for (has_gradient, same), run in groupby(
            zip(self.params, self.starts), lambda at: (at[0].grad is not None, key(at[0]))
        ):
            if has_gradient:
                for x, g, part in _pieces(list(run)):
                    yield x, g, part, same


def _pieces(run):
    """Cut large neighbors (parameter, start) and join small ones to at most PIECE elements.

    See Flat.pieces.
    """
    small, size = [], 0
    for p, start in run:
        large = p.data.size > PIECE and p.data.flags.c_contiguous
        if small and (large or size + p.data.size > PIECE):
            yield from _join(small)
            small, size = [], 0
        if large:
            yield from _cut(p, start)
        else:
            small, size = [*small, (p, start)], size + p.data.size
    if small:
        yield from _join(small)


def _cut(p, start):
    x, g = p.data.reshape(-1), p.grad.data.reshape(-1)
    for i in range(0, x.size, PIECE):
        yield x[i : i + PIECE], g[i : i + PIECE], slice(start + i, start + min(i + PIECE, x.size))


def _join(small):
    """Yield joint copies, written back before the next piece: few operations on one array, not on each."""
    owners = {id(p.data if p.data.base is None else p.data.base) for p, _ in small}
    # parameters that share memory are updated one after the other
    for together in [small] if len(owners) == len(small) else [[one] for one in small]:
        x, g = (
            np.concatenate([array.reshape(-1) for array in arrays])
            for arrays in ([p.data for p, _ in together], [p.grad.data for p, _ in together])
        )
        first = together[0][1]
        yield x, g, slice(first, first + x.size)
        for p, start in together:
            p.data[...] = x[start - first : start - first + p.data.size].reshape(p.shape)
