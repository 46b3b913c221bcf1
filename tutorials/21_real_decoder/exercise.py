"""Exercises of lesson 21: the pieces of a real decoder.

Write each function where it says so; `python -m tutorials check 21` tests this file and explains.
NumPy is all you need; the published model is not asked for.
"""

import numpy as np

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sigmoid(z):
    """1 / (1 + exp(-z)), which cannot overflow."""
    return 0.5 * (1 + np.tanh(z / 2))


def rms_norm(x, gamma, eps):
    """x (..., C), gamma (C,)  ->  (..., C)."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gamma


def kv_cache_bytes(layers, d_model, num_heads, num_kv_heads, tokens, bits):
    """The bytes of the keys and values that a decoder keeps for one text of so many tokens.

    d_model: the width that num_heads heads of queries share out among them, D = d_model / num_heads each; a head of keys or
    values is as wide. num_kv_heads: heads of keys, and as many of values. bits: of one number, such as 32, 16 or 8.
    A whole number (an int).
    """
    # solution
    width = d_model // num_heads
    return 2 * layers * num_kv_heads * width * tokens * bits // 8
    # end


def chat_prompt(messages):
    """A talk as the text that SmolLM2 was trained on, up to where the answer begins.

    messages: a list of {"role": "system", "user" or "assistant", "content": text}, not empty. Each becomes

        <|im_start|>ROLE
        CONTENT<|im_end|>

    with a new line after it; nothing stands between them. If the first message is not the system's, one with the text SYSTEM
    (above) goes first. At the end stands "<|im_start|>assistant" and a new line. The list that was given stays as it is.
    """
    # solution
    if messages[0]["role"] != "system":
        messages = [{"role": "system", "content": SYSTEM}, *messages]
    said = [f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages]
    return "".join(said) + "<|im_start|>assistant\n"
    # end


def dequantize_q4_1(blocks):
    """The weights of blocks of Q4_1.

    blocks: uint8 (..., 20): bytes 0 and 1 are the scale d, bytes 2 and 3 the minimum m (each a float16, lower byte first, as
    the type "<f2" reads them), then 16 bytes with 32 whole numbers q from 0 to 15: the low half of byte j is q[j], its high
    half q[j + 16]   ->   float32 (..., 32), each d * q + m. blocks stays as it is.
    """
    # solution
    # (..., 1)
    scale, minimum = (blocks[..., i : i + 2].copy().view("<f2").astype(np.float32) for i in (0, 2))
    halves = blocks[..., 4:]
    q = np.concatenate([halves & 15, halves >> 4], axis=-1)
    return scale * q + minimum
    # end


def swiglu(x, W_g, W_u, W_d):
    """(silu(x W_g) * (x W_u)) W_d, where silu(z) = z sigmoid(z).

    x: (T, C); W_g and W_u: (C, F); W_d: (F, C)   ->   (T, C). Finite for large x too, without a warning.
    """
    # solution
    z = x @ W_g
    return (z * sigmoid(z) * (x @ W_u)) @ W_d
    # end


def swiglu_backward(g, x, W_g, W_u, W_d):
    """The gradients of a loss, given g = dL/dy (T, C) of y = swiglu(x, W_g, W_u, W_d).

    Returns (dx, dW_g, dW_u, dW_d), each of the shape of what it belongs to.
    """
    # solution
    z, u = x @ W_g, x @ W_u
    s = sigmoid(z)
    dm = g @ W_d.T  # (T, F)
    dz = dm * u * s * (1 + z * (1 - s))
    du = dm * z * s
    return dz @ W_g.T + du @ W_u.T, x.T @ dz, x.T @ du, (z * s * u).T @ g
    # end


def grouped_attention(q, k, v):
    """Causal attention of the last T of S tokens, in which groups of heads share keys and values.

    q: (H, T, D); k and v: (K, S, D), where K divides H and T <= S   ->   (H, T, D)
    The first H/K heads of queries use keys and values 0, the next H/K use 1, and so on. The last query is the last token, so it
    may look at all S keys; the one before it at all but the last; and so on. Scores are divided by sqrt(D).
    """
    # solution
    (H, T, D), (K, S) = q.shape, k.shape[:2]
    scores = q.reshape(K, H // K, T, D) @ k[:, None].swapaxes(-1, -2) / np.sqrt(D)  # (K, H/K, T, S)
    p = softmax(np.where(np.tri(T, S, S - T, dtype=bool), scores, -np.inf))
    return (p @ v[:, None]).reshape(H, T, D)
    # end


def logit_lens(stream, gamma, table, answer, eps=1e-5):
    """What a decoder would say at one place if it stopped after each layer.

    stream: (L + 1, C), the row of that place before the first layer and after each; gamma: (C,), the last norm's weights;
    table: (V, C), the vocabulary's rows; answer: the number of a token. After each layer the logits are the normed row times each
    of the table's rows. Returns

        p       (L + 1,)  the answer's probability after each layer
        rank    (L + 1,)  how many tokens have larger logits than the answer
        first   the first of the L + 1 with rank 0, an int; None if there is none
    """
    # solution
    logits = rms_norm(stream, gamma, eps) @ table.T  # (L + 1, V)
    rank = (logits > logits[:, [answer]]).sum(axis=-1)
    first = int(np.argmax(rank == 0)) if (rank == 0).any() else None
    return softmax(logits)[:, answer], rank, first
    # end
