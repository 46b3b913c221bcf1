# %% [markdown]
# # 15 · BERT: filling in what is hidden
#
# *Reading: 35 minutes. Exercises: 45 minutes. Needs: lessons 05, 09, 12, 13, 14.*
#
# A GPT looks left. To *understand* a sentence that is all there, why not look both ways? What can such a model be asked, if it
# sees its own answer, and what is it good for?
#
# **You will be able to:**
#
# - say why next-token prediction and looking both ways exclude each other, and how masking gets around it;
# - mask a batch as BERT does (15 %, of these 80/10/10), and give the reason for each number;
# - derive the loss at the chosen places and its gradient, and name the mistakes that make it silently wrong;
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
# Fill in: `___ orange egg`. You write `an`, and you know it from what comes *after*. Fill in: `two uncles ___ red hats`. It is
# `wear`, since there are two of them (before), and since it is hats (after). A reader who must go from left to right can only
# guess here.
#
# Now try to train a network that sees both sides to predict each token: it sees the token it should predict. So **hide** some
# tokens, and ask for these. That is masked language modelling, the task of BERT (Devlin et al. 2019, section 3.1), a cloze test
# by the thousand (Taylor 1953). The price: only the hidden places teach anything, about one in seven, where a GPT learns at
# every one.
#
# For this lesson, a language so small that we can compute what the *best possible* reader would get: a subject, a verb, an
# object. The article must fit what follows, the verb must fit the number of the subject and the kind of the object.

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
PAD, CLS, MASK = 0, 1, 2  # tokens that are no words
words = sorted({word for sentence in sentences for word in sentence})
number = {word: i + 3 for i, word in enumerate(words)}
V = len(words) + 3
language = np.array([[CLS] + [number[word] for word in sentence] for sentence in sentences])  # (N, 8)
data = np.random.default_rng(0).permutation(language)
train, test = data[500:], data[:500]


def spell(tokens):
    return " ".join({PAD: "[PAD]", CLS: "[CLS]", MASK: "[MASK]"}.get(int(t)) or words[t - 3] for t in tokens)


print(f"{len(language):,} sentences of {len(words)} words; 500 are kept apart, such as")
print(*(spell(row) for row in test[:3]), sep="\n")

# %% [markdown]
# Each begins with `[CLS]`, which stands for the sentence as a whole; we come to it.
#
# ## Definition
#
# Of a text $t_1 \dots t_T$ choose places $A$, each with probability 0.15, never padding or the like. Make $\tilde t$ of it: at
# each chosen place
#
# - with probability 0.8 stands `[MASK]`,
# - with probability 0.1 any ordinary token, drawn at random,
# - with probability 0.1 what stood there before.
#
# The model sees $\tilde t$ and gives logits $(T, V)$; the loss is the mean over the chosen places only:
#
# $$L = -\frac{1}{|A|} \sum_{i \in A} \ln p(t_i \mid \tilde t)$$
#
# **Why not always `[MASK]`?** The token never occurs when the trained model is used, so a model that had learned to do its work
# only there would be of little use (section 3.1 of the paper). With the other 20 % it cannot know at *any* place whether what
# stands there is right, so it must work out every place from its context. Of all tokens, the random ones are only
# $0.15 \cdot 0.1 = 0.015$, too few to spoil the text.
#
# The model (`models/bert.py`): three embeddings are added, of the token, of its position (learned), and of its type (in a pair
# of sentences, the first or the second); a norm; then the encoder layers of lesson 13 with GELU, post-norm. The output is the
# embedding table again, behind one more small layer.

# %%
model = quick_start(BERT(V, d_model=32, num_heads=4, num_layers=2, d_ff=64, max_len=8, dropout=0.0))
print(viz.trace_forward(model, test[:1]).text(depth=1).split("\n\n")[0])

# %% [markdown]
# $(1, 8)$ numbers in, $(1, 8, 32)$ all the way, $(1, 8, 44)$ logits out. There is no causal mask: all places see all places but
# padding. (`quick_start` sets first values that let a model as small as this learn in seconds.)
#
# ## A worked example by hand
#
# Five tokens, and for each two random numbers from 0 to 1: one decides whether it is asked for (below 0.15), the other what
# becomes of it.
#
# | token | first number | asked? | second number | the model sees |
# | --- | --- | --- | --- | --- |
# | `[CLS]` | 0.02 | no, never | | `[CLS]` |
# | an | 0.10 | yes | 0.30, below 0.8 | `[MASK]` |
# | old | 0.60 | no | | old |
# | uncle | 0.14 | yes | 0.85, from 0.8 to 0.9 | a random word, say `cake` |
# | eats | 0.07 | yes | 0.95, above 0.9 | eats |
#
# It is asked three questions. Say it gives the right words the probabilities 0.5, 0.125 and 0.25. The loss is
# $(0.6931 + 2.0794 + 1.3863)/3 = 1.3863$. The places that were not asked play no part.


# %%
def mask_tokens(tokens, first, second, random_tokens, never=(PAD, CLS)):
    """(what the model sees, what it is asked), where nothing is asked IGNORED; all arrays are (B, T)."""
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
# `hide` in `models/bert.py` is the same and draws the numbers itself. Over many tokens the shares come out:

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
# For one place, lesson 05 gave $\partial(-\ln p_c)/\partial z = p - e_c$, with $e_c$ the one-hot vector of the right token $c$.
# Here the loss is a sum over $i \in A$, divided by $|A|$, and place $i$'s logits appear in place $i$'s term only. So
#
# $$\frac{\partial L}{\partial z_i} = \frac{1}{|A|} (p_i - e_{t_i}) \quad \text{for } i \in A,$$
#
# $$\frac{\partial L}{\partial z_i} = 0 \quad \text{elsewhere.}$$
#
# The zeros are at the *logits* only. In the layers below, the places that were not asked do get gradients, from the hidden
# places that looked at them: that is how the context learns to be useful.


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
# What was derived; that `F.cross_entropy` with `ignore_index` says the same; and a whole small BERT.

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
# And the sentence about the layers below: ask at one place, and look at the gradient at each token's vector.

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
print(spell(test[0]), "\nasked at place 4 only; gradient at each place:", reach)
assert (reach > 0).all()

# %% [markdown]
# ## Training: both sides, and the left side only
#
# The same model, the same data, the same masks, twice: once as it is, once with the causal mask of lesson 09, so that each
# place sees itself and what is to its left. The second is a GPT that is asked BERT's questions.


# %%
def as_it_is(tokens, seen, labels):
    return seen, labels


def trained(mask=None, steps=500, change=as_it_is, seed=0):
    """A BERT after so many steps; mask: who may look at whom; change: of what is seen and asked, for experiments below."""
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
# Now hide one word at a time in sentences that neither has seen, and count. What could be had at best? The language is small
# enough to look: of all sentences that agree with what can be seen, take the most frequent word. No reader does better.


# %%
def found(net, mask=None):
    """The share of words found, for each place, when it alone is hidden."""
    shares = []
    for place in range(1, 8):
        seen = test.copy()
        seen[:, place] = MASK
        with mg.no_grad():
            guess = net(seen, mask=mask).data[:, place].argmax(-1)
        shares.append((guess == test[:, place]).mean())
    return np.array(shares)


def best_possible(place, visible):
    """What the best reader finds at a place who sees the places `visible`, over the whole language."""
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
    xlabel="the place that is hidden",
    ylabel="share of hidden words found",
    ylim=(0, 1.35),
    yticks=np.arange(0, 1.1, 0.25),
)
axes.set_title("Both sides help exactly where the answer depends on what comes after")
axes.legend(ncols=3, loc="upper center", fontsize=9)
show(
    figure,
    "Share of hidden words found at each place of the sentence, by the same model with both sides and with the left side only.",
)

# %% [markdown]
# Both models are about as good as anybody can be with what they see. (A figure above the best possible is luck: it is counted
# on 500 sentences, the best on all of them.) At four places the two sides are no better than one: nothing in the sentence tells
# which adjective it was. (For the object: the verb stands to its left.) At the other three, the articles and the verb, what
# decides comes after. A test on real text blurs this picture, since there everything depends a little on everything.
#
# On real text it is the recipe `mlm`: `python -m minigrad.train mlm` hides characters of Python's manual and fills in your own
# questions afterwards, such as `th_ val_e`.
#
# ## What 80/10/10 is for
#
# The reason given above can be tested. Take sentences *without* any `[MASK]` in which the first article is wrong (`two`, where
# `an` should be), and look at what the model says at that place. Does it see the mistake, or repeat it? Four models, 300 steps
# each, which differ in what they saw and were asked in training:


# %%
def mended(net):
    """The share of first articles that are named rightly, where another article stands."""
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
    print(f"{name:17s} hidden words found {hidden:.1%}   wrong articles mended {wrong:.1%}")
assert results["80/10/10"][1] > 0.7 and results["80/0/20"][1] < 0.5 and results["asked everywhere"][1] < 0.5

# %% [markdown]
# All four fill in `[MASK]` about equally well. What they make of a wrong word is another matter, and since it is never asked
# for directly, it depends on chance too. So here are the figures of four seeds (`trained(seed=...)` repeats them):
#
# | trained with | seed 0 | 1 | 2 | 3 |
# | --- | --- | --- | --- | --- |
# | 80/10/10 | 99 % | 99 % | 88 % | 83 % |
# | always `[MASK]` | 22 % | 8 % | 94 % | 50 % |
# | 80/0/20 | 28 % | 0 % | 5 % | 0 % |
# | asked everywhere | 0 % | 4 % | 0 % | 6 % |
#
# A model that has met wrong words where it could not know it doubts what it reads. Without the random words it learns that a
# word which stands there is right, and repeats it; asked everywhere, it copies. Trained on `[MASK]` alone it was never asked at
# a place with a word in it, and what it says there is luck. The paper compares such shares too (appendix C.2): fine-tuning
# hardly minds them, but used without fine-tuning, the model trained on `[MASK]` alone was worse.
#
# ## A vector for a sentence
#
# BERT's output is a vector for each token. For a sentence one wants one vector. Two ways:
#
# - **`[CLS]`**: take the first token's vector, through one more layer and a tanh (`pool`). It is a place like the others, which
#   can gather what it likes. But masked language modelling never asks anything *there*. The paper trained it by a second task,
#   whether one sentence follows the other. Without that, it becomes useful only in fine-tuning.
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
# Put a small layer on top and train *everything* on for a few steps, on the task you have few labels for. Here: is a sentence
# right, or has one article or verb got the wrong form? 256 labelled sentences; the same with a model that starts from scratch.


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
    """(the share of 500 new sentences judged rightly, the last training loss) after 60 steps from a model."""
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
    f"judged rightly: {from_pretrained:.1%} after pre-training, {from_scratch:.1%} from scratch, 50% by guessing"
)
print(f"training losses: {loss:.4f} and {other_loss:.4f}")
assert from_pretrained > from_scratch + 0.1

# %% [markdown]
# By then both know the 256 sentences nearly by heart. But the first had learned, without any label, what goes together, and
# only had to be told what is wanted. That was BERT's point.
#
# ## Edge cases
#
# - **Nothing is asked.** In a short text no place may be chosen. The mean over no places is 0/0. minigrad gives a loss of 0 and
#   a gradient of 0, PyTorch gives NaN; the recipe `mlm` makes sure that one place is asked.
# - **Padding** is never asked for, and nobody looks at it. These are two masks with two meanings: one for the loss, one for the
#   attention.
# - **All words hidden**: then the model says at each place what is likely there. Each place is answered alone, without knowing
#   what is put into the others, so the words need not fit together.

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
# **One number for two decisions.** A much-copied implementation once drew one number `prob` per token, asked if `prob < 0.15`,
# and then chose `[MASK]` if `prob < prob * 0.8`, which is never true of a positive number; nor is the next condition, so all
# went to the last branch (codertimo/BERT-pytorch, issue 13; it was mended). The model never saw a `[MASK]`, and no error was
# raised. Draw a second number, or divide the first by 0.15. And count the shares, as above:

# %%
prob = np.random.default_rng(0).random(100_000)
prob = prob[prob < 0.15]
print("masked with `prob < prob * 0.8`:  ", (prob < prob * 0.8).mean())
print("masked with `prob < 0.8`:         ", (prob < 0.8).mean())
print("masked with `prob / 0.15 < 0.8`:  ", (prob / 0.15 < 0.8).mean().round(3))
assert (prob < prob * 0.8).sum() == 0 and (prob < 0.8).all() and abs((prob / 0.15 < 0.8).mean() - 0.8) < 0.01

# %% [markdown]
# **0 as the mark for "nothing asked".** If labels are 0 where nothing is asked, and the loss ignores 0, then the word with
# number 0 is never asked for, and cannot be learned: it is pushed down at every place where another word was right, and never
# up. Where 0 is padding this does no harm, until somebody uses a vocabulary in which it is a word. A mark that is no token
# number, -100, costs nothing. Below, a batch in which 0 is a word and right in one place of four; the gradient at its logit:

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
# With all four words equally frequent, equal biases are right, and the gradient should be 0. Ignoring 0, word 0 is pushed down
# (a positive slope) for as long as it has any probability left.
#
# **A loss over all places.** Then six of seven questions are to copy what stands there. The loss looks far better, and the
# doubt is gone: that is the last row of the table above. Where nothing is asked, the gradient at the logits must be 0.
#
# **Random replacements that are no words.** Draw them from the ordinary tokens, not from all numbers: `[PAD]` in the middle of
# a sentence would hide that place from everybody (here padding is known by its number).
#
# **Masking once.** If the masks are drawn when the data is prepared and not in each step, the model learns those few questions
# by heart. (BERT prepared ten versions of its data; RoBERTa draws anew each time: Liu et al. 2019, section 4.1.)
#
# **Asking a BERT to write.** It can fill a hole. For text from left to right it was not trained, and has no cache to make it
# cheap: each new token changes the vectors of all before it.
#
# ## Practice questions

# %% [markdown]
# ### Q1. Of 1,000 tokens, how many are on average asked for; and of these masked, replaced, left as they are?
#
# <details><summary>Answer</summary>
#
# 150; of these 120, 15 and 15.
#
# </details>

# %%
# Q1, recomputed
assert [round(1000 * 0.15 * share, 6) for share in (1, 0.8, 0.1, 0.1)] == [150, 120, 15, 15]
print([round(1000 * 0.15 * share) for share in (1, 0.8, 0.1, 0.1)])

# %% [markdown]
# ### Q2. Some code masks 80 % of the chosen places, then replaces half of the *rest*. Why half, and not 0.1?
#
# <details><summary>Answer</summary>
#
# It is a share of what is left: $0.2 \cdot 0.5 = 0.1$ of the chosen places. With 0.1 it would be $0.02$.
#
# </details>

# %%
# Q2, recomputed
assert np.isclose(0.2 * 0.5, 0.1) and np.isclose(0.2 * 0.1, 0.02)
print(round(0.2 * 0.5, 6), round(0.2 * 0.1, 6))

# %% [markdown]
# ### Q3. A batch of 32 texts of 128 tokens. How many predictions does a step of BERT train, and how many a step of GPT?
#
# <details><summary>Answer</summary>
#
# On average $32 \cdot 128 \cdot 0.15 = 614.4$, against $32 \cdot 127 = 4064$ (or 4096, if each window brings the token after it
# along). That is the price of looking both ways.
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
# From the left there is nothing to see, and `two` is the most frequent, in half of the sentences: 50 %. From both sides always:
# an `s` at the noun means `two`, else the adjective's first letter decides.
#
# </details>

# %%
# Q4, recomputed
assert best_left[0] == 0.5 and best_both[0] == 1.0
print(best_left[0], best_both[0])

# %% [markdown]
# ### Q5. Two of 8 places are asked; the right tokens get 0.5 and 0.25. What is the loss? And divided by all 8?
#
# <details><summary>Answer</summary>
#
# $(0.6931 + 1.3863)/2 = 1.0397$. Divided by 8: $0.2599$, and all gradients are four times too small, more or less from batch to
# batch, as more or fewer places are asked.
#
# </details>

# %%
# Q5, recomputed
total = -np.log([0.5, 0.25]).sum()
assert round(total / 2, 4) == 1.0397 and round(total / 8, 4) == 0.2599
print(total / 2, total / 8)

# %% [markdown]
# ### Q6. A sentence of 3 tokens is padded to 8. The mean over all 8 vectors: which share of it comes from padding?
#
# <details><summary>Answer</summary>
#
# 5/8 of its terms, 62.5 %. And the more sentences there are that are short, the more alike all careless means become.
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
# The second task of the paper, next sentence prediction, which later work found to do little or harm (Liu et al. 2019, section
# 4.2). Pairs of sentences with `[SEP]` between them: `types` in `models/bert.py` tells which is which. Word pieces instead of
# words (lesson 14's byte pair encoding is a cousin). Other tasks that ask at every place: ELECTRA has each token judged right
# or replaced (Clark et al. 2020). Vectors whose distance means something, which plain BERT's hardly do (Reimers and Gurevych
# 2019).
#
# ## Sources
#
# - Devlin et al. 2019, *BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding*: section 3.1
#   (masking, 80/10/10, next sentence), 3.2 (fine-tuning), appendix A.1 (an example), C.2 (other shares than 80/10/10).
# - Taylor 1953, *"Cloze Procedure": A New Tool for Measuring Readability*.
# - Liu et al. 2019, *RoBERTa: A Robustly Optimized BERT Pretraining Approach*.
# - Clark et al. 2020, *ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators*.
# - Reimers and Gurevych 2019, *Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks*: mean pooling against `[CLS]`.
#
# ## Exercises
#
# You will write the masking, the loss at the chosen places and its gradient, mean pooling with its gradient, and the measure.
#
#     python -m tutorials start 15
