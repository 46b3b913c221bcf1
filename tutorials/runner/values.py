"""Encode the results of an exercise as text: numbers, strings, arrays, and lists, tuples and dicts of them.

Text instead of pickle, so that reading what a learner's process wrote cannot run code. The isolated process
imports this file too, so it needs only NumPy.
"""

import base64
import math

import numpy as np

KINDS = "biufc"  # booleans, integers, floats, complex numbers
MOST = 2_000_000  # the most bytes of one array


class Unreadable(ValueError):
    """Raised for a result that is no number, string, array, or list, tuple or dict of them."""


def encode(value):
    """Convert a value to JSON data. Raises Unreadable for anything else."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return {"number": repr(value)} if type(value) in (int, float) else encode(np.asarray(value).item())
    if isinstance(value, complex):
        return encode(np.array(value))
    if isinstance(value, np.generic):
        return {"array": _array(np.asarray(value)), "scalar": True}
    if isinstance(value, (list, tuple)):
        return {"list": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    data = getattr(value, "data", None)  # a tensor
    array = value if isinstance(value, np.ndarray) else data if isinstance(data, np.ndarray) else None
    if array is None or array.dtype.kind not in KINDS:
        what = (
            f"an array of {array.dtype}" if array is not None else f"a value of type {type(value).__name__}"
        )
        raise Unreadable(f"it returned {what}, where numbers, arrays, strings, or lists of them are expected")
    return {"array": _array(np.asarray(array))}


def _array(array):
    if array.nbytes > MOST:
        raise Unreadable(
            f"it returned an array of shape {array.shape}, {array.nbytes:,} bytes: far more than is expected"
        )
    return [
        array.dtype.str,
        list(array.shape),
        base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii"),
    ]


def decode(text):
    """Restore an encoded value; tuples become lists. Raises Unreadable for what encode never writes."""
    try:
        return _decode(text)
    except Unreadable:
        raise
    except (KeyError, TypeError, ValueError, IndexError, RecursionError, AttributeError) as error:
        raise Unreadable(f"it returned something unreadable ({type(error).__name__})") from None


def _decode(text):
    if text is None or isinstance(text, (bool, str)):
        return text
    if not isinstance(text, dict):
        raise Unreadable("it returned something unreadable")
    if "number" in text:
        number = text["number"]
        return int(number) if number.lstrip("-").isdigit() and len(number) < 300 else float(number)
    if "list" in text:
        return [_decode(item) for item in text["list"]]
    if "dict" in text:
        return {_hashable(_decode(key)): _decode(item) for key, item in text["dict"]}
    dtype, shape, data = text["array"]
    dtype = np.dtype(dtype)
    if dtype.kind not in KINDS or any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize > MOST:
        raise Unreadable("it returned an array of an unexpected kind or size")
    array = np.frombuffer(base64.b64decode(data), dtype).reshape(shape)
    return array.copy()[()] if text.get("scalar") else array.copy()


def _hashable(key):
    return tuple(map(_hashable, key)) if isinstance(key, list) else key
