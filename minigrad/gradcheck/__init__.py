"""Is a gradient right, and if not, what went wrong? Compares what backward gives with finite differences, in float64.

gradcheck(fun, inputs)                      a function of Tensors, a Module, or a pair: True, or an error that explains
gradcheck_pair(forward, backward, inputs)   your own backward, in plain NumPy
gradgradcheck(fun, inputs)                  the second order
check, check_pair                           the same as a Report, a table of all inputs, instead of an error
locate(loss)                                which op of a graph has the wrong rule, and the line that made it

`python -m minigrad.gradcheck` runs it over everything minigrad and models offer; --mistakes shows what it says of a dozen
typical mistakes, --mutations spoils every rule in turn and counts how many are caught and named. This file only hands on
names.
"""

from minigrad.gradcheck.sample import Sample, leaf
from minigrad.gradcheck.numeric import FLOOR, KINK, TOLERANCE, relative_error
from minigrad.gradcheck.results import Diagnosis, GradcheckError, Report, Result
from minigrad.gradcheck.evidence import HYPOTHESES, Evidence, diagnose, hypothesis
from minigrad.gradcheck.checking import check, gradcheck, gradgradcheck
from minigrad.gradcheck.pairs import check_pair, gradcheck_pair
from minigrad.gradcheck.locating import Located, locate
