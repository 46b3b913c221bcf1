"""The models on recurrent layers: attention by its formula, padding, causality, decoding, toy tasks; and dates --model."""

import decoders
import numpy as np
import pytest
from oracle import check_every_parameter, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad import generate, optim
from minigrad import train as door
from minigrad.nn.utils import clip_grad_norm_
from models.decoding import beam_search, until
from models.mlp import MLP
from models.recipes import dates
from models.recurrent import CELLS, AdditiveAttention, EncoderDecoder, Reader, Writing
from models.samples import EncoderDecoderLoss


def numbers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


SRC, TGT = np.array([[3, 1, 4, 0, 0], [2, 2, 5, 1, 6]]), np.array([[1, 3, 3, 5], [1, 4, 2, 2]])
models = pytest.mark.parametrize(
    ("cell", "attention"), [(cell, attention) for cell in CELLS for attention in (False, True)]
)


def model(cell="lstm", attention=True, **settings):
    mg.manual_seed(0)
    return EncoderDecoder(
        7, d_model=6, cell=cell, attention=attention, **{"num_layers": 2, "dropout": 0.0, **settings}
    ).double()


def bahdanau(attention, state, memory):
    """The formula at one query: softmax_j(v . tanh(W s + U h_j + b)) over the rows of the memory, and their mean."""
    W, U, b, v = (
        p.data
        for p in (
            attention.state_proj.weight,
            attention.memory_proj.weight,
            attention.memory_proj.bias,
            attention.score.weight,
        )
    )
    scores = np.array([v[0] @ np.tanh(W @ state + U @ h + b) for h in memory])
    weights = np.exp(scores) / np.exp(scores).sum()
    return weights @ memory, weights


def test_additive_attention_is_bahdanaus_formula_over_what_is_not_padding():
    attention = AdditiveAttention(3, 4, 5).double()
    state, memory = numbers(2, 3), numbers(2, 6, 4)
    lengths, tensor = [6, 2], mg.tensor(memory)
    context, weights = attention(
        mg.tensor(state), tensor, attention.memory_proj(tensor), np.arange(6) < np.array(lengths)[:, None]
    )
    for row, n in enumerate(lengths):
        expected = bahdanau(attention, state[row], memory[row, :n])
        near(context.data[row], expected[0], 1e-14)
        near(weights.data[row], np.concatenate([expected[1], np.zeros(6 - n)]), 1e-14)


@models
def test_padding_in_the_source_changes_nothing_not_even_if_its_vector_is_nan(cell, attention):
    plain = model(cell, attention)
    expected = plain(SRC[:1, :3], TGT[:1])
    expected.sum().backward()
    gradients = {name: p.grad.data.copy() for name, p in plain.named_parameters()}
    plain.zero_grad()
    plain.embedding.weight.data[0] = np.nan
    padded = plain(SRC, TGT)
    padded[:1].sum().backward()
    near(padded.data[:1], expected, 1e-14)
    for name, p in plain.named_parameters():
        near(p.grad, gradients[name], 1e-13)


def test_attention_never_looks_at_padding_and_its_weights_are_there_when_asked_for():
    one = model()
    before = one(SRC, TGT)
    assert one.attention.weights is None
    one.attention.keep_weights = True
    same(one(SRC, TGT), before.data)
    weights = one.attention.weights
    assert weights.shape == (2, 1, 4, 5)
    near(weights.sum(-1), np.ones((2, 1, 4)), 1e-14)
    same(weights[0, :, :, 3:], np.zeros((1, 4, 2)))


@models
def test_a_source_of_nothing_but_padding_is_finite(cell, attention):
    assert np.isfinite(model(cell, attention)(np.zeros((1, 3), int), TGT[:1]).data).all()


@models
def test_no_logit_knows_a_later_target_token(cell, attention):
    one, changed = model(cell, attention), TGT.copy()
    changed[:, 2] = 6
    before, after = one(SRC, TGT).data, one(SRC, changed).data
    same(before[:, :2], after[:, :2])
    assert np.abs(before[:, 2:] - after[:, 2:]).max(axis=(1, 2)).min() > 0


@models
def test_the_gradient_of_a_logit_with_respect_to_a_later_embedded_token_is_exactly_zero(cell, attention):
    one = model(cell, attention, src_vocab_size=7)
    decoders.check_causality(one, "embedding", {"plain": (lambda: one(SRC, TGT), TGT != 0)})


@models
def test_gradients_of_every_parameter_entry_by_entry(cell, attention):
    check_every_parameter(EncoderDecoderLoss(cell=cell, attention=attention, dropout=0.0).double())


@models
def test_generating_step_by_step_takes_what_the_whole_forward_finds_likeliest(cell, attention):
    one = model(cell, attention, dropout=0.5, max_len=9)
    one.output.weight.data *= 20  # so that the tokens differ
    written = one.generate(SRC, bos=1, eos=6)
    assert one.training and written.shape[1] <= 9
    with one.evaluating():
        logits = one(SRC, np.concatenate([[[1], [1]], written[:, :-1]], 1)).data
    for row, said in zip(written, logits.argmax(-1), strict=True):
        ends = np.flatnonzero(row == 6)[:1]
        n = ends[0] + 1 if len(ends) else len(row)
        same(row[:n], said[:n])
        assert not row[n:].any()
    assert one.generate(SRC, 1, 6, max_new=4, beams=3).shape[1] <= 4


@models
def test_beam_1_is_greedy(cell, attention):
    one = model(cell, attention, max_len=9)
    one.output.weight.data *= 20
    found, _ = beam_search(Writing(one, mg.tensor(SRC), 1), 1, 9, (6,))
    greedy = one.generate(SRC, 1, 6)
    assert [until(np.array(row), (6,)) for row in found] == [until(row, (6,)) for row in greedy]


def test_a_beam_finds_nothing_less_likely_than_greedy_decoding():
    one = model()
    one.output.weight.data *= 5

    def log_probability(written):
        logits = one(SRC, np.concatenate([[[1], [1]], written[:, :-1]], 1))
        chosen = mg.log_softmax(logits, -1).data
        return np.array(
            [sum(chosen[i, t, token] for t, token in enumerate(row)) for i, row in enumerate(written)]
        )

    # no token 99: nothing ends early
    greedy, beam = (one.generate(SRC, 1, 99, max_new=4, beams=n) for n in (1, 20))
    assert (log_probability(beam) >= log_probability(greedy) - 1e-12).all()


def reversing(step, rng_name="data"):
    """Rows of 4 digits and their reverse: (src (B, 4), tgt (B, 6)); 1 begins, 2 ends, digits from 3."""
    digits = mg.random.fresh(rng_name, step).integers(3, 9, size=(64, 4))
    return digits, np.pad(digits[:, ::-1], ((0, 0), (1, 1)), constant_values=((0, 0), (1, 2)))


def train(one, loss, steps, lr=1e-2):
    optimizer = optim.Adam(one.parameters(), lr=lr)
    for step in range(steps):
        optimizer.zero_grad()
        loss(step).backward()
        clip_grad_norm_(one.parameters(), 1.0)
        optimizer.step()


@pytest.mark.parametrize(
    ("cell", "attention"), [("lstm", False), ("gru", False), ("lstm", True), ("gru", True)]
)
def test_encoder_decoders_learn_to_reverse(cell, attention):
    mg.manual_seed(0)
    one = EncoderDecoder(9, d_model=48, cell=cell, attention=attention, dropout=0.0)

    def loss(step):
        src, tgt = reversing(step)
        return F.cross_entropy(one(src, tgt[:, :-1]).reshape(-1, 9), tgt[:, 1:].reshape(-1))

    train(one, loss, 200)
    src, tgt = reversing(0, "held out")
    assert (one.generate(src, 1, 2, max_new=5) == tgt[:, 1:]).all(1).mean() > 0.9


@pytest.mark.parametrize("cell", CELLS)
def test_a_reader_learns_which_token_came_first(cell):
    mg.manual_seed(0)
    one = Reader(6, 6, 24, cell=cell)

    def tokens(step):
        return np.where(
            np.arange(5) < mg.random.fresh("lengths", step).integers(2, 6, (64, 1)),
            mg.random.fresh("t", step).integers(1, 6, (64, 5)),
            0,
        )

    train(one, lambda step: F.cross_entropy(one(tokens(step)), tokens(step)[:, 0]), 120)
    assert (one(tokens(999)).data.argmax(-1) == tokens(999)[:, 0]).mean() > 0.95


def test_a_reader_says_something_at_every_place_and_hears_both_sides_if_asked():
    forward, both = (Reader(7, 3, 4, every=True, bidirectional=way).double() for way in (False, True))
    changed = TGT.copy()
    changed[:, -1] = 0
    for one, hears in ((forward, False), (both, True)):
        logits = one(TGT)
        assert logits.shape == (2, 4, 3)
        assert np.array_equal(logits.data[:, 0], one(changed).data[:, 0]) is not hears


def test_a_perceptron_is_linear_maps_with_a_bend_between():
    one = MLP(3, 5, 2, activation="tanh", dropout=0.5).double().eval()
    assert [type(layer).__name__ for layer in one] == ["Linear", "Tanh", "Dropout", "Linear"]
    first, *_, last = one
    x = numbers(4, 3)
    near(
        one(mg.tensor(x)),
        np.tanh(x @ first.weight.data.T + first.bias.data) @ last.weight.data.T + last.bias.data,
        1e-14,
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EncoderDecoder(9, 8, cell="elman"), ["rnn, lstm, gru", "'elman'"]),
        (lambda: EncoderDecoder(9, 7), ["d_model = 7", "even"]),
        (lambda: Reader(9, 2, cell="LSTM"), ["rnn, lstm, gru", "'LSTM'"]),
        (lambda: model()(SRC[0], TGT), ["src", "(5,)"]),
        (lambda: model()(SRC, TGT[:, :0]), ["tgt", "(2, 0)"]),
        (lambda: MLP(3), ["two sizes"]),
        (lambda: MLP(3, 4, activation="step"), ["relu", "'step'"]),
    ],
)
def test_models_say_what_is_wrong(make, words):
    with refuses(ValueError, *words):
        make()


# ---------------------------------------------------------------- dates --model

SMALL = ["--steps", "2", "--layers", "1", "--d-model", "8", "--batch-size", "4", "--quiet"]


@pytest.mark.parametrize("name", dates.Dates.choices["model"])
def test_dates_runs_with_every_model_it_names(name, tmp_path, capsys):
    assert door.main(["dates", "--model", name, *SMALL, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "attention.png").exists() == (name not in ("lstm", "gru"))
    assert generate.main([str(tmp_path), "29 november 2026"]) == 0


def test_a_model_that_there_is_not_gets_the_list(capsys):
    assert door.main(["dates", "--model", "mamba"]) == 2
    said = capsys.readouterr().err
    assert "'mamba'" in said and "transformer, lstm, gru, lstm-attention, gru-attention" in said
    assert door.main(["text", "--model", "lstm"]) == 2
    assert "no setting --model" in capsys.readouterr().err
