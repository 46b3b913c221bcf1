"""The public functions on tensors, named as in PyTorch. Most are also methods of Tensor.

spelling     accept PyTorch's and NumPy's names of arguments
methods      attach functions to Tensor as methods
elementwise  functions of each element
reductions   sums, extremes, sorting
shape        reshape, transpose, join, split
indexing     gather, scatter and so on
linalg       products and matrices
"""

from minigrad.ops import elementwise, indexing, linalg, methods, reductions, shape
from minigrad.ops.spelling import NO_GPU, either_spelling
from minigrad.ops.elementwise import *
from minigrad.ops.reductions import *
from minigrad.ops.shape import *
from minigrad.ops.indexing import *
from minigrad.ops.linalg import *

__all__ = [*elementwise.__all__, *reductions.__all__, *shape.__all__, *indexing.__all__, *linalg.__all__]
