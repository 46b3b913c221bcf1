"""minigrad: an autograd engine to learn from, with PyTorch's names. Importing it loads NumPy only."""

from minigrad.engine.tensor import Tensor
from minigrad.engine.recording import apply, as_tensor
from minigrad.engine.array_functions import bool_, float32, float64, get_default_dtype, int64, set_default_dtype  # fmt: skip
from minigrad.engine.table import defkernel, defvjp, defvjp_each
from minigrad.ops.creation import *
from minigrad.ops import *
from minigrad.modes import definitions, enable_grad, inference_mode, is_grad_enabled, no_grad
from minigrad.random import initial_seed, manual_seed
from minigrad.engine.backward import grad

from minigrad.engine import errors, operators  # attaches + and += to Tensor

from minigrad.engine import rules
from minigrad import functional, kernels  # these fill the table of rules
from minigrad.engine.array_functions import dispatched
from minigrad.functional import definition, dropout, gelu, log_softmax, logsumexp, softmax
from minigrad.engine.recompute import checkpoint
from minigrad.engine.anomaly import detect_anomaly

__version__ = "0.1.0"
# not global names: `from minigrad import *` would hide Python's float and bool
_DTYPES = {"float": float32, "double": float64, "long": int64, "bool": bool_}


def __getattr__(name):
    """Import mg.nn, mg.optim, mg.func and mg.linalg at first use, and resolve PyTorch's names of dtypes."""
    if name in ("nn", "optim", "func", "linalg"):
        import importlib

        return importlib.import_module(f"minigrad.{name}")
    if name in _DTYPES:
        return _DTYPES[name]
    raise errors.Missing(__name__, name)
