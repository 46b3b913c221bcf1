"""Decoding: choose one token after another, greedily, by sampling or by beam search, from any model's logits.

A subclass of Rows is continued: Prompts below for decoder-only models, models.transformer.Translation for
the encoder-decoder, models.recurrent.Writing for the recurrent encoder-decoder.
"""

import contextlib
import numbers
import warnings

import numpy as np

from minigrad import Tensor, no_grad, random
from minigrad.data import padded

# ---------------------------------------------------------------- rows to continue


class Rows:
    """Rows of tokens (R, T) that a model continues; after its end a row is filled with `pad`.

    A subclass defines logits() -> (R, V) of each row's next token, and extends select() to its other state.
    """

    def __init__(self, model, tokens, pad):
        self.model, self.modules, self.tokens, self.pad = model, list(model.modules()), tokens, pad

    def append(self, tokens):
        """Append one token (R,) to each row."""
        self.tokens = np.concatenate([self.tokens, tokens[:, None]], 1)

    def select(self, rows):
        """Keep these rows, in this order."""
        self.tokens = self.tokens[rows]

    def history(self):
        """The tokens of each row, without padding."""
        return [row[row != self.pad] for row in self.tokens]

    def evaluating(self):
        """model.evaluating(), at no cost if the model is in evaluation already: entered at every token."""
        training = any(module.training for module in self.modules)
        return self.model.evaluating() if training else contextlib.nullcontext()


class Prompts(Rows):
    """Rows of tokens that a decoder-only model continues.

    prompts   lists of token ids; shorter ones are padded on the left. Nothing attends to the padding, and it
              takes no positions
    cache     keep keys and values, so that each step computes only the new token; the logits are the same

    Beyond the model's context only the last max_len tokens count, at positions 0 .. max_len - 1. Their cached
    keys and values belong to other positions and depend on dropped tokens, so each step recomputes them all.
    """

    def __init__(self, model, prompts, cache=True):
        prompts = [_prompt(p) for p in prompts]
        lengths = np.array([len(p) for p in prompts])
        if not len(prompts) or lengths.min() == 0:
            raise ValueError("There is nothing to continue: a prompt needs at least one token.")
        for prompt in prompts:
            if prompt.dtype.kind not in "iu":
                raise TypeError(f"A prompt is a list of token ids, which are integers, got {prompt.dtype}.")
        if lengths.max() > model.max_len:
            warnings.warn(
                f"a prompt of {lengths.max()} tokens is longer than the context; "
                f"the model sees the last {model.max_len} of it.",
                stacklevel=3,
            )
        super().__init__(model, padded([p[::-1] for p in prompts])[:, ::-1].astype(int), pad=0)
        self.padded = lengths.max() - lengths  # (R,): the number of padding positions on the left
        self.cache = model.new_cache() if cache and self.tokens.shape[1] <= model.max_len else None

    @no_grad()
    def logits(self):
        """The logits (R, V) of each row's next token."""
        T = self.tokens.shape[1]
        first = max(T - self.model.max_len, 0)  # the first token inside the context
        begin = self.cache[0].length if self.cache else first  # the first token that is not in the cache
        positions, mask = np.arange(begin - first, T - first), None
        if self.padded.any():
            skipped = np.maximum(self.padded - first, 0)[:, None]  # (R, 1)
            positions = np.maximum(positions - skipped, 0)  # padding may have any position: nothing sees it
            mask = Tensor((np.arange(T - first) >= skipped)[:, None, None, :])
        with self.evaluating():
            return self.model(self.tokens[:, begin:], mask, positions, self.cache, last=True).data[:, -1]

    def append(self, tokens):
        super().append(tokens)
        if self.tokens.shape[1] > self.model.max_len:
            self.cache = None

    def select(self, rows):
        super().select(rows)
        self.padded = self.padded[rows]
        for layer in self.cache or ():
            layer.select(rows)

    def history(self):
        return [row[skipped:] for row, skipped in zip(self.tokens, self.padded, strict=True)]


def _prompt(tokens):
    """Convert one prompt to an array (T,).

    Raises ValueError for a bare number (a flat list that was meant as one prompt) and for several rows."""
    tokens = np.asarray(tokens.data if isinstance(tokens, Tensor) else tokens)
    if tokens.ndim == 0:
        raise ValueError(
            f"Prompts are lists of token ids, a list for each prompt, got the number {tokens}; "
            "one prompt alone is [[1, 2, 3]]."
        )
    if tokens.ndim > 1 and tokens.size != tokens.shape[-1]:
        raise ValueError(
            f"A prompt is a list of token ids, got an array of shape {tokens.shape}; "
            "pass several prompts to generate, one in each row."
        )
    return tokens.reshape(-1)


# ---------------------------------------------------------------- choosing a token


class Sampler:
    """Chooses one token for each row: __call__(logits (R, V), rows) -> (R,). Applies in this order:

    repetition_penalty   above 1: tokens in the row become less likely (Keskar et al. 2019, section 4.1)
    temperature          divides the logits: below 1 sharpens, above 1 flattens; 0 takes the likeliest token
    top_k                keep the k likeliest tokens
    top_p                keep the likeliest tokens that together reach this probability (Holtzman et al. 2020)
    seed                 the same seed draws the same. Row i has a random stream of its own, which depends on
                         i, not on other rows: a prompt that moves to another row draws differently
    """

    def __init__(self, temperature=1.0, top_k=None, top_p=None, repetition_penalty=1.0, seed=None):
        _check(temperature, top_k, top_p, repetition_penalty, seed)
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self.repetition_penalty = repetition_penalty
        self.seed, self.streams = seed, {}

    def __call__(self, logits, rows=None):
        if self.temperature == 0 and self.repetition_penalty == 1:
            return likeliest(logits)
        logits = logits.astype(np.float64)
        _check_logits(logits.max(-1))
        if self.repetition_penalty != 1:
            for row, seen in zip(logits, rows.history(), strict=True):
                seen = np.unique(seen)
                row[seen] = np.where(
                    row[seen] > 0, row[seen] / self.repetition_penalty, row[seen] * self.repetition_penalty
                )
        if self.temperature == 0:
            return likeliest(logits)
        order, p = self.distribution(logits)
        drawn = np.array([self._uniform(row) for row in range(len(p))])[:, None]
        reached = np.cumsum(p, -1)
        rank = (reached <= drawn * reached[:, -1:]).sum(-1)
        return order[np.arange(len(order)), np.minimum(rank, (p > 0).sum(-1) - 1)]

    def distribution(self, logits):
        """(order, p): tokens (R, V) from likely to unlikely, and the probabilities to draw them with."""
        order = np.argsort(-logits, -1, kind="stable")
        sorted_logits = np.take_along_axis(logits, order, -1)
        # the likeliest token has 0 at any temperature
        below = np.where(sorted_logits == -np.inf, 0, sorted_logits - sorted_logits[:, :1])
        # forbidden tokens (-inf) stay forbidden
        p = np.where(sorted_logits == -np.inf, 0, np.exp(below / self.temperature))
        p[:, self.top_k or p.shape[1] :] = 0
        p /= p.sum(-1, keepdims=True)
        if self.top_p is not None:
            # drop a token if those before it reach top_p already; the likeliest always stays
            p[np.cumsum(p, -1) - p >= self.top_p] = 0
            p /= p.sum(-1, keepdims=True)
        return order, p

    def _uniform(self, row):
        if self.seed is None:
            return random.stream("sampling").random()
        if row not in self.streams:
            self.streams[row] = random.fresh("sampling", self.seed, row)
        return self.streams[row].random()


def likeliest(logits):
    """The token (R,) with the largest of the logits (R, V)."""
    _check_logits(logits.max(-1))
    return logits.argmax(-1)


def _check_logits(largest):
    if not (largest > -np.inf).all():
        raise ValueError(
            "The logits of a row are NaN, or allow no token at all; do the model's weights contain a NaN?"
        )


def _check(temperature, top_k, top_p, repetition_penalty, seed):
    if not temperature >= 0:
        raise ValueError(
            f"temperature must be a number from 0 (which takes the likeliest token), got {temperature}."
        )
    if top_k is not None and (not isinstance(top_k, numbers.Integral) or top_k < 1):
        raise ValueError(
            f"top_k, the number of tokens left to choose from, must be an integer from 1, got {top_k}."
        )
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is a probability above 0, at most 1, got {top_p}.")
    if not 0 < repetition_penalty < np.inf:
        raise ValueError(f"repetition_penalty must be positive (1 is none), got {repetition_penalty}.")
    if seed is not None and (not isinstance(seed, numbers.Integral) or seed < 0):
        raise ValueError(f"seed must be an integer from 0, got {seed}.")


greedy = Sampler(temperature=0)

# ---------------------------------------------------------------- one token after another


def steps(rows, choose=greedy, max_new=100, stop=()):
    """Yield tokens (R,) step by step until every row has a token of `stop`, at most max_new.

    After its stop token a row gets pad."""
    done, stop = np.zeros(len(rows.tokens), bool), np.asarray(stop, dtype=int)
    for _ in range(max_new):
        token = choose(rows.logits(), rows)
        if stop.size:
            token = np.where(done, rows.pad, token)
            yield token
            done |= (token[:, None] == stop).any(1)
            if done.all():
                return
        else:
            yield token
        rows.append(token)


def answers(rows, eos, max_new, beams=1, length_penalty=0.6):
    """Continue each row greedily or by beam search: (R, <= max_new), filled with pad after each eos."""
    if beams == 1:
        return np.array([*steps(rows, greedy, max_new, (eos,))], dtype=int).T.reshape(len(rows.tokens), -1)
    return padded(beam_search(rows, beams, max_new, (eos,), length_penalty)[0], rows.pad)


def generate(model, prompts, max_new=100, stop=(), cache=True, **sampling):
    """Continue each prompt. Returns lists of new tokens without stop tokens. `sampling`: see Sampler."""
    stop = np.atleast_1d(np.asarray(stop, dtype=int))
    columns = steps(Prompts(model, prompts, cache), Sampler(**sampling), max_new, stop)
    table = np.array([*columns]).T  # (R, <= max_new)
    return [until(row, stop) for row in table.reshape(len(prompts), -1)]


def stream(model, prompt, max_new=100, stop=(), cache=True, **sampling):
    """Yield the tokens that continue one prompt, each as soon as it is chosen."""
    stop = np.atleast_1d(np.asarray(stop, dtype=int))
    for (token,) in steps(Prompts(model, [prompt], cache), Sampler(**sampling), max_new, stop):
        if token in stop:
            return
        yield int(token)


def until(row, stop):
    """The tokens before the first token of `stop`, as a list."""
    at = np.flatnonzero(np.isin(row, stop))
    return row[: at[0] if len(at) else None].tolist()


# ---------------------------------------------------------------- beam search


def beam_search(rows, beams=4, max_new=100, stop=(), length_penalty=0.6):
    """Find a likely continuation of each row. Returns lists of tokens, with stop tokens, and scores (R,).

    Each step keeps the `beams` likeliest partial continuations. The score of a finished one is its log
    probability divided by ((5 + length) / 6)^length_penalty, else short ones would win (Wu et al. 2016,
    equation 14). A row is settled when as many have finished as there are beams; one beam is greedy decoding.
    """
    if not hasattr(rows, "logits"):
        raise TypeError(
            f"beam_search continues rows of tokens, got a {type(rows).__name__}; for a decoder-only model "
            "pass Prompts(model, [[1, 2, 3]]), an encoder-decoder has generate(src, bos, eos, beams=4)."
        )
    if beams < 1:
        raise ValueError(f"beam search needs at least one beam, got {beams}.")
    R, start, stop = len(rows.tokens), rows.tokens.shape[1], np.atleast_1d(np.asarray(stop, dtype=int))
    searches = [Beams(beams, stop, length_penalty) for _ in range(R)]
    rows.select(np.repeat(np.arange(R), beams))
    for _ in range(max_new):
        log_p = _log_softmax(rows.logits()).reshape(R, beams, -1)  # (R, K, V)
        written = rows.tokens[:, start:].reshape(R, beams, -1)
        chosen = [search.advance(log_p[r], written[r]) for r, search in enumerate(searches)]
        rows.select(np.concatenate([r * beams + beam for r, (beam, _) in enumerate(chosen)]))
        rows.append(np.concatenate([token for _, token in chosen]))
        if all(search.settled for search in searches):
            break
    written = rows.tokens[:, start:].reshape(R, beams, -1)
    best = [search.best(written[r]) for r, search in enumerate(searches)]
    return [tokens for tokens, _ in best], np.array([score for _, score in best])


class Beams:
    """The search of one row: the log probabilities of its open beams, and the finished beams with scores."""

    def __init__(self, count, stop, length_penalty):
        self.count, self.stop, self.length_penalty, self.finished = count, stop, length_penalty, []
        self.log_p = np.full(count, -np.inf)
        self.log_p[0] = 0  # at first all beams are equal: only one counts

    @property
    def settled(self):
        return len(self.finished) >= self.count

    def score(self, log_p, length):
        return log_p / ((5 + length) / 6) ** self.length_penalty

    def advance(self, log_p, written):
        """log_p (K, V) of the next tokens, written (K, T) -> (beams to continue (K,), the token for each)."""
        total = (self.log_p[:, None] + log_p).reshape(-1)  # (K V,)
        # enough candidates for K to continue even if each beam stops at every stop token
        likeliest = np.argsort(-total, kind="stable")[: self.count * (1 + len(self.stop))]
        beam, token = np.divmod(likeliest, log_p.shape[1])
        ends = np.isin(token, self.stop)
        for i in np.flatnonzero(ends[: self.count]):
            if not self.settled and total[likeliest[i]] > -np.inf:
                tokens = [*written[beam[i]].tolist(), int(token[i])]
                self.finished.append((tokens, self.score(total[likeliest[i]], len(tokens))))
        open_beams = np.flatnonzero(~ends)[: self.count]
        self.log_p = np.full(self.count, -np.inf)  # fewer than K continue if the vocabulary is smaller
        self.log_p[: len(open_beams)] = total[likeliest[open_beams]]
        fill = np.resize(open_beams, self.count) if len(open_beams) else np.zeros(self.count, int)
        return beam[fill], token[fill]

    def best(self, written):
        """(tokens, score) of the best finished beam; open beams compete if fewer than K have finished."""
        found = list(self.finished)
        if not self.settled:
            found += [
                (row.tolist(), self.score(p, len(row))) for row, p in zip(written, self.log_p, strict=True)
            ]
        return max(found, key=lambda pair: pair[1])


def _log_softmax(logits):
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))
