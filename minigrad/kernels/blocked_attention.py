"""The kernel of attention with memory linear in the length: only one block of scores exists at a time.

The idea is FlashAttention's (Dao et al. 2022), with the online softmax of Milakov and Gimelshein (2018).
Scores are stored as (keys, queries), so that every product below has its factors in the order in which matrix
products are fastest.
"""

import numpy as np

from minigrad import functional as F
from minigrad.engine.table import defkernel

# ------------------------------------------------------- blocked attention: y = softmax(scale q k^T masked) v

# exp(20) times large values does not overflow float32, and exp(-20) does not underflow
LAZY = 20.0


def blocked_attention(q, k, v, mask, dropped, scale, causal, block):
    """For each block of keys: e = exp(s - m), t += e 1, a += (e kept) v. Finally y = a / t.

    m is a number near the row's maximum. It begins at 0 and is raised only when a block exceeds it by LAZY;
    then t and a shrink by exp(old m - new m). Saved: m and t for each query, from which backward computes the
    weights exp(s - m) / t. m + log t would not do: where a mask makes all scores -1e9, float32 would round
    log t away.
    """
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    dtype = np.result_type(q, k, v)
    y = np.empty_like(q, dtype, shape=(*lead, q.shape[-2], v.shape[-1]))
    # m, and t, which is 0 where a query attends to no key
    shifts, totals = (np.empty((*lead, q.shape[-2]), dtype) for _ in range(2))
    # hidden elements may be NaN or inf
    with np.errstate(invalid=None if mask is None and causal is None else "ignore"):
        for number, head in enumerate(np.ndindex(lead)):
            own = (of_head(x, head) for x in (q, k, v, mask))
            attend(
                Scores(*own, dropped, scale, causal, block, number, dtype),
                y[head],
                shifts[head],
                totals[head],
            )
    return y, (shifts, totals)


def attend(scores, y, shifts, totals):
    """Compute one head: fill y (Tq, Dv), shifts and totals (Tq,)."""
    # [v, 1]^T: one product computes the weighted values and the sum of the weights
    values = transpose_and_append(np.ascontiguousarray(scores.v), 1)
    for rows in scores.blocks_of_queries():
        queries = transpose_and_append(scores.scaled_queries(rows), 0)  # [scale q, -m]^T (D + 1, queries)
        gathered = np.zeros((len(values), queries.shape[1]), y.dtype)  # [a, t]^T
        total, new, small = gathered[-1], True, scores.all_within(rows, LAZY)
        for keys in scores.blocks_of_keys(rows):
            s = scores.block(rows, keys, queries)  # (keys, queries)
            if not small and (new or not s.max() <= LAZY):
                move_shift(s, queries, gathered)
            e = np.exp(s, out=s)
            if scores.dropped is None:
                gathered += values[:, keys] @ e
            else:
                total += e.sum(0)
                gathered[:-1] += values[:-1, keys] @ (e * scores.dropout_tile(rows, keys))
            new = new and not total.all()
        shifts[rows], totals[rows] = -queries[-1], total
        total[total == 0] = 1  # a query with no key to attend to: 0 / 1
        gathered[:-1] /= total
        y[rows] = gathered[:-1].T


def move_shift(s, queries, gathered):
    """Raise m where a score exceeds it by LAZY.

    Lower m where all first scores are that far below, or t would be 0. A query's own scores decide, so that
    no other query changes the last bit of its result.
    """
    top = s.max(0)
    move = (top > LAZY) | (top < -LAZY) & (gathered[-1] == 0)
    move &= top > -np.inf
    if move.any():
        step = np.where(move, top, 0)
        s -= step
        queries[-1] -= step
        gathered *= np.exp(np.minimum(-step, 0))


def blocked_attention_backward(g, y, saved, needs, q, k, v, mask, dropped, scale, causal, block):
    """With e = exp(s - m) and h = g / t: dv = (e kept)^T h.

    Through the softmax, ds = e (dp - d), dp = (h v^T) kept. d is the sum over keys of dp p, which equals the
    sum of h y over the width, since y = p v. Then dq = scale ds k, dk = ds^T (scale q). s - m and dp - d are
    products too: [scale q, -m] [k, 1]^T and [h, -d] [v, 1]^T.
    """
    shifts, totals = saved
    grads = [np.zeros_like(x, y.dtype) if needed else None for x, needed in zip((q, k, v, mask), needs)]
    with np.errstate(invalid=None if mask is None and causal is None else "ignore"):
        for number, head in enumerate(np.ndindex(y.shape[:-2])):
            own, theirs = ((of_head(x, head) for x in xs) for xs in ((q, k, v, mask), grads))
            scores = Scores(*own, dropped, scale, causal, block, number, y.dtype)
            differentiate(scores, g[head], y[head], shifts[head], totals[head], *theirs)
            del scores  # before those of the next head are allocated
    return (*grads, None, None, None, None)


def differentiate(scores, g, y, shifts, totals, dq, dk, dv, dmask):
    """Differentiate one head: add to the needed gradients, views (length, width) that heads may share."""
    # transposing a dense copy is faster
    values, keys_transposed = with_ones(scores.v), scores.k[:, :-1].copy().T.copy()
    other = np.empty_like(scores.room)
    # adding to C-ordered arrays is faster
    dk_head, dv_head = (
        x if x is None or x.flags.c_contiguous else np.zeros(x.shape, y.dtype) for x in (dk, dv)
    )
    for rows in scores.blocks_of_queries():
        blind = totals[rows] == 0
        dense_q, h = scores.scaled_queries(rows, blind), g[rows] / np.where(blind, 1, totals[rows])[:, None]
        d = np.einsum("ij,ij->i", h, y[rows])
        queries = transpose_and_append(dense_q, -shifts[rows])  # [scale q, -m]^T (D + 1, queries)
        # [h, -d]^T (Dv + 1, queries)
        incoming = transpose_and_append(h, -d if scores.dropped is None else 0)
        dq_transposed = np.zeros((len(keys_transposed), len(d)), y.dtype)
        for keys in scores.blocks_of_keys(rows):
            s = scores.block(rows, keys, queries)
            e = np.exp(s, out=s)  # (keys, queries)
            ds = np.matmul(values[keys], incoming, out=other[: s.size].reshape(s.shape))
            kept = None if scores.dropped is None else scores.dropout_tile(rows, keys)
            if kept is not None:
                ds *= kept
                ds -= d
            ds *= e
            if dmask is not None:
                add_to_mask(dmask, rows, keys, ds.T)
            if dv is not None:
                dv_head[keys] += (e if kept is None else np.multiply(e, kept, out=e)) @ h
            if dk is not None:
                dk_head[keys] += ds @ dense_q
            if dq is not None:
                dq_transposed += keys_transposed[:, keys] @ ds
        if dq is not None:
            dq_transposed *= scores.scale
            dq[rows] += dq_transposed.T
    for whole, head in ((dk, dk_head), (dv, dv_head)):
        if whole is not head:
            whole += head


def add_to_mask(dmask, rows, keys, ds):
    """Add to the gradient of a float mask: the scores' gradient, summed where the mask is broadcast."""
    part = part_of(dmask, rows, keys)
    repeated = tuple(axis for axis in (0, 1) if part.shape[axis] == 1)
    part += ds.sum(repeated, keepdims=True)


defkernel(F.blocked_attention, blocked_attention, blocked_attention_backward)

# ---------------------------------------------------------------- blocks of scores


class Scores:
    """The scores of one head, block by block, -inf where hidden. Skips blocks that are hidden entirely."""

    def __init__(self, q, k, v, mask, dropped, scale, causal, block, number, dtype):
        self.q, self.mask, self.dropped, self.causal, self.number = q, mask, dropped, causal, number
        self.scale = np.asarray(scale, dtype)
        self.hiding = mask is not None or causal is not None
        self.step, self.length = block, len(k)
        self.room = np.empty(block[0] * block[1], dtype)  # memory for a block of scores
        self.k, self.v = with_ones(k, dtype), v  # [k, 1] (Tk, D + 1)
        if self.hiding and not np.isfinite(self.k.sum() + v.sum()):
            unseen = ~self.seen_keys()
            self.k[unseen, :-1] = 0
            # 0 * NaN is NaN: padding could leak through a weight of 0
            self.v = np.where(unseen[:, None], 0, v)
        self.no_float_mask = mask is None or mask.dtype == bool
        # squared, without the appended 1
        self.longest_key = np.einsum("ij,ij->i", self.k, self.k).max(initial=1) - 1

    def blocks_of_queries(self):
        return slices(0, len(self.q), self.step[0])

    def blocks_of_keys(self, rows):
        """Yield the blocks of keys to which some of these queries may attend, by `causal` and by the mask."""
        end = self.length if self.causal is None else min(self.length, rows.stop + self.causal)
        for keys in slices(0, end, self.step[1]):
            if self.mask is None or self.mask.dtype != bool or part_of(self.mask, rows, keys).any():
                yield keys

    def scaled_queries(self, rows, blind=None):
        """scale q (queries, D), C-ordered; 0 for a query that attends to no key, whatever it contains."""
        out = np.multiply(self.q[rows], self.scale, order="C")
        if blind is not None and blind.any():
            out[blind] = 0
        return out

    def all_within(self, rows, limit):
        """Are these queries' scores within +-limit? Tests the cheap bound |q| |k| (Cauchy-Schwarz)."""
        longest = np.einsum("ij,ij->i", self.q[rows], self.q[rows]).max() * self.scale**2 * self.longest_key
        return self.no_float_mask and bool(longest < limit**2)

    def block(self, rows, keys, queries):
        """k (scale q)^T - m (keys, queries), -inf where hidden. Overwrites the previous block."""
        s = self.room[: (keys.stop - keys.start) * queries.shape[1]].reshape(-1, queries.shape[1])
        np.matmul(self.k[keys], queries, out=s)
        if self.hiding:
            self.hide(s, rows, keys)
        return s

    def hide(self, s, rows, keys):
        # the block touches the diagonal
        if self.causal is not None and keys.stop - 1 > rows.start + self.causal:
            first = max(
                0, rows.start + self.causal + 1 - keys.start
            )  # all queries attend to the keys before it
            late = np.tri(
                len(s) - first, s.shape[1], keys.start + first - rows.start - self.causal - 1, dtype=bool
            )
            np.copyto(s[first:], -np.inf, where=late)
        if self.mask is not None:
            part = part_of(self.mask, rows, keys)
            if part.dtype != bool:
                s += part.T
            elif not part.all():
                np.copyto(s, -np.inf, where=~part.T)

    def seen_keys(self):
        """(Tk,): may any query attend to the key?"""
        seen = np.zeros(self.length, bool)
        for rows in self.blocks_of_queries():
            for keys in self.blocks_of_keys(rows):
                s = np.zeros((keys.stop - keys.start, rows.stop - rows.start), self.room.dtype)
                self.hide(s, rows, keys)
                seen[keys] |= (s > -np.inf).any(1)
        return seen

    def dropout_tile(self, rows, keys):
        """Dropout's factors for this block of weights (keys, queries)."""
        tile = self.dropped.tile(self.number, rows.start // self.step[0], keys.start // self.step[1])
        return tile[: rows.stop - rows.start, : keys.stop - keys.start].T


def slices(start, stop, step):
    return [slice(i, min(i + step, stop)) for i in range(start, stop, step)]


def of_head(x, head):
    """Return the matrix of one head. Heads share it along axes of length 1."""
    if x is None:
        return None
    x = np.atleast_2d(x)  # a mask may have fewer axes
    lead = x.shape[:-2]
    return x[tuple(i if n > 1 else 0 for i, n in zip(head[len(head) - len(lead) :], lead))]


def part_of(mask, rows, keys):
    """Return the mask of some queries and keys, (queries or 1, keys or 1)."""
    return mask[rows if len(mask) > 1 else slice(None), keys if mask.shape[1] > 1 else slice(None)]


def transpose_and_append(x, last):
    """[x, last]^T for a C-ordered x (length, width), which transposes much faster than other layouts."""
    out = np.empty((x.shape[1] + 1, len(x)), x.dtype)
    out[:-1], out[-1] = x.T, last
    return out


def with_ones(x, dtype=None):
    """[x, 1]: copy x (length, width) and append a column of ones."""
    out = np.empty((len(x), x.shape[1] + 1), dtype or x.dtype)
    out[:, :-1], out[:, -1] = x, 1
    return out
