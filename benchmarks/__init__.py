"""Measure speed and memory of minigrad, PyTorch and other libraries: `python -m benchmarks`."""
