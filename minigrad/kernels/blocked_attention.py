"""Attention in memory linear in the length, on plain arrays: scores exist one block at a time. Knows masks, not heads.

The idea of FlashAttention (Dao et al. 2022) with the online softmax of Milakov and Gimelshein (2018). Scores are held keys
first, (keys, queries), so that every product below has its factors in the order in which matrix products are fastest.
"""

import numpy as np

from minigrad import functional as F
from minigrad.engine.table import defkernel

# ---------------------------------------------------------------- blocked attention: y = softmax(scale q k^T masked) v

# exp(20) times large values is far from the end of float32, and exp(-20) is far from its beginning
LAZY = 20.0


def blocked_attention(q, k, v, mask, dropped, scale, causal, block):
    """Over blocks of keys, with m a number near the row's maximum: e = exp(s - m), t += e 1, a += (e kept) v; y = a / t.
    Saved: m and t, two numbers for each query, from which backward has the weights again: exp(s - m) / t. Not their sum
    m + log t: where a mask has made all scores -1e9, float32 would round log t away.

    m begins at 0 and is raised only when a block exceeds it by LAZY; then t and a shrink by exp(old m - new m).
    """
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    dtype = np.result_type(q, k, v)
    y = np.empty_like(q, dtype, shape=(*lead, q.shape[-2], v.shape[-1]))
    # m, and t, which is 0 where nothing is seen
    shifts, totals = (np.empty((*lead, q.shape[-2]), dtype) for _ in range(2))
    # what is hidden may hold anything
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
    """One head: fills y (Tq, Dv), shifts and totals (Tq,)."""
    # [v, 1]^T: one product gives the values gathered and the sum of the weights
    values = turned(np.ascontiguousarray(scores.v), 1)
    for rows in scores.blocks_of_queries():
        queries = turned(scores.scaled(rows), 0)  # [scale q, -m]^T (D + 1, queries)
        gathered = np.zeros((len(values), queries.shape[1]), y.dtype)  # [a, t]^T
        total, new, calm = gathered[-1], True, scores.within(rows, LAZY)
        for keys in scores.blocks_of_keys(rows):
            s = scores.block(rows, keys, queries)  # (keys, queries)
            if not calm and (new or not s.max() <= LAZY):
                move_shift(s, queries, gathered)
            e = np.exp(s, out=s)
            if scores.dropped is None:
                gathered += values[:, keys] @ e
            else:
                total += e.sum(0)
                gathered[:-1] += values[:-1, keys] @ (e * scores.kept(rows, keys))
            new = new and not total.all()
        shifts[rows], totals[rows] = -queries[-1], total
        total[total == 0] = 1  # a query with nothing to attend to: 0 / 1
        gathered[:-1] /= total
        y[rows] = gathered[:-1].T


def move_shift(s, queries, gathered):
    """Raise m where a score exceeds it by LAZY; lower it where all first scores lie that far below, or their sum were 0.

    A query's own scores decide: what it gives must not depend, in its last bit, on any other query.
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
    """With e = exp(s - m) and h = g / t: dv = (e kept)^T h. Through the softmax ds = e (dp - d), dp = (h v^T) kept, and d, the
    sum over keys of dp p, is the sum of h y over the width, since y = p v. Then dq = scale ds k, dk = ds^T (scale q).

    s - m and dp - d are products too: [scale q, -m] [k, 1]^T and [h, -d] [v, 1]^T."""
    shifts, totals = saved
    grads = [np.zeros_like(x, y.dtype) if needed else None for x, needed in zip((q, k, v, mask), needs)]
    with np.errstate(invalid=None if mask is None and causal is None else "ignore"):
        for number, head in enumerate(np.ndindex(y.shape[:-2])):
            own, theirs = ((of_head(x, head) for x in xs) for xs in ((q, k, v, mask), grads))
            scores = Scores(*own, dropped, scale, causal, block, number, y.dtype)
            differentiate(scores, g[head], y[head], shifts[head], totals[head], *theirs)
            del scores  # before the next head's are made
    return (*grads, None, None, None, None)


def differentiate(scores, g, y, shifts, totals, dq, dk, dv, dmask):
    """One head: adds to the gradients that are wanted, each a view (length, width) into the whole; heads may share one."""
    # turned from a dense copy, which is faster
    values, keys_turned = with_ones(scores.v), scores.k[:, :-1].copy().T.copy()
    other = np.empty_like(scores.room)
    # to add fast
    dk_head, dv_head = (
        x if x is None or x.flags.c_contiguous else np.zeros(x.shape, y.dtype) for x in (dk, dv)
    )
    for rows in scores.blocks_of_queries():
        blind = totals[rows] == 0
        dense_q, h = scores.scaled(rows, blind), g[rows] / np.where(blind, 1, totals[rows])[:, None]
        d = np.einsum("ij,ij->i", h, y[rows])
        queries = turned(dense_q, -shifts[rows])  # [scale q, -m]^T (D + 1, queries)
        incoming = turned(h, -d if scores.dropped is None else 0)  # [h, -d]^T (Dv + 1, queries)
        dq_turned = np.zeros((len(keys_turned), len(d)), y.dtype)
        for keys in scores.blocks_of_keys(rows):
            s = scores.block(rows, keys, queries)
            e = np.exp(s, out=s)  # (keys, queries)
            ds = np.matmul(values[keys], incoming, out=other[: s.size].reshape(s.shape))
            kept = None if scores.dropped is None else scores.kept(rows, keys)
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
                dq_turned += keys_turned[:, keys] @ ds
        if dq is not None:
            dq_turned *= scores.scale
            dq[rows] += dq_turned.T
    for whole, head in ((dk, dk_head), (dv, dv_head)):
        if whole is not head:
            whole += head


def add_to_mask(dmask, rows, keys, ds):
    """The gradient of a mask that is added to the scores: that of the scores, summed where the mask is repeated."""
    part = part_of(dmask, rows, keys)
    repeated = tuple(axis for axis in (0, 1) if part.shape[axis] == 1)
    part += ds.sum(repeated, keepdims=True)


defkernel(F.blocked_attention, blocked_attention, blocked_attention_backward)

# ---------------------------------------------------------------- blocks of scores


class Scores:
    """The scores of one head, computed block by block, hidden ones as -inf; and the blocks that anybody may see."""

    def __init__(self, q, k, v, mask, dropped, scale, causal, block, number, dtype):
        self.q, self.mask, self.dropped, self.causal, self.number = q, mask, dropped, causal, number
        self.scale = np.asarray(scale, dtype)
        self.hiding = mask is not None or causal is not None
        self.step, self.length = block, len(k)
        self.room = np.empty(block[0] * block[1], dtype)  # every block of scores is written here
        self.k, self.v = with_ones(k, dtype), v  # [k, 1] (Tk, D + 1)
        if self.hiding and not np.isfinite(self.k.sum() + v.sum()):
            unseen = ~self.seen_keys()
            self.k[unseen, :-1] = 0
            # 0 * NaN is NaN: padding could leak through a weight of 0
            self.v = np.where(unseen[:, None], 0, v)
        self.may_be_calm = mask is None or mask.dtype == bool
        # squared, without the 1 that was put beside
        self.longest_key = np.einsum("ij,ij->i", self.k, self.k).max(initial=1) - 1

    def blocks_of_queries(self):
        return slices(0, len(self.q), self.step[0])

    def blocks_of_keys(self, rows):
        """The blocks that some of these queries see: nothing later than the last of them, nothing that the mask hides from all."""
        end = self.length if self.causal is None else min(self.length, rows.stop + self.causal)
        for keys in slices(0, end, self.step[1]):
            if self.mask is None or self.mask.dtype != bool or part_of(self.mask, rows, keys).any():
                yield keys

    def scaled(self, rows, blind=None):
        """scale q (queries, D), dense; 0 for a query that sees nothing, whatever it holds."""
        out = np.multiply(self.q[rows], self.scale, order="C")
        if blind is not None and blind.any():
            out[blind] = 0
        return out

    def within(self, rows, limit):
        """Is no score of these queries beyond +-limit? So it is if no |q| |k| is (Cauchy and Schwarz), which is found far sooner."""
        longest = np.einsum("ij,ij->i", self.q[rows], self.q[rows]).max() * self.scale**2 * self.longest_key
        return self.may_be_calm and bool(longest < limit**2)

    def block(self, rows, keys, queries):
        """k (scale q)^T - m (keys, queries), -inf where hidden. Overwrites the block before."""
        s = self.room[: (keys.stop - keys.start) * queries.shape[1]].reshape(-1, queries.shape[1])
        np.matmul(self.k[keys], queries, out=s)
        if self.hiding:
            self.hide(s, rows, keys)
        return s

    def hide(self, s, rows, keys):
        # the block touches the diagonal
        if self.causal is not None and keys.stop - 1 > rows.start + self.causal:
            first = max(0, rows.start + self.causal + 1 - keys.start)  # what comes before it all of them see
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
        """(Tk,): may any query look at the key?"""
        seen = np.zeros(self.length, bool)
        for rows in self.blocks_of_queries():
            for keys in self.blocks_of_keys(rows):
                s = np.zeros((keys.stop - keys.start, rows.stop - rows.start), self.room.dtype)
                self.hide(s, rows, keys)
                seen[keys] |= (s > -np.inf).any(1)
        return seen

    def kept(self, rows, keys):
        """What dropout multiplies this block of weights by (keys, queries)."""
        tile = self.dropped.tile(self.number, rows.start // self.step[0], keys.start // self.step[1])
        return tile[: rows.stop - rows.start, : keys.stop - keys.start].T


def slices(start, stop, step):
    return [slice(i, min(i + step, stop)) for i in range(start, stop, step)]


def of_head(x, head):
    """The matrix of one head; along axes of length 1 all heads share it."""
    if x is None:
        return None
    x = np.atleast_2d(x)  # a mask may have fewer axes
    lead = x.shape[:-2]
    return x[tuple(i if n > 1 else 0 for i, n in zip(head[len(head) - len(lead) :], lead))]


def part_of(mask, rows, keys):
    """The mask of some queries and keys, (queries or 1, keys or 1)."""
    return mask[rows if len(mask) > 1 else slice(None), keys if mask.shape[1] > 1 else slice(None)]


def turned(x, last):
    """[x, last]^T: from a dense x (length, width), with one more row. Axes are swapped much faster in dense arrays."""
    out = np.empty((x.shape[1] + 1, len(x)), x.dtype)
    out[:-1], out[-1] = x.T, last
    return out


def with_ones(x, dtype=None):
    """[x, 1]: a copy of x (length, width) with one more column."""
    out = np.empty((len(x), x.shape[1] + 1), dtype or x.dtype)
    out[:, :-1], out[:, -1] = x, 1
    return out
