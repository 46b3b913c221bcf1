"""GPT as functions of a dict of arrays, for libraries that differentiate functions: JAX and HIPS autograd.

`np` is the library's own NumPy. The parameters have the names of ours.
"""

import math


def loss(np, p, tokens, following, size):
    """The mean cross-entropy of the predictions for tokens (B, T) and the tokens that follow (B, T)."""
    return cross_entropy(
        np, logits(np, p, tokens, size).reshape(-1, p["wte.weight"].shape[0]), following.reshape(-1)
    )


def logits(np, p, tokens, size):
    x = p["wte.weight"][tokens] + p["wpe.weight"][: tokens.shape[1]]  # (B, T, C)
    for i in range(size["layers"]):
        w = {name.removeprefix(f"h.{i}."): array for name, array in p.items() if name.startswith(f"h.{i}.")}
        x = x + attention(np, w, norm(np, x, w["ln_1.weight"]), size["heads"])
        x = x + gelu(np, norm(np, x, w["ln_2.weight"]) @ w["mlp.c_fc.weight"].T) @ w["mlp.c_proj.weight"].T
    return norm(np, x, p["ln_f.weight"]) @ p["wte.weight"].T  # (B, T, V)


def attention(np, w, x, heads):
    B, T, C = x.shape
    qkv = (x @ w["attn.c_attn.weight"].T).reshape(B, T, 3, heads, C // heads)
    q, k, v = (np.swapaxes(qkv[:, :, i], 1, 2) for i in range(3))  # (B, H, T, D)
    scores = q @ np.swapaxes(k, -1, -2) * (C // heads) ** -0.5
    scores = np.where(np.tri(T, dtype=bool), scores, -1e9)
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    y = e / np.sum(e, axis=-1, keepdims=True) @ v
    return np.swapaxes(y, 1, 2).reshape(B, T, C) @ w["attn.c_proj.weight"].T


def norm(np, x, weight):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * weight


def gelu(np, x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def cross_entropy(np, logits, targets):
    z = logits - np.max(logits, axis=-1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), axis=-1)) - z[np.arange(len(targets)), targets])


# ---------------------------------------------------------------- clipping and AdamW


def clip(np, gradients, max_norm):
    norm = np.sqrt(sum(np.sum(g * g) for g in gradients.values()))
    scale = np.minimum(1.0, max_norm / (norm + 1e-6))
    return {name: g * scale for name, g in gradients.items()}


def adamw(np, p, gradients, m, v, t, lr, betas, decay=0.0, eps=1e-8):
    """Compute (p, m, v) after step t, counted from 1. Weight decay applies to matrices only."""
    m = {name: betas[0] * m[name] + (1 - betas[0]) * g for name, g in gradients.items()}
    v = {name: betas[1] * v[name] + (1 - betas[1]) * g * g for name, g in gradients.items()}
    new = {}
    for name, x in p.items():
        decayed = x * (1 - lr * decay) if x.ndim > 1 else x
        rms = np.sqrt(v[name] / (1 - betas[1] ** t))
        new[name] = decayed - lr / (1 - betas[0] ** t) * m[name] / (rms + eps)
    return new, m, v
