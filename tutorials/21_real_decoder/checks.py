"""Checks of lesson 21."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- the cache

kv_cache_bytes = lesson.exercise(
    "kv_cache_bytes",
    hints=(
        "Of one token, in one layer: how many heads of keys are kept, how wide is each, and what else is kept beside keys?",
        "Keys and values (a factor 2), for each layer, each head of keys, each of its D numbers, each token; then bits "
        "to bytes.",
        "2 * layers * num_kv_heads * (d_model // num_heads) * tokens * bits // 8",
    ),
    why="It is this number, not the weights, that limits how many long texts a server can hold at once; grouped heads "
    "divide it.",
)


@kv_cache_bytes.check("one token of SmolLM2-135M in float32: 46,080 bytes")
def _(my, rng):
    return my.kv_cache_bytes(30, 576, 9, 3, 1, 32)


@kv_cache_bytes.check("Llama 3 8B, 8,192 tokens of 16 bits; SmolLM2-1.7B, where no heads are shared")
def _(my, rng):
    return [my.kv_cache_bytes(32, 4096, 32, 8, 8192, 16), my.kv_cache_bytes(24, 2048, 32, 32, 100, 8)]


@kv_cache_bytes.check("a whole number, of 4 bits too; nothing for no tokens")
def _(my, rng):
    four = my.kv_cache_bytes(2, 12, 4, 2, 5, 4)
    return {"4 bits": four, "type": type(four).__name__, "none": my.kv_cache_bytes(2, 12, 4, 2, 0, 16)}


kv_cache_bytes.wrong("Only the keys (or only the values) are counted; both are kept.", "2 * layers", "layers")
kv_cache_bytes.wrong(
    "You count d_model numbers for each token, as if every head of queries had keys of its own (or a head of keys were "
    "wider). Kept are "
    "num_kv_heads heads, each d_model / num_heads wide.",
    "num_kv_heads * width", "num_heads * width",
)  # fmt: skip
kv_cache_bytes.wrong("Those are bits. A byte has 8 of them.", " // 8", "")
kv_cache_bytes.wrong(
    "Every layer keeps keys and values of its own: the number of layers is missing.", "2 * layers *", "2 *"
)
kv_cache_bytes.wrong(
    "The cache grows with the number of tokens, and you have its square: scores are not kept, keys and values are.",
    "* tokens *", "* tokens**2 *",
)  # fmt: skip
kv_cache_bytes.wrong(
    "The number is right, but it is a float: divide with //, a count of bytes is whole.", "// 8", "/ 8"
)

# ---------------------------------------------------------------- the template

chat_prompt = lesson.exercise(
    "chat_prompt",
    hints=(
        "Which text stands before a message's content, which after it, and where are the new lines?",
        "Put the system's message first if there is none; join the texts of all messages; add where the answer begins.",
        "For each m: <|im_start|>, m['role'], a new line, m['content'], <|im_end|>, a new line; then "
        "<|im_start|>assistant, a new line.",
    ),
    why="A model that was trained on one form of talk answers badly in any other, and no error says so.",
)


@chat_prompt.check("one question")
def _(my, rng):
    return my.chat_prompt([{"role": "user", "content": "What is a gradient?"}])


@chat_prompt.check("with a system message, and a talk of several turns")
def _(my, rng):
    said = (("user", "Hello."), ("assistant", "Hello!"), ("user", "Name a\ncolour. "))
    talk = [{"role": role, "content": content} for role, content in said]
    return [my.chat_prompt([{"role": "system", "content": "Be brief."}, *talk]), my.chat_prompt(talk)]


@chat_prompt.check("the list that was given stays as it is")
def _(my, rng):
    messages = [{"role": "user", "content": "Hi"}]
    first, second = my.chat_prompt(messages), my.chat_prompt(messages)
    return [messages, first == second]


chat_prompt.wrong(
    "It does not end where the answer begins: the model would go on with the user's words. Add the assistant's opening.",
    '"".join(said) + "<|im_start|>assistant\\n"', '"".join(said)',
)  # fmt: skip
chat_prompt.wrong(
    "The new line after the last \"assistant\" is missing. The model has never seen an answer begin without it.",
    '"<|im_start|>assistant\\n"', '"<|im_start|>assistant"',
)  # fmt: skip
chat_prompt.wrong(
    "There is no system message if none is given. SmolLM2's template puts one in: SYSTEM.",
    body="""
    said = [f"<|im_start|>{m['role']}\\n{m['content']}<|im_end|>\\n" for m in messages]
    return "".join(said) + "<|im_start|>assistant\\n"
    """,
)
chat_prompt.wrong(
    "The standard system message goes first although the talk has one of its own.",
    'if messages[0]["role"] != "system":', "if True:",
)  # fmt: skip
chat_prompt.wrong(
    "The new line after <|im_end|> is missing: the messages run together.", "<|im_end|>\\n", "<|im_end|>"
)
chat_prompt.wrong(
    "Between the role and the content stands a new line, not a blank.", "{m['role']}\\n{", "{m['role']} {"
)
chat_prompt.wrong(
    "The text is right the first time, but you put the system message into the list that you were given. Make a new list.",
    'messages = [{"role": "system", "content": SYSTEM}, *messages]',
    'messages.insert(0, {"role": "system", "content": SYSTEM})',
)  # fmt: skip
chat_prompt.wrong(
    "The contents are stripped of blanks. What the user wrote goes in as it is.",
    "{m['content']}", "{m['content'].strip()}",
)  # fmt: skip

# ---------------------------------------------------------------- four bits

dequantize_q4_1 = lesson.exercise(
    "dequantize_q4_1",
    hints=(
        "How do you get the low four bits of a byte, and how the high ones?",
        "Read bytes 0-1 and 2-3 as float16; b & 15 and b >> 4 are the halves; all low halves come first, then all high ones.",
        "q = np.concatenate([halves & 15, halves >> 4], axis=-1), and then scale * q + minimum in float32.",
    ),
    why="So the weights of a model with billions of parameters lie in a file; with the halves in the wrong order it "
    "writes noise.",
)


@dequantize_q4_1.check("the worked example: d = 0.5, m = -2, bytes 3A, 01, 02, ...")
def _(my, rng):
    head = np.array([0.5, -2], "<f2").view(np.uint8)
    return my.dequantize_q4_1(np.concatenate([head, np.array([0x3A, *range(1, 16)], np.uint8)]))


@dequantize_q4_1.check("random blocks (3, 4, 20), each with its scale and minimum")
def _(my, rng):
    head = rng.standard_normal((3, 4, 2)).astype("<f2").view(np.uint8)
    return my.dequantize_q4_1(np.concatenate([head, rng.integers(0, 256, (3, 4, 16)).astype(np.uint8)], -1))


@dequantize_q4_1.check("float32; the bytes stay as they are; the slice of a larger array will do")
def _(my, rng):
    head = rng.standard_normal((2, 2)).astype("<f2").view(np.uint8)
    large = np.concatenate(
        [head, rng.integers(0, 256, (2, 16)).astype(np.uint8), np.zeros((2, 4), np.uint8)], -1
    )
    out = my.dequantize_q4_1(large[:, :20])
    return {"type": str(out.dtype), "weights": out, "bytes after the call": large.astype(int)}


dequantize_q4_1.wrong(
    "The high halves come first in your weights. The low half of byte j is number j, the high half number j + 16.",
    "halves & 15, halves >> 4", "halves >> 4, halves & 15",
)  # fmt: skip
dequantize_q4_1.wrong(
    "You lay the two halves of a byte side by side, as numbers 2j and 2j + 1. They are numbers j and j + 16.",
    "np.concatenate([halves & 15, halves >> 4], axis=-1)",
    "np.stack([halves & 15, halves >> 4], axis=-1).reshape(*halves.shape[:-1], 32)",
)
dequantize_q4_1.wrong(
    "Scale and minimum are exchanged: the scale comes first in the block.",
    "scale, minimum = (", "minimum, scale = (",
)  # fmt: skip
dequantize_q4_1.wrong(
    "The numbers are taken to be -8 to 7. In Q4_1 they are 0 to 15, and the minimum moves them.",
    "return scale * q + minimum", "return scale * (q.astype(np.float32) - 8) + minimum",
)  # fmt: skip
dequantize_q4_1.wrong(
    "The minimum is subtracted. It is the least weight (often negative), and is added: d q + m.",
    "scale * q + minimum", "scale * q - minimum",
)  # fmt: skip
dequantize_q4_1.wrong(
    "The minimum is multiplied by the scale. It is a weight already: d q + m, not d (q + m).",
    "scale * q + minimum", "scale * (q + minimum)",
)  # fmt: skip
dequantize_q4_1.wrong("The minimum is left out.", "scale * q + minimum", "scale * q")
dequantize_q4_1.wrong(
    "The values are right to three digits, but they were computed in float16. Turn scale and minimum into float32 first.",
    ".astype(np.float32)", "",
)  # fmt: skip
dequantize_q4_1.wrong(
    "Your high halves are sixteen times too large: shift them down by four bits, b >> 4.",
    "halves >> 4", "halves & 240",
)  # fmt: skip
dequantize_q4_1.wrong(
    "The two bytes of scale and minimum are read with the higher byte first. The lower one comes first: \"<f2\".",
    '"<f2"', '">f2"',
)  # fmt: skip

# ---------------------------------------------------------------- SwiGLU

swiglu = lesson.exercise(
    "swiglu",
    hints=(
        "Which of the two first maps goes through silu, and what does the other do?",
        "z = x W_g; silu(z) = z sigmoid(z); multiply it by x W_u, entry by entry; then W_d.",
        "(z * sigmoid(z) * (x @ W_u)) @ W_d",
    ),
    why="Two thirds of SmolLM2's weights stand in this formula; nearly all decoders since 2022 use it.",
)


@swiglu.check("x (4, 3), F = 5")
def _(my, rng):
    return my.swiglu(*(rng.standard_normal(shape) for shape in ((4, 3), (3, 5), (3, 5), (5, 3))))


@swiglu.check("everything square, where exchanged matrices do not crash")
def _(my, rng):
    return my.swiglu(*rng.standard_normal((4, 3, 3)))


@swiglu.check("the worked example: z = 1, u = 3")
def _(my, rng):
    one = np.ones((1, 1))
    return my.swiglu(one, one, 3 * one, one)


@swiglu.check("large numbers of both signs; x stays as it is")
def _(my, rng):
    x = np.array([[1000.0, -1000.0], [-3.0, 2.0]])
    y = my.swiglu(x, np.eye(2), np.ones((2, 2)), np.eye(2))
    return {"the output": y, "x after the call": x}


swiglu.wrong(
    "Gate and value are exchanged: silu belongs to x W_g, not to x W_u.",
    body="""
    u = x @ W_u
    return (u * sigmoid(u) * (x @ W_g)) @ W_d
    """,
)
swiglu.wrong(
    "That is GLU: the gate is sigmoid(z). Here it is silu(z) = z sigmoid(z).", "z * sigmoid(z) *", "sigmoid(z) *",
)  # fmt: skip
swiglu.wrong(
    "Both maps go through silu. The second one, x W_u, is used as it is.",
    body="""
    z, u = x @ W_g, x @ W_u
    return (z * sigmoid(z) * u * sigmoid(u)) @ W_d
    """,
)
swiglu.wrong(
    "The gate is added to the other map. It multiplies it, entry by entry.", "sigmoid(z) * (x", "sigmoid(z) + (x",
)  # fmt: skip
swiglu.wrong(
    "The second map is missing: that is a feed-forward with silu, without a gate.", " * (x @ W_u)", ""
)
swiglu.wrong(
    "silu is taken of the product at the end. It is taken of x W_g alone, before the product.",
    body="""
    m = (x @ W_g) * (x @ W_u)
    return (m * sigmoid(m)) @ W_d
    """,
)
swiglu.wrong(
    "You have a ReLU where silu belongs: z sigmoid(z) is a little below 0 for negative z.",
    "z * sigmoid(z)", "np.maximum(z, 0)",
)  # fmt: skip

swiglu_backward = lesson.exercise(
    "swiglu_backward",
    hints=(
        "x is used twice, in z and in u. What does that mean for dx?",
        "Go back step by step: W_d, the product of silu(z) and u, silu, and the two first maps. silu' = s (1 + z (1 - s)).",
        "dm = g @ W_d.T; dz = dm * u * s * (1 + z * (1 - s)); du = dm * z * s; dx = dz @ W_g.T + du @ W_u.T.",
    ),
    why="With this and RMSNorm's backward you have derived every piece of a Llama.",
)


@swiglu_backward.gradcheck(
    forward="swiglu",
    inputs=lambda rng: [rng.standard_normal(shape) for shape in ((4, 3), (3, 5), (3, 5), (5, 3))],
)
def _(my, g, x, W_g, W_u, W_d):
    return my.swiglu_backward(g, x, W_g, W_u, W_d)


@swiglu_backward.check("everything square")
def _(my, rng):
    return my.swiglu_backward(*rng.standard_normal((5, 3, 3)))


@swiglu_backward.check("the worked example: z = 1, u = 3, g = 1")
def _(my, rng):
    one = np.ones((1, 1))
    return my.swiglu_backward(one, one, one, 3 * one, one)


swiglu_backward.wrong(
    "Only the way through the gate leads back to x. It was used in x W_u as well: add du W_u^T.", " + du @ W_u.T", "",
)  # fmt: skip
swiglu_backward.wrong(
    "Only the way through x W_u leads back to x. The gate was made of x too: add dz W_g^T.", "dz @ W_g.T + ", "",
)  # fmt: skip
swiglu_backward.wrong(
    "The derivative of silu lacks its second term. By the product rule it is s + z s (1 - s).", " * (1 + z * (1 - s))", "",
)  # fmt: skip
swiglu_backward.wrong(
    "That is the derivative of sigmoid, s (1 - s). silu(z) is z sigmoid(z), so the product rule applies.",
    "s * (1 + z * (1 - s))", "s * (1 - s)",
)  # fmt: skip
swiglu_backward.wrong(
    "The derivative of silu has lost a sigmoid: it is s (1 + z (1 - s)).", "u * s * (1", "u * (1",
)  # fmt: skip
swiglu_backward.wrong(
    "z gets a gradient that lacks the factor u, which it was multiplied with.", "dm * u * s", "dm * s",
)  # fmt: skip
swiglu_backward.wrong(
    "u gets a gradient that lacks a factor: it was multiplied with silu(z) = z s.", "du = dm * z * s", "du = dm * s",
)  # fmt: skip
swiglu_backward.wrong(
    "dW_d is made of silu(z) alone. W_d was multiplied with the product, silu(z) times u.",
    "(z * s * u).T @ g", "(z * s).T @ g",
)  # fmt: skip
swiglu_backward.wrong(
    "The gradients of W_g and W_u are exchanged.", "x.T @ dz, x.T @ du", "x.T @ du, x.T @ dz",
)  # fmt: skip

# ---------------------------------------------------------------- grouped attention

grouped_attention = lesson.exercise(
    "grouped_attention",
    hints=(
        "Nine heads of queries, three of keys: whose keys does head 4 use? And which keys may the first of 2 queries "
        "see if there are 5?",
        "Give the queries the shape (K, H/K, T, D) and the keys (K, 1, S, D), and let NumPy spread them; the mask is a "
        "triangle that "
        "touches the bottom right corner.",
        "scores = q.reshape(K, H // K, T, D) @ k[:, None].swapaxes(-1, -2) / np.sqrt(D); mask np.tri(T, S, S - T, dtype=bool).",
    ),
    why="With T = 1 it is the step that a decoder takes for each token it writes, and K < H is what keeps its cache small.",
)


@grouped_attention.check("nine heads of queries, three of keys, all tokens at once")
def _(my, rng):
    return my.grouped_attention(
        rng.standard_normal((9, 4, 5)), rng.standard_normal((3, 4, 5)), rng.standard_normal((3, 4, 5))
    )


@grouped_attention.check("with a cache: 2 new tokens of 5; then a single one")
def _(my, rng):
    k, v = rng.standard_normal((2, 2, 5, 3))
    return [my.grouped_attention(rng.standard_normal((6, T, 3)), k, v) for T in (2, 1)]


@grouped_attention.check("no sharing (as many heads of keys), and one head of keys for all")
def _(my, rng):
    q = rng.standard_normal((4, 4, 4))
    return [my.grouped_attention(q, *rng.standard_normal((2, K, 4, 4))) for K in (4, 1)]


@grouped_attention.check("large scores: no overflow; the inputs stay as they are")
def _(my, rng):
    q, k, v = (
        100 * rng.standard_normal((4, 3, 2)),
        100 * rng.standard_normal((2, 3, 2)),
        rng.standard_normal((2, 3, 2)),
    )
    return [my.grouped_attention(q, k, v), q, k, v]


grouped_attention.wrong(
    "The groups are interleaved: head 0 uses keys 0, head 1 keys 1, ... . Neighbouring heads share: 0, 1, 2 use keys 0.",
    body="""
    (H, T, D), (K, S) = q.shape, k.shape[:2]
    k, v = np.tile(k, (H // K, 1, 1)), np.tile(v, (H // K, 1, 1))
    p = softmax(np.where(np.tri(T, S, S - T, dtype=bool), q @ k.swapaxes(-1, -2) / np.sqrt(D), -np.inf))
    return p @ v
    """,
)
grouped_attention.wrong(
    "No mask: a token sees those that come after it.",
    "np.where(np.tri(T, S, S - T, dtype=bool), scores, -np.inf)", "scores",
)  # fmt: skip
grouped_attention.wrong(
    "The triangle touches the top left corner, so new tokens cannot see the old ones. The last query sees all S keys: "
    "np.tri(T, S, S - T).",
    "np.tri(T, S, S - T, dtype=bool)", "np.tri(T, S, dtype=bool)",
)  # fmt: skip
grouped_attention.wrong(
    "A token may not look at itself in your mask; the diagonal belongs to it. (The first token then sees nothing at all.)",
    "np.where(np.tri(T, S, S - T, dtype=bool), scores, -np.inf)",
    "np.where(np.tri(T, S, S - T - 1, dtype=bool), scores, -1e30)",
)  # fmt: skip
grouped_attention.wrong("The scores are not divided by sqrt(D).", " / np.sqrt(D)", "")
grouped_attention.wrong("The scores are divided by D, not by its root.", "np.sqrt(D)", "D")
grouped_attention.wrong(
    "What is hidden gets the score 0 in place of minus infinity, and so still a weight.", "scores, -np.inf", "scores, 0.0",
)  # fmt: skip
grouped_attention.wrong(
    "The weights are set to 0 after the softmax, so the rows no longer sum to 1. Hide before it.",
    body="""
    (H, T, D), (K, S) = q.shape, k.shape[:2]
    scores = q.reshape(K, H // K, T, D) @ k[:, None].swapaxes(-1, -2) / np.sqrt(D)
    p = softmax(scores) * np.tri(T, S, S - T)
    return (p @ v[:, None]).reshape(H, T, D)
    """,
)
grouped_attention.wrong(
    "The keys are grouped and the values are not: head h uses values h modulo K. Both go by the same group.",
    "return (p @ v[:, None]).reshape(H, T, D)", "return p.reshape(H, T, S) @ np.tile(v, (H // K, 1, 1))",
)  # fmt: skip

# ---------------------------------------------------------------- the lens

logit_lens = lesson.exercise(
    "logit_lens",
    hints=(
        "What does the model itself do to the row that leaves its last layer?",
        "The same to all L + 1 rows at once: the norm, the table's transpose. The rank counts how many logits of a row "
        "are larger.",
        "logits = rms_norm(stream, gamma, eps) @ table.T; rank = (logits > logits[:, [answer]]).sum(-1); first from "
        "np.argmax(rank == 0).",
    ),
    why="It shows where in the depth an answer becomes readable, with no training and three lines.",
)


@logit_lens.check("seven layers, 11 tokens")
def _(my, rng):
    stream = np.cumsum(rng.standard_normal((8, 6)), axis=0)
    table, gamma = rng.standard_normal((11, 6)), rng.standard_normal(6)
    answer = int((stream[-1] * gamma @ table.T).argmax())
    return my.logit_lens(stream, gamma, table, answer)


@logit_lens.check(
    "an answer that is never top-1; one that is top-1 from the beginning; one that is so and then no longer"
)
def _(my, rng):
    table, gamma = np.eye(4), np.ones(4)
    stream = np.array([[0.0, 2, 1, 0], [3, 2, 1, 0], [3, 4, 1, 0], [5, 4, 1, 0], [5, 4, 1, 0]])
    return [my.logit_lens(stream, gamma, table, answer) for answer in (0, 1, 3)]


@logit_lens.check("another eps, small rows, and as many tokens as numbers in a row")
def _(my, rng):
    return my.logit_lens(
        0.1 * rng.standard_normal((5, 5)), rng.standard_normal(5), rng.standard_normal((5, 5)), 2, 0.5
    )


@logit_lens.check("large logits: no overflow; the stream stays as it is; first is an int or None")
def _(my, rng):
    stream, table = rng.standard_normal((3, 4)), 1000 * rng.standard_normal((6, 4))
    p, rank, first = my.logit_lens(stream, np.ones(4), table, int((table @ stream[1]).argmax()))
    return [p, rank, type(first).__name__, stream]


logit_lens.wrong(
    "The last norm is missing. Rows grow from layer to layer, and the table was trained on normed ones.",
    "rms_norm(stream, gamma, eps) @ table.T", "stream @ table.T",
)  # fmt: skip
logit_lens.wrong(
    "The norm's weights gamma are missing: they are part of the last norm.",
    "rms_norm(stream, gamma, eps)", "rms_norm(stream, 1.0, eps)",
)  # fmt: skip
logit_lens.wrong(
    "eps is not handed on: you use a value of your own.", "rms_norm(stream, gamma, eps)", "rms_norm(stream, gamma, 1e-5)",
)  # fmt: skip
logit_lens.wrong(
    "Your rank counts from 1: the answer itself is counted. Count what is larger, with >, not >=.",
    "logits > logits[:, [answer]]", "logits >= logits[:, [answer]]",
)  # fmt: skip
logit_lens.wrong(
    "Your rank counts the tokens with smaller logits. Rank 0 is top-1: none is larger.",
    "logits > logits[:, [answer]]", "logits < logits[:, [answer]]",
)  # fmt: skip
logit_lens.wrong(
    "Where the answer is never top-1, first should be None: argmax of a row of False is 0.",
    "int(np.argmax(rank == 0)) if (rank == 0).any() else None", "int(np.argmax(rank == 0))",
)  # fmt: skip
logit_lens.wrong(
    "You give the last layer at which the answer is not yet top-1, plus one, so the beginning of the last stretch. "
    "Asked for is the "
    "first layer of all with rank 0.",
    body="""
    logits = rms_norm(stream, gamma, eps) @ table.T
    rank = (logits > logits[:, [answer]]).sum(axis=-1)
    first = None if rank[-1] else int(np.flatnonzero(np.r_[1, rank])[-1])
    return softmax(logits)[:, answer], rank, first
    """,
)
logit_lens.wrong(
    "Your probabilities are the logits themselves. Take the softmax of each row first.",
    "softmax(logits)[:, answer]", "logits[:, answer]",
)  # fmt: skip
logit_lens.wrong(
    "Your softmax runs over the layers. Each layer has a distribution over the tokens: the last axis.",
    "softmax(logits)[:, answer]", "softmax(logits.T).T[:, answer]",
)  # fmt: skip
logit_lens.wrong(
    "first is a NumPy number; an int is asked for.", "int(np.argmax(rank == 0))", "np.argmax(rank == 0)",
)  # fmt: skip
