"""Checks of lesson 19."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- sharing a batch

shard = lesson.exercise(
    "shard",
    hints=(
        "11 examples for 3 ranks: how many does each get if none may have two more than another? Where does each begin?",
        "divmod(n, ranks) gives the size that all have and how many ranks get one more. Rank r begins after r sizes, and after "
        "as many of the extra ones as there are ranks before it that got one.",
        "start of rank r: r * size + min(r, rest); its stop is the start of rank r + 1",
    ),
    why="No rank waits long for another, every example counts once, and each rank finds its part without asking anybody.",
)


@shard.check("11 examples for 3 ranks")
def _(my, rng):
    return [list(map(int, pair)) for pair in my.shard(11, 3)]


@shard.check("9 examples for 4 ranks; what divides evenly; one rank alone")
def _(my, rng):
    return [[list(map(int, pair)) for pair in my.shard(n, ranks)] for n, ranks in ((9, 4), (12, 4), (5, 1))]


@shard.check("fewer examples than ranks, and none at all")
def _(my, rng):
    return [[list(map(int, pair)) for pair in my.shard(n, ranks)] for n, ranks in ((2, 5), (0, 3))]


shard.wrong(
    "Some examples belong to no rank: what is left over after dividing must be given to somebody.",
    body="size = n // ranks\nreturn [(r * size, (r + 1) * size) for r in range(ranks)]",
)
shard.wrong(
    "The last rank takes all that is left over, so that the others wait for it. Give one more to each of the first ranks.",
    body="size = n // ranks\nreturn [(r * size, (r + 1) * size if r < ranks - 1 else n) for r in range(ranks)]",
)
shard.wrong(
    "Sizes differ by more than 1: rounding the size up gives the first ranks too many and leaves the last with too few.",
    body="size = -(-n // ranks)\nreturn [(min(r * size, n), min((r + 1) * size, n)) for r in range(ranks)]",
)
shard.wrong(
    "The larger parts come first, as in np.array_split; yours stand elsewhere.",
    body="return [(r * n // ranks, (r + 1) * n // ranks) for r in range(ranks)]",
)

# ---------------------------------------------------------------- the mean

combine_gradients = lesson.exercise(
    "combine_gradients",
    hints=(
        "One rank's mean runs over 2 numbers, the other's over 1. Should both means count the same?",
        "The loss is a sum over all numbers, divided by how many there are in all. A rank's mean times its count is its part "
        "of the sum.",
        "the sum over ranks with a count above 0 of gradient * (count / sum(counts))",
    ),
    why="Sentences have different lengths and the last batch is smaller: with a plain mean a short part's tokens would weigh "
    "more, and two processes would train another model than one.",
)


@combine_gradients.check("the worked example: (1, 2) on one rank, 3 on the other")
def _(my, rng):
    return my.combine_gradients([np.array([5.0]), np.array([18.0])], [2, 1])


@combine_gradients.check("three ranks, uneven")
def _(my, rng):
    return my.combine_gradients([rng.standard_normal((2, 3)) for _ in range(3)], [5, 1, 2])


@combine_gradients.check("a rank without examples, whose gradient is NaN")
def _(my, rng):
    return my.combine_gradients([np.array([1.0, 2.0]), np.full(2, np.nan), np.array([3.0, 5.0])], [3, 0, 1])


@combine_gradients.check("no examples at all")
def _(my, rng):
    return my.combine_gradients([np.full((2, 2), np.nan)] * 2, [0, 0])


@combine_gradients.check("the arrays given stay as they are")
def _(my, rng):
    gradients = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    return my.combine_gradients(gradients, [1, 2]), gradients


combine_gradients.wrong(
    "That is the mean of the ranks' means, in which a rank with one example weighs as much as one with many. Weigh by counts.",
    "gradient * (count / sum(counts))",
    "gradient / len(counts)",
)
combine_gradients.wrong(
    "The gradients are means already; you added them up without dividing by the number of all.",
    "gradient * (count / sum(counts))",
    "gradient * count",
)
combine_gradients.wrong(
    "That is the sum of the ranks' means. The gradient of the whole mean has weights that sum to 1.",
    "gradient * (count / sum(counts))",
    "gradient",
)
combine_gradients.wrong(
    "0 times NaN is NaN: a rank that had no example must be left out, not given the weight 0.",
    "if count:\n            total",
    "if sum(counts):\n            total",
)
combine_gradients.wrong(
    "You added into one of the arrays that you were given. Their owner still needs them: begin with a new array.",
    body="total = gradients[0]\ntotal *= counts[0] / max(1, sum(counts))\n"
    "for gradient, count in zip(gradients[1:], counts[1:]):\n    if count:\n        total += gradient * (count / sum(counts))\n"
    "return total if sum(counts) else np.zeros_like(total)",
)

# ---------------------------------------------------------------- the ring

ring_reduce_scatter = lesson.exercise(
    "ring_reduce_scatter",
    hints=(
        "Take 3 ranks and follow piece 0 alone. Where does it set out in round 0, and who adds to it, in which order?",
        "In each round, first copy what everybody sends, then let every neighbour add what it receives. Piece c sets out at "
        "rank c and has met all p ranks after p - 1 rounds.",
        "for t in range(p - 1): sent = the pieces held[r, (r - t) % p], copied; then held[(r + 1) % p, (r - t) % p] += sent[r]",
    ),
    why="Every link carries a p-th of the array in every round, and none is idle: that is why the ring moves the least that "
    "any way can.",
)


@ring_reduce_scatter.check("2 ranks")
def _(my, rng):
    return my.ring_reduce_scatter(np.array([[[1.0], [2.0]], [[10.0], [20.0]]]))


@ring_reduce_scatter.check("3 ranks, all that they hold")
def _(my, rng):
    return my.ring_reduce_scatter(
        np.array([[[1.0], [2.0], [3.0]], [[10.0], [20.0], [30.0]], [[100.0], [200.0], [300.0]]])
    )


@ring_reduce_scatter.check("5 ranks: the complete pieces")
def _(my, rng):
    held = my.ring_reduce_scatter(rng.standard_normal((5, 5, 2)))
    return [held[r, (r + 1) % 5] for r in range(5)]


@ring_reduce_scatter.check("one rank has nobody to send to; the array given stays as it is")
def _(my, rng):
    held, one = rng.standard_normal((3, 3, 2)), np.array([[[4.0, 5.0]]])
    my.ring_reduce_scatter(held)
    return my.ring_reduce_scatter(one), held


ring_reduce_scatter.wrong(
    "One round too many: after p - 1 rounds a piece has met every rank, and in the next it is added to one twice.",
    "range(p - 1)",
    "range(p)",
)
ring_reduce_scatter.wrong(
    "The neighbour must add what it receives to its own piece; yours replaces it, and its own numbers are lost.",
    "held[(r + 1) % p, (r - t) % p] += sent[r]",
    "held[(r + 1) % p, (r - t) % p] = sent[r]",
)
ring_reduce_scatter.wrong(
    "A rank sends the piece that it has just added to, (r - t) % p, not the same piece in every round.",
    body="held, p = held.copy(), len(held)\nfor t in range(p - 1):\n    sent = [held[r, r].copy() for r in range(p)]\n"
    "    for r in range(p):\n        held[(r + 1) % p, r] += sent[r]\nreturn held",
)
ring_reduce_scatter.wrong(
    "You send to the left neighbour. With pieces numbered (r - t) % p the ring turns to the right, to rank (r + 1) % p.",
    "held[(r + 1) % p, (r - t) % p] += sent[r]",
    "held[(r - 1) % p, (r - t) % p] += sent[r]",
)
ring_reduce_scatter.wrong(
    "What you return is right, but you wrote into the array that you were given. Work on a copy.",
    "held, p = held.copy(), len(held)",
    "held, p = held, len(held)",
)

ring_all_gather = lesson.exercise(
    "ring_all_gather",
    hints=(
        "Which piece is complete on rank r at the start? That one travels first. Which one does the rank have complete next?",
        "In round 0 every rank sends its own complete piece, (r + 1) % p; in each later round the one that has just come.",
        "for t in range(p - 1): sent = the held[r, (r + 1 - t) % p], copied; held[(r + 1) % p, (r + 1 - t) % p] = sent[r]",
    ),
    why="Together with the first half this is the ring all-reduce: every rank has the sum, and none ever held the whole sum "
    "alone.",
)


@ring_all_gather.check("3 ranks, with old numbers in the other pieces")
def _(my, rng):
    held = np.full((3, 3, 1), 7.0)
    held[0, 1], held[1, 2], held[2, 0] = 100, 200, 300
    return my.ring_all_gather(held)


@ring_all_gather.check("4 ranks, random")
def _(my, rng):
    return my.ring_all_gather(rng.standard_normal((4, 4, 3)))


@ring_all_gather.check("2 ranks; one alone; the array given stays as it is")
def _(my, rng):
    two = rng.standard_normal((2, 2, 2))
    return my.ring_all_gather(two), two, my.ring_all_gather(np.array([[[4.0, 5.0]]]))


ring_all_gather.wrong(
    "The pieces are complete already. What arrives takes the place of the old piece; you added it.",
    "held[(r + 1) % p, (r + 1 - t) % p] = sent[r]",
    "held[(r + 1) % p, (r + 1 - t) % p] += sent[r]",
)
ring_all_gather.wrong(
    "In round 0 rank r must send the piece that is complete, (r + 1) % p. You sent piece r, which is not.",
    body="held, p = held.copy(), len(held)\nfor t in range(p - 1):\n"
    "    sent = [held[r, (r - t) % p].copy() for r in range(p)]\n"
    "    for r in range(p):\n        held[(r + 1) % p, (r - t) % p] = sent[r]\nreturn held",
)
ring_all_gather.wrong(
    "One round too few: each rank still misses a piece. p - 1 rounds bring the other p - 1 pieces.",
    "range(p - 1)",
    "range(p - 2)",
)
ring_all_gather.wrong(
    "You wrote into the array that you were given. Work on a copy.",
    "held, p = held.copy(), len(held)",
    "held, p = held, len(held)",
)

all_reduce = lesson.exercise(
    "all_reduce",
    hints=(
        "7 numbers do not cut into 3 pieces of one size. What can be put behind them that changes no sum?",
        "A zeroed array (p, p * piece), where piece is the size divided by p and rounded up; each rank's flat numbers at the "
        "beginning of its row; reshaped to (p, p, piece) it is what the ring takes.",
        "held = ring_all_gather(ring_reduce_scatter(held.reshape(p, p, piece))), and of each row the first `size` numbers in "
        "the old shape",
    ),
    why="One call, and all processes hold the same gradient: a training loop for one process becomes one for a thousand.",
)


@all_reduce.check("3 ranks, a shape that does not divide")
def _(my, rng):
    return my.all_reduce([rng.standard_normal((2, 5)) for _ in range(3)])


@all_reduce.check("4 ranks, 8 numbers; and fewer numbers than ranks")
def _(my, rng):
    return my.all_reduce([rng.standard_normal(8) for _ in range(4)]), my.all_reduce(
        [rng.standard_normal(2) for _ in range(4)]
    )


@all_reduce.check("one rank; a single number; float32 stays float32")
def _(my, rng):
    single = my.all_reduce([np.array(2.5), np.array(4.0)])
    dtype = str(my.all_reduce([np.ones(3, np.float32)] * 2)[0].dtype)
    return (
        my.all_reduce([np.arange(6.0).reshape(2, 3)]),
        [float(x) for x in single],
        [list(x.shape) for x in single],
        dtype,
    )


@all_reduce.check("the arrays given stay as they are, and the ranks' results are arrays of their own")
def _(my, rng):
    arrays = [np.ones(4), np.full(4, 2.0)]
    out = my.all_reduce(arrays)
    out[0][0] = -1
    return arrays, out[1]


all_reduce.wrong(
    "Each rank must get an array of its own: processes share no memory, and yours all hold one and the same.",
    body="total = sum(arrays)\nreturn [np.asarray(total)] * len(arrays)",
)
all_reduce.wrong(
    "The shape is lost: a gradient must come back in the shape in which it went.",
    "[row.ravel()[:size].reshape(shape) for row in held]",
    "[row.ravel()[:size] for row in held]",
)
all_reduce.wrong(
    "After the first half each rank has one complete piece only. The second half, ring_all_gather, is missing.",
    "ring_all_gather(ring_reduce_scatter(held.reshape(p, p, piece)))",
    "ring_reduce_scatter(held.reshape(p, p, piece))",
)
all_reduce.wrong(
    "float32 became float64, twice the bytes to send: give the filled-up array the dtype of the arrays.",
    "np.zeros((p, p * piece), arrays[0].dtype)",
    "np.zeros((p, p * piece))",
)
all_reduce.wrong(
    "That is the mean over the ranks. An all-reduce here sums; who wants a mean weighs before.",
    "[row.ravel()[:size].reshape(shape) for row in held]",
    "[row.ravel()[:size].reshape(shape) / p for row in held]",
)

# ---------------------------------------------------------------- cost

all_reduce_seconds = lesson.exercise(
    "all_reduce_seconds",
    hints=(
        "For each way: how many messages come one after the other, and how many bytes has each?",
        "The ring: 2 (p - 1) messages of size / p bytes. The tree: 2 times the rounds, each of all bytes. Naive: 2 (p - 1) "
        "messages of all bytes.",
        "the number of rounds of a tree is (ranks - 1).bit_length(): 1 for 2, 2 for 3 and 4, 3 for 5 to 8",
    ),
    why="You can now say, before anybody rents machines, how many of them will help, and whether latency or bandwidth stands "
    "in the way.",
)


@all_reduce_seconds.check("2 ranks, 1 MB, 1 GB/s, 10 us")
def _(my, rng):
    return list(my.all_reduce_seconds(1e6, 2, 10e-6, 1e9))


@all_reduce_seconds.check("8 ranks: bandwidth alone (latency 0)")
def _(my, rng):
    return list(my.all_reduce_seconds(8e6, 8, 0.0, 1e9))


@all_reduce_seconds.check("8 ranks: latency alone (no bytes)")
def _(my, rng):
    return list(my.all_reduce_seconds(0, 8, 1e-3, 1e9))


@all_reduce_seconds.check("5, 6 and 1,000 ranks, where a tree's rounds are rounded up")
def _(my, rng):
    return [list(my.all_reduce_seconds(3.2e6, p, 20e-6, 1.25e9)) for p in (5, 6, 1000)]


@all_reduce_seconds.check("one rank waits for nobody")
def _(my, rng):
    return list(my.all_reduce_seconds(1e6, 1, 1e-3, 1e9))


all_reduce_seconds.wrong(
    "The ring has two halves: p - 1 rounds to add up, and p - 1 to spread the sums.",
    "2 * steps * (latency + size / ranks / bandwidth)",
    "steps * (latency + size / ranks / bandwidth)",
)
all_reduce_seconds.wrong(
    "In the ring a message holds a p-th of the bytes, not all of them.",
    "2 * steps * (latency + size / ranks / bandwidth)",
    "2 * steps * (latency + size / bandwidth)",
)
all_reduce_seconds.wrong(
    "Each message has its latency, also the small ones of the ring: it is paid 2 (p - 1) times, not once.",
    "2 * steps * (latency + size / ranks / bandwidth)",
    "latency + 2 * steps * (size / ranks / bandwidth)",
)
all_reduce_seconds.wrong(
    "A tree of 5 ranks needs 3 rounds: the logarithm is rounded up, not down.",
    "(ranks - 1).bit_length()",
    "ranks.bit_length() - 1",
)
all_reduce_seconds.wrong(
    "In the naive way the messages come one after the other, because rank 0 receives one at a time: p - 1 of them, not one.",
    "2 * steps * whole",
    "2 * whole",
)

# ---------------------------------------------------------------- buckets

reduce_in_buckets = lesson.exercise(
    "reduce_in_buckets",
    hints=(
        "Sizes 3, 4, 2 and a limit of 6. Begin with the last: which go into the first bucket, and which no longer fits?",
        "First make a list of buckets, each a list of numbers of arrays; then for each bucket concatenate, reduce, and cut the "
        "result up again in the same order.",
        "flat = reduce(np.concatenate([arrays[i].ravel() for i in bucket])); then for each i the next arrays[i].size numbers, "
        "reshaped to arrays[i].shape",
    ),
    why="A model has hundreds of small arrays; a message for each would be latency and little else, and one for all could not "
    "set out before backward is over.",
)


@reduce_in_buckets.check("sizes 3, 4, 2 with a limit of 6: what is sent")
def _(my, rng):
    sent = []
    arrays = [np.arange(3.0), np.arange(10.0, 14.0), np.arange(20.0, 22.0)]
    out = my.reduce_in_buckets(arrays, 6, lambda flat: sent.append(flat.copy()) or 2 * flat)
    return sent, out


@reduce_in_buckets.check("shapes come back, transposed arrays too; an array above the limit goes alone")
def _(my, rng):
    sent = []
    arrays = [
        rng.standard_normal((2, 3)),
        rng.standard_normal((4, 5)).T,
        np.array(3.0),
        rng.standard_normal(2),
    ]
    out = my.reduce_in_buckets(arrays, 7, lambda flat: sent.append(len(flat)) or flat + 1)
    return sent, [np.array(x) for x in out], [list(x.shape) for x in out]


@reduce_in_buckets.check("a large limit: one bucket; a limit of 1: a bucket each")
def _(my, rng):
    sent = []
    for limit in (100, 1):
        my.reduce_in_buckets([np.zeros(2), np.ones(3)], limit, lambda flat: sent.append(flat.copy()) or flat)
    return sent


@reduce_in_buckets.check("no arrays, no message")
def _(my, rng):
    sent = []
    return my.reduce_in_buckets([], 5, lambda flat: sent.append(1) or flat), sent


reduce_in_buckets.wrong(
    "Backward finishes the last array first, so the first bucket must hold the last arrays; yours begins at the front of the "
    "list and cannot set out before backward is over.",
    "reversed(range(len(arrays)))",
    "range(len(arrays))",
)
reduce_in_buckets.wrong(
    "A bucket grew beyond the limit: look whether the next array still fits before you put it in.",
    "sum(arrays[i].size for i in buckets[-1]) + arrays[number].size > limit",
    "sum(arrays[i].size for i in buckets[-1]) > limit",
)
reduce_in_buckets.wrong(
    "Bytes were not asked for: the limit counts numbers, and a bucket may hold exactly `limit` of them.",
    "sum(arrays[i].size for i in buckets[-1]) + arrays[number].size > limit",
    "sum(arrays[i].size for i in buckets[-1]) + arrays[number].size >= limit",
)
reduce_in_buckets.wrong(
    "That is a message for each array, and each pays the latency. Put as many into a bucket as fit.",
    "if full and buckets[-1]:",
    "if buckets[-1]:",
)
reduce_in_buckets.wrong(
    "The numbers come back in the wrong places: cut the bucket up in the order in which you filled it.",
    "for i in bucket:\n            reduced",
    "for i in bucket[::-1]:\n            reduced",
)
