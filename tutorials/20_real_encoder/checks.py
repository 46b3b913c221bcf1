"""Checks of lesson 20."""

import numpy as np

from tutorials.course import Checks

lesson = Checks()


def unit(u):
    return u / np.linalg.norm(u, axis=1, keepdims=True)


# ---------------------------------------------------------------- wordpiece

wordpiece = lesson.exercise(
    "wordpiece",
    hints=(
        "Of all beginnings of the word that are in the vocabulary, which do you take, and what is left of the word then?",
        (
            "Two loops: while something is left, try the ends from the word's end backwards; the first piece found is the "
            "longest. From the second piece on, look for it with ## before it."
        ),
        'for end in range(len(word), start, -1): if ("##" if start else "") + word[start:end] in vocabulary: ... start = end.',
    ),
    why="30,522 pieces are enough for any word: what the model never saw whole, it reads in parts it knows.",
)


@wordpiece.check("whole words, and words in two and three pieces")
def _(my, rng):
    vocabulary = {"play", "##ing", "##s", "sour", "##dou", "##gh", "s", "so", "##u", "p", "##lay"}
    return [my.wordpiece(word, vocabulary) for word in ("play", "playing", "sourdough", "plays", "playings")]


@wordpiece.check("the longest piece, not the first that fits")
def _(my, rng):
    vocabulary = {"a", "ab", "abc", "##b", "##c", "##cd", "##d", "##bcd"}
    return [my.wordpiece(word, vocabulary) for word in ("abcd", "abd", "acd", "a", "abcdcd")]


@wordpiece.check("a piece inside a word has ##, the first has none")
def _(my, rng):
    vocabulary = {"cat", "s", "##t", "scat"}
    return [my.wordpiece(word, vocabulary) for word in ("cats", "scatt", "ts", "scat")]


@wordpiece.check("what does not fit at some place makes the whole word unknown; nothing is tried again")
def _(my, rng):
    vocabulary = {"un", "unb", "##baked", "##b", "x", "##y"}
    return [my.wordpiece(word, vocabulary) for word in ("unbaked", "unb", "xyz", "z", "unbb")]


wordpiece.wrong(
    "The shortest piece is taken. Try the ends of the word from the right, so that the longest comes first.",
    "range(len(word), start, -1)",
    "range(start + 1, len(word) + 1)",
)
wordpiece.wrong(
    "Pieces inside the word are looked up without ##: the vocabulary has two entries, one for each place, and two vectors.",
    'mark = "##" if start else ""',
    'mark = ""',
)
wordpiece.wrong(
    "The pieces that were found before the unknown part are kept. The whole word becomes one [UNK].",
    'return ["[UNK]"]',
    'return pieces + ["[UNK]"]',
)
wordpiece.wrong(
    "Pieces are looked up with ## but written down without it, so that nobody can tell the two kinds apart.",
    "pieces.append(mark + word[start:end])",
    "pieces.append(word[start:end])",
)
wordpiece.wrong(
    "You go back and try a shorter piece where the rest does not fit. WordPiece never does: what is chosen stays.",
    body="""
    def cut(start):
        if start == len(word):
            return []
        mark = "##" if start else ""
        for end in range(len(word), start, -1):
            rest = cut(end) if mark + word[start:end] in vocabulary else None
            if rest is not None:
                return [mark + word[start:end], *rest]
        return None
    return cut(0) or ["[UNK]"]
    """,
)
wordpiece.wrong(
    "An unknown letter is skipped as one [UNK] and the rest of the word goes on. The whole word becomes one [UNK].",
    body="""
    pieces, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        end = next((e for e in range(len(word), start, -1) if mark + word[start:e] in vocabulary), None)
        pieces.append("[UNK]" if end is None else mark + word[start:end])
        start = start + 1 if end is None else end
    return pieces
    """,
)

# ---------------------------------------------------------------- padded

padded = lesson.exercise(
    "padded",
    hints=(
        "Which places of row b hold a token, if it has n tokens?",
        "Compare the numbers 0 to T - 1 with each row's length: that is `real`. Then fill the tokens in where it is True.",
        "real = np.arange(T) < lengths[:, None]; tokens = np.full(real.shape, pad); tokens[real] = np.concatenate(rows).",
    ),
    why="One product for the whole batch instead of one for each sentence; the mask is what keeps it the same computation.",
)


@padded.check("rows of different lengths")
def _(my, rng):
    tokens, real = my.padded([[5, 6, 7], [8], [9, 4, 3, 2], [1, 2]], 0)
    return tokens, real, str(np.asarray(real).dtype)


@padded.check("padding has the number that was passed")
def _(my, rng):
    return my.padded([[5, 6], [8]], 99)


@padded.check("a token that has the number of padding is a token")
def _(my, rng):
    return my.padded([[0, 5, 0], [0], [7, 0]], 0)


@padded.check("one row; rows of one length; an empty row")
def _(my, rng):
    return my.padded([[3, 4]], 0), my.padded([[1, 2], [3, 4]], 0), my.padded([[], [1, 2]], 7)


padded.wrong(
    "`real` is read off the numbers: a token that has the number of padding is taken for padding. Ask the lengths.",
    "return tokens, real",
    "return tokens, tokens != pad",
)
padded.wrong(
    "`real` is the wrong way round: it must be True at tokens and False at padding.",
    "return tokens, real",
    "return tokens, ~real",
)
padded.wrong(
    "Padding has the number 0, whatever was passed. Another model may use another: fill up with `pad`.",
    "np.full(real.shape, pad)",
    "np.full(real.shape, 0)",
)
padded.wrong(
    "The padding stands at the left, so the tokens' positions depend on the longest row. Put it to the right.",
    "return tokens, real",
    """for row, n in enumerate(lengths):
        tokens[row], real[row] = np.roll(tokens[row], len(tokens[row]) - n), np.roll(real[row], len(real[row]) - n)
    return tokens, real""",
)
padded.wrong(
    "All rows are cut to the shortest one: text is lost. Fill up to the longest.",
    body="""
    shortest = max(min(len(row) for row in rows), 1)
    tokens = np.array([(list(row) + [pad])[:shortest] for row in rows])
    return tokens, np.array([[t < len(row) for t in range(shortest)] for row in rows])
    """,
)

# ---------------------------------------------------------------- sentence_vectors

sentence_vectors = lesson.exercise(
    "sentence_vectors",
    hints=(
        "What must not count in the mean, and what must not count in a comparison of two means?",
        "Multiply by the mask and sum over T, as in lesson 15; then divide each row by its own length, if that is not 0.",
        "length = np.linalg.norm(mean, axis=1, keepdims=True); mean / np.where(length > 0, length, 1).",
    ),
    why="After this one matrix product compares everything with everything, and a stored note is 384 numbers.",
)


@sentence_vectors.check("rows of different lengths")
def _(my, rng):
    return my.sentence_vectors(
        rng.standard_normal((3, 4, 5)), np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], bool)
    )


@sentence_vectors.check("a cube, with large numbers at padding")
def _(my, rng):
    x = rng.standard_normal((3, 3, 3))
    x[0, 2], x[1, 0] = 1e6, -1e6
    return my.sentence_vectors(x, np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1]], bool))


@sentence_vectors.check("tokens of very different lengths")
def _(my, rng):
    return my.sentence_vectors(
        np.array([[[100.0, 0.0], [0.0, 1.0], [3.0, 4.0]]]), np.array([[True, True, False]])
    )


@sentence_vectors.check("nothing but padding; a mean of zero")
def _(my, rng):
    x = np.array([[[1.0, 2.0], [3.0, 4.0]], [[1.0, -1.0], [-1.0, 1.0]], [[0.0, 2.0], [0.0, 2.0]]])
    return my.sentence_vectors(x, np.array([[False, False], [True, True], [True, True]]))


sentence_vectors.wrong(
    "Padding is in the mean: the same sentence gets another vector in another batch. Multiply x by the mask first.",
    "(x * real[..., None]).sum(1)",
    "x.sum(1)",
)
sentence_vectors.wrong(
    "The means keep their lengths, and a long vector wins every comparison. Divide each by its own length.",
    "return mean / np.where(length > 0, length, 1)",
    "return mean",
)
sentence_vectors.wrong(
    "All rows are divided by one length, that of the whole array. Each row has its own: axis=1, keepdims=True.",
    "np.linalg.norm(mean, axis=1, keepdims=True)",
    "np.linalg.norm(mean, keepdims=True)",
)
sentence_vectors.wrong(
    "The sum of the numbers of a row becomes 1, not its length. The length is the root of the sum of squares.",
    "np.linalg.norm(mean, axis=1, keepdims=True)",
    "np.abs(mean).sum(1, keepdims=True)",
)
sentence_vectors.wrong(
    "Each token is brought to length 1 before the mean, so that a long one counts no more than a short one. Only the mean is.",
    "mean = (x * real[..., None]).sum(1)",
    """norms = np.linalg.norm(x, axis=2, keepdims=True)
    x = x / np.where(norms > 0, norms, 1)
    mean = (x * real[..., None]).sum(1)""",
)
sentence_vectors.wrong(
    "This is the first token's vector. This model was trained with the mean of all tokens; the first alone means little.",
    "(x * real[..., None]).sum(1)",
    "x[:, 0] * real[:, :1]",
)

# ---------------------------------------------------------------- unit_backward

unit_backward = lesson.exercise(
    "unit_backward",
    hints=(
        "If u grows along its own direction, how does u / |u| change?",
        "Take the part of g along e away, e * (g . e), row by row; what is left is divided by the length of u.",
        "(g - e * (g * e).sum(1, keepdims=True)) / length, with e = u / length.",
    ),
    why="A gradient that only turns the vector: no step can win by making it longer.",
)


@unit_backward.check("rows of different lengths")
def _(my, rng):
    return my.unit_backward(
        rng.standard_normal((4, 3)), rng.standard_normal((4, 3)) * np.array([[0.1], [1.0], [10.0], [100.0]])
    )


@unit_backward.check("a square array")
def _(my, rng):
    return my.unit_backward(rng.standard_normal((3, 3)), rng.standard_normal((3, 3)))


@unit_backward.check("along u nothing is left, across all of it")
def _(my, rng):
    u = np.array([[3.0, 4.0], [3.0, 4.0]])
    return my.unit_backward(np.array([[3.0, 4.0], [-4.0, 3.0]]), u)


@unit_backward.gradcheck(forward=unit, inputs=lambda rng: [rng.standard_normal((3, 4))])
def _(my, g, u):
    return my.unit_backward(g, u)


unit_backward.wrong(
    "The length is treated as a constant. It depends on u too: take the part of g that lies along u away.",
    "(g - e * (g * e).sum(1, keepdims=True))",
    "g",
)
unit_backward.wrong(
    "The division by the length of u is missing: a vector ten times longer turns ten times more slowly.",
    "return (g - e * (g * e).sum(1, keepdims=True)) / length",
    "return g - e * (g * e).sum(1, keepdims=True)",
)
unit_backward.wrong(
    "The part along u is taken with u itself, not with the unit vector e, and comes out too large by its squared length.",
    "e = u / length",
    "e = u",
)
unit_backward.wrong(
    "g . e is summed over the whole array. Each row has its own: sum over the last axis, keepdims=True.",
    "(g * e).sum(1, keepdims=True)",
    "(g * e).sum()",
)
unit_backward.wrong(
    "The part along u is added; take it away.",
    "g - e * (g * e)",
    "g + e * (g * e)",
)

# ---------------------------------------------------------------- search

search = lesson.exercise(
    "search",
    hints=(
        "What does argsort do with equal numbers, and what happens to their order if you turn its result round?",
        "Divide the products by both lengths (by 1 where a length is 0), and sort the negative cosines, stably.",
        'which = np.argsort(-cosines, kind="stable")[:k]; return which, cosines[which].',
    ),
    why="This is the whole of a search engine by meaning for some ten thousand notes: one product and one sort.",
)


@search.check("the three nearest of eight")
def _(my, rng):
    return my.search(rng.standard_normal(5), rng.standard_normal((8, 5)), 3)


@search.check("lengths do not count, not even the query's")
def _(my, rng):
    notes = rng.standard_normal((4, 4)) * np.array([[0.1], [10.0], [1.0], [100.0]])
    return my.search(7 * rng.standard_normal(4), notes, 4)


@search.check("of equally alike notes the earlier comes first")
def _(my, rng):
    notes = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 0.0], [0.0, -1.0]] * 6)
    return my.search(np.array([1.0, 0.0]), notes, 20)


@search.check("more wanted than there are; one note; a zero vector")
def _(my, rng):
    return (
        my.search(np.array([1.0, 1.0]), np.array([[1.0, 0.0], [-1.0, -1.0], [0.0, 0.0], [2.0, 2.0]]), 9),
        my.search(np.array([0.0, 2.0]), np.array([[0.0, 3.0]]), 1),
    )


search.wrong(
    "The least alike come first: argsort goes upwards. Sort the negative cosines.",
    "np.argsort(-cosines",
    "np.argsort(cosines",
)
search.wrong(
    "An upward sort turned round turns the order of equal ones too: the later note comes first. Sort the negative cosines.",
    'np.argsort(-cosines, kind="stable")[:k]',
    'np.argsort(cosines, kind="stable")[::-1][:k]',
)
search.wrong(
    "These are products, not cosines: a note with a long vector is found for every query. Divide by both lengths.",
    "notes @ query / np.where(lengths > 0, lengths, 1)",
    "notes @ query",
)
search.wrong(
    "The query's length is not divided out, so that the numbers are no cosines: they are not between -1 and 1.",
    "np.linalg.norm(notes, axis=1) * np.linalg.norm(query)",
    "np.linalg.norm(notes, axis=1)",
)
search.wrong(
    "The cosines are those of the first notes, not of the found ones: index them with `which`.",
    "cosines[which]",
    "cosines[: len(which)]",
)
search.wrong(
    "The k notes are found but stand in the order of the notes. Most alike first.",
    'np.argsort(-cosines, kind="stable")[:k]',
    'np.sort(np.argsort(-cosines, kind="stable")[:k])',
)

# ---------------------------------------------------------------- info_nce

info_nce = lesson.exercise(
    "info_nce",
    hints=(
        "B questions, B answers, one right for each: which loss of lesson 05 is that, and with which class for row i?",
        "Logits scale * a @ b.T, (B, B); the cross-entropy of each row with its own number as the class; the mean.",
        "z -= z.max(1, keepdims=True); log_p = z - np.log(np.exp(z).sum(1, keepdims=True)); -np.diag(log_p).mean().",
    ),
    why="No labels but pairs: a billion of them, each batch making its own wrong answers, taught this model what is alike.",
)


@info_nce.check("a batch of five pairs")
def _(my, rng):
    a, b = rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
    a, b = (u / np.linalg.norm(u, axis=1, keepdims=True) for u in (a, b))
    return my.info_nce(a, b, 20.0), my.info_nce(a, b, 1.0)


@info_nce.check("as many pairs as numbers in a vector")
def _(my, rng):
    a, b = rng.standard_normal((4, 4)), rng.standard_normal((4, 4))
    a, b = (u / np.linalg.norm(u, axis=1, keepdims=True) for u in (a, b))
    return my.info_nce(a, b, 5.0)


@info_nce.check("one pair: no choice, no loss; all alike: log B")
def _(my, rng):
    same = np.tile(np.array([[0.6, 0.8]]), (3, 1))
    return my.info_nce(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), 20.0), my.info_nce(same, same, 20.0)


@info_nce.check("a very large scale: finite, no warning")
def _(my, rng):
    a = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    return my.info_nce(a, a[[1, 0, 2]], 1e4)


info_nce.wrong(
    "The scale is not used: cosines alone lie too close together for a softmax.", "scale * a @ b.T", "a @ b.T"
)
info_nce.wrong(
    "The similarities are divided by the scale; it multiplies (1 / temperature).",
    "scale * a @ b.T",
    "a @ b.T / scale",
)
info_nce.wrong(
    "The softmax runs down the columns: each answer chooses its question. Here each row of `a` chooses among the rows of `b`.",
    "scale * a @ b.T",
    "scale * b @ a.T",
)
info_nce.wrong(
    "The losses are summed. Take their mean, or a larger batch counts more.",
    "np.diag(log_p).mean()",
    "np.diag(log_p).sum()",
)
info_nce.wrong(
    "Every answer counts as the right one: the mean runs over all pairs. Only the diagonal belongs together.",
    "np.diag(log_p).mean()",
    "log_p.mean()",
)
info_nce.wrong(
    "The exponentials overflow at a large scale. Subtract each row's largest logit first; the softmax stays the same.",
    "z = z - z.max(1, keepdims=True)",
    "z = z + 0",
)
info_nce.wrong(
    "The right answer is missing below the fraction bar, so the loss can fall below zero. The sum runs over all rows of `b`.",
    "np.exp(z).sum(1, keepdims=True)",
    "np.maximum((np.exp(z) * (1 - np.eye(len(z)))).sum(1, keepdims=True), 1e-300)",
)

# ---------------------------------------------------------------- info_nce_backward

info_nce_backward = lesson.exercise(
    "info_nce_backward",
    hints=(
        "What is the gradient at the logits of a mean cross-entropy, and where is the 1 taken off in row i?",
        "dz = (softmax - identity) / B, times g. Then z = scale * a @ b.T is a matrix product: lesson 03.",
        "return scale * dz @ b, scale * dz.T @ a.",
    ),
    why="It pulls each pair together and pushes away what is falsely near, the more it is mistaken for the right one.",
)


@info_nce_backward.check("a batch of five pairs")
def _(my, rng):
    a, b = rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
    a, b = (u / np.linalg.norm(u, axis=1, keepdims=True) for u in (a, b))
    return my.info_nce_backward(1.5, a, b, 20.0)


@info_nce_backward.check("as many pairs as numbers in a vector")
def _(my, rng):
    a, b = rng.standard_normal((4, 4)), rng.standard_normal((4, 4))
    a, b = (u / np.linalg.norm(u, axis=1, keepdims=True) for u in (a, b))
    return my.info_nce_backward(1.0, a, b, 3.0)


@info_nce_backward.check("one pair; a very large scale")
def _(my, rng):
    a = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    return my.info_nce_backward(1.0, a[:1], a[1:2], 20.0), my.info_nce_backward(1.0, a, a[[1, 0, 2]], 1e4)


@info_nce_backward.gradcheck(
    forward="info_nce",
    inputs=lambda rng: [unit(rng.standard_normal((4, 3))), unit(rng.standard_normal((4, 3))), 5.0],
)
def _(my, g, a, b, scale):
    return my.info_nce_backward(g, a, b, scale)


info_nce_backward.wrong(
    "The scale is forgotten on the way back: it multiplies the logits, so it multiplies the gradients.",
    "return scale * dz @ b, scale * dz.T @ a",
    "return dz @ b, dz.T @ a",
)
info_nce_backward.wrong(
    "The mean is forgotten: divide by the number of pairs.",
    "(p - np.eye(len(a))) / len(a)",
    "(p - np.eye(len(a)))",
)
info_nce_backward.wrong(
    "The incoming gradient g is not used. The chain rule multiplies by it.", "g * (p -", "1.0 * (p -"
)
info_nce_backward.wrong(
    "1 is taken off everywhere, not only at the right answer, on the diagonal.",
    "np.eye(len(a))",
    "np.ones((len(a), len(a)))",
)
info_nce_backward.wrong(
    "This is the softmax only: at the right answer, on the diagonal, 1 must be taken off.",
    "np.eye(len(a))",
    "0",
)
info_nce_backward.wrong(
    "The gradient of b uses dz untransposed. Row j of b meets column j of the logits: dz.T.",
    "scale * dz.T @ a",
    "scale * dz @ a",
)
info_nce_backward.wrong(
    "The sign is wrong: a larger similarity of the pair lowers the loss, so its gradient is p - 1, not 1 - p.",
    "g * (p - np.eye(len(a)))",
    "g * (np.eye(len(a)) - p)",
)
