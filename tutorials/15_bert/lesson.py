# %% [markdown]
# # 15 · BERT: filling in what is hidden
#
# *Reading: 35 minutes. Exercises: 45 minutes. Needs: lessons 05, 09, 12, 13, 14.*
#
# A GPT looks left. To *understand* a complete sentence, why not look both ways? But then the model sees the
# token it should predict. On what task can you train it, and what is it good for?
#
# **You will be able to:**
#
# - say why next-token prediction and looking both ways exclude each other, and how masking gets around it;
# - mask a batch as BERT does (15 %, of these 80/10/10), and give the reason for each number;
# - derive the loss at the chosen positions and its gradient, and name the mistakes that make it silently
#   wrong;
# - show that both sides help, by training the same model with the left side only;
# - pool a sentence into a vector, and fine-tune.

# %%
import copy
import itertools

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn, optim, viz
from minigrad.gradcheck import gradcheck
from models.bert import BERT, IGNORED, hide
from models.recipes.mlm import quick_start
from tutorials import show

np.set_printoptions(precision=4, suppress=True)
mg.manual_seed(0)

# %% [markdown]
# ## Intuition: a cloze test
#
# Fill in: `___ orange egg`. You write `an`, because of the words *after* it. Fill in: `two uncles ___ red
# hats`. It is `wear`, because there are two uncles (before) and because of the hats (after). A reader who
# sees only the words to the left must guess here.
#
# Suppose we train a network that sees both sides to predict each token. It sees the token it should predict,
# so it only copies. So **hide** some tokens, and ask for those. That is masked language modelling, the task
# of BERT (Devlin et al. 2019, section 3.1): thousands of cloze tests (Taylor 1953). The price is that the
# model learns only at the hidden positions, about one in seven. A GPT learns at every position.
#
# For this lesson we use a language so small that we can compute the score of the *best possible* reader. A
# sentence is a subject, a verb and an object. The article must fit the next word, and the verb must fit the
# number of the subject and the kind of the object.

# %%
ADJECTIVES = ["old", "orange", "angry", "small", "red", "happy"]
PEOPLE = ["girl", "uncle", "artist", "teacher"]
THINGS = {
    "eat": ["egg", "apple", "cake"],
    "read": ["letter", "book", "poem"],
    "wear": ["hat", "coat", "ring"],
}


def phrase(adjective, noun, plural):
    article = "two" if plural else "an" if adjective[0] in "aeiou" else "a"
    return [article, adjective, noun + "s" * plural]


sentences = [
    phrase(adjective, person, many) + [verb + "s" * (not many)] + phrase(other, thing, several)
    for many, adjective, person, verb, several, other in itertools.product(
        (0, 1), ADJECTIVES, PEOPLE, THINGS, (0, 1), ADJECTIVES
    )
    for thing in THINGS[verb]
]
PAD, CLS, MASK = 0, 1, 2  # special tokens
words = sorted({word for sentence in sentences for word in sentence})
number = {word: i + 3 for i, word in enumerate(words)}
V = len(words) + 3
language = np.array([[CLS] + [number[word] for word in sentence] for sentence in sentences])  # (N, 8)
data = np.random.default_rng(0).permutation(language)
train, test = data[500:], data[:500]


def spell(tokens):
    return " ".join({PAD: "[PAD]", CLS: "[CLS]", MASK: "[MASK]"}.get(int(t)) or words[t - 3] for t in tokens)


print(f"{len(language):,} sentences of {len(words)} words; 500 are kept for the test, such as")
print(*(spell(row) for row in test[:3]), sep="\n")

# %% [markdown]
# Each begins with `[CLS]`, which stands for the whole sentence. We need it below.
#
# ## Definition
#
# In a text $t_1 \dots t_T$, choose a set $A$ of positions, each with probability 0.15, but never padding or
# other special tokens. Then $\tilde t$ is the same text, except that each chosen position holds
#
# - with probability 0.8 the token `[MASK]`,
# - with probability 0.1 an ordinary token, drawn at random,
# - with probability 0.1 the original token.
#
# The model sees $\tilde t$ and returns logits $(T, V)$. The loss is the mean over the chosen positions only:
#
# $$L = -\frac{1}{|A|} \sum_{i \in A} \ln p(t_i \mid \tilde t)$$
#
# **Why not always `[MASK]`?** The token never occurs when the trained model is used, so a model that works
# only at `[MASK]` would be of little use (section 3.1 of the paper). Because of the other 20 %, the model
# cannot know at *any* position whether the token it sees is right, so it must predict every position from its
# context. Only $0.15 \cdot 0.1 = 0.015$ of all tokens are random, too few to damage the text.
#
# The model (`models/bert.py`) adds three embeddings: of the token, of its position (learned), and of its type
# (first or second sentence of a pair). Then come a norm and the encoder layers of lesson 13 with GELU,
# post-norm. The output uses the embedding table again, after one more small layer.

# %%
model = quick_start(BERT(V, d_model=32, num_heads=4, num_layers=2, d_ff=64, max_len=8, dropout=0.0))
print(viz.trace_forward(model, test[:1]).text(depth=1).split("\n\n")[0])

# %% [markdown]
# The input is $(1, 8)$, every layer in between returns $(1, 8, 32)$, and the logits are $(1, 8, 44)$. There
# is no causal mask: every position sees all positions but padding. (`quick_start` sets initial values with
# which a model this small learns in seconds.)
#
# ## A worked example by hand
#
# Take five tokens, and for each of them two random numbers from 0 to 1. The first decides whether the token
# is asked for (below 0.15), the second what the model sees there.
#
# | token | first number | asked? | second number | the model sees |
# | --- | --- | --- | --- | --- |
# | `[CLS]` | 0.02 | no, never | | `[CLS]` |
# | an | 0.10 | yes | 0.30, below 0.8 | `[MASK]` |
# | old | 0.60 | no | | old |
# | uncle | 0.14 | yes | 0.85, from 0.8 to 0.9 | a random word, say `cake` |
# | eats | 0.07 | yes | 0.95, above 0.9 | eats |
#
# The model must answer at three positions. Suppose it gives the right words the probabilities 0.5, 0.125 and
# 0.25. Then the loss is $(0.6931 + 2.0794 + 1.3863)/3 = 1.3863$. The other positions do not count.


# %%
def mask_tokens(tokens, first, second, random_tokens, never=(PAD, CLS)):
    """Return (seen, labels), with IGNORED as the label where nothing is asked; all arrays are (B, T)."""
    asked = (first < 0.15) & ~np.isin(tokens, never)
    seen = np.where(asked & (second < 0.8), MASK, tokens)
    seen = np.where(asked & (second >= 0.8) & (second < 0.9), random_tokens, seen)
    return seen, np.where(asked, tokens, IGNORED)


sentence = np.array([[CLS] + [number[word] for word in "an old uncle eats".split()]])
first, second = np.array([[0.02, 0.10, 0.60, 0.14, 0.07]]), np.array([[0.5, 0.30, 0.5, 0.85, 0.95]])
seen, labels = mask_tokens(sentence, first, second, np.full((1, 5), number["cake"]))
print("sees ", spell(seen[0]), "\nasked", [words[t - 3] if t != IGNORED else "-" for t in labels[0]])
assert spell(seen[0]) == "[CLS] [MASK] old cake eats" and (labels != IGNORED).tolist() == [
    [False, True, False, True, True]
]
losses = -np.log([0.5, 0.125, 0.25])
assert np.allclose(losses, [0.6931, 2.0794, 1.3863], atol=1e-4) and round(losses.mean(), 4) == 1.3863

# %% [markdown]
# `hide` in `models/bert.py` does the same and draws the numbers itself. Over many tokens, we get the shares
# we asked for:

# %%
many = np.tile(train, (20, 1))
seen, labels = hide(many, MASK, (3, V), np.random.default_rng(0), never=(PAD, CLS))
asked = labels != IGNORED
shares = {
    "asked, of all words": asked[:, 1:].mean(),
    "of these: [MASK]": (seen == MASK)[asked].mean(),
    "another word": ((seen != MASK) & (seen != many))[asked].mean(),
    "the word itself": (seen == many)[asked].mean(),
}
for name, share in shares.items():
    print(f"{name:22s} {share:.4f}")
assert np.allclose(list(shares.values()), [0.15, 0.8, 0.1 * 40 / 41, 0.1 + 0.1 / 41], atol=4e-3)
assert (seen == many)[~asked].all() and not asked[:, 0].any()

# %% [markdown]
# (A random word is the right one by chance in 1 of 41 cases, so "another word" is a little below 0.1.)
#
# ## Derivation: the gradient at the logits
#
# For one position, lesson 05 gave $\partial(-\ln p_c)/\partial z = p - e_c$, with $e_c$ the one-hot vector of
# the right token $c$. Here the loss is a sum over $i \in A$, divided by $|A|$, and the logits of position $i$
# appear only in the term of position $i$. So
#
# $$\frac{\partial L}{\partial z_i} = \frac{1}{|A|} (p_i - e_{t_i}) \quad \text{for } i \in A,$$
#
# $$\frac{\partial L}{\partial z_i} = 0 \quad \text{elsewhere.}$$
#
# Only the gradient at the *logits* is zero there. In the layers below, the other positions do get gradients,
# from the hidden positions that attend to them. That is how the context learns to be useful.


# %%
def mlm_loss(logits, labels):
    asked = labels != IGNORED
    z = logits[asked]  # (|A|, V)
    z = z - z.max(-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return -log_p[np.arange(len(z)), labels[asked]].mean()


def mlm_loss_backward(g, logits, labels):
    asked = labels != IGNORED
    z = logits[asked]
    p = np.exp(z - z.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    p[np.arange(len(z)), labels[asked]] -= 1
    out = np.zeros_like(logits)
    out[asked] = g * p / len(z)
    return out


# %% [markdown]
# ## Gradient check
#
# We check the derived gradient, compare it with `F.cross_entropy` with `ignore_index`, and check a whole
# small BERT.

# %%
rng = np.random.default_rng(0)
logits, labels = (
    rng.standard_normal((2, 4, 6)),
    np.array([[IGNORED, 3, IGNORED, 0], [5, IGNORED, IGNORED, IGNORED]]),
)
check = (lambda z: mlm_loss(z, labels), lambda g, z: mlm_loss_backward(g, z, labels))
print("at the logits:", gradcheck(check, [logits]))
leaf = mg.tensor(logits, requires_grad=True)
F.cross_entropy(leaf.reshape(-1, 6), labels.reshape(-1), ignore_index=IGNORED).backward()
assert np.allclose(leaf.grad.data, mlm_loss_backward(1.0, logits, labels))
small = quick_start(BERT(9, d_model=4, num_heads=2, num_layers=1, d_ff=6, max_len=4, dropout=0.0)).double()
question = np.array([[CLS, MASK, 5, PAD], [CLS, 4, MASK, 7]])
print("a whole BERT:", gradcheck(lambda *p: small(question), [*small.parameters()], fast=True))

# %% [markdown]
# Now check the claim about the layers below: ask at one position, and look at the gradient of each token's
# vector.

# %%
model.zero_grad()
vectors = (model.tokens(test[:1]) + model.positions(np.arange(8))).detach().requires_grad_()
x = model.norm(vectors)
for layer in model.layers:
    x = layer(x)
logits = F.linear(
    model.transform_norm(model.activation(model.transform(x))), model.tokens.weight, model.output_bias
)
F.cross_entropy(logits[0, 4:5], test[0, 4:5]).backward()
reach = np.linalg.norm(vectors.grad.data[0], axis=-1)
print(spell(test[0]), "\nasked at position 4 only; gradient at each position:", reach)
assert (reach > 0).all()

# %% [markdown]
# ## Training: both sides, and the left side only
#
# We train the same model twice, with the same data and the same masks. The second time we add the causal mask
# of lesson 09, so that each position sees only itself and the positions to its left. That second model is a
# GPT with BERT's task.


# %%
def as_it_is(tokens, seen, labels):
    return seen, labels


def trained(mask=None, steps=500, change=as_it_is, seed=0):
    """Train a BERT; mask: the attention mask; change: a function that changes seen and labels (see below)."""
    mg.manual_seed(seed)
    net = quick_start(BERT(V, d_model=32, num_heads=4, num_layers=2, d_ff=64, max_len=8, dropout=0.0))
    optimizer = optim.AdamW(net.parameters(), lr=5e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = optim.lr_scheduler.WarmupCosineLR(optimizer, 50, steps, 0.02)
    rng = np.random.default_rng(seed + 1)
    for step in range(1, steps + 1):
        tokens = train[rng.integers(len(train), size=64)]
        seen, labels = hide(tokens, MASK, (3, V), rng, never=(PAD, CLS))
        seen, labels = change(tokens, seen, labels)
        loss = F.cross_entropy(net(seen, mask=mask).reshape(-1, V), labels.reshape(-1), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"   step {step}   loss {loss.item():.3f}")
    return net.eval()


left = mg.tensor(np.tri(8, dtype=bool)[None, None])
print("both sides")
both_sides = trained()
print("left side only")
left_only = trained(left)

# %% [markdown]
# Now hide one word at a time in sentences that neither model has seen, and count the right answers. How many
# could there be at best? The language is small enough to compute that: among all sentences that agree with
# the visible words, take the most frequent word. No reader can do better.


# %%
def found(net, mask=None):
    """Return the share of words found for each position, if only that position is hidden."""
    shares = []
    for place in range(1, 8):
        seen = test.copy()
        seen[:, place] = MASK
        with mg.no_grad():
            guess = net(seen, mask=mask).data[:, place].argmax(-1)
        shares.append((guess == test[:, place]).mean())
    return np.array(shares)


def best_possible(place, visible):
    """Return the share of words that the best reader of the positions `visible` finds at a position."""
    _, context = np.unique(language[:, visible], axis=0, return_inverse=True)
    times = np.zeros((context.max() + 1, V))
    np.add.at(times, (context.ravel(), language[:, place]), 1)
    return times.max(1).sum() / len(language)


places = ["article", "adjective", "subject", "verb", "article 2", "adjective 2", "object"]
best_both = [best_possible(p, [q for q in range(8) if q != p]) for p in range(1, 8)]
best_left = [best_possible(p, list(range(p))) for p in range(1, 8)]
got_both, got_left = found(both_sides), found(left_only, left)
print(f"{'':12s}   both sides, best    left only, best")
for row in zip(places, got_both, best_both, got_left, best_left, strict=True):
    print("{:12s} {:10.0%} {:9.0%} {:10.0%} {:9.0%}".format(*row))
print(
    f"{'mean':12s} {got_both.mean():10.0%} {np.mean(best_both):9.0%} {got_left.mean():10.0%} {np.mean(best_left):9.0%}"
)
assert (got_both[[0, 3, 4]] > 0.97).all() and (got_left[[0, 3, 4]] < 0.6).all()

# %%
figure = Figure(figsize=(7.5, 4), layout="constrained")
axes = figure.add_subplot()
for i, (got, best, colour, name) in enumerate(
    ((got_both, best_both, "#0072B2", "both sides"), (got_left, best_left, "#D55E00", "left side only"))
):
    at = np.arange(7) + 0.4 * i - 0.2
    axes.bar(at, got, 0.36, color=colour, label=f"trained, {name}")
    axes.hlines(
        best, at - 0.18, at + 0.18, color="black", linewidth=2, label="the best possible" if i else None
    )
axes.set_xticks(range(7), places)
axes.set(
    xlabel="the position that is hidden",
    ylabel="share of hidden words found",
    ylim=(0, 1.35),
    yticks=np.arange(0, 1.1, 0.25),
)
axes.set_title("Both sides help exactly where the answer depends on what comes after")
axes.legend(ncols=3, loc="upper center", fontsize=9)
show(
    figure,
    "Share of hidden words found at each position of the sentence, by the same model with both sides and "
    "with the left side only.",
)

# %% [markdown]
# Both models are about as good as possible with the words they see. (A figure above the best possible is
# luck: it is measured on 500 sentences, the best possible on all of them.) At four positions two sides are no
# better than one. For example, nothing in the sentence says which adjective it was, and the verb, which
# decides the object, is to its left. At the other three positions, the articles and the verb, the answer
# depends on later words. On real text this picture is less clear, since there everything depends a little on
# everything.
#
# For real text there is the recipe `mlm`: `python -m minigrad.train mlm` hides characters of Python's manual,
# and afterwards fills in your own questions, such as `th_ val_e`.
#
# ## What 80/10/10 is for
#
# We can test the reason given above. Take sentences *without* any `[MASK]` in which the first article is
# wrong (`two` instead of `an`), and look at the model's prediction at that position. Does it correct the
# mistake, or repeat it? We train four models, 300 steps each, which differ in what they see and what they are
# asked:


# %%
def mended(net):
    """Return the share of first articles that are predicted correctly where the input has a wrong one."""
    seen, articles = test.copy(), [number[word] for word in ("a", "an", "two")]
    seen[:, 1] = [articles[(articles.index(right) + 1) % 3] for right in test[:, 1]]
    with mg.no_grad():
        return (net(seen).data[:, 1].argmax(-1) == test[:, 1]).mean()


def always_mask(tokens, seen, labels):
    return np.where(labels != IGNORED, MASK, tokens), labels


def never_random(tokens, seen, labels):
    return np.where((seen != MASK) & (labels != IGNORED), tokens, seen), labels


def asked_everywhere(tokens, seen, labels):
    return seen, tokens


changes = {
    "80/10/10": as_it_is,
    "always [MASK]": always_mask,
    "80/0/20": never_random,
    "asked everywhere": asked_everywhere,
}
results = {}
for name, change in changes.items():
    print(name)
    net = trained(steps=300, change=change)
    results[name] = found(net).mean(), mended(net)

# %%
for name, (hidden, wrong) in results.items():
    print(f"{name:17s} hidden words found {hidden:.1%}   wrong articles corrected {wrong:.1%}")
assert results["80/10/10"][1] > 0.7 and results["80/0/20"][1] < 0.5 and results["asked everywhere"][1] < 0.5

# %% [markdown]
# All four fill in `[MASK]` about equally well. They differ in how they treat a wrong word. Since this is
# never trained directly, it also depends on chance, so here are the figures of four seeds
# (`trained(seed=...)` repeats them):
#
# | trained with | seed 0 | 1 | 2 | 3 |
# | --- | --- | --- | --- | --- |
# | 80/10/10 | 99 % | 99 % | 88 % | 83 % |
# | always `[MASK]` | 22 % | 8 % | 94 % | 50 % |
# | 80/0/20 | 28 % | 0 % | 5 % | 0 % |
# | asked everywhere | 0 % | 4 % | 0 % | 6 % |
#
# A model trained with random words does not trust the words it reads. Without random words it learns that a
# visible word is always right, and repeats it. Asked everywhere, it learns to copy. Trained on `[MASK]`
# alone, it was never asked at a position with a word, and its answer there is luck. The paper compares such
# shares too (appendix C.2): they hardly matter for fine-tuning, but without fine-tuning the model trained on
# `[MASK]` alone was worse.
#
# ## A vector for a sentence
#
# BERT returns a vector for each token. Often you want one vector for the whole sentence. There are two ways:
#
# - **`[CLS]`**: take the first token's vector, through one more layer and a tanh (`pool`). This position can
#   attend to all others. But masked language modelling never asks anything *there*. The paper trained it with
#   a second task: does one sentence follow the other? Without that task, it becomes useful only in
#   fine-tuning.
# - **Mean pooling**: the mean of the tokens' vectors, **padding left out**.


# %%
def mean_pool(x, real):
    """x (B, T, C), real (B, T) of booleans -> (B, C)."""
    return (x * real[..., None]).sum(1) / real.sum(1, keepdims=True)


with mg.no_grad():
    short = np.concatenate([test[:1, :4], np.full((1, 4), PAD)], 1)  # half a sentence, filled up
    alone, filled = both_sides.encode(test[:1, :4]).data, both_sides.encode(short).data
right, careless = mean_pool(filled, short != PAD), filled.mean(1)
print("right mean equals that of the sentence alone:", np.allclose(right, alone.mean(1), atol=1e-5))
print(
    "a careless mean is off by",
    np.linalg.norm(careless - right).round(2),
    "of a length of",
    np.linalg.norm(right).round(2),
)
assert np.allclose(right, alone.mean(1), atol=1e-5) and np.linalg.norm(careless - right) > 0.1

# %% [markdown]
# ## Fine-tuning, in short
#
# Put a small layer on top, and train *everything* for a few more steps on a task with few labels. Here the
# task is to tell whether a sentence is right, or one article or verb has the wrong form. We have 256 labelled
# sentences, and compare with a model that starts from scratch.


# %%
def spoiled(tokens, rng):
    """Half of the sentences get a wrong article or verb; labels 1 = right, 0 = spoiled."""
    out, right = tokens.copy(), rng.integers(2, size=len(tokens))
    articles = [number[w] for w in ("a", "an", "two")]
    for i in np.flatnonzero(right == 0):
        place = rng.choice([1, 4, 5])
        word = words[out[i, place] - 3]
        turned = number[word[:-1] if word.endswith("s") else word + "s"] if place == 4 else 0
        out[i, place] = turned or rng.choice([a for a in articles if a != out[i, place]])
    return out, right


labelled, fresh = spoiled(train[:256], np.random.default_rng(2)), spoiled(test, np.random.default_rng(3))
for row, ok in list(zip(*labelled, strict=True))[:3]:
    print(f"{spell(row):62s} {'right' if ok else 'spoiled'}")


def fine_tuned(start):
    """Train a copy for 60 steps; return (share of 500 new sentences judged correctly, last training loss)."""
    mg.manual_seed(1)
    net, head = copy.deepcopy(start), nn.Linear(32, 2)
    optimizer = optim.AdamW([*net.parameters(), *head.parameters()], lr=2e-3)
    for _ in range(60):
        loss = F.cross_entropy(head(net.pool(net.encode(labelled[0]))), labelled[1])  # from [CLS]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with mg.no_grad():
        return (head(net.pool(net.encode(fresh[0]))).data.argmax(-1) == fresh[1]).mean(), loss.item()


(from_pretrained, loss), (from_scratch, other_loss) = fine_tuned(both_sides), fine_tuned(model)
print(
    f"judged correctly: {from_pretrained:.1%} after pre-training, {from_scratch:.1%} from scratch, 50% by guessing"
)
print(f"training losses: {loss:.4f} and {other_loss:.4f}")
assert from_pretrained > from_scratch + 0.1

# %% [markdown]
# By then both have almost memorized the 256 sentences. But the first had already learned, without any label,
# which words fit together. It only had to learn the new task. That was BERT's point.
#
# ## Edge cases
#
# - **Nothing is asked.** In a short text it can happen that no position is chosen. The mean over no positions
#   is 0/0. minigrad returns a loss of 0 and a gradient of 0, PyTorch returns NaN. The recipe `mlm` always
#   asks for at least one.
# - **Padding** is never asked for, and no position attends to it. These are two masks with two meanings: one
#   for the loss, one for the attention.
# - **All words hidden**: then the model predicts a likely word for each position. It predicts each of them
#   alone, without knowing the other answers, so the words need not fit together.

# %%
none_asked = np.full((1, 8), IGNORED)
leaf = mg.randn(8, V, requires_grad=True)
loss = F.cross_entropy(leaf, none_asked[0], ignore_index=IGNORED)
loss.backward()
print("nothing asked: loss", loss.item(), " gradient", np.abs(leaf.grad.data).max())
assert loss.item() == 0 and not leaf.grad.data.any()
with mg.no_grad():
    guess = both_sides(np.array([[CLS] + [MASK] * 7])).data[0, :, 3:].argmax(-1) + 3
print("all hidden:", spell(guess[1:]))

# %% [markdown]
# ## Pitfalls
#
# **One number for two decisions.** A much-copied implementation once drew one number `prob` for each token,
# asked for the token if `prob < 0.15`, and then chose `[MASK]` if `prob < prob * 0.8`. That is never true of
# a positive number, and neither is the next condition, so every token took the last branch
# (codertimo/BERT-pytorch, issue 13; since fixed). The model never saw a `[MASK]`, and no error was raised.
# Draw a second number, or divide the first by 0.15. And count the shares, as above:

# %%
prob = np.random.default_rng(0).random(100_000)
prob = prob[prob < 0.15]
print("masked with `prob < prob * 0.8`:  ", (prob < prob * 0.8).mean())
print("masked with `prob < 0.8`:         ", (prob < 0.8).mean())
print("masked with `prob / 0.15 < 0.8`:  ", (prob / 0.15 < 0.8).mean().round(3))
assert (prob < prob * 0.8).sum() == 0 and (prob < 0.8).all() and abs((prob / 0.15 < 0.8).mean() - 0.8) < 0.01

# %% [markdown]
# **0 as the label for "nothing asked".** If the label is 0 where nothing is asked, and the loss ignores 0,
# then the word with id 0 is never asked for and cannot be learned. Its logit is pushed down wherever another
# word was right, and never up. If 0 is padding, this does no harm, until somebody uses a vocabulary in which
# it is a word. A label that is not a token id, such as -100, avoids the problem. In the batch below, 0 is a
# word, and the right one at one position of four:

# %%
words_asked = np.array([0, 1, 2, 3])
slope = {}
for name, ignore in (("ignoring 0", 0), ("ignoring -100", -100)):
    bias = mg.zeros(4, requires_grad=True, dtype=mg.float64)
    F.cross_entropy(mg.zeros(4, 4, dtype=mg.float64) + bias, words_asked, ignore_index=ignore).backward()
    slope[name] = bias.grad.data
    print(f"{name:14s} gradient at the bias of words 0 to 3: {bias.grad.data}")
assert slope["ignoring 0"][0] > 0.2 and np.allclose(slope["ignoring -100"], 0)

# %% [markdown]
# All four words are equally frequent, so equal biases are right and the gradient should be 0. If the loss
# ignores 0, word 0 is pushed down (a positive slope) as long as it has any probability left.
#
# **A loss over all positions.** Then at six of seven positions the model only has to copy its input. The loss
# looks far better, but the model trusts every word it reads: that is the last row of the table above. Where
# nothing is asked, the gradient at the logits must be 0.
#
# **Random replacements that are not words.** Draw them from the ordinary tokens, not from all ids: a `[PAD]`
# in the middle of a sentence would hide that position from all others (here padding is recognized by its id).
#
# **Masking once.** If you draw the masks when the data is prepared and not in each step, the model memorizes
# those few questions. (BERT prepared ten versions of its data. RoBERTa draws new masks each time: Liu et al.
# 2019, section 4.1.)
#
# **Generating text with a BERT.** It can fill a gap. It was not trained to write from left to right, and it
# cannot use a cache to make that cheap: each new token changes the vectors of all tokens before it.
#
# ## Practice questions

# %% [markdown]
# ### Q1. How many of 1,000 tokens are asked for on average? How many of those are masked, replaced, kept?
#
# <details><summary>Answer</summary>
#
# 150 are asked for: 120 masked, 15 replaced and 15 unchanged.
#
# </details>

# %%
# Q1, recomputed
assert [round(1000 * 0.15 * share, 6) for share in (1, 0.8, 0.1, 0.1)] == [150, 120, 15, 15]
print([round(1000 * 0.15 * share) for share in (1, 0.8, 0.1, 0.1)])

# %% [markdown]
# ### Q2. Some code masks 80 % of the chosen positions, then replaces half of the *rest*. Why not 0.1?
#
# <details><summary>Answer</summary>
#
# Because it is a share of the remaining 20 %: $0.2 \cdot 0.5 = 0.1$ of the chosen positions. With 0.1 it
# would be $0.02$.
#
# </details>

# %%
# Q2, recomputed
assert np.isclose(0.2 * 0.5, 0.1) and np.isclose(0.2 * 0.1, 0.02)
print(round(0.2 * 0.5, 6), round(0.2 * 0.1, 6))

# %% [markdown]
# ### Q3. A batch has 32 texts of 128 tokens. On how many predictions does a step train BERT, and GPT?
#
# <details><summary>Answer</summary>
#
# On average $32 \cdot 128 \cdot 0.15 = 614.4$, against $32 \cdot 127 = 4064$ (or 4096, if each window
# includes the token after it). That is the price of looking both ways.
#
# </details>

# %%
# Q3, recomputed
assert np.isclose(32 * 128 * 0.15, 614.4) and 32 * 127 == 4064 and 32 * 128 == 4096
print(32 * 128 * 0.15, 32 * 127)

# %% [markdown]
# ### Q4. In our language, how often does the best reader find the first article, from the left only, and from both sides?
#
# <details><summary>Answer</summary>
#
# From the left the reader sees nothing and guesses `two`, the most frequent article, which is right in half
# of the sentences: 50 %. From both sides it is always right: an `s` at the noun means `two`, otherwise the
# adjective's first letter decides.
#
# </details>

# %%
# Q4, recomputed
assert best_left[0] == 0.5 and best_both[0] == 1.0
print(best_left[0], best_both[0])

# %% [markdown]
# ### Q5. Two of 8 positions are asked; the right tokens get 0.5 and 0.25. The loss? And divided by all 8?
#
# <details><summary>Answer</summary>
#
# $(0.6931 + 1.3863)/2 = 1.0397$. Divided by 8, it is $0.2599$, and all gradients are four times too small.
# The factor differs from batch to batch, since the number of asked positions does.
#
# </details>

# %%
# Q5, recomputed
total = -np.log([0.5, 0.25]).sum()
assert round(total / 2, 4) == 1.0397 and round(total / 8, 4) == 0.2599
print(total / 2, total / 8)

# %% [markdown]
# ### Q6. A sentence of 3 tokens is padded to 8. Which share of the mean over all 8 comes from padding?
#
# <details><summary>Answer</summary>
#
# 5/8 of its terms, 62.5 %. The shorter the sentences, the more alike their careless means become.
#
# </details>

# %%
# Q6, recomputed
real = np.array([[True] * 3 + [False] * 5])
assert (~real).mean() == 0.625
print((~real).mean())

# %% [markdown]
# ## What was left out
#
# - **Next sentence prediction**, the second task of the paper. Later work found that it helps little or even
#   harms (Liu et al. 2019, section 4.2).
# - **Pairs of sentences** with `[SEP]` between them: `types` in `models/bert.py` says which token is in
#   which.
# - **Word pieces** instead of words (lesson 14's byte pair encoding is similar).
# - **Tasks that ask at every position**: in ELECTRA the model judges for each token whether it is original or
#   replaced (Clark et al. 2020).
# - **Vectors whose distances are meaningful**: those of plain BERT hardly are (Reimers and Gurevych 2019).
#
# ## Sources
#
# - Devlin et al. 2019, *BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding*:
#   section 3.1 (masking, 80/10/10, next sentence), 3.2 (fine-tuning), appendix A.1 (an example), C.2 (other
#   shares than 80/10/10).
# - Taylor 1953, *"Cloze Procedure": A New Tool for Measuring Readability*.
# - Liu et al. 2019, *RoBERTa: A Robustly Optimized BERT Pretraining Approach*.
# - Clark et al. 2020, *ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators*.
# - Reimers and Gurevych 2019, *Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks*: mean pooling
#   against `[CLS]`.
#
# ## Exercises
#
# You will write the masking, the loss at the chosen positions and its gradient, mean pooling with its
# gradient, and the accuracy.
#
#     python -m tutorials start 15
