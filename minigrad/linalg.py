"""The names of torch.linalg: matrices and norms. Nothing is defined here."""

from minigrad.engine import errors
from minigrad.ops import linalg

__all__ = [
    "cholesky", "det", "diagonal", "inv", "matmul", "matrix_norm", "matrix_power", "norm", "slogdet", "solve", "vecdot", "vector_norm",
]  # fmt: skip

# a vector or matrix norm, by the axes; minigrad.norm treats all elements as one vector, as torch.norm does
norm = linalg.any_norm
cholesky, det, inv, slogdet, solve = linalg.cholesky, linalg.det, linalg.inv, linalg.slogdet, linalg.solve
matmul, matrix_power, vecdot = linalg.matmul, linalg.matrix_power, linalg.vecdot
matrix_norm, vector_norm, diagonal = linalg.matrix_norm, linalg.vector_norm, linalg.batch_diagonal


def __getattr__(name):
    raise errors.Missing(__name__, name)
