"""Exercises of lesson 13: the whole Transformer.

Write each function where it says so; `python -m tutorials check 13` tests this file and explains.
NumPy is all you need. Masks are boolean, True = may attend. C is d_model, V the size of the vocabulary.
"""

import numpy as np


def teacher_forcing(targets, bos, eos, pad):
    """The decoder's inputs and labels.

    targets: a list of B lists of token ids, of any lengths (0 too), without bos, eos or pad
    ->  (inputs, labels), two integer arrays (B, T), T being the longest length plus 1.
    Row b of inputs is bos and then the target; row b of labels is the target and then eos.
    Both are filled up with pad on the right.
    """
    # solution
    T = max(map(len, targets)) + 1
    inputs, labels = np.full((2, len(targets), T), pad)
    for b, target in enumerate(targets):
        inputs[b, : len(target) + 1] = [bos, *target]
        labels[b, : len(target) + 1] = [*target, eos]
    return inputs, labels
    # end


def embed(tokens, table, positions, start=0):
    """Embeddings scaled by sqrt(C), plus positions.

    tokens: integers (B, T);  table: (V, C), a row for each token
    positions: (max_len, C), a row for each position;  start: the position of the first token  ->  (B, T, C)
    """
    # solution
    T, C = tokens.shape[1], table.shape[1]
    return table[tokens] * np.sqrt(C) + positions[start : start + T]
    # end


def encoder_layer(x, mask, attend, feed_forward, norm1, norm2):
    """One post-norm encoder layer: each sublayer's output is added to its input, and the sum is normalized.

    x: (B, T, C);  mask: True for the source tokens that may be attended to
    attend: attend(query, key, value, mask) -> (B, T, C), multi-head attention
    feed_forward, norm1, norm2: functions of one array, norm1 for the attention's sum, norm2 for the other
    ->  (B, T, C)
    """
    # solution
    x = norm1(x + attend(x, x, x, mask))
    return norm2(x + feed_forward(x))
    # end


def decoder_layer(y, memory, tgt_mask, src_mask, attend_self, attend_cross, feed_forward, norms):
    """One post-norm decoder layer: masked self-attention, cross-attention to the memory, feed-forward.

    y: (B, Tt, C), the target;  memory: (B, Ts, C), the encoder's output
    tgt_mask: causal and padding;  src_mask: True for the source tokens that may be attended to
    attend_self, attend_cross: called as attend(query, key, value, mask)
    feed_forward: a function of one array
    norms: a list of three functions, for the sums in the order of the sublayers  ->  (B, Tt, C)
    """
    # solution
    y = norms[0](y + attend_self(y, y, y, tgt_mask))
    y = norms[1](y + attend_cross(y, memory, memory, src_mask))
    return norms[2](y + feed_forward(y))
    # end


def greedy_decode(next_logits, batch_size, bos, eos, pad, max_new):
    """Write token by token, always the likeliest.

    next_logits: a function of the tokens so far, integers (B, T) that begin with bos; it returns the logits
    (B, V) of each row's next token
    ->  integers (B, n) without bos. Each row ends with its eos, and is filled up with pad after it. Stops as
    soon as all rows have ended, or after max_new tokens; next_logits is not called more often than needed.
    """
    # solution
    tokens, done = np.full((batch_size, 1), bos), np.zeros(batch_size, bool)
    while tokens.shape[1] <= max_new and not done.all():
        token = np.where(done, pad, next_logits(tokens).argmax(-1))
        tokens, done = np.concatenate([tokens, token[:, None]], 1), done | (token == eos)
    return tokens[:, 1:]
    # end


def exact_match(answers, targets, eos):
    """The fraction of rows that are exactly right.

    answers: integers (B, n);  targets: integers (B, m), n and m may differ
    Each row counts up to and with its first eos (the whole row if it has none); the tokens after it do not
    matter  ->  a float from 0 to 1
    """

    # solution
    def whole(row):
        row = list(row)
        return row[: row.index(eos) + 1] if eos in row else row

    return float(np.mean([whole(a) == whole(t) for a, t in zip(answers, targets, strict=True)]))
    # end


def smoothed_loss(logits, labels, smoothing, pad):
    """Cross-entropy with label smoothing, over the positions that are not padding.

    logits: (B, T, V);  labels: integers (B, T)  ->  a float, the mean over the positions whose label is not
    pad (at least one). At each position the target distribution is smoothing / V on each of all V tokens, and
    1 - smoothing more on the label. Finite for any finite logits, 1e4 too.
    """
    # solution
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))  # (B, T, V)
    right = np.take_along_axis(log_p, labels[..., None], -1)[..., 0]  # (B, T)
    losses = -(1 - smoothing) * right - smoothing * log_p.mean(-1)
    return float(losses[labels != pad].mean())
    # end


def parameter_count(vocab_size, d_model, num_layers, d_ff):
    """The number of parameters of the Transformer of 2017.

    num_layers encoder layers and as many decoder layers, post-norm (no further norm after the stacks). Each
    attention has four projections (d_model, d_model) with biases; each feed-forward network two layers with
    biases; each norm a gain and a bias of d_model. One embedding table, shared by source, target and output;
    the output has no bias; the positions are not trained.
    ->  an int
    """
    # solution
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    norm = 2 * d_model
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return vocab_size * d_model + num_layers * (encoder + decoder)
    # end
