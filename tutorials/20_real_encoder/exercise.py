"""Exercises of lesson 20: a real encoder, and search by meaning.

Write each function where it says so; `python -m tutorials check 20` tests this file and explains.
NumPy is all you need; no published model is. A boolean array `real` is True at tokens and False at padding.
"""

import numpy as np


def wordpiece(word, vocabulary):
    """The pieces of a word: the longest that it begins with, then the longest that goes on, to its end.

    word: a string of at least one letter;  vocabulary: a set of strings. A piece that goes on with a word stands there with
    ## before it: of "cats" the piece "##s", not "s". The first piece has no ##.
    ->  a list of strings, all of them in the vocabulary; ["[UNK]"], and nothing else, if at some place no piece fits. What was
    chosen is never taken back.
    """
    # solution
    pieces, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        end = next((e for e in range(len(word), start, -1) if mark + word[start:e] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(mark + word[start:end])
        start = end
    return pieces
    # end


def padded(rows, pad):
    """A batch of rows of different lengths.

    rows: a list of B lists of token numbers, of which at least one is not empty;  pad: the number that fills up
    ->  (tokens, real), both (B, T) with T the length of the longest row: integers, each row at the left and `pad` to its right;
    booleans, True where a token stands, which may have the number `pad` too.
    """
    # solution
    lengths = np.array([len(row) for row in rows])
    real = np.arange(lengths.max()) < lengths[:, None]  # (B, T)
    tokens = np.full(real.shape, pad)
    tokens[real] = np.concatenate(rows)
    return tokens, real
    # end


def sentence_vectors(x, real):
    """One vector of length 1 for each sentence: the mean of its tokens' vectors, padding left out, divided by its own length.

    x: (B, T, C), may hold anything finite at padding;  real: booleans (B, T)
    ->  (B, C), each row of length 1; zeros for a row that is padding only or whose mean is zero, without a warning.
    """
    # solution
    mean = (x * real[..., None]).sum(1) / np.maximum(real.sum(1, keepdims=True), 1)
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    return mean / np.where(length > 0, length, 1)
    # end


def unit_backward(g, u):
    """The gradient of sum(g * e) with respect to u, where row n of e is row n of u divided by its length.

    g, u: (N, C), no row of u is zero  ->  (N, C)
    """
    # solution
    length = np.linalg.norm(u, axis=1, keepdims=True)
    e = u / length
    return (g - e * (g * e).sum(1, keepdims=True)) / length
    # end


def search(query, notes, k):
    """The k notes most like a query, by the cosine of the angle between their vectors.

    query: (C,), not zero;  notes: (N, C), vectors of any length; a zero vector has the cosine 0 with everything
    k: a whole number of at least 1; more than N means all
    ->  (which, cosines), arrays of min(k, N) numbers: rows of `notes`, the most alike first, and how alike they are. Of equally
    alike notes the one that stands earlier in `notes` comes first.
    """
    # solution
    lengths = np.linalg.norm(notes, axis=1) * np.linalg.norm(query)
    cosines = notes @ query / np.where(lengths > 0, lengths, 1)
    which = np.argsort(-cosines, kind="stable")[:k]
    return which, cosines[which]
    # end


def info_nce(a, b, scale):
    """The contrastive loss with in-batch negatives: row i of `a` must find row i of `b` among all rows of `b`.

    a, b: (B, C), rows of length 1;  scale: a positive number
    ->  a number: the logits are scale * (a_i . b_j); of each row i, -log softmax(logits_i)[i]; the mean over the B rows.
    Finite and without a warning for any scale, 1e4 too.
    """
    # solution
    z = scale * a @ b.T  # (B, B)
    z = z - z.max(1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
    return -np.diag(log_p).mean()
    # end


def info_nce_backward(g, a, b, scale):
    """The gradients of g * info_nce(a, b, scale) with respect to a and b, each of whose numbers may change on its own.

    g: a number;  a, b: (B, C);  scale: a positive number  ->  (da, db), both (B, C)
    """
    # solution
    z = scale * a @ b.T
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    dz = g * (p - np.eye(len(a))) / len(a)  # (B, B)
    return scale * dz @ b, scale * dz.T @ a
    # end
