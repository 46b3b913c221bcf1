"""Report what a measurement depends on besides the code: processor, versions, BLAS, memory."""

import importlib.metadata
import os
import platform
import sys

try:
    import resource
except ImportError:  # Windows
    resource = None

PACKAGES = ("numpy", "torch", "jax", "autograd", "mygrad", "tinygrad", "micrograd")

# These make OpenBLAS use another processor's kernels or block sizes, so that NumPy is slower than possible.
MISLEADING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def unset_misleading():
    """Remove the variables in MISLEADING from the environment of this process and its children.

    Returns their names.
    """
    return [name for name in MISLEADING if os.environ.pop(name, None) is not None]


def facts():
    """Collect processor, cores and versions.

    The BLAS is known only in a process that has loaded it: see blas().
    """
    versions = {name: version for name in PACKAGES if (version := _version(name))}
    load = [round(n, 2) for n in os.getloadavg()] if hasattr(os, "getloadavg") else None
    return {
        "cpu": cpu_name(),
        "cores": usable_cores(),
        "system": platform.system(),
        "python": platform.python_version(),
        **versions,
        "load before": load,
    }


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cpu_name():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def usable_cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def blas():
    """The BLAS of this process: name, version, the processor it detected, and its threads."""
    import threadpoolctl

    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    keys = ("internal_api", "version", "architecture", "num_threads")
    return {key: pools[0].get(key) for key in keys} if pools else {}


def page_faults():
    """Count the pages of memory that this process has received so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0


def peak_memory():
    """The peak memory of this process in MB.

    Linux reports the process itself. Elsewhere getrusage is used, which includes the peak of the process that
    started this one.
    """
    kilobytes = _status("VmHWM")
    if kilobytes is None and resource:
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
            2**10 if sys.platform == "darwin" else 1
        )
    return None if kilobytes is None else kilobytes / 2**10


def memory():
    """The memory of this process in MB now, or its peak if the system does not report it."""
    kilobytes = _status("VmRSS")
    return peak_memory() if kilobytes is None else kilobytes / 2**10


def _status(name):
    """Read a field of Linux's /proc/self/status, in KiB, or None."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(name))
    except (OSError, StopIteration):
        return None
