"""Speed and memory of minigrad beside PyTorch and others: `python -m benchmarks`. Knows how to measure; promises nothing."""
