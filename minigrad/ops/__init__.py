"""What people type: functions named as in PyTorch, each also a method of Tensor. Hands on what the files here define.

spelling     both spellings of a name      methods  which of them, and what else, is a method of Tensor
elementwise  of every number      reductions  of many numbers      shape  of none: they only move
indexing     of chosen ones       linalg      of matrices
"""

from minigrad.ops import elementwise, indexing, linalg, methods, reductions, shape
from minigrad.ops.spelling import NO_GPU, either_spelling
from minigrad.ops.elementwise import *
from minigrad.ops.reductions import *
from minigrad.ops.shape import *
from minigrad.ops.indexing import *
from minigrad.ops.linalg import *

__all__ = [*elementwise.__all__, *reductions.__all__, *shape.__all__, *indexing.__all__, *linalg.__all__]
