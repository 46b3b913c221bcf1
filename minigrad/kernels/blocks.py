"""Arrays piece by piece: a chain of elementwise steps on a piece that stays in the processor's cache. Knows no functions."""

BLOCK = 2**16  # numbers: 256 KiB of float32, a few of which fit into the second level of the cache


def in_blocks(*arrays):
    """For arrays of one shape, in C order: their numbers, BLOCK at a time, as views that can be written into."""
    flat = [array.reshape(-1) for array in arrays]
    size = flat[0].size
    if size <= BLOCK:
        yield flat
        return
    for start in range(0, size, BLOCK):
        yield [array[start : start + BLOCK] for array in flat]
