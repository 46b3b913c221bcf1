"""Multi-head attention, its masks and its caches (Vaswani et al. 2017, section 3.2).

Every mask means the same: True = may attend. A mask broadcasts to (B, H, Tq, Tk); combine masks with &.
In PyTorch's *modules* True means hide, which is why the argument here has another name, `mask`: pass ~theirs.
"""

from functools import partial

import numpy as np

from minigrad import Tensor, concatenate, is_grad_enabled
from minigrad import functional as F
from minigrad.nn import Linear, Module

# the ways to compute softmax(Q K^T) V, which differ in time and memory only; "auto" chooses by the length
PATHS = {"auto": F.scaled_dot_product_attention} | {
    path: partial(F.scaled_dot_product_attention, path=path) for path in ("plain", "blocked")
}


def causal_mask(queries, keys=None):
    """A mask (1, 1, Tq, Tk): each query sees the keys up to its own position. The last query sees every key.

    For long sequences the mask is an F.CausalMask, which becomes an array only when its elements are read."""
    keys = queries if keys is None else keys
    if F.is_long(queries, keys):
        return F.CausalMask(queries, keys, keys - queries)
    return Tensor(np.tri(queries, keys, k=keys - queries, dtype=bool)[None, None])


def padding_mask(tokens, pad):
    """A mask (B, 1, 1, T), True where tokens (B, T) are not padding: no query sees a padded key."""
    tokens = tokens.data if isinstance(tokens, Tensor) else np.asarray(tokens)
    return Tensor((tokens != pad)[:, None, None, :])


class KVCache:
    """The keys and values of one layer for the tokens so far: a new token computes only its own.

    Arrays (B, H, max_len, D), allocated at the first update and filled from the left; for evaluation under
    no_grad. A cache masks nothing. A single new token may see all keys; several need a mask from the caller,
    causal_mask(new, past + new), as GPT, Llama and Transformer pass it.
    """

    ready = False  # new tokens must compute their keys and values

    def __init__(self, max_len):
        self.max_len, self.length, self.k, self.v = max_len, 0, None, None

    def update(self, k, v):
        """Append k and v (B, H, T, D) of new tokens. Returns k and v of all tokens so far (B, H, length, D).

        While gradients are enabled they reach the new k and v; the earlier ones are constants.
        """
        B, H, new, D = k.shape
        past, length = self.length, self.length + new
        if length > self.max_len:
            raise ValueError(
                f"The cache has room for {self.max_len} tokens; it holds {past}, and {new} more do not fit."
            )
        if self.k is None:
            self.k, self.v = (np.empty((B, H, self.max_len, D), k.dtype) for _ in range(2))
        if self.k.shape[:2] != (B, H):
            raise ValueError(
                f"The cache holds (batch, heads) {self.k.shape[:2]}, the new keys have {(B, H)}; "
                "a new batch needs a new cache."
            )
        self.k[:, :, past:length], self.v[:, :, past:length], self.length = k.data, v.data, length
        if is_grad_enabled() and (k.requires_grad or v.requires_grad):
            before = (Tensor(old[:, :, :past].copy()) for old in (self.k, self.v))
            return tuple(concatenate(pair, 2) for pair in zip(before, (k, v), strict=True))
        return Tensor(self.k[:, :, :length]), Tensor(self.v[:, :, :length])

    def select(self, rows):
        """Keep these rows of the batch, in this order; beam search does so after each step."""
        if self.k is not None:
            self.k, self.v = self.k[rows], self.v[rows]


class SourceCache:
    """The keys and values of one cross-attention, from the encoder's output; computed once for all steps."""

    length, k, v = 0, None, None

    @property
    def ready(self):
        return self.k is not None

    def update(self, k, v):
        self.k, self.v = k, v
        return k, v

    def select(self, rows):
        if self.ready:
            self.k, self.v = self.k[rows], self.v[rows]


class MultiHeadAttention(Module):
    """Concat(head_1 ... head_h) W^O, where head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Each projection holds all heads side by side: head i has the columns i D .. (i+1) D, with D = head_dim.

    num_kv_heads  heads of keys and values, each shared by num_heads / num_kv_heads query heads
                  (Ainslie et al. 2023)
    head_dim      D, if it is not d_model / num_heads
    kv_dim        the width of the sequence attended to, if it is not d_model
    v_dim         the width of the values, if it is not that of the keys
    rotary        rotates queries and keys by their positions (models.positional.Rotary)
    path          how the attention is computed: a name in PATHS
    After a call with `keep_weights` set, `weights` is an array (B, H, Tq, Tk): the attention weights before
    dropout. `across` is True if keys and queries came from different sequences.
    """

    keep_weights = across = False

    def __init__(self, d_model, num_heads, dropout=0.0, bias=True, num_kv_heads=None, head_dim=None, kv_dim=None,
                 rotary=None, path="auto", v_dim=None):  # fmt: skip
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        _check_heads(d_model, num_heads, num_kv_heads, head_dim, path)
        self.num_heads, self.num_kv_heads, self.dropout, self.path = num_heads, num_kv_heads, dropout, path
        self.head_dim = head_dim or d_model // num_heads
        width, kv_width, kv_dim = num_heads * self.head_dim, num_kv_heads * self.head_dim, kv_dim or d_model
        self.q_proj = Linear(d_model, width, bias)
        self.k_proj = Linear(kv_dim, kv_width, bias)
        self.v_proj = Linear(v_dim or kv_dim, kv_width, bias)
        self.out_proj = Linear(width, d_model, bias)
        self.rotary, self.weights = rotary, None

    def split(self, x):
        return F.split_heads(x, self.head_dim)  # (B, H, T, D)

    def merge(self, x):
        return F.merge_heads(x)  # (B, T, H D)

    def forward(
        self, query, key=None, value=None, mask=None, need_weights=False, cache=None, positions=None, **others
    ):
        """query (B, Tq, C), key and value (B, Tk, C) -> (B, Tq, C); self-attention if given only the query.

        mask          boolean (True = may attend) or floats to add, broadcasting to (B, H, Tq, Tk)
        need_weights  return (output, weights), the weights (B, H, Tq, Tk) before dropout
        cache         a KVCache, whose keys and values come before the given ones; or a SourceCache
        positions     (T,) or (B, T), for `rotary`; by default they follow those in the cache
        """
        if others:
            raise TypeError(_unknown_argument(*others))
        if query.ndim != 3:
            raise ValueError(
                f"Attention takes a batch of sequences (B, T, C), got {query.shape}; "
                "unsqueeze(0) makes one sequence a batch."
            )
        self.across = key is not None and key is not query
        key = query if key is None else key
        value = key if value is None else value
        q = self.split(self.q_proj(query))  # (B, H, Tq, D)
        if self.rotary is not None:
            positions = _next_positions(cache, query) if positions is None else positions
            q = self.rotary(q, positions)
        if cache is not None and cache.ready:
            k, v = cache.k, cache.v
        else:
            k, v = self.split(self.k_proj(key)), self.split(self.v_proj(value))  # (B, Hkv, Tk, D)
            k = k if self.rotary is None else self.rotary(k, positions)
            k, v = (k, v) if cache is None else cache.update(k, v)
        out, weights = self.attend(q, k, v, mask, need_weights or self.keep_weights)
        out = self.out_proj(out)
        return (out, weights) if need_weights else out

    def attend(self, q, k, v, mask=None, need_weights=False):
        """q (B, H, Tq, D), k and v (B, Hkv, Tk, D) -> merged heads (B, Tq, H D), and the weights or None."""
        B, H, Tq, D = q.shape
        if self.num_kv_heads != H:
            q, k, v, mask = self._group(q, k, v, mask)
        heads = PATHS[self.path](q, k, v, mask, self.dropout if self.training else 0.0)
        out = self.merge(heads.reshape(B, H, Tq, D) if heads.ndim > 4 else heads)
        if not need_weights:
            return out, None
        weights = F.attention_weights(q, F.without_unseen(k, v, mask)[0], mask, self.head_dim**-0.5)
        weights = weights.reshape(B, H, Tq, k.shape[-2])
        self.weights = weights.data if self.keep_weights else None
        return out, weights

    def _group(self, q, k, v, mask):
        """Give query heads that share keys and values an axis of their own, along which k and v broadcast."""
        B, H, Tq, D = q.shape
        groups = (self.num_kv_heads, H // self.num_kv_heads)
        if isinstance(mask, F.CausalMask):
            mask = mask.with_other(None if mask.other is None else self._group(q, k, v, mask.other)[3])
        elif mask is not None and mask.ndim > 2:
            heads = mask.shape[-3]
            if heads not in (1, H):
                raise ValueError(
                    f"A mask has 1 head or {H}, got shape {mask.shape}; "
                    f"it must broadcast to {(B, H, Tq, k.shape[2])}."
                )
            mask = mask.reshape(*mask.shape[:-3], *(groups if heads > 1 else (1, 1)), *mask.shape[-2:])
        q = q.reshape(B, *groups, Tq, D)  # (B, Hkv, G, Tq, D)
        return q, k[:, :, None], v[:, :, None], mask  # k and v (B, Hkv, 1, Tk, D)

    def extra_repr(self):
        shared = f", num_kv_heads={self.num_kv_heads}" if self.num_kv_heads != self.num_heads else ""
        return f"num_heads={self.num_heads}{shared}, head_dim={self.head_dim}, dropout={self.dropout}"


def from_torch_state(state):
    """Convert the state of PyTorch's nn.MultiheadAttention to our names.

    PyTorch keeps the three projections in one in_proj_weight (3 C, C), unless keys have a width of their own.
    `attention.load_state_dict(from_torch_state(theirs.state_dict()))`."""
    state = {
        name: value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)
        for name, value in state.items()
    }
    if "bias_k" in state:
        raise ValueError(
            "PyTorch's add_bias_kv adds one more key to every sequence; our attention has no such key."
        )
    if "out_proj.weight" not in state or not ("in_proj_weight" in state or "q_proj_weight" in state):
        raise ValueError(
            "from_torch_state takes the state of one nn.MultiheadAttention, with in_proj_weight and "
            f"out_proj.weight; got {_first_names(state)}. From a larger module pass its attention's state: "
            "theirs.self_attn.state_dict()."
        )
    out = {}
    for i, part in enumerate("qkv"):
        weight = state.get("in_proj_weight")
        out[f"{part}_proj.weight"] = (
            state[f"{part}_proj_weight"] if weight is None else np.split(weight, 3)[i]
        )
        if "in_proj_bias" in state:
            out[f"{part}_proj.bias"] = np.split(state["in_proj_bias"], 3)[i]
    return out | {name: value for name, value in state.items() if name.startswith("out_proj.")}


def _first_names(names):
    names = list(names)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more if names else "an empty state"


def _unknown_argument(name, *_):
    """The message for an argument that attention does not take; for PyTorch's names it gives ours."""
    ours = {
        "attn_mask": (
            "pass it inverted as mask=~attn_mask if it is boolean (here True = may attend), "
            "as mask=attn_mask if it holds floats to add"
        ),
        "key_padding_mask": (
            "pass mask=~key_padding_mask[:, None, None, :] (here True = may attend), "
            "or mask=padding_mask(tokens, pad)"
        ),
        "is_causal": "pass mask=causal_mask(T), and combine masks with &",
    }
    instead = ours.get(name, "it takes query, key, value, mask, need_weights, cache and positions")
    return f"Attention takes no argument {name!r}: {instead}."


def _next_positions(cache, query):
    past = 0 if cache is None else cache.length
    return np.arange(past, past + query.shape[1])


def _check_heads(d_model, num_heads, num_kv_heads, head_dim, path):
    if num_heads < 1 or head_dim is None and d_model % num_heads:
        fits = [h for h in range(1, d_model + 1) if d_model % h == 0]
        raise ValueError(
            f"d_model = {d_model} cannot be divided equally among {num_heads} heads; "
            f"it must be a multiple of num_heads. With this d_model use {', '.join(map(str, fits))} heads."
        )
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(
            f"{num_heads} heads cannot share {num_kv_heads} heads of keys and values equally; "
            "num_kv_heads must divide num_heads."
        )
    if path not in PATHS:
        raise ValueError(f"attention: path must be {' or '.join(map(repr, PATHS))}, got {path!r}.")
