"""Checks of lesson 13."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()

# ---------------------------------------------------------------- teacher_forcing

teacher_forcing = lesson.exercise(
    "teacher_forcing",
    hints=(
        (
            "What has the decoder read when it is asked for the first token of the target? "
            "And what should it answer when the target is complete?"
        ),
        (
            "Both rows come from bos + target + eos: the inputs lack its last token, the labels its first. "
            "Fill two arrays with pad first."
        ),
        "inputs[b, : len(target) + 1] = [bos, *target], and labels[b, : len(target) + 1] = [*target, eos].",
    ),
    why=(
        "This shift lets one pass ask for every token of the target; without it a decoder learns to copy "
        "the token it is asked for."
    ),
)


@teacher_forcing.check("targets of different lengths")
def _(my, rng):
    return my.teacher_forcing([[5, 6, 7], [8], [9, 4]], 1, 2, 0)


@teacher_forcing.check("an empty target")
def _(my, rng):
    return my.teacher_forcing([[], [7, 7]], 1, 2, 0)


@teacher_forcing.check("other numbers for bos, eos and pad")
def _(my, rng):
    return my.teacher_forcing([[0, 1], [2, 0, 1]], 10, 11, 12)


@teacher_forcing.check("the arrays hold integers")
def _(my, rng):
    return [np.asarray(a).dtype.kind for a in my.teacher_forcing([[5, 6]], 1, 2, 0)]


teacher_forcing.wrong(
    "There is no shift: at each position the decoder reads the token it is asked for. Begin its row by bos.",
    "[bos, *target]",
    "[*target, eos]",
)
teacher_forcing.wrong(
    "The labels begin with bos. The decoder reads bos; its first label is the first token of the target.",
    "[*target, eos]",
    "[bos, *target]",
)
teacher_forcing.wrong(
    "The labels have no eos, so the model never learns to stop: eos follows the last token of the target.",
    "labels[b, : len(target) + 1] = [*target, eos]",
    "labels[b, : len(target)] = target",
)
teacher_forcing.wrong(
    "The rows are filled up with 0. Padding is the number given as pad, which need not be 0.",
    "np.full((2, len(targets), T), pad)",
    "np.full((2, len(targets), T), 0)",
)
teacher_forcing.wrong(
    "The padding is on the left. Here each row begins at the left and is filled up on the right.",
    body="""
    T = max(map(len, targets)) + 1
    inputs, labels = np.full((2, len(targets), T), pad)
    for b, target in enumerate(targets):
        inputs[b, T - len(target) - 1 :] = [bos, *target]
        labels[b, T - len(target) - 1 :] = [*target, eos]
    return inputs, labels
    """,
)

# ---------------------------------------------------------------- embed

embed = lesson.exercise(
    "embed",
    hints=(
        (
            "How large are the entries of the table, and how large those of the positions? "
            "What would be left of the smaller ones?"
        ),
        (
            "Look the rows up, multiply them by the square root of their width, and add the rows of the "
            "positions, from `start` on."
        ),
        "table[tokens] * np.sqrt(C) + positions[start : start + T], with C = table.shape[1].",
    ),
    why=(
        "Scaled by sqrt(d_model) the embeddings are as large as the positions, though the same table is "
        "the output matrix (section 3.4)."
    ),
)


@embed.check("a batch, from position 0")
def _(my, rng):
    return my.embed(rng.integers(9, size=(2, 3)), rng.standard_normal((9, 4)), rng.standard_normal((7, 4)))


@embed.check("as many tokens as dimensions: is it the width that counts, not the length?")
def _(my, rng):
    return my.embed(rng.integers(9, size=(4, 4)), rng.standard_normal((9, 6)), rng.standard_normal((8, 6)))


@embed.check("continuing at position 3, as in decoding")
def _(my, rng):
    return my.embed(rng.integers(9, size=(2, 2)), rng.standard_normal((9, 4)), rng.standard_normal((7, 4)), 3)


@embed.check("the table is unchanged")
def _(my, rng):
    table, positions = rng.standard_normal((9, 4)), rng.standard_normal((7, 4))
    my.embed(rng.integers(9, size=(2, 3)), table, positions)
    return table, positions


embed.wrong(
    "The embeddings are not scaled. Multiply them by sqrt(C) before the positions are added.",
    " * np.sqrt(C)",
    "",
)
embed.wrong(
    "The positions are scaled too. Multiply only the embeddings by sqrt(C); the positions are large enough.",
    "table[tokens] * np.sqrt(C) + positions[start : start + T]",
    "(table[tokens] + positions[start : start + T]) * np.sqrt(C)",
)
embed.wrong(
    (
        "`start` is not used: tokens that continue a sequence would begin at position 0 again. "
        "Take the rows from `start` on."
    ),
    "positions[start : start + T]",
    "positions[:T]",
)
embed.wrong(
    (
        "The embeddings are divided by sqrt(C), as the scores of attention are. Here they are multiplied: "
        "they are too small, not too large."
    ),
    " * np.sqrt(C)",
    " / np.sqrt(C)",
)
embed.wrong("The factor is C, not its square root.", "np.sqrt(C)", "C")

# ---------------------------------------------------------------- encoder_layer

encoder_layer = lesson.exercise(
    "encoder_layer",
    hints=(
        "Which two sublayers are there, and what is added to the output of each?",
        (
            "Post-norm: x becomes norm(x + sublayer(x)), first with the attention of x to itself, then with "
            "the feed-forward network."
        ),
        "x = norm1(x + attend(x, x, x, mask)), then the same with norm2 and feed_forward.",
    ),
    why="Every encoder since 2017, BERT's too (lesson 15), is a stack of this layer.",
)


@encoder_layer.check("with attention, a feed-forward network and norms that scale differently")
def _(my, rng):
    x, w = rng.standard_normal((2, 5, 4)), rng.standard_normal((4, 4))

    def attend(q, k, v, mask):
        s = np.where(mask, q @ k.swapaxes(-1, -2), -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    def norm(gain):
        return lambda x: gain * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    mask = np.array([[True] * 5, [True, True, True, False, False]])[:, None, :]
    return my.encoder_layer(x, mask, attend, lambda x: np.maximum(x @ w, 0), norm(1.0), norm(3.0))


@encoder_layer.check("the arguments of each piece")
def _(my, rng):
    x, calls = rng.standard_normal((1, 2, 3)), []

    def piece(name, factor):
        def call(*given):
            calls.append([name, *given])
            return factor * given[0]

        return call

    out = my.encoder_layer(
        x,
        np.array([True, False]),
        piece("attend", 2.0),
        piece("feed_forward", 3.0),
        piece("norm1", 0.5),
        piece("norm2", 0.25),
    )
    return calls, out


encoder_layer.wrong(
    "The attention's residual connection is missing: its output replaces x instead of being added to it.",
    "norm1(x + attend(x, x, x, mask))",
    "norm1(attend(x, x, x, mask))",
)
encoder_layer.wrong(
    "The feed-forward network's residual connection is missing: add x to its output, then normalize.",
    "norm2(x + feed_forward(x))",
    "norm2(feed_forward(x))",
)
encoder_layer.wrong(
    "This is pre-norm, which normalizes a sublayer's input. Here, as in the paper, the sum is normalized.",
    body="""
    y = norm1(x)
    x = x + attend(y, y, y, mask)
    return x + feed_forward(norm2(x))
    """,
)
encoder_layer.wrong(
    (
        "The feed-forward network gets the layer's input, so its output does not depend on the attention. "
        "Give it the normalized sum."
    ),
    body="""
    y = norm1(x + attend(x, x, x, mask))
    return norm2(y + feed_forward(x))
    """,
)
encoder_layer.wrong(
    "The mask is not passed on: queries would attend to padding.",
    "attend(x, x, x, mask)",
    "attend(x, x, x, True)",
)

# ---------------------------------------------------------------- decoder_layer

decoder_layer = lesson.exercise(
    "decoder_layer",
    hints=(
        (
            "Where do queries, keys and values come from in each of the two attentions? "
            "And to which sequence does each mask belong?"
        ),
        (
            "Self-attention with tgt_mask, then cross-attention whose keys and values are the memory, with "
            "src_mask, then feed-forward."
        ),
        "The middle line is y = norms[1](y + attend_cross(y, memory, memory, src_mask)).",
    ),
    why=(
        "Cross-attention is the only path from source to target: "
        "all of the encoder's gradient comes back through this line."
    ),
)


@decoder_layer.check("with attention, a feed-forward network and norms that scale differently")
def _(my, rng):
    y, memory, w = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 5, 4)), rng.standard_normal((4, 4))

    def attend(q, k, v, mask):
        s = q @ k.swapaxes(-1, -2)
        if np.broadcast_shapes(s.shape, np.shape(mask)) != s.shape:
            raise ValueError(
                f"a mask of shape {np.shape(mask)} does not fit scores of shape {s.shape} (queries, keys)"
            )
        e = np.exp(np.where(mask, s, -np.inf))
        return e / e.sum(-1, keepdims=True) @ v

    def norm(gain):
        return lambda x: gain * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    tgt_mask = np.tri(3, dtype=bool)
    src_mask = np.array([[True] * 5, [True, True, True, False, False]])[:, None, :]
    norms = [norm(1.0), norm(2.0), norm(3.0)]
    return my.decoder_layer(
        y, memory, tgt_mask, src_mask, attend, attend, lambda x: np.maximum(x @ w, 0), norms
    )


@decoder_layer.check("the arguments of each piece")
def _(my, rng):
    y, memory, calls = rng.standard_normal((1, 2, 3)), rng.standard_normal((1, 2, 3)), []

    def piece(name, factor):
        def call(*given):
            calls.append([name, *given])
            return factor * given[0] + sum(0.1 * g for g in given[1:3])

        return call

    pieces = [piece("attend_self", 2.0), piece("attend_cross", 3.0), piece("feed_forward", 5.0)]
    norms = [piece(f"norms[{i}]", 0.5 + i) for i in range(3)]
    out = my.decoder_layer(y, memory, np.tri(2, dtype=bool), np.array([True, False]), *pieces, norms)
    return calls, out


decoder_layer.wrong(
    "The cross-attention comes first. The decoder attends to its own answer before it attends to the source.",
    body="""
    y = norms[0](y + attend_cross(y, memory, memory, src_mask))
    y = norms[1](y + attend_self(y, y, y, tgt_mask))
    return norms[2](y + feed_forward(y))
    """,
)
decoder_layer.wrong(
    (
        "Queries and keys are exchanged: the queries come from the target, the keys from the memory. "
        "The output must have the target's length."
    ),
    "attend_cross(y, memory, memory, src_mask)",
    "attend_cross(memory, y, y, src_mask)",
)
decoder_layer.wrong(
    "The cross-attention got the target's mask. A mask belongs to the keys, here the source's: src_mask.",
    "attend_cross(y, memory, memory, src_mask)",
    "attend_cross(y, memory, memory, tgt_mask)",
)
decoder_layer.wrong(
    "The values of the cross-attention are the target's. Keys and values both come from the memory.",
    "attend_cross(y, memory, memory, src_mask)",
    "attend_cross(y, memory, y, src_mask)",
)
decoder_layer.wrong(
    "The self-attention has no causal mask: the decoder can see the token it is asked for. Pass tgt_mask.",
    "attend_self(y, y, y, tgt_mask)",
    "attend_self(y, y, y, True)",
)
decoder_layer.wrong(
    "The cross-attention's residual connection is missing: add y to its output.",
    "norms[1](y + attend_cross(y, memory, memory, src_mask))",
    "norms[1](attend_cross(y, memory, memory, src_mask))",
)

# ---------------------------------------------------------------- greedy_decode

greedy_decode = lesson.exercise(
    "greedy_decode",
    hints=(
        (
            "What does the model read before the first token is written? "
            "And what does a row get that has ended when others continue?"
        ),
        (
            "Begin with a column of bos. Ask, take argmax, write pad where a row is done, append, and mark "
            "the rows that just wrote eos."
        ),
        (
            "token = np.where(done, pad, next_logits(tokens).argmax(-1)); append it; done |= token == eos; "
            "drop the first column at the end."
        ),
    ),
    why="A trained Transformer writes like this: teacher forcing is for training, here nobody corrects it.",
)


@greedy_decode.check("a small language whose next token depends on all tokens before")
def _(my, rng):
    table = rng.standard_normal((7, 7))

    def next_logits(tokens):
        return table[tokens].sum(1) + 0.1 * tokens.shape[1] * np.arange(7)

    return my.greedy_decode(next_logits, 3, 1, 2, 0, 5)


@greedy_decode.check("rows that end at different times")
def _(my, rng):
    script = np.array([[5, 2, 6, 6, 6], [4, 4, 3, 2, 6], [2, 5, 5, 5, 5]])

    def next_logits(tokens):
        return np.eye(7)[script[:, tokens.shape[1] - 1]]

    return my.greedy_decode(next_logits, 3, 1, 2, 0, 5)


@greedy_decode.check("max_new is reached, and no row has ended")
def _(my, rng):
    return my.greedy_decode(lambda tokens: np.eye(5)[[3, 4]], 2, 1, 2, 0, 4)


@greedy_decode.check("the calls of next_logits and their arguments")
def _(my, rng):
    script, seen = np.array([[5, 2, 6, 6], [4, 3, 2, 6]]), []

    def next_logits(tokens):
        seen.append(np.array(tokens))
        return np.eye(7)[script[:, tokens.shape[1] - 1]]

    return my.greedy_decode(next_logits, 2, 1, 2, 0, 4), seen


@greedy_decode.check("a pad that is not 0")
def _(my, rng):
    script = np.array([[5, 2, 6], [4, 3, 2]])
    return my.greedy_decode(lambda tokens: np.eye(7)[script[:, tokens.shape[1] - 1]], 2, 1, 2, 6, 3)


greedy_decode.wrong(
    "A row that has ended continues to write. After its eos comes pad, whatever the model predicts.",
    "np.where(done, pad, next_logits(tokens).argmax(-1))",
    "next_logits(tokens).argmax(-1)",
)
greedy_decode.wrong(
    "It stops as soon as one row has ended. Continue until all rows have: done.all().",
    "not done.all()",
    "not done.any()",
)
greedy_decode.wrong(
    "It never stops before max_new: stop when every row has ended.",
    " and not done.all()",
    "",
)
greedy_decode.wrong(
    "The result still begins with bos, which was given, not written.", "return tokens[:, 1:]", "return tokens"
)
greedy_decode.wrong(
    "It writes one token less than max_new: tokens begins with bos, which does not count.",
    "tokens.shape[1] <= max_new",
    "tokens.shape[1] < max_new",
)
greedy_decode.wrong(
    "The model sees only the last token. It must see all tokens so far, from bos on.",
    "next_logits(tokens)",
    "next_logits(tokens[:, -1:])",
)

# ---------------------------------------------------------------- exact_match

exact_match = lesson.exercise(
    "exact_match",
    hints=(
        "Is an answer with nine of ten tokens right a right answer? And do the tokens after eos matter?",
        (
            "Cut every row after its first eos, then compare the lists: "
            "lists of different lengths are not equal."
        ),
        "row[: row.index(eos) + 1] if eos in row else row, of both; then the mean of whether they are equal.",
    ),
    why=(
        "Accuracy by token flatters: with 99 % of the tokens right, "
        "a ten-token answer is right in only 90 % of the cases."
    ),
)


@exact_match.check("right, one token wrong, too short")
def _(my, rng):
    answers = np.array([[5, 6, 2, 0], [5, 7, 2, 0], [5, 2, 0, 0], [6, 6, 6, 2]])
    targets = np.array([[5, 6, 2, 0], [5, 6, 2, 0], [5, 6, 2, 0], [6, 6, 6, 2]])
    return my.exact_match(answers, targets, 2)


@exact_match.check("the tokens after eos do not matter")
def _(my, rng):
    return my.exact_match(
        np.array([[5, 2, 9, 9], [5, 2, 0, 0], [2, 2, 2, 2]]),
        np.array([[5, 2, 0, 0], [5, 2, 2, 7], [2, 0, 0, 0]]),
        2,
    )


@exact_match.check("arrays of different widths")
def _(my, rng):
    return my.exact_match(np.array([[5, 2], [5, 6], [2, 0]]), np.array([[5, 2, 0], [5, 6, 2], [7, 2, 0]]), 2)


@exact_match.check("answers without an end")
def _(my, rng):
    same_width = my.exact_match(np.array([[5, 6, 7], [5, 6, 7]]), np.array([[5, 6, 2], [5, 6, 7]]), 2)
    return same_width, my.exact_match(
        np.array([[5, 6], [5, 7], [5, 2]]), np.array([[5, 6, 7, 2], [5, 6, 7, 2], [5, 2, 0, 0]]), 2
    )


@exact_match.check("a plain float")
def _(my, rng):
    return type(my.exact_match(np.array([[5, 2]]), np.array([[5, 2]]), 2)).__name__


exact_match.wrong(
    "This is the fraction of right tokens. A row counts only if all of it is right.",
    body="""
    n = min(answers.shape[1], targets.shape[1])
    return float((answers[:, :n] == targets[:, :n]).mean())
    """,
)
exact_match.wrong(
    "Whole rows are compared, so the tokens after eos count too. Cut each row at its first eos.",
    "return row[: row.index(eos) + 1] if eos in row else row",
    "return row",
)
exact_match.wrong(
    "eos itself is cut off, so an answer that never ends can count as right. Stopping is part of the answer.",
    "row.index(eos) + 1",
    "row.index(eos)",
)
exact_match.wrong(
    (
        "Only the tokens that both rows have are compared, "
        "so an answer that stops too early or too late can count as right."
    ),
    "whole(a) == whole(t)",
    "all(x == y for x, y in zip(whole(a), whole(t), strict=False))",
)

# ---------------------------------------------------------------- smoothed_loss

smoothed_loss = lesson.exercise(
    "smoothed_loss",
    hints=(
        (
            "Cross-entropy is minus the sum of q log p. What is q at one position: how much on the label, "
            "how much on each of the others?"
        ),
        (
            "log p in the stable form; then (1 - smoothing) times the label's -log p plus smoothing times "
            "the mean of all -log p; then the mean."
        ),
        "losses = -(1 - smoothing) * right - smoothing * log_p.mean(-1), and their mean where labels != pad.",
    ),
    why="The paper smooths by 0.1 (section 5.4): the model is not pushed to be surer than it can be.",
)


@smoothed_loss.check("without smoothing it is cross-entropy")
def _(my, rng):
    return my.smoothed_loss(rng.standard_normal((2, 3, 5)), np.array([[1, 4, 0], [3, 0, 0]]), 0.0, 0)


@smoothed_loss.check("smoothing of 0.1")
def _(my, rng):
    return my.smoothed_loss(3 * rng.standard_normal((2, 3, 5)), np.array([[1, 4, 0], [3, 2, 0]]), 0.1, 0)


@smoothed_loss.check("pad is not 0, and nothing is padding")
def _(my, rng):
    return my.smoothed_loss(rng.standard_normal((2, 4, 4)), rng.integers(3, size=(2, 4)), 0.2, 3)


@smoothed_loss.check("large logits")
def _(my, rng):
    return my.smoothed_loss(np.array([[[1e4, 0.0, -1e4], [0.0, 1e4, 0.0]]]), np.array([[1, 2]]), 0.1, 0)


smoothed_loss.wrong(
    "The mean is over all positions, padding included. Only positions whose label is not pad count.",
    "losses[labels != pad].mean()",
    "losses.mean()",
)
smoothed_loss.wrong(
    "The sum omits the padding, the count does not: divide by the number of positions that are not padding.",
    "losses[labels != pad].mean()",
    "losses[labels != pad].sum() / labels.size",
)
smoothed_loss.wrong(
    (
        "Each token gets the whole smoothing, V times too much: each of the V tokens gets smoothing / V, "
        "which gives the mean of -log p."
    ),
    "smoothing * log_p.mean(-1)",
    "smoothing * log_p.sum(-1)",
)
smoothed_loss.wrong(
    (
        "The label keeps all of its 1, so the distribution sums to more than 1: "
        "it gets 1 - smoothing, and smoothing / V like all tokens."
    ),
    "-(1 - smoothing) * right",
    "-right",
)
smoothed_loss.wrong(
    (
        "Only the other V - 1 tokens get the smoothing. "
        "As in the paper's reference all V tokens get it, the label included."
    ),
    "smoothing * log_p.mean(-1)",
    "smoothing * (log_p.sum(-1) - right) / (logits.shape[-1] - 1)",
)

# ---------------------------------------------------------------- parameter_count

parameter_count = lesson.exercise(
    "parameter_count",
    hints=(
        (
            "How many parameters has one attention, one feed-forward network, one norm? "
            "How many of each does each kind of layer have?"
        ),
        (
            "An encoder layer: one attention, one feed-forward, two norms. A decoder layer: two, one, three. "
            "One embedding table for all."
        ),
        (
            "4 (C^2 + C), 2 C d_ff + d_ff + C and 2 C; vocab_size C + num_layers ((first + second + 2 third) "
            "+ (2 first + second + 3 third))."
        ),
    ),
    why=(
        "Counting by hand shows where a model's weights are: here mostly in the feed-forward networks; "
        "the number of heads does not matter."
    ),
)


@parameter_count.check("the small model of the lesson")
def _(my, rng):
    return my.parameter_count(12, 8, 1, 16)


@parameter_count.check("the model that learned dates")
def _(my, rng):
    return my.parameter_count(70, 64, 2, 128)


@parameter_count.check("the paper's base model, with a vocabulary of 37,000")
def _(my, rng):
    return my.parameter_count(37000, 512, 6, 2048)


@parameter_count.check("no layers at all")
def _(my, rng):
    return my.parameter_count(11, 7, 0, 5)


parameter_count.wrong(
    "The biases of the four projections are missing: each has d_model of them.",
    "4 * (d_model * d_model + d_model)",
    "4 * d_model * d_model",
)
parameter_count.wrong(
    "A decoder layer has two attentions: one to the target, one to the memory.",
    "2 * attention + feed_forward + 3 * norm",
    "attention + feed_forward + 2 * norm",
)
parameter_count.wrong(
    "Three tables of embeddings are counted. Source, target and output share one, which is counted once.",
    "return vocab_size * d_model",
    "return 3 * vocab_size * d_model",
)
parameter_count.wrong(
    "The biases of the feed-forward network are missing: d_ff for its first layer, d_model for its second.",
    "2 * d_model * d_ff + d_ff + d_model",
    "2 * d_model * d_ff",
)
parameter_count.wrong(
    "A decoder layer has three norms, one after each of its three sublayers.",
    "feed_forward + 3 * norm",
    "feed_forward + 2 * norm",
)
