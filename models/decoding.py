"""Choosing tokens one after another: greedy, by chance, by beams. Knows logits and rows of tokens; not which model they come from.

What is continued is a subclass of Rows: Prompts below for decoder-only models, models.transformer.Translation for the
encoder-decoder, models.recurrent.Writing for the one on recurrent layers.
"""

import contextlib
import numbers
import warnings

import numpy as np

from minigrad import Tensor, no_grad, random
from minigrad.data import padded

# ---------------------------------------------------------------- what is continued


class Rows:
    """Rows of tokens (R, T) that a model is writing; after its end a row gets `pad`.

    A subclass defines logits() -> (R, V) of each row's next token, and selects what else it holds for each row.
    """

    def __init__(self, model, tokens, pad):
        self.model, self.modules, self.tokens, self.pad = model, list(model.modules()), tokens, pad

    def append(self, tokens):
        """One more token (R,) for each row."""
        self.tokens = np.concatenate([self.tokens, tokens[:, None]], 1)

    def select(self, rows):
        """Go on with these rows, in this order."""
        self.tokens = self.tokens[rows]

    def history(self):
        """For each row the tokens it holds, without padding."""
        return [row[row != self.pad] for row in self.tokens]

    def evaluating(self):
        """model.evaluating(), for a block entered at every token: usually there is nothing to switch."""
        training = any(module.training for module in self.modules)
        return self.model.evaluating() if training else contextlib.nullcontext()


class Prompts(Rows):
    """Rows of tokens that a decoder-only model continues.

    prompts   lists of token numbers; shorter ones are padded on the left, which nothing attends to and no position counts
    cache     keep keys and values, so that each step computes the new token only. The logits are the same without.

    Beyond the model's context the last max_len tokens count, moved to positions 0 .. max_len - 1: what was cached of them is
    then of no use, as it was computed at other positions and from tokens now forgotten, so each step computes all anew.
    """

    def __init__(self, model, prompts, cache=True):
        prompts = [_prompt(p) for p in prompts]
        lengths = np.array([len(p) for p in prompts])
        if not len(prompts) or lengths.min() == 0:
            raise ValueError("There is nothing to continue: a prompt needs at least one token.")
        for prompt in prompts:
            if prompt.dtype.kind not in "iu":
                raise TypeError(f"A prompt is a list of token numbers, which are whole, got {prompt.dtype}.")
        if lengths.max() > model.max_len:
            warnings.warn(f"a prompt of {lengths.max()} tokens is longer than the context; the model sees the last {model.max_len} of it.", stacklevel=3)  # fmt: skip
        super().__init__(model, padded([p[::-1] for p in prompts])[:, ::-1].astype(int), pad=0)
        self.padded = lengths.max() - lengths  # (R,): so many places of a row, on its left, are padding
        self.cache = model.new_cache() if cache and self.tokens.shape[1] <= model.max_len else None

    @no_grad()
    def logits(self):
        """(R, V) of each row's next token."""
        T = self.tokens.shape[1]
        first = max(T - self.model.max_len, 0)  # the first that is still seen
        begin = self.cache[0].length if self.cache else first  # the first that is not in the cache
        positions, mask = np.arange(begin - first, T - first), None
        if self.padded.any():
            skipped = np.maximum(self.padded - first, 0)[:, None]  # (R, 1)
            positions = np.maximum(positions - skipped, 0)  # padding may stand anywhere: nothing sees it
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
    """One prompt as an array (T,); a sentence for a bare number, which may be a flat list meant as one prompt, and for several."""
    tokens = np.asarray(tokens.data if isinstance(tokens, Tensor) else tokens)
    if tokens.ndim == 0:
        raise ValueError(
            f"Prompts are lists of token numbers, a list for each prompt, got the number {tokens}; one prompt alone is [[1, 2, 3]]."
        )
    if tokens.ndim > 1 and tokens.size != tokens.shape[-1]:
        raise ValueError(
            f"A prompt is a list of token numbers, got an array of shape {tokens.shape}; several prompts are given to generate, one each row."
        )
    return tokens.reshape(-1)


# ---------------------------------------------------------------- choosing a token


class Sampler:
    """Chooses one token for each row: __call__(logits (R, V), rows) -> (R,). Applied in this order:

    repetition_penalty   above 1: what the row holds already becomes less likely (Keskar et al. 2019, section 4.1)
    temperature          logits are divided by it: below 1 bolder, above 1 more even; 0 takes the likeliest
    top_k                only the k likeliest
    top_p                only the likeliest that together reach this probability (Holtzman et al. 2020)
    seed                 the same seed draws the same. Row i has random numbers of its own, told by i alone: whatever stands
                         beside it, but a prompt that moves to another row of the batch gets others
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
        place = (reached <= drawn * reached[:, -1:]).sum(-1)
        return order[np.arange(len(order)), np.minimum(place, (p > 0).sum(-1) - 1)]

    def distribution(self, logits):
        """(order, p): tokens (R, V) from likely to unlikely, and the probabilities they are drawn with."""
        order = np.argsort(-logits, -1, kind="stable")
        sorted_logits = np.take_along_axis(logits, order, -1)
        # the likeliest is 0 whatever the temperature
        below = np.where(sorted_logits == -np.inf, 0, sorted_logits - sorted_logits[:, :1])
        # and what is forbidden stays so
        p = np.where(sorted_logits == -np.inf, 0, np.exp(below / self.temperature))
        p[:, self.top_k or p.shape[1] :] = 0
        p /= p.sum(-1, keepdims=True)
        if self.top_p is not None:
            # those before it reach it already; the likeliest always stays
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
            "The logits of a row are NaN, or allow no token at all; were the model's weights trained without a NaN?"
        )


def _check(temperature, top_k, top_p, repetition_penalty, seed):
    if not temperature >= 0:
        raise ValueError(
            f"temperature must be a number that is not negative (0 takes the likeliest token), got {temperature}."
        )
    if top_k is not None and (not isinstance(top_k, numbers.Integral) or top_k < 1):
        raise ValueError(
            f"top_k is how many tokens are left to choose from, a whole number from 1, got {top_k}."
        )
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is a probability above 0, at most 1, got {top_p}.")
    if not 0 < repetition_penalty < np.inf:
        raise ValueError(f"repetition_penalty must be positive (1 is none), got {repetition_penalty}.")
    if seed is not None and (not isinstance(seed, numbers.Integral) or seed < 0):
        raise ValueError(f"seed must be a whole number from 0, got {seed}.")


greedy = Sampler(temperature=0)

# ---------------------------------------------------------------- one token after another


def steps(rows, choose=greedy, max_new=100, stop=()):
    """Yields (R,) tokens, step by step, until every row has said a token of `stop`, or max_new. After its stop a row gets pad."""
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
    """What each row is continued with, greedily or by beam search: (R, <= max_new), filled with pad after each eos."""
    if beams == 1:
        return np.array([*steps(rows, greedy, max_new, (eos,))], dtype=int).T.reshape(len(rows.tokens), -1)
    return padded(beam_search(rows, beams, max_new, (eos,), length_penalty)[0], rows.pad)


def generate(model, prompts, max_new=100, stop=(), cache=True, **sampling):
    """For each prompt the list of tokens that follow, up to and without its stop token. `sampling`: see Sampler."""
    stop = np.atleast_1d(np.asarray(stop, dtype=int))
    columns = steps(Prompts(model, prompts, cache), Sampler(**sampling), max_new, stop)
    table = np.array([*columns]).T  # (R, <= max_new)
    return [until(row, stop) for row in table.reshape(len(prompts), -1)]


def stream(model, prompt, max_new=100, stop=(), cache=True, **sampling):
    """The tokens that follow one prompt, each as soon as it is known."""
    stop = np.atleast_1d(np.asarray(stop, dtype=int))
    for (token,) in steps(Prompts(model, [prompt], cache), Sampler(**sampling), max_new, stop):
        if token in stop:
            return
        yield int(token)


def until(row, stop):
    """The tokens before the first that is in `stop`, as a list."""
    at = np.flatnonzero(np.isin(row, stop))
    return row[: at[0] if len(at) else None].tolist()


# ---------------------------------------------------------------- several at once


def beam_search(rows, beams=4, max_new=100, stop=(), length_penalty=0.6):
    """For each row the likeliest continuation found, as a list up to and with its stop token; and their scores (R,).

    Each step keeps the `beams` likeliest ways to go on. The score of a finished one is its log probability divided by
    ((5 + length) / 6)^length_penalty, else short ones would win (Wu et al. 2016, equation 14). A row is settled when as many
    ways have finished as there are beams; with one beam this is greedy decoding.
    """
    if not hasattr(rows, "logits"):
        raise TypeError(
            f"beam_search continues rows of tokens, got a {type(rows).__name__}; for a decoder-only model pass "
            "Prompts(model, [[1, 2, 3]]), an encoder-decoder has generate(src, bos, eos, beams=4)."
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
    """The search of one row: the log probabilities of its open beams, and what has finished, with scores."""

    def __init__(self, count, stop, length_penalty):
        self.count, self.stop, self.length_penalty, self.finished = count, stop, length_penalty, []
        self.log_p = np.full(count, -np.inf)
        self.log_p[0] = 0  # at first all beams are the same: count one

    @property
    def settled(self):
        return len(self.finished) >= self.count

    def score(self, log_p, length):
        return log_p / ((5 + length) / 6) ** self.length_penalty

    def advance(self, log_p, written):
        """log_p (K, V) of the next tokens, written (K, T) -> (beams to go on with (K,), the token for each)."""
        total = (self.log_p[:, None] + log_p).reshape(-1)  # (K V,)
        # so many that enough go on
        likeliest = np.argsort(-total, kind="stable")[: self.count * (1 + len(self.stop))]
        beam, token = np.divmod(likeliest, log_p.shape[1])
        ends = np.isin(token, self.stop)
        for i in np.flatnonzero(ends[: self.count]):
            if not self.settled and total[likeliest[i]] > -np.inf:
                tokens = [*written[beam[i]].tolist(), int(token[i])]
                self.finished.append((tokens, self.score(total[likeliest[i]], len(tokens))))
        going = np.flatnonzero(~ends)[: self.count]
        self.log_p = np.full(self.count, -np.inf)  # fewer than K can go on if the vocabulary is smaller
        self.log_p[: len(going)] = total[likeliest[going]]
        fill = np.resize(going, self.count) if len(going) else np.zeros(self.count, int)
        return beam[fill], token[fill]

    def best(self, written):
        """(tokens, score) of the best that finished, or of the open ones too if fewer finished than there are beams."""
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
