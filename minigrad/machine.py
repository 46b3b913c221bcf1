"""Settings of the machine for a training process: memory allocation and BLAS threads."""

import contextlib
import ctypes
import os
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # from glibc's malloc.h


def keep_freed_memory():
    """Make the C library keep freed memory for reuse in this process.

    Returns True if that worked (glibc only). A training step frees its activations and allocates the same
    again in the next step. By default glibc returns large blocks to the kernel and gets zeroed pages back:
    thousands of page faults a step, a quarter of its time. Set MINIGRAD_MALLOPT=0 in the environment to leave
    the allocator alone.
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
    """Return the peak memory of this process in MB; None where the system does not report it (Windows)."""
    try:
        # Linux: getrusage would include the process that started this one
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
    """Let matrix products use `count` threads.

    On small models one thread is fastest: several wait for each other, and much longer if the machine has
    other load.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(count, user_api="blas"):
        yield


def blas_kernels():
    """Name the processor of NumPy's BLAS kernels; another one's products may differ in their last bits."""
    from threadpoolctl import threadpool_info

    loaded = [one for one in threadpool_info() if one.get("user_api") == "blas"]
    # other packages may load their own BLAS
    of_numpy = [one for one in loaded if "numpy" in one.get("filepath", "")]
    return ", ".join(sorted({one.get("architecture", "") for one in of_numpy or loaded}))
