"""What a figure depends on besides the code: processor, versions, BLAS, memory used. Knows how to ask, not what is good."""

import importlib.metadata
import os
import platform
import sys

try:
    import resource
except ImportError:  # Windows
    resource = None

PACKAGES = ("numpy", "torch", "jax", "autograd", "mygrad", "tinygrad", "micrograd")

# They make OpenBLAS use another processor's kernels or block sizes, so that NumPy is slower than the machine.
MISLEADING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def unset_misleading():
    """Remove from our environment, and so from that of the processes we start, what would falsify NumPy's speed: its names."""
    return [name for name in MISLEADING if os.environ.pop(name, None) is not None]


def facts():
    """Processor, cores, versions: everything but the BLAS, which only a process that has loaded it can tell."""
    versions = {name: version for name in PACKAGES if (version := _version(name))}
    load = [round(n, 2) for n in os.getloadavg()] if hasattr(os, "getloadavg") else None
    return {
        "cpu": cpu_name(), "cores": usable_cores(), "system": platform.system(), "python": platform.python_version(),
        **versions, "load before": load,
    }  # fmt: skip


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
    """The BLAS of this process: name, version, the processor it thinks it runs on, and its threads."""
    import threadpoolctl

    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    keys = ("internal_api", "version", "architecture", "num_threads")
    return {key: pools[0].get(key) for key in keys} if pools else {}


def page_faults():
    """How often this process was given a page of memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0


def peak_memory():
    """The most memory this process ever held, in MB. Linux tells it of the process itself; getrusage, which must do elsewhere,
    counts from the process that started it."""
    kilobytes = _status("VmHWM")
    if kilobytes is None and resource:
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
            2**10 if sys.platform == "darwin" else 1
        )
    return None if kilobytes is None else kilobytes / 2**10


def memory():
    """The memory this process holds now, in MB; where that is not told, the most it held so far."""
    kilobytes = _status("VmRSS")
    return peak_memory() if kilobytes is None else kilobytes / 2**10


def _status(name):
    """A figure of Linux's /proc/self/status, in KiB, or None."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(name))
    except (OSError, StopIteration):
        return None
