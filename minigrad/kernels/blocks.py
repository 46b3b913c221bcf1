"""Split arrays into blocks, so that a chain of elementwise steps stays in the processor's cache."""

BLOCK = 2**16  # elements: 256 KiB of float32, a few of which fit into the second-level cache


def in_blocks(*arrays):
    """Yield writable views of at most BLOCK elements of C-ordered arrays of one shape."""
    flat = [array.reshape(-1) for array in arrays]
    size = flat[0].size
    if size <= BLOCK:
        yield flat
        return
    for start in range(0, size, BLOCK):
        yield [array[start : start + BLOCK] for array in flat]
