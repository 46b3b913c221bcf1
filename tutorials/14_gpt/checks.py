"""Checks of lesson 14."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- next_token_batch

next_token_batch = lesson.exercise(
    "next_token_batch",
    hints=(
        "Which token should the model predict after reading data[i]?",
        "Add np.arange(T) to a column of starts: an index for each token of each window. Labels are at + 1.",
        "at = starts[:, None] + np.arange(T); return data[at], data[at + 1].",
    ),
    why="Each window trains T predictions in one pass; this is all the data preparation that a GPT needs.",
)


@next_token_batch.check("two windows of a text")
def _(my, rng):
    return my.next_token_batch(rng.integers(50, size=30), np.array([0, 7]), 5)


@next_token_batch.check("a window that ends where the text ends")
def _(my, rng):
    return my.next_token_batch(np.arange(100, 110), np.array([5, 3, 5]), 4)


@next_token_batch.check("windows of one token")
def _(my, rng):
    return my.next_token_batch(np.arange(20), np.array([4, 18]), 1)


next_token_batch.wrong(
    "The labels are the inputs themselves. The label of a token is the token after it: data[at + 1].",
    "data[at + 1]",
    "data[at]",
)
next_token_batch.wrong(
    "The labels are the tokens before. A GPT is asked for what comes next, data[at + 1].",
    "data[at + 1]",
    "data[at - 1]",
)
next_token_batch.wrong(
    "The labels are T further: they are the next window. Each label is the token right after its input.",
    "data[at + 1]",
    "data[(at + T) % len(data)]",
)
next_token_batch.wrong(
    "Inputs and labels are exchanged: the later token is the label.",
    "data[at], data[at + 1]",
    "data[at + 1], data[at]",
)

# ---------------------------------------------------------------- temperature_softmax

temperature_softmax = lesson.exercise(
    "temperature_softmax",
    hints=(
        "How does softmax change if all logits are divided by a small number? And by a large one?",
        (
            "Subtract the maximum, divide by the temperature, exp, and divide by the sum. "
            "Temperature 0 is a case of its own: argmax."
        ),
        (
            "e = np.exp((logits - logits.max(-1, keepdims=True)) / temperature); "
            "and np.eye(V)[logits.argmax(-1)] for 0."
        ),
    ),
    why="One number turns a model from always the likeliest word to anything goes.",
)


@temperature_softmax.check("temperatures below, at and above 1")
def _(my, rng):
    logits = rng.standard_normal((2, 3, 5))
    return [my.temperature_softmax(logits, t) for t in (0.5, 1.0, 2.0)]


@temperature_softmax.check("temperature 0 is greedy, the first of equals")
def _(my, rng):
    return my.temperature_softmax(np.array([[1.0, 3.0, 2.0], [2.0, 0.0, 2.0]]), 0)


@temperature_softmax.check("impossible tokens stay impossible")
def _(my, rng):
    return my.temperature_softmax(np.array([0.5, -np.inf, 1.5]), 0.7)


@temperature_softmax.check("large logits and a small temperature")
def _(my, rng):
    logits = np.array([[1e4, 1e4 - 1, -1e4], [0.0, 1.0, 2.0]])
    return my.temperature_softmax(logits, 1.0), my.temperature_softmax(logits, 0.01)


temperature_softmax.wrong(
    "The logits are multiplied by the temperature. Divide: a temperature below 1 sharpens the distribution.",
    "/ temperature)",
    "* temperature)",
)
temperature_softmax.wrong(
    (
        "The probabilities are divided by the temperature, and then by their sum, which undoes it. "
        "Divide the logits."
    ),
    body="""
    if temperature == 0:
        return np.eye(logits.shape[-1])[logits.argmax(-1)]
    e = np.exp(logits - logits.max(-1, keepdims=True)) / temperature
    return e / e.sum(-1, keepdims=True)
    """,
)
temperature_softmax.wrong(
    "Temperature 0 divides the 1 among equally likely tokens; the first of them should get all of it.",
    "np.eye(logits.shape[-1])[logits.argmax(-1)]",
    "(lambda m: m / m.sum(-1, keepdims=True))((logits == logits.max(-1, keepdims=True)).astype(float))",
)
temperature_softmax.wrong(
    "Temperature 0 is treated as 1. It means greedy: all of the probability on the likeliest token.",
    "return np.eye(logits.shape[-1])[logits.argmax(-1)]",
    "temperature = 1",
)
temperature_softmax.wrong(
    "The sum runs over all rows. Each row is a distribution of its own: axis -1.",
    "e.sum(-1, keepdims=True)",
    "e.sum()",
)

# ---------------------------------------------------------------- truncate

truncate = lesson.exercise(
    "truncate",
    hints=(
        "If the tokens are sorted from likely to unlikely, where is each of the two cuts?",
        (
            "Sort once (argsort of -p, stable). Cut after the first k; divide by the sum; then cut where the "
            "tokens before already reach top_p."
        ),
        (
            "kept = p[order]; kept[top_k:] = 0; kept /= kept.sum(); "
            "kept[np.cumsum(kept) - kept >= top_p] = 0; put it back with out[order] = kept."
        ),
    ),
    why="Together the many unlikely tokens are likely enough to spoil a text: sampling needs these cuts.",
)


@truncate.check("top_k")
def _(my, rng):
    p = rng.dirichlet(np.ones(7))
    return [my.truncate(p, top_k=k) for k in (1, 3, 7)]


@truncate.check("top_p")
def _(my, rng):
    p = np.array([0.05, 0.5, 0.15, 0.1, 0.2])
    return [my.truncate(p, top_p=reach) for reach in (0.01, 0.45, 0.6, 0.8, 1.0)]


@truncate.check("both: top_k first")
def _(my, rng):
    p = np.array([0.1, 0.4, 0.3, 0.2])
    return my.truncate(p, top_k=2, top_p=0.5), my.truncate(p, top_k=3, top_p=0.75)


@truncate.check("equally likely tokens, exactly reached, and k above V")
def _(my, rng):
    equal = np.full(4, 0.25)
    return (
        my.truncate(equal, top_k=2),
        my.truncate(equal, top_p=0.5),
        my.truncate(equal, top_k=99),
        my.truncate(equal),
    )


@truncate.check("the given array is unchanged")
def _(my, rng):
    p = np.array([0.1, 0.6, 0.3])
    my.truncate(p, top_k=2, top_p=0.5)
    return p


truncate.wrong(
    (
        "The token that crosses top_p is cut off, so the rest may not reach top_p, or be empty. Keep it: "
        "compare the sum of the tokens *before* it."
    ),
    body="""
    order = np.argsort(-p, kind="stable")
    kept = p[order]
    kept[top_k:] = 0
    kept /= kept.sum()
    if top_p is not None:
        kept[np.cumsum(kept) > top_p] = 0
        kept[0] = max(kept[0], 1e-300)
        kept /= kept.sum()
    out = np.zeros_like(kept)
    out[order] = kept
    return out
    """,
)
truncate.wrong(
    "Divide the rest by its sum after top_k, before top_p is applied: top_p is a fraction of that sum.",
    body="""
    order = np.argsort(-p, kind="stable")
    kept = p[order]
    kept[top_k:] = 0
    if top_p is not None:
        kept[np.cumsum(kept) - kept >= top_p] = 0
    kept /= kept.sum()
    out = np.zeros_like(kept)
    out[order] = kept
    return out
    """,
)
truncate.wrong(
    "The probabilities are returned sorted, so they belong to other tokens. Use out[order] = kept.",
    "out[order] = kept",
    "out[:] = kept",
)
truncate.wrong(
    "The rest does not sum to 1. Divide by the sum after each cut.",
    body="""
    order = np.argsort(-p, kind="stable")
    kept = p[order]
    kept[top_k:] = 0
    if top_p is not None:
        kept[np.cumsum(kept / kept.sum()) - kept / kept.sum() >= top_p] = 0
    out = np.zeros_like(kept)
    out[order] = kept
    return out
    """,
)
truncate.wrong(
    "The unlikeliest are kept: sort by -p, so that the likeliest come first.",
    'np.argsort(-p, kind="stable")',
    'np.argsort(p, kind="stable")',
)

# ---------------------------------------------------------------- attention_step

attention_step = lesson.exercise(
    "attention_step",
    hints=(
        "Which keys may the newest token see? Is its own among them?",
        (
            "Append k and v along the axis of time, score the query against all keys, divide by sqrt(D), "
            "take the softmax, and mix the values."
        ),
        "keys = np.concatenate([keys, k[:, None]], 1), scores = (keys @ q[..., None])[..., 0] / np.sqrt(D).",
    ),
    why="With this step the T-th token costs one query instead of T, in every model that writes text today.",
)


@attention_step.check("a token after others")
def _(my, rng):
    return my.attention_step(*rng.standard_normal((3, 2, 4)), *rng.standard_normal((2, 2, 5, 4)))


@attention_step.check("the first token: nothing before it")
def _(my, rng):
    return my.attention_step(*rng.standard_normal((3, 2, 4)), np.zeros((2, 0, 4)), np.zeros((2, 0, 4)))


@attention_step.check("token by token gives the same as causal attention")
def _(my, rng):
    q, k, v = rng.standard_normal((3, 3, 6, 3))
    keys = values = np.zeros((3, 0, 3))
    outputs = []
    for t in range(6):
        out, keys, values = my.attention_step(q[:, t], k[:, t], v[:, t], keys, values)
        outputs.append(out)
    return np.array(outputs)


@attention_step.check("large scores, and the given arrays are unchanged")
def _(my, rng):
    q, k, v = rng.standard_normal((3, 2, 4)) * 300
    keys, values = rng.standard_normal((2, 2, 3, 4)) * 300
    out, _, _ = my.attention_step(q, k, v, keys, values)
    return out, keys, values


attention_step.wrong(
    "The scores are not divided by sqrt(D), the width of a head.", " / np.sqrt(q.shape[-1])", ""
)
attention_step.wrong(
    "The new token is at the beginning of keys and values. Append it at the end: it is the latest.",
    "([keys, k[:, None]], 1)  # (H, T + 1, D)\n    values = np.concatenate([values, v[:, None]], 1)",
    "([k[:, None], keys], 1)\n    values = np.concatenate([v[:, None], values], 1)",
)
attention_step.wrong(
    (
        "The new token does not see itself. Append its key and value first, then attend: "
        "the first token would have no key to attend to."
    ),
    body="""
    if not keys.shape[1]:
        return np.zeros_like(q), k[:, None], v[:, None]
    scores = (keys @ q[:, :, None])[:, :, 0] / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    out = (weights[:, None] @ values)[:, 0]
    return out, np.concatenate([keys, k[:, None]], 1), np.concatenate([values, v[:, None]], 1)
    """,
)
attention_step.wrong(
    "The softmax is over all heads together. Each head has weights of its own that sum to 1 over the tokens.",
    "e.sum(-1, keepdims=True)",
    "e.sum()",
)
attention_step.wrong(
    "The values are not cached: only the keys grew, and the new value replaced the last one.",
    "np.concatenate([values, v[:, None]], 1)",
    "np.concatenate([values[:, :-1], *[v[:, None]] * (2 if values.shape[1] else 1)], 1)",
)

# ---------------------------------------------------------------- bpe_merge

bpe_merge = lesson.exercise(
    "bpe_merge",
    hints=(
        "After a pair has been joined at positions i and i + 1, at which position do you continue?",
        (
            "Walk with an index: if the next two symbols are the pair, append `new` and advance by two; "
            "else copy one symbol and advance by one."
        ),
        "here = tuple(symbols[i : i + 2]) == pair; out.append(new if here else symbols[i]); i += 1 + here.",
    ),
    why="Learning and encoding both are this function, repeated.",
)


@bpe_merge.check("a pair that occurs several times, at the beginning and at the end")
def _(my, rng):
    return my.bpe_merge([1, 2, 3, 1, 2, 2, 1, 2], (1, 2), 256)


@bpe_merge.check("pairs that overlap")
def _(my, rng):
    return [my.bpe_merge([7] * n, (7, 7), 300) for n in range(6)]


@bpe_merge.check("a pair that does not occur, and half of one at the end")
def _(my, rng):
    return my.bpe_merge([1, 3, 2, 1], (1, 2), 256), my.bpe_merge([], (1, 2), 256)


@bpe_merge.check("the given list is unchanged")
def _(my, rng):
    symbols = [1, 2, 1, 2]
    my.bpe_merge(symbols, (1, 2), 256)
    return symbols


bpe_merge.wrong(
    "After a joined pair it advances by one, so the pair's second symbol is used again. Skip both.",
    "i += 1 + here",
    "i += 1",
)
bpe_merge.wrong(
    "Only the first occurrence is joined. Join every one, from the left.",
    body="""
    for i in range(len(symbols) - 1):
        if tuple(symbols[i : i + 2]) == pair:
            return symbols[:i] + [new] + symbols[i + 2 :]
    return list(symbols)
    """,
)
bpe_merge.wrong(
    "The last symbol gets lost when it is not part of a pair: the walk must reach the end of the list.",
    "while i < len(symbols):",
    "while i < len(symbols) - 1:",
)
bpe_merge.wrong(
    "A pair counts in either order here. 2 1 is a different pair from 1 2.",
    "tuple(symbols[i : i + 2]) == pair",
    "len(symbols) - i > 1 and sorted(symbols[i : i + 2]) == sorted(pair)",
)

# ---------------------------------------------------------------- bpe_train

bpe_train = lesson.exercise(
    "bpe_train",
    hints=(
        "What must be recounted after each merge, and why?",
        (
            "In each round: count all neighbouring pairs of all words, take the one with the largest count "
            "(of equals the lowest), join it everywhere."
        ),
        (
            "best = min(times, key=lambda pair: (-times[pair], pair)); stop if times[best] < 2; "
            "words = [bpe_merge(w, best, new) for w in words]."
        ),
    ),
    why=(
        "These merges are the vocabulary: GPT-2's 50,257 tokens are 256 bytes, 50,000 merges "
        "and one mark for the end of a text."
    ),
)


@bpe_train.check("low lower lowest")
def _(my, rng):
    words = [list(word.encode()) for word in ("low", " lower", " lowest")]
    return [list(pair) for pair in my.bpe_train(words, 10)]


@bpe_train.check("ties: the lowest pair first, whatever the order of the words")
def _(my, rng):
    words = [[5, 6], [9, 1], [5, 6], [9, 1], [3, 8], [3, 8], [3, 2], [3, 2]]
    return [list(pair) for pair in my.bpe_train(words, 3)]


@bpe_train.check("at most `count` merges, and none of a pair that occurs once")
def _(my, rng):
    words = [[1, 2, 3, 4], [1, 2, 3, 5]]
    return (
        [len(my.bpe_train(words, n)) for n in (0, 1, 2, 9)],
        my.bpe_train([[1, 2, 3]], 4),
        my.bpe_train([[7]], 4),
    )


@bpe_train.check("pairs inside words only, and symbols made of symbols")
def _(my, rng):
    words = [[1, 2], [1, 2], [2, 1], [7, 7, 7, 7], [7, 7, 7, 7]]
    return [list(pair) for pair in my.bpe_train(words, 9)]


@bpe_train.check("a random text, and the given words are unchanged")
def _(my, rng):
    words = [rng.integers(4, size=n).tolist() for n in (3, 9, 6, 12)]
    return [list(pair) for pair in my.bpe_train(words, 6)], words


bpe_train.wrong(
    (
        "Of equally frequent pairs the first one found is taken. Take the lowest, so that the order of the "
        "words does not matter."
    ),
    "key=lambda pair: (-times[pair], pair)",
    "key=lambda pair: -times[pair]",
)
bpe_train.wrong(
    "Pairs that occur once are joined too. That memorizes the text: stop below 2.",
    "times[best] < 2",
    "times[best] < 1",
)
bpe_train.wrong(
    "The pairs are counted only once. Each merge makes new pairs and removes others: recount in every round.",
    body="""
    times = {}
    for word in words:
        for pair in zip(word, word[1:], strict=False):
            times[pair] = times.get(pair, 0) + 1
    order = sorted(times, key=lambda pair: (-times[pair], pair))
    return [pair for pair in order[:count] if times[pair] > 1]
    """,
)
bpe_train.wrong(
    "Of equally frequent pairs the highest is taken; here it is the lowest.",
    "best = min(times, key=lambda pair: (-times[pair], pair), default=None)",
    "best = max(times, key=lambda pair: (times[pair], pair), default=None)",
)
bpe_train.wrong(
    "Pairs are counted across word boundaries. Count inside each word.",
    body="""
    merges, flat = [], [s for word in words for s in word]
    for new in range(256, 256 + count):
        times = {}
        for pair in zip(flat, flat[1:], strict=False):
            times[pair] = times.get(pair, 0) + 1
        best = min(times, key=lambda pair: (-times[pair], pair), default=None)
        if best is None or times[best] < 2:
            break
        flat = bpe_merge(flat, best, new)
        merges.append(best)
    return merges
    """,
)

# ---------------------------------------------------------------- bpe_encode

bpe_encode = lesson.exercise(
    "bpe_encode",
    hints=(
        "Two pairs of the word were both learned, and they share a symbol. Which is joined?",
        "Number the merges. While the word contains learned pairs, join the lowest-numbered one, everywhere.",
        "first = min(held, key=number.get); word = bpe_merge(word, first, number[first]).",
    ),
    why="A text must be split like the training text, or the model sees tokens where it never saw them.",
)


@bpe_encode.check("words of the training text, and new ones")
def _(my, rng):
    merges = [(108, 111), (256, 119), (32, 257), (258, 101)]
    return [my.bpe_encode(list(word.encode()), merges) for word in ("low", " slow", " lowest", "wolf", "")]


@bpe_encode.check("which pair comes first: the one learned first, not the leftmost")
def _(my, rng):
    return my.bpe_encode([1, 2, 3, 1, 2], [(2, 3), (1, 2)]), my.bpe_encode([1, 2, 3, 1, 2], [(1, 2), (2, 3)])


@bpe_encode.check("symbols made of symbols, several times in a word")
def _(my, rng):
    return my.bpe_encode([1, 1, 1, 1, 1, 2, 1, 1], [(1, 1), (256, 256), (257, 1), (1, 2)])


@bpe_encode.check("no merges; and the given word is unchanged")
def _(my, rng):
    word = [1, 2, 1, 2]
    return my.bpe_encode(word, []), my.bpe_encode(word, [(1, 2)]), word


bpe_encode.wrong(
    "The leftmost learned pair is joined. Join the pair that was learned first, wherever it occurs.",
    "min(held, key=number.get)",
    "held[0]",
)
bpe_encode.wrong(
    "The pair learned last is joined first. Merges are replayed in the order in which they were learned.",
    "min(held, key=number.get)",
    "max(held, key=number.get)",
)
bpe_encode.wrong(
    "The symbols are numbered from 0. The bytes have 0 to 255; merge i makes 256 + i.",
    "256 + i for i",
    "i for i",
)
bpe_encode.wrong(
    "Only one merge is applied. Repeat until the word contains no learned pair.",
    body="""
    number = {pair: 256 + i for i, pair in enumerate(merges)}
    held = [pair for pair in zip(word, word[1:], strict=False) if pair in number]
    if held:
        first = min(held, key=number.get)
        word = bpe_merge(word, first, number[first])
    return list(word)
    """,
)

# ---------------------------------------------------------------- perplexity_and_bits

perplexity_and_bits = lesson.exercise(
    "perplexity_and_bits",
    hints=(
        "Which of the two is per token, and which per character?",
        (
            "Perplexity undoes the logarithm of the mean. Bits are nats divided by ln 2; "
            "take the sum over the text, then divide by its characters."
        ),
        "np.exp(losses.mean()), and losses.sum() / np.log(2) / characters.",
    ),
    why="Models with different tokens can be compared only per character (or per byte).",
)


@perplexity_and_bits.check("tokens of several characters")
def _(my, rng):
    return my.perplexity_and_bits(rng.random(7) * 3, 19)


@perplexity_and_bits.check("a token is a character")
def _(my, rng):
    return my.perplexity_and_bits(rng.random(5) * 3, 5)


@perplexity_and_bits.check("knowing nothing of 64 tokens: perplexity 64, 6 bits")
def _(my, rng):
    return my.perplexity_and_bits(np.full(10, np.log(64)), 10)


perplexity_and_bits.wrong(
    "The perplexity is e to the sum of the losses; it is per token: the mean.",
    "np.exp(losses.mean())",
    "np.exp(losses.sum())",
)
perplexity_and_bits.wrong(
    "These are nats per character. Divide by ln 2 to get bits.",
    "losses.sum() / np.log(2) / characters",
    "losses.sum() / characters",
)
perplexity_and_bits.wrong(
    "These are bits per token. Bits per character are the sum over the text, divided by its characters.",
    "losses.sum() / np.log(2) / characters",
    "losses.mean() / np.log(2)",
)
perplexity_and_bits.wrong(
    "The perplexity is a power of 2 of nats. Losses are in nats, so it is e to the mean.",
    "np.exp(losses.mean())",
    "2 ** losses.mean()",
)
