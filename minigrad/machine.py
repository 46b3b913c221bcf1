"""What a training process asks of the machine: keep freed memory, use so many BLAS threads. Knows nothing of tensors."""

import contextlib
import ctypes
import os
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # from glibc's malloc.h


def keep_freed_memory():
    """Let the C library keep freed memory for the whole process; returns whether it could be had (glibc only).

    A training step frees its activations and asks for the same again in the next step. glibc returns large blocks to the
    kernel, which hands out zeroed pages anew: thousands of page faults a step, a quarter of its time. Told once not to, it
    reuses them. Set MINIGRAD_MALLOPT=0 in the environment to leave the allocator alone.
    """
    if not sys.platform.startswith("linux") or os.environ.get("MINIGRAD_MALLOPT") == "0":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_TRIM_THRESHOLD, 2**31 - 1), (_MMAP_THRESHOLD, 2**30), (_TOP_PAD, 64 * 2**20))
    return all(mallopt(name, value) == 1 for name, value in settings)


def peak_memory():
    """The most memory this process ever held, in MB; None where the system does not say (Windows)."""
    try:
        # Linux: getrusage counts from the process that started this one
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) / 2**10 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


@contextlib.contextmanager
def blas_threads(count):
    """Let matrix products use `count` threads. On small models one is fastest: several spend their time waiting for each other,
    and beside any other load much more than that."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(count, user_api="blas"):
        yield


def blas_kernels():
    """For which processor NumPy's BLAS computes; another one's products may differ in their last bits."""
    from threadpoolctl import threadpool_info

    all_there_are = [one for one in threadpool_info() if one.get("user_api") == "blas"]
    # other packages may bring their own
    of_numpy = [one for one in all_there_are if "numpy" in one.get("filepath", "")]
    return ", ".join(sorted({one.get("architecture", "") for one in of_numpy or all_there_are}))
