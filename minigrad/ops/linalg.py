"""Products of vectors and matrices, einsum, and inverse, determinant, Cholesky and so on.

All products use matmul, after transposing and reshaping. (minigrad.linalg exports them by torch.linalg's
names.)
"""

import string
from collections import namedtuple

import numpy as np

from minigrad.engine import array_functions
from minigrad.engine.operators import FROM_NUMPY
from minigrad.engine.recording import apply, as_tensor
from minigrad.engine.tensor import Tensor
from minigrad.ops.elementwise import where
from minigrad.ops.reductions import amax, amin, norm, sum
from minigrad.ops.shape import diagonal, permute, reshape, squeeze, unsqueeze
from minigrad.ops.spelling import axis_of, either_spelling, public

__all__ = [
    "matmul", "dot", "mv", "mm", "bmm", "outer", "ger", "inner", "vdot", "vecdot", "tensordot", "einsum",
    "inv", "inverse", "det", "logdet", "slogdet", "cholesky", "solve", "matrix_power",
]  # fmt: skip

# ---------------------------------------------------------------- products


@public(np.linalg.matmul)
def matmul(x, y):
    """The matrix product x @ y over the last two axes. The others broadcast; vectors work as in NumPy."""
    return apply(np.matmul, as_tensor(x), as_tensor(y))


def _product(name, ndims, doc):
    """Make the public function that is matmul for tensors with exactly `ndims` axes."""

    def call(x, y):
        x, y = as_tensor(x), as_tensor(y)
        if (x.ndim, y.ndim) != ndims:
            raise ValueError(
                f"{name} is for tensors of {ndims[0]} and {ndims[1]} axes, got shapes {x.shape} and "
                f"{y.shape}; matmul takes any."
            )
        return apply(np.matmul, x, y)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return public()(call)


dot = _product("dot", (1, 1), "The dot product of two vectors. (np.dot on tensors multiplies matrices, too.)")
mv = _product("mv", (2, 1), "Matrix times vector.")
mm = _product("mm", (2, 2), "Matrix times matrix.")
bmm = _product("bmm", (3, 3), "A batch of matrices times a batch of matrices.")


@public(np.outer, np.linalg.outer)
def outer(x, y):
    """Each element of x times each element of y: (N,), (M,) -> (N, M)."""
    return reshape(as_tensor(x), -1, 1) * reshape(as_tensor(y), 1, -1)


ger = outer


@public(np.inner)
def inner(x, y):
    """Multiply and sum over the last axis of both."""
    x, y = as_tensor(x), as_tensor(y)
    return x * y if not (x.ndim and y.ndim) else tensordot(x, y, ([-1], [-1]))


@public(np.vdot)
def vdot(x, y):
    """The dot product of the flattened tensors."""
    return apply(np.matmul, reshape(as_tensor(x), -1), reshape(as_tensor(y), -1))


@public(np.vecdot, np.linalg.vecdot)
def vecdot(x, y, axis=-1):
    """Multiply and sum over one axis; the others broadcast."""
    return sum(as_tensor(x) * y, axis)


@public(np.tensordot, np.linalg.tensordot)
def tensordot(x, y, axes=2, *, axis=None):
    """Multiply and sum over the last `axes` axes of x and first of y, or over the axes listed for each."""
    x, y, axes = as_tensor(x), as_tensor(y), axes if axis is None else axis
    if isinstance(axes, (int, np.integer)):
        axes = range(x.ndim - axes, x.ndim), range(axes)
    over_x, over_y = (
        [axis_of(t, a) for a in ([list_] if isinstance(list_, int) else list_)]
        for t, list_ in zip((x, y), axes)
    )
    if [x.shape[a] for a in over_x] != [y.shape[a] for a in over_y]:
        raise ValueError(
            f"tensordot: axes {over_x} of shape {x.shape} and axes {over_y} of "
            f"shape {y.shape} differ in length."
        )
    in_x = list(range(x.ndim))  # a letter for each axis, the same where they are summed
    in_y = [over_x[over_y.index(i)] if i in over_y else x.ndim + i for i in range(y.ndim)]
    keep = [a for a in in_x if a not in over_x] + [a for a in in_y if a >= x.ndim]
    return _arrange(*_contract((x, in_x), (y, in_y), set(keep)), keep)


# ---------------------------------------------------------------- einsum


@public()
def einsum(equation, *operands):
    """Multiply and sum by an equation in np.einsum's notation: "bij,bjk->bik", "ii", "...i,i", "ij->ji"."""
    operands = [
        as_tensor(x)
        for x in (operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands)
    ]
    inputs, output = _letters(equation, operands)
    parts = [_take_diagonals(x, letters) for x, letters in zip(operands, inputs, strict=True)]
    sizes = _sizes(equation, parts)
    parts = [_drop_ones(x, letters, sizes) for x, letters in parts]
    for positions in _order(parts, output):
        chosen = [parts.pop(i) for i in sorted(positions, reverse=True)]
        while len(chosen) > 1:
            later = set(output).union(*(letters for _, letters in parts + chosen[:-2]))
            chosen.append(_contract(chosen.pop(), chosen.pop(), later))
        parts.append(chosen[0])
    x, letters = parts[0]
    x, letters = _sum_out(x, letters, set(output))
    missing = [a for a in output if a not in letters]  # axes of length 1 in every operand
    return _arrange(reshape(x, *x.shape, *(1 for _ in missing)) if missing else x, letters + missing, output)


def _letters(equation, operands):
    """Return the letters of each operand and of the output; unused letters replace the ellipsis."""
    if not isinstance(equation, str):
        raise TypeError(
            f"einsum needs its equation first, such as 'ij,jk->ik', got {type(equation).__name__}."
        )
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ValueError(f"einsum: {equation!r} is for {len(terms)} operands, got {len(operands)}.")
    free = [a for a in string.ascii_letters if a not in equation]
    extra = [x.ndim - len(term.replace("...", "")) for term, x in zip(terms, operands) if "..." in term]
    hidden = free[: max([0, *extra])]
    inputs = []
    for term, x in zip(terms, operands):
        n = x.ndim - len(term.replace("...", ""))
        if n < 0 or n and "..." not in term:
            raise ValueError(
                f"einsum: {term!r} in {equation!r} does not name the {x.ndim} axes of an operand "
                f"of shape {x.shape}."
            )
        inputs.append(list(term.replace("...", "".join(hidden[len(hidden) - n :]))))
    if not arrow:
        named = [a for letters in inputs for a in letters if a not in hidden]
        right = "..." + "".join(sorted(a for a in set(named) if named.count(a) == 1))
    output = list(right.replace("...", "".join(hidden)))
    unknown = [a for a in output if not any(a in letters for letters in inputs) or output.count(a) > 1]
    if unknown or not all(a.isalpha() for letters in inputs for a in letters):
        raise ValueError(
            f"einsum: in {equation!r} each axis must be a letter, and each letter of the output must occur "
            "once in it and also in an operand."
        )
    return inputs, output


def _take_diagonals(x, letters):
    """Take the diagonal of axes with the same letter: "ii" means the elements with equal indices."""
    letters = list(letters)
    for a in dict.fromkeys(letters):
        while letters.count(a) > 1:
            i, j = [k for k, b in enumerate(letters) if b == a][:2]
            if x.shape[i] != x.shape[j]:
                raise ValueError(
                    f"einsum: the axes called {a!r} of an operand of shape {x.shape} differ in length."
                )
            x, letters = diagonal(x, 0, i, j), [b for k, b in enumerate(letters) if k not in (i, j)] + [a]
    return x, letters


def _sizes(equation, parts):
    """Return the length of each letter's axis; an axis of length 1 broadcasts."""
    sizes = {}
    for x, letters in parts:
        for a, n in zip(letters, x.shape):
            if sizes.setdefault(a, n) != n and 1 not in (n, sizes[a]):
                raise ValueError(
                    f"einsum: in {equation!r} the axis {a!r} is {sizes[a]} long in one operand "
                    f"and {n} in another."
                )
            sizes[a] = n if sizes[a] == 1 else sizes[a]
    return sizes


def _drop_ones(x, letters, sizes):
    """Drop the axes of length 1, which only broadcast."""
    ones = tuple(i for i, a in enumerate(letters) if x.shape[i] == 1)
    return (squeeze(x, ones), [a for i, a in enumerate(letters) if i not in ones]) if ones else (x, letters)


def _order(parts, output):
    """List the positions of the operands to multiply in each step; a small result comes first (greedy)."""
    if len(parts) < 3:
        return [range(len(parts))] * (len(parts) == 2)
    terms = ",".join("".join(letters) for _, letters in parts)
    present = "".join(a for a in output if any(a in letters for _, letters in parts))
    return np.einsum_path(f"{terms}->{present}", *(x.data for x, _ in parts), optimize="greedy")[0][1:]


def _contract(one, other, later):
    """Multiply two operands (tensor, letters), and sum over the letters that no later step needs."""
    (x, in_x), (y, in_y) = (_sum_out(*a, later | set(b[1])) for a, b in ((one, other), (other, one)))
    batch = [a for a in in_x if a in in_y and a in later]
    both = [a for a in in_x if a in in_y and a not in later]
    left, right = [a for a in in_x if a not in in_y], [a for a in in_y if a not in in_x]
    size = dict(zip(in_x + in_y, x.shape + y.shape))

    def shape(*groups):
        return [size[a] for a in batch] + [int(np.prod([size[a] for a in group])) for group in groups]

    x = reshape(_arrange(x, in_x, batch + left + both), shape(left, both))  # (batch, left, both)
    y = reshape(_arrange(y, in_y, batch + both + right), shape(both, right))  # (batch, both, right)
    z = x @ y if both else x * y  # (batch, left, 1) * (batch, 1, right): the same product without a sum
    return reshape(z, [size[a] for a in batch + left + right]), batch + left + right


def _sum_out(x, letters, keep):
    """Sum over the letters that are not in `keep`."""
    gone = tuple(i for i, a in enumerate(letters) if a not in keep)
    return (sum(x, gone), [a for a in letters if a in keep]) if gone else (x, letters)


def _arrange(x, letters, wanted):
    """Bring the axes into the wanted order."""
    return x if letters == wanted else permute(x, [letters.index(a) for a in wanted])


# ---------------------------------------------------------------- whole matrices


def _square(x, name):
    x = as_tensor(x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name} needs square matrices in the last two axes, got shape {x.shape}.")
    return x


@public(np.linalg.inv)
def inv(x):
    """The inverse of each matrix (..., n, n)."""
    return apply(np.linalg.inv, _square(x, "inv"))


inverse = inv


@public(np.linalg.det)
def det(x):
    """The determinant of each matrix (..., n, n). Its gradient needs matrices that are not singular."""
    return apply(np.linalg.det, _square(x, "det"))


@public()
def logdet(x):
    """log det x, nan where the determinant is negative."""
    sign, logabsdet = slogdet(x)
    return where(sign < 0, np.nan, logabsdet)


Slogdet = namedtuple("Slogdet", "sign logabsdet")


@public(np.linalg.slogdet)
def slogdet(x):
    """(sign, log |det x|), without overflow; the sign has no gradient."""
    x = _square(x, "slogdet")
    return Slogdet(Tensor(np.asarray(np.linalg.slogdet(x.data)[0])), apply(array_functions.logabsdet, x))


@public(np.linalg.cholesky)
def cholesky(x):
    """The lower triangular L of L L^T = x, symmetric positive definite (..., n, n). Reads the lower half."""
    return apply(np.linalg.cholesky, _square(x, "cholesky"))


@public()
def solve(x, y):
    """Solve x z = y for z: x (..., n, n), y (n,) or (..., n, k)."""
    x, y = _square(x, "solve"), as_tensor(y)
    if y.ndim == 1 or y.ndim == x.ndim - 1 and y.shape == x.shape[:-1]:
        return squeeze(solve(x, unsqueeze(y, -1)), -1)
    return apply(np.linalg.solve, x, y)


@public(np.linalg.matrix_power)
def matrix_power(x, n):
    """x @ x @ ... @ x, n times; a negative n inverts first."""
    x = _square(x, "matrix_power") if n >= 0 else inv(x)
    power, n = None, abs(n)
    while n:  # by squaring: the bits of n select among x, x^2, x^4 ...
        power = x if power is None and n % 2 else power @ x if n % 2 else power
        n //= 2
        x = x @ x if n else x
    return x * 0 + np.eye(x.shape[-1], dtype=x.dtype) if power is None else power


# ---------------------------------------------------------------- names of torch.linalg, for minigrad.linalg


@either_spelling
def matrix_norm(x, ord="fro", axis=(-2, -1), keepdims=False):
    """The norm of matrices.

    "fro" is the Euclidean norm of all elements, 1 the largest column sum of absolute values, inf the largest
    row sum; -1 and -inf are the smallest. Raises NotImplementedError for norms that need singular values.
    """
    x = as_tensor(x)
    row, column = (axis_of(x, a) for a in axis)
    if ord == "fro":
        return norm(x, 2, (row, column), keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise NotImplementedError(
            f"matrix_norm: {ord!r} needs singular values, which have no rule here; "
            "'fro', 1, -1, inf and -inf have one."
        )
    first, then = (row, column) if abs(ord) == 1 else (column, row)
    out = (amax if ord > 0 else amin)(sum(abs(x), first, keepdims=True), then, keepdims=True)
    return out if keepdims else squeeze(out, (row, column))


@either_spelling
def vector_norm(x, ord=2, axis=None, keepdims=False):
    """norm under torch.linalg's name."""
    return norm(x, ord, axis, keepdims)


@either_spelling
def any_norm(x, ord=None, axis=None, keepdims=False):
    """The matrix norm `ord` of a matrix or two axes, else the vector norm, as in NumPy and torch.linalg."""
    x = as_tensor(x)
    axes = (
        tuple(range(x.ndim)) if axis is None else tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    )
    if len(axes) == 2 and ord is not None:
        return matrix_norm(x, ord, axes, keepdims)
    return norm(x, 2 if ord is None else ord, axes, keepdims)


@either_spelling
def batch_diagonal(x, *, offset=0, axis1=-2, axis2=-1):
    """The diagonal of the last two axes, or of the given ones."""
    return diagonal(x, offset, axis1, axis2)


def trace(x, offset=0, axis1=0, axis2=1):
    """Sum the diagonal. Only a method, because minigrad.trace is the command that shows a model's steps."""
    return sum(diagonal(as_tensor(x), offset, axis1, axis2), -1)


# ---------------------------------------------------------------- NumPy's functions with other arguments


def _dot(a, b):
    x, y = as_tensor(a), as_tensor(b)
    if not (x.ndim and y.ndim):
        return x * y
    return matmul(x, y) if y.ndim == 1 or max(x.ndim, y.ndim) == 2 else tensordot(x, y, ([-1], [-2]))


def _solve(a, b):
    x, y = _square(a, "solve"), as_tensor(b)
    return solve(x, y) if y.ndim == 1 else apply(np.linalg.solve, x, y)


FROM_NUMPY[np.dot] = _dot
FROM_NUMPY[np.linalg.solve] = _solve
FROM_NUMPY[np.einsum] = lambda subscripts, *operands, optimize=True: einsum(subscripts, *operands)
FROM_NUMPY[np.trace] = lambda a, offset=0, axis1=0, axis2=1: trace(a, offset, axis1, axis2)
FROM_NUMPY[np.linalg.trace] = lambda x, *, offset=0: trace(x, offset, -2, -1)
FROM_NUMPY[np.linalg.diagonal] = lambda x, *, offset=0: diagonal(x, offset, -2, -1)
FROM_NUMPY[np.linalg.matrix_transpose] = lambda x: x.mT
FROM_NUMPY[np.linalg.norm] = any_norm
FROM_NUMPY[np.linalg.vector_norm] = lambda x, *, axis=None, keepdims=False, ord=2: norm(
    x, ord, axis, keepdims
)
FROM_NUMPY[np.linalg.matrix_norm] = lambda x, *, keepdims=False, ord="fro": matrix_norm(
    x, ord, (-2, -1), keepdims
)
