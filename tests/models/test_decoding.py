"""Choosing tokens: greedy, by chance, by beams; with and without cache; batches, streams, ends; for every model that decodes."""

import itertools
import math
import warnings

import numpy as np
import pytest
from decoders import VOCABULARY, gpt, llama, shaken, tokens
from oracle import near, refuses, same

import minigrad as mg
from minigrad.modes import recording
from models import decoding
from models.attention import causal_mask, padding_mask
from models.decoding import Prompts, Sampler, beam_search, generate, stream
from models.transformer import Transformer, Translation

models = pytest.mark.parametrize("make", (gpt, llama), ids=("gpt", "llama"))
caches = pytest.mark.parametrize("cache", (True, False), ids=("cache", "no cache"))
SRC = np.array([[3, 1, 4, 0, 0], [2, 2, 5, 1, 6], [5, 6, 0, 0, 0]])


def translator(seed=0, norm="post", by=0.2):
    mg.manual_seed(seed)
    model = Transformer(
        VOCABULARY, d_model=8, num_heads=2, num_layers=2, d_ff=12, max_len=9, norm=norm, dropout=0.1
    ).double()
    return shaken(model, seed, by).eval()


def log_softmax(x):
    return x - x.max() - math.log(np.exp(x - x.max()).sum())


# ---------------------------------------------------------------- greedy, with and without cache (30, 38)


@mg.no_grad()
def naive(model, prompt, max_new):
    """Greedy decoding as one would write it first: the last max_len tokens, all of them, every time."""
    rows = [int(t) for t in prompt]
    for _ in range(max_new):
        rows.append(int(model(np.array([rows[-model.max_len :]])).data[0, -1].argmax()))
    return rows[len(prompt) :]


@models
@caches
def test_greedy_is_the_argmax_again_and_again_also_beyond_the_context(make, cache):
    model = shaken(make()).eval()
    for length in (1, 4, 8, 9):
        prompt = tokens(length)
        assert generate(model, [prompt], 14, cache=cache, temperature=0) == [naive(model, prompt, 14)]


@models
@caches
def test_prompts_of_different_lengths_give_in_a_batch_what_each_gives_alone(make, cache):
    model = shaken(make(), 1).eval()
    prompts = [tokens(5), tokens(2), tokens(9), tokens(1)]
    together = generate(model, prompts, 12, cache=cache, temperature=0)
    assert together == [naive(model, p, 12) for p in prompts]


def by_the_long_way(model, rows, cache):
    """Logits (B, T, V), token after token, with the same modules and a cache, but recorded, so that nothing is left out."""
    layers = model.new_cache() if cache else None
    return (
        np.concatenate([model(rows[:, [t]], cache=layers).data for t in range(rows.shape[1])], 1)
        if cache
        else model(rows).data
    )


@models
@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("cache", (True, False))
def test_without_recording_the_logits_are_those_with_it(make, dtype, cache):
    model = shaken(make()).to(dtype).eval()
    rows = np.array([tokens(8), tokens(8)[::-1]])
    recorded = by_the_long_way(model, rows, cache)
    with mg.no_grad():
        near(by_the_long_way(model, rows, cache), recorded, 50 * np.finfo(dtype).eps)
        near(model(rows, last=True).data, recorded[:, -1:], 50 * np.finfo(dtype).eps)
        assert model(rows, last=True).dtype == dtype


@models
def test_without_recording_whoever_looks_still_hears_of_every_op_and_its_module(make):
    model, heard = shaken(make()).eval(), []

    def note(fun, arrays, out):
        heard.append((fun.__name__, mg.modes.current_module.get()))

    with mg.no_grad(), mg.modes.Mode(mg.modes.tracing, note):
        model(np.array([tokens(4)]))
    named = {id(module) for module in model.modules()}
    assert {"linear", "attention", "split_heads"} <= {name for name, _ in heard} and all(
        id(module) in named for _, module in heard
    )
    with mg.no_grad():
        assert mg.modes.current_module.get() is None


@models
def test_logits_with_and_without_cache_agree_at_every_step(make):
    model = shaken(make()).eval()
    with_cache, without = (Prompts(model, [tokens(3), tokens(1)], cache) for cache in (True, False))
    for step in range(12):  # past the window's edge at 9
        a, b = with_cache.logits(), without.logits()
        near(a, b, 1e-12)
        assert (with_cache.cache is not None) == (step <= 6)
        for rows in (with_cache, without):
            rows.append(np.array([1 + step % 6, 6 - step % 6]))


def test_a_prompt_longer_than_the_context_is_cropped_and_said():
    model, prompt = shaken(gpt()).eval(), tokens(12)
    with pytest.warns(UserWarning, match="12 tokens is longer than the context.*last 9"):
        found = generate(model, [prompt], 3, temperature=0)
    assert found == [naive(model, prompt, 3)]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        generate(model, [prompt[-9:]], 3, temperature=0)
    assert not heard


def test_nothing_to_continue_is_a_sentence():
    for prompts in ([], [[]], [[1, 2], []]):
        with refuses(ValueError, "at least one token"):
            generate(gpt(), prompts)
    with refuses(TypeError, "token ids", "float64"):
        generate(gpt(), [[1, 2], [1.5]])


def test_a_flat_list_is_not_taken_for_prompts_of_one_token_nor_several_rows_for_one_prompt():
    model = shaken(gpt()).eval()
    for flat in ([1, 2, 3], np.array([1, 2, 3]), mg.tensor([1, 2, 3])):
        with refuses(ValueError, "a list for each prompt", "got the number 1", "[[1, 2, 3]]"):
            generate(model, flat)
    with refuses(ValueError, "(2, 3)", "generate"):
        next(stream(model, tokens(2, 3)))
    alone = generate(model, [[1, 2, 3]], 4, temperature=0)
    assert (
        alone
        == generate(model, np.array([[1, 2, 3]]), 4, temperature=0)
        == [[*stream(model, [[1, 2, 3]], 4, temperature=0)]]
    )


@models
def test_ragged_rows_given_to_a_model_are_a_sentence(make):
    with refuses(ValueError, "tokens must be rows of one length", "lengths 3, 1", "generate"):
        make()([[1, 2, 3], [4]])


def test_a_model_given_to_beam_search_is_told_what_to_wrap_it_in():
    with refuses(TypeError, "GPT", "Prompts(model, [[1, 2, 3]])"):
        beam_search(gpt(), 4)


def test_decoding_records_nothing_drops_nothing_out_and_leaves_modes_as_they_were():
    model = shaken(gpt(dropout=0.5)).train()
    seen = []
    hook = model.ln_f.forward
    model.ln_f.forward = lambda x: seen.append((recording.get(), model.drop.training)) or hook(x)
    tokens_seen = []
    for token in stream(model, tokens(3), 4, temperature=0):
        tokens_seen.append(token)
        assert recording.get() and model.training
    assert seen == [(False, False)] * 4 and len(tokens_seen) == 4


# ---------------------------------------------------------------- stop tokens, streams


@models
def test_stop_tokens_end_a_row_and_not_its_neighbours(make):
    model = shaken(make()).eval()
    prompts = [tokens(3), tokens(2)]
    full = generate(model, prompts, 10, temperature=0)
    stop = full[0][2]
    found = generate(model, prompts, 10, stop=(stop,), temperature=0)
    assert found == [row[: row.index(stop)] if stop in row else row for row in full]
    assert list(stream(model, prompts[0], 10, stop=(stop,), temperature=0)) == found[0]


def test_a_stream_gives_each_token_before_the_next_is_computed():
    model = shaken(gpt()).eval()
    flow = stream(model, tokens(3), 1000, temperature=0)
    assert [next(flow) for _ in range(5)] == generate(model, [tokens(3)], 5, temperature=0)[0]
    assert list(stream(model, tokens(3), 0)) == [] == generate(model, [tokens(3)], 0)[0]


# ---------------------------------------------------------------- by chance (38)


def rows_of(x):
    return np.array([x], dtype=float)


def chances(logits, **settings):
    order, p = Sampler(**settings).distribution(rows_of(logits))
    out = np.zeros(len(logits))
    out[order[0]] = p[0]
    return out


def test_temperature_divides_the_logits_and_0_is_greedy():
    x = np.array([1.0, 3.0, 2.0, -1.0])
    for t in (0.5, 1, 3):
        near(chances(x, temperature=t), np.exp(log_softmax(x / t)), 1e-15)
    assert Sampler(temperature=0)(rows_of(x)) == [1]
    for t in (1e-4, 1e-300):
        assert Sampler(temperature=t, seed=0)(rows_of(x)) == [1]
    near(chances(x, temperature=math.inf), np.full(4, 0.25), 0)
    assert Sampler(temperature=0)(rows_of([2.0, 5.0, 5.0])) == [1]  # of equals the first, as argmax


def test_top_k_keeps_k_and_more_than_there_are_keeps_all():
    x = np.array([1.0, 3.0, 2.0, -1.0])
    kept = np.exp(x) * [0, 1, 1, 0]
    near(chances(x, top_k=2), kept / kept.sum(), 1e-15)
    near(chances(x, top_k=1), np.array([0, 1, 0, 0]), 0)
    near(chances(x, top_k=1000), np.exp(log_softmax(x)), 1e-15)
    assert (chances(np.zeros(4), top_k=2) > 0).sum() == 2  # also among equals


def test_top_p_keeps_the_likeliest_that_reach_it_and_at_least_one():
    x = np.log([0.1, 0.5, 0.15, 0.25])
    near(chances(x, top_p=0.5), np.array([0, 1, 0, 0]), 0)
    near(chances(x, top_p=0.51), np.array([0, 2 / 3, 0, 1 / 3]), 1e-12)
    near(chances(x, top_p=0.01), np.array([0, 1, 0, 0]), 0)
    near(chances(x, top_p=1.0), np.array([0.1, 0.5, 0.15, 0.25]), 1e-12)
    near(chances(x, top_k=3, top_p=0.6), np.array([0, 2 / 3, 0, 1 / 3]), 1e-12)


def test_repetition_penalty_makes_what_was_said_less_likely_whatever_its_sign():
    class Rows:
        def history(self):
            return [np.array([0, 1, 1])]

    seen = []
    sampler = Sampler(repetition_penalty=2.0)
    sampler.distribution = lambda x: seen.append(x.copy()) or Sampler().distribution(x)
    sampler(rows_of([4.0, -1.0, 3.0]), Rows())
    near(seen[0], rows_of([2.0, -2.0, 3.0]), 0)
    assert Sampler(temperature=0, repetition_penalty=2.0)(rows_of([4.0, -1.0, 3.0]), Rows()) == [2]


def test_tokens_are_drawn_as_often_as_their_probability_says():
    x = np.tile(np.log([0.1, 0.6, 0.3, 1e-30]), (20000, 1))
    drawn = Sampler(seed=None)(x)
    near(np.bincount(drawn, minlength=4) / len(drawn), np.array([0.1, 0.6, 0.3, 0]), 0.015)


@models
def test_the_same_seed_writes_the_same_in_a_batch_and_alone_another_seed_other_and_numpys_state_is_left_alone(
    make,
):
    model, before = shaken(make()).eval(), np.random.get_state()[1].copy()
    first, again = (generate(model, [tokens(3), tokens(2)], 12, seed=5) for _ in range(2))
    assert first == again and generate(model, [tokens(3)], 12, seed=5)[0] == first[0]
    assert generate(model, [tokens(3), tokens(2)], 12, seed=6) != first
    assert generate(model, [tokens(3)], 12, seed=5, cache=False)[0] == first[0]
    same(np.random.get_state()[1], before)


@pytest.mark.parametrize("settings, words", [
    ({"temperature": -1}, ("temperature", "-1")),
    ({"temperature": math.nan}, ("temperature", "nan")),
    ({"top_k": 0}, ("top_k", "0")),
    ({"top_k": 2.5}, ("top_k", "2.5")),
    ({"top_p": 0}, ("top_p", "0")),
    ({"top_p": 1.5}, ("top_p", "1.5")),
    ({"repetition_penalty": 0}, ("repetition_penalty", "0")),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(settings, words):
    with refuses(ValueError, *words):
        Sampler(**settings)


# ---------------------------------------------------------------- beams


@models
@caches
def test_beam_1_is_greedy(make, cache):
    for seed in range(4):
        model = shaken(make(), seed).eval()
        prompts = [tokens(3, seed=seed), tokens(1, seed=seed)]
        for stop in ((), (2,)):
            found, _ = beam_search(Prompts(model, prompts, cache), 1, 12, stop)
            assert [decoding.until(np.array(row), stop) for row in found] == generate(
                model, prompts, 12, stop, temperature=0
            )


@mg.no_grad()
def every_way(model, prompt, length, stop, length_penalty):
    """The best of all continuations of at most `length` tokens: (score, tokens)."""
    best = (-math.inf, None)
    for n in range(1, length + 1):
        for way in itertools.product(range(VOCABULARY), repeat=n):
            if any(t == stop for t in way[:-1]) or (n < length and way[-1] != stop):
                continue
            logits = model(np.array([[*prompt, *way]])).data[0]
            total = sum(log_softmax(logits[len(prompt) - 1 + i])[t] for i, t in enumerate(way))
            best = max(best, (total / ((5 + n) / 6) ** length_penalty, list(way)))
    return best


@pytest.mark.parametrize("length_penalty", (0.0, 0.6, 2.0))
def test_with_enough_beams_the_best_of_all_continuations_is_found(length_penalty):
    for seed in range(2):
        model, prompt = shaken(gpt(num_layers=1), seed, by=0.6).eval(), tokens(2, seed=seed)
        score, way = every_way(model, prompt, 3, 2, length_penalty)
        found, scores = beam_search(Prompts(model, [prompt]), VOCABULARY**3, 3, (2,), length_penalty)
        assert found == [way]
        near(scores, np.array([score]), 1e-12)


@models
def test_beams_of_a_batch_are_those_of_each_alone_and_the_cache_changes_nothing(make):
    model, prompts = shaken(make(), 3).eval(), [tokens(4), tokens(1), tokens(2)]
    together, scores = beam_search(Prompts(model, prompts), 3, 10, (2,))
    without, _ = beam_search(Prompts(model, prompts, cache=False), 3, 10, (2,))
    alone = [beam_search(Prompts(model, [p]), 3, 10, (2,)) for p in prompts]
    assert together == without == [found[0] for found, _ in alone]
    near(scores, np.array([score[0] for _, score in alone]), 1e-12)


def test_more_beams_find_nothing_worse_here_and_lists_that_end_hold_their_end():
    model = shaken(gpt(), 2).eval()
    scores = [beam_search(Prompts(model, [tokens(2)]), beams, 6)[1][0] for beams in (1, 4, 49)]
    assert scores == sorted(scores)
    found, _ = beam_search(Prompts(model, [tokens(2)]), 4, 8, stop=range(VOCABULARY))
    assert len(found[0]) == 1  # everything stops
    with refuses(ValueError, "at least one beam", "0"):
        beam_search(Prompts(model, [tokens(2)]), 0)


# ---------------------------------------------------------------- the encoder-decoder


@pytest.mark.parametrize("padded", (False, True))
@pytest.mark.parametrize("norm", ("post", "pre"))
def test_the_decoders_cached_logits_are_the_uncached_ones_at_every_position(norm, padded):
    model = translator(norm=norm)
    rows, memory, mask = tokens(3, 9), model.encode(SRC), padding_mask(SRC, 0)
    if padded:
        rows[0, 2:4] = rows[2, 8] = 0
    own = causal_mask(9) & padding_mask(rows, 0)
    with mg.no_grad():
        whole = model.decode(mg.tensor(rows), memory, src_mask=mask).data
        for pieces in ([1] * 9, [9], [8, 1], [2, 3, 4]):
            cache, start = model.new_cache(), 0
            for size in pieces:
                here = slice(start, start + size)
                got = model.decode(
                    mg.tensor(rows[:, here]),
                    memory,
                    own[..., here, : here.stop] if padded else None,
                    mask,
                    cache,
                )
                near(got, whole[:, here], 1e-12)
                start += size


@caches
@pytest.mark.parametrize("seed", range(4))
def test_translations_greedily_by_one_beam_and_row_by_row_are_the_same(seed, cache):
    model = translator(seed, by=0.5)
    greedy = model.generate(SRC, 1, 2, cache=cache)
    same(model.generate(SRC, 1, 2, beams=1, cache=not cache), greedy)
    one, _ = beam_search(Translation(model, model_tokens(SRC), 1, cache), 1, model.max_len, (2,))
    assert [decoding.until(np.array(row), (2,)) for row in one] == [
        decoding.until(row, (2,)) for row in greedy
    ]
    for beams in (1, 3):
        together = model.generate(SRC, 1, 2, beams=beams, cache=cache)
        for row, src in zip(together, SRC, strict=True):
            alone = model.generate(src[None, src != 0], 1, 2, beams=beams)[0]
            assert decoding.until(row, (2,)) == decoding.until(alone, (2,))


def model_tokens(src):
    return mg.tensor(src)


def test_beams_of_the_encoder_decoder_with_enough_of_them_find_the_best():
    model = translator(1, by=0.5)
    with mg.no_grad():
        memory = model.encode(SRC[1:2])
        best = max(
            (sum(log_softmax(model.decode(mg.tensor([[1, *way[:-1]]]), memory).data[0, i])[t] for i, t in enumerate(way)), list(way))
            for way in itertools.product(range(VOCABULARY), repeat=2) if way[0] != 2
        )  # fmt: skip
    found, scores = beam_search(Translation(model, model_tokens(SRC[1:2]), 1), VOCABULARY**2, 2, (), 0.0)
    near(scores, np.array([max(best[0], scores[0])]), 1e-12)
    assert found[0] == best[1] or found[0][0] == 2


def test_what_is_forbidden_stays_so_at_any_temperature_and_broken_logits_are_a_sentence():
    forbidden = np.array([[-np.inf, 2.0, 0.0, -np.inf]])
    for temperature in (0, 0.5, 1e6, np.inf):
        choose = decoding.Sampler(temperature=temperature, seed=0)
        assert {int(choose(forbidden)[0]) for _ in range(50)} <= {1, 2}
    for broken in (np.full((1, 3), np.nan), np.full((1, 3), -np.inf), np.array([[0.0, np.nan]])):
        with pytest.raises(ValueError, match="are NaN, or allow no token"):
            decoding.greedy(broken)


@pytest.mark.parametrize(
    "wrong",
    (
        {"top_k": 2.0},
        {"top_k": np.nan},
        {"repetition_penalty": np.inf},
        {"seed": -1},
        {"seed": 1.5},
        {"temperature": np.nan},
    ),
    ids=str,
)
def test_options_that_cannot_be_are_sentences(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        decoding.Sampler(**wrong)
