"""Exercises of lesson 14: GPT.

Write each function where it says so; `python -m tutorials check 14` tests this file and explains.
NumPy is all you need. V is the size of the vocabulary, T a length, H a number of heads, D a head's width.
"""

import numpy as np


def next_token_batch(data, starts, T):
    """Windows of a text, and the token that follows each token in them.

    data: integers (N,);  starts: integers (B,), the beginnings of the windows, each at most N - T - 1
    ->  (inputs, labels), both integers (B, T): row b of inputs is the T tokens from starts[b] on; a label is
    the token right after its input.
    """
    # solution
    at = starts[:, None] + np.arange(T)
    return data[at], data[at + 1]
    # end


def temperature_softmax(logits, temperature):
    """The distribution of the next token.

    logits: (..., V), some of them may be -inf (impossible);  temperature: a number from 0
    ->  (..., V): the softmax of logits / temperature along the last axis. At temperature 0: 1 on the
    likeliest token, the first of several equally likely ones, and 0 elsewhere. Finite, and without a warning,
    for logits of 1e4 and for small temperatures too.
    """
    # solution
    if temperature == 0:
        return np.eye(logits.shape[-1])[logits.argmax(-1)]
    e = np.exp((logits - logits.max(-1, keepdims=True)) / temperature)
    return e / e.sum(-1, keepdims=True)
    # end


def truncate(p, top_k=None, top_p=None):
    """Keep only the likeliest tokens; the others get 0, and the rest is divided by its sum.

    p: (V,), probabilities that sum to 1. Of equally likely tokens the lower id counts as likelier.
    top_k: keep the k likeliest (all, if there are no more than k);  None: all
    top_p: divide the rest by its sum, then keep the fewest likeliest tokens whose probabilities together
    reach top_p, at least one: a token stays if the likelier ones sum to less than top_p;  None: all
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
    """Attention of one new token to itself and to all tokens before it, with cached keys and values.

    q, k, v: (H, D), of the new token in each head
    keys, values: (H, T, D), of the T tokens before it (T may be 0)
    ->  (output (H, D), keys (H, T + 1, D), values (H, T + 1, D)): softmax of the scores divided by sqrt(D),
    times the values; and keys and values with the new token's at the end. The given arrays stay unchanged.
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
    """Join every occurrence of a pair.

    symbols: a list of integers;  pair: a tuple of two;  new: an integer
    ->  a new list in which `new` replaces each occurrence of the pair, from the left: 1 1 1 with the pair
    (1, 1) becomes new 1.
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

    words: a list of lists of bytes (integers from 0 to 255); pairs are counted inside words only, each time
    count: the largest number of merges
    Each merge joins the most frequent pair in all words, as the symbol 256, then 257, and so on; of equally
    frequent pairs the lowest (tuples compared as Python does). Ends early if no pair occurs twice.
    ->  the list of the joined pairs, in their order. The given words stay unchanged.
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
    """Apply the learned merges to a word.

    word: a list of bytes;  merges: a list of pairs, in the order learned; merge i makes the symbol 256 + i
    ->  a list of integers. Joins every occurrence of the pair that was learned first, of those in the word;
    repeats until the word contains no learned pair.
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

    losses: (N,), -ln p of each of its tokens;  characters: the number of characters of these tokens
    ->  (perplexity, bits per character), two floats: e to the mean loss of a token; and the bits of the whole
    text, per character.
    """
    # solution
    return float(np.exp(losses.mean())), float(losses.sum() / np.log(2) / characters)
    # end
