"""Exercises of lesson 14: GPT.

Write each function where it says so; `python -m tutorials check 14` tests this file and explains.
NumPy is all you need. V is the size of the vocabulary, T a length, H a number of heads, D the width of a head.
"""

import numpy as np


def next_token_batch(data, starts, T):
    """Windows of a text, and the token that follows each token in them.

    data: integers (N,);  starts: integers (B,), where the windows begin, each at most N - T - 1
    ->  (inputs, labels), both integers (B, T): row b of inputs is the T tokens from starts[b] on; a label is the token right
    after.
    """
    # solution
    at = starts[:, None] + np.arange(T)
    return data[at], data[at + 1]
    # end


def temperature_softmax(logits, temperature):
    """The distribution of the next token.

    logits: (..., V), may hold -inf (impossible), but not only;  temperature: a number, 0 or more
    ->  (..., V): the softmax of logits / temperature along the last axis. At temperature 0: 1 on the likeliest token, of
    several equally likely ones on the first, and 0 elsewhere. Finite, and without a warning, for logits of 1e4 and for small
    temperatures too.
    """
    # solution
    if temperature == 0:
        return np.eye(logits.shape[-1])[logits.argmax(-1)]
    e = np.exp((logits - logits.max(-1, keepdims=True)) / temperature)
    return e / e.sum(-1, keepdims=True)
    # end


def truncate(p, top_k=None, top_p=None):
    """Keep the likeliest tokens only; the others get 0, and what is left is divided by its sum.

    p: (V,), probabilities that sum to 1. Of equally likely tokens the lower number counts as likelier.
    top_k: keep the k likeliest (all, if there are no more than k);  None: all
    top_p: then, of what top_k left (divided by its sum), keep the fewest likeliest whose probabilities together reach top_p,
    at least one: a token stays if those likelier than it make up less than top_p;  None: all
    ->  (V,), a new array that sums to 1
    """
    # solution
    order = np.argsort(-p, kind="stable")
    kept = p[order]
    kept[top_k:] = 0
    kept /= kept.sum()
    if top_p is not None:
        kept[np.cumsum(kept) - kept >= top_p] = 0
        kept /= kept.sum()
    out = np.zeros_like(kept)
    out[order] = kept
    return out
    # end


def attention_step(q, k, v, keys, values):
    """Attention of one new token to itself and to all before it, whose keys and values were kept.

    q, k, v: (H, D), of the new token in each head;  keys, values: (H, T, D), of the T tokens before it (T may be 0)
    ->  (output (H, D), keys (H, T + 1, D), values (H, T + 1, D)): softmax of the scores divided by sqrt(D), times the values;
    and the keys and values with the new token's at the end. The arrays that were passed are left as they were.
    """
    # solution
    keys = np.concatenate([keys, k[:, None]], 1)  # (H, T + 1, D)
    values = np.concatenate([values, v[:, None]], 1)
    scores = (keys @ q[:, :, None])[:, :, 0] / np.sqrt(q.shape[-1])  # (H, T + 1)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    return (weights[:, None] @ values)[:, 0], keys, values
    # end


def bpe_merge(symbols, pair, new):
    """Join a pair wherever it stands.

    symbols: a list of integers;  pair: a tuple of two;  new: an integer
    ->  a new list in which `new` stands for each occurrence of the pair, found from the left: 1 1 1 with the pair (1, 1) is
    new 1.
    """
    # solution
    out, i = [], 0
    while i < len(symbols):
        here = tuple(symbols[i : i + 2]) == pair
        out.append(new if here else symbols[i])
        i += 1 + here
    return out
    # end


def bpe_train(words, count):
    """Learn which pairs to join.

    words: a list of lists of bytes (integers from 0 to 255); pairs are counted inside words only, each place of each word;
    count: how many merges at most. Again and again the pair that occurs most often is joined in all words, as the symbol 256,
    then 257, and so on; of several that occur equally often, the lowest pair (tuples compared as Python does). It ends early
    if no pair occurs twice.
    ->  the list of the pairs joined, in their order. The words that were passed are left as they were.
    """
    # solution
    merges = []
    for new in range(256, 256 + count):
        times = {}
        for word in words:
            for pair in zip(word, word[1:], strict=False):
                times[pair] = times.get(pair, 0) + 1
        best = min(times, key=lambda pair: (-times[pair], pair), default=None)
        if best is None or times[best] < 2:
            break
        words = [bpe_merge(word, best, new) for word in words]
        merges.append(best)
    return merges
    # end


def bpe_encode(word, merges):
    """Apply what was learned to a word.

    word: a list of bytes;  merges: a list of pairs, in the order in which they were learned; merge i makes the symbol 256 + i
    ->  a list of integers. Of the pairs that the word holds, the one that was learned first is joined, wherever it stands;
    and again, until it holds none that was learned.
    """
    # solution
    number = {pair: 256 + i for i, pair in enumerate(merges)}
    while held := [pair for pair in zip(word, word[1:], strict=False) if pair in number]:
        first = min(held, key=number.get)
        word = bpe_merge(word, first, number[first])
    return list(word)
    # end


def perplexity_and_bits(losses, characters):
    """The loss of a text in two units.

    losses: (N,), -ln p of each of its tokens;  characters: how many characters these tokens are
    ->  (perplexity, bits per character), two floats: e to the mean loss of a token; and the bits the whole text costs, per
    character.
    """
    # solution
    return float(np.exp(losses.mean())), float(losses.sum() / np.log(2) / characters)
    # end
