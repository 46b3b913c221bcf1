"""The whole encoder-decoder: its gradients, what may depend on what, ties, positions, decoding, and what it refuses."""

import math

import decoders
import numpy as np
import pytest
from oracle import check_every_parameter, check_tiers, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad import optim
from minigrad.gradcheck import gradcheck
from minigrad.modes import recording
from minigrad.nn import Module
from models.attention import causal_mask, padding_mask
from models.positional import PositionalEncoding, sinusoidal
from models.transformer import Transformer

SRC, TGT, NEXT = (
    np.array([[3, 1, 4, 0], [2, 2, 5, 1]]),
    np.array([[1, 3, 3], [1, 4, 0]]),
    np.array([[3, 3, 2], [4, 2, 0]]),
)
norms = pytest.mark.parametrize("norm", ("post", "pre"))


def small(norm="post", dropout=0.0, vocab_size=6, **settings):
    settings = {"d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 12, "max_len": 10, **settings}
    return Transformer(vocab_size, dropout=dropout, norm=norm, **settings).double()


def loss_of(logits, targets=NEXT):
    return F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=0, label_smoothing=0.1
    )


class Loss(Module):
    """The loss as a function of the parameters alone."""

    def __init__(self, model):
        self.model = model

    def forward(self):
        return loss_of(self.model(SRC, TGT))


# ---------------------------------------------------------------- gradients


@norms
def test_gradients_of_the_whole_model_entry_by_entry(norm):
    check_every_parameter(
        Loss(small(norm, num_layers=1, d_model=4, d_ff=3, vocab_size=6, max_len=4, activation="gelu"))
    )


@norms
@pytest.mark.parametrize("dropout", (0.0, 0.2))
@pytest.mark.parametrize("order", (1, 2))
def test_gradients_of_the_whole_model_along_random_directions(norm, dropout, order):
    apart = {} if order == 2 else {"tie_output": False, "src_vocab_size": 7}
    assert gradcheck(Loss(small(norm, dropout, activation="gelu", **apart)), order=order, fast=True)


@norms
def test_every_parameter_gets_a_gradient_and_only_the_key_biases_get_none_to_speak_of(norm):
    model = small(norm)
    Loss(model)().backward()
    sizes = {name: np.abs(p.grad.data).max() for name, p in model.named_parameters()}
    assert {name for name, size in sizes.items() if size < 1e-9} == {
        name for name in sizes if name.endswith("k_proj.bias")
    }


@norms
def test_kernels_and_definitions_agree_in_loss_and_every_gradient(norm):
    model = small(norm)
    check_tiers(Loss(model), list(model.parameters()))


# ---------------------------------------------------------------- causality (28)


@norms
def test_changing_a_target_token_changes_no_logits_before_it(norm):
    model, tgt = small(norm), np.array([[1, 3, 3, 2, 5], [1, 4, 2, 2, 3]])
    before = model(SRC, tgt).data
    for t in range(5):
        changed = tgt.copy()
        changed[:, t:] = 1 + changed[:, t:] % 5
        after = model(SRC, changed).data
        same(after[:, :t], before[:, :t])
        assert (after[:, t:] != before[:, t:]).any(axis=-1).all()
        if t:
            near(model(SRC, tgt[:, :t]), before[:, :t], 1e-13)  # nor does leaving the rest out


@norms
def test_gradient_of_a_logit_with_respect_to_a_later_embedded_token_is_exactly_zero(norm):
    model, tgt = small(norm, tie_output=False, src_vocab_size=6), np.array([[1, 3, 3, 2, 4], [1, 4, 2, 2, 5]])
    padded = tgt * [[1, 1, 1, 1, 1], [1, 1, 0, 0, 1]]

    def behind_a_cache(tgt, mask):
        memory, cache = model.encode(SRC), model.new_cache()
        with mg.no_grad():
            model.decode(tgt[:, :3], memory, mask[..., :3, :3], padding_mask(SRC, 0), cache)
        return model.decode(tgt[:, 3:], memory, mask[..., 3:, :], padding_mask(SRC, 0), cache)

    cases = {}
    for name, rows in (("plain", tgt), ("padding", padded)):
        cases[name] = (lambda rows=rows: model(SRC, rows)), rows != 0
        mask = causal_mask(5) & padding_mask(rows, 0)
        cases[f"{name}, cache"] = (lambda rows=rows, mask=mask: behind_a_cache(rows, mask)), rows[:, 3:] != 0
    decoders.check_causality(model, "embedding", cases)


# ---------------------------------------------------------------- padding (29, 32)


@norms
def test_source_padding_and_neighbours_in_the_batch_do_not_matter(norm):
    model = small(norm)
    alone = model(SRC[:1, :3], TGT[:1]).data
    for length in (3, 4, 9):
        padded = np.zeros((1, length), int)
        padded[:, :3] = SRC[:1, :3]
        near(model(padded, TGT[:1]), alone, 1e-13)
        together = np.vstack([padded, np.full((1, length), 5)])
        near(model(together, np.vstack([TGT[:1], [[1, 5, 5]]])).data[:1], alone, 1e-13)


@norms
def test_target_padding_does_not_matter_to_the_tokens_before_it(norm):
    model = small(norm)
    padded = np.array([[1, 3, 3, 0, 0]])
    near(model(SRC[:1], padded).data[:, :3], model(SRC[:1], padded[:, :3]), 1e-13)


@norms
def test_padded_source_positions_get_no_gradient_from_the_loss(norm):
    model = small(norm, src_vocab_size=7, tie_output=False)
    Loss(model)().backward()
    assert (model.src_embedding.weight.grad.data[[0, 6]] == 0).all()  # 0 pads, 6 never occurs
    assert (model.src_embedding.weight.grad.data[1:6] != 0).any(axis=1).all()


def test_a_source_of_padding_only_stays_finite_and_a_target_of_padding_only_too():
    model, src, tgt = small(), SRC.copy(), TGT.copy()
    src[0], tgt[1] = 0, 0
    loss = loss_of(model(src, tgt))
    loss.backward()
    assert np.isfinite(loss.item()) and all(np.isfinite(p.grad.data).all() for p in model.parameters())


def test_masks_given_by_hand_equal_the_ones_made_from_pad():
    model = small()
    tgt_mask = causal_mask(3) & padding_mask(TGT, 0)
    same(model(SRC, TGT, padding_mask(SRC, 0), tgt_mask), model(SRC, TGT))
    same(model.decode(TGT, model.encode(SRC), tgt_mask, padding_mask(SRC, 0)), model(SRC, TGT))


# ---------------------------------------------------------------- ties (35)


def test_the_tied_embedding_is_one_parameter_listed_and_saved_once():
    model = small()
    names = [name for name, p in model.named_parameters() if p is model.embedding.weight]
    assert model.output is model.src_embedding is model.embedding and names == ["embedding.weight"]
    assert (
        sum(name.endswith("embedding.weight") or name.startswith("output") for name in model.state_dict())
        == 1
    )
    assert (
        len(list(small(tie_output=False, src_vocab_size=6).parameters())) == len(list(model.parameters())) + 2
    )


def test_the_gradient_of_a_tied_embedding_is_the_sum_of_its_uses():
    tied, apart = small(), small(tie_output=False, src_vocab_size=6)
    tables = ("embedding.weight", "src_embedding.weight", "output.weight")
    state = tied.state_dict()
    apart.load_state_dict({**state, **dict.fromkeys(tables, state["embedding.weight"])})
    Loss(tied)().backward()
    Loss(apart)().backward()
    grads = {name: p.grad.data for name, p in apart.named_parameters()}
    near(tied.embedding.weight.grad, sum(grads[name] for name in tables), 1e-13)
    for name, p in tied.named_parameters():
        if name not in tables:
            near(p.grad, grads[name], 1e-13)


def test_a_tied_model_loads_what_it_saved_and_also_a_state_that_names_each_use():
    model, other = small(), small()
    state = {name: t.data.copy() for name, t in model.state_dict().items()}
    other.load_state_dict(state)
    same(other(SRC, TGT), model(SRC, TGT))
    third = small()
    third.load_state_dict(
        {
            **state,
            "output.weight": state["embedding.weight"],
            "src_embedding.weight": state["embedding.weight"],
        }
    )
    same(third(SRC, TGT), model(SRC, TGT))
    assert third.output.weight is third.embedding.weight


def test_a_tied_embedding_is_decayed_once_and_moves_once_a_step():
    model = small()
    before = model.embedding.weight.data.copy()
    for p in model.parameters():
        p.grad = mg.zeros_like(p)
    optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5).step()
    near(model.embedding.weight, before * 0.95, 1e-15)


# ---------------------------------------------------------------- decoding


@norms
@pytest.mark.parametrize("seed", range(3))
def test_generate_is_the_argmax_of_forward_step_by_step_and_stops_at_eos(norm, seed):
    mg.manual_seed(seed)
    model, bos, eos = small(norm).eval(), 1, 2
    out = model.generate(SRC, bos, eos, max_new=7)
    assert out.shape[0] == 2 and out.shape[1] <= 7
    for row, src in zip(out, SRC, strict=True):
        so_far = [bos]
        for token in row:
            if eos in so_far[1:]:
                assert token == model.pad  # after its eos a row is filled up
                continue
            assert token == model(src[None], np.array([so_far])).data[0, -1].argmax()
            so_far.append(int(token))
    finished = (out == eos).any(axis=1)
    assert out.shape[1] == 7 or finished.all()


def test_generate_stops_at_once_when_every_row_says_eos_and_at_max_len_when_none_does():
    model = small().eval()
    model.decode = lambda tgt, *_, **__: mg.tensor(np.eye(6)[np.full(tgt.shape, 2)])
    assert model.generate(SRC, 1, 2).tolist() == [[2], [2]]
    assert model.generate(SRC, 1, 5).shape == (2, model.max_len)
    assert model.generate(SRC, 1, 5, max_new=4).shape == (2, 4)
    assert model.generate(SRC, 1, 5, max_new=0).shape == (2, 0)


def test_generate_records_nothing_and_leaves_recording_on():
    model = small().eval()
    seen, right = [], model.decode
    model.decode = lambda *args, **kwargs: seen.append(recording.get()) or right(*args, **kwargs)
    model.generate(SRC, 1, 2, max_new=2)
    assert seen and not any(seen) and recording.get()


# ---------------------------------------------------------------- positions (33)


@pytest.mark.parametrize("d_model", (1, 2, 5, 6, 7, 64))
def test_positions_are_the_papers_formula_for_even_and_odd_widths(d_model):
    expected = [
        [
            (math.sin if c % 2 == 0 else math.cos)(pos / 10000 ** (2 * (c // 2) / d_model))
            for c in range(d_model)
        ]
        for pos in range(30)
    ]
    near(sinusoidal(30, d_model), np.array(expected), 1e-6)
    assert sinusoidal(30, d_model).dtype == np.float32


def test_a_sine_and_its_cosine_share_one_frequency():
    table = sinusoidal(50, 8).data.astype(float)
    near(table[:, 0::2] ** 2 + table[:, 1::2] ** 2, np.ones((50, 4)), 1e-6)


def test_position_plus_k_is_one_linear_map_of_position():
    d_model, k = 8, 7
    table = sinusoidal(60, d_model).data.astype(float)
    turn = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [
            [math.cos(angle), math.sin(angle)],
            [-math.sin(angle), math.cos(angle)],
        ]
    near(table[k:], table[:-k] @ turn.T, 1e-6)


def test_a_whole_model_of_odd_width_trains():
    model = small(d_model=5, num_heads=1)
    assert gradcheck(Loss(model), fast=True)


def test_positions_are_added_and_are_not_trained():
    positions, x = PositionalEncoding(5, 8).double(), mg.zeros(2, 3, 5, dtype=np.float64)
    near(positions(x), np.broadcast_to(sinusoidal(3, 5).data, (2, 3, 5)), 1e-7)
    assert list(positions.parameters()) == [] and [name for name, _ in positions.named_buffers()] == ["table"]


def test_embeddings_are_scaled_by_the_root_of_d_model():
    model = small()
    near(
        model.embed(SRC, model.embedding),
        model.embedding.weight.data[SRC] * 8**0.5 + model.positions.table.data[:4],
        1e-14,
    )


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("error, words, run", [
    (ValueError, ("d_model = 10", "4 heads", "multiple"), lambda: Transformer(6, d_model=10, num_heads=4, num_layers=1)),
    (ValueError, ("11 tokens", "max_len = 10"), lambda: small()(np.ones((1, 11), int), TGT[:1])),
    (ValueError, ("11 tokens", "max_len = 10"), lambda: small()(SRC[:1], np.ones((1, 11), int))),
    (IndexError, ("token id 6", "vocabulary of 6", "0..5"), lambda: small()(np.array([[6]]), TGT[:1])),
    (IndexError, ("token id -1",), lambda: small()(SRC[:1], np.array([[1, -1]]))),
    (TypeError, ("integers", "float"), lambda: small()(SRC[:1].astype(float), TGT[:1])),
    (ValueError, ("src", "(0, 4)"), lambda: small()(np.zeros((0, 4), int), np.zeros((0, 3), int))),
    (ValueError, ("tgt", "(2, 0)"), lambda: small()(SRC, np.zeros((2, 0), int))),
    (ValueError, ("src", "(batch, length)", "(4,)"), lambda: small()(SRC[0], TGT[0])),
    (ValueError, ("'post'", "'pre'", "'past'"), lambda: small("past")),
    (ValueError, ("relu", "gelu", "'swish'"), lambda: small(activation="swish")),
    (ValueError, ("src", "(2, 0)"), lambda: small().generate(np.zeros((2, 0), int), 1, 2)),
])  # fmt: skip
def test_what_does_not_fit_is_refused_in_a_sentence(error, words, run):
    with refuses(error, *words):
        run()


def test_lists_arrays_and_tensors_of_tokens_are_the_same():
    model = small()
    same(model(SRC.tolist(), TGT.tolist()), model(SRC, TGT))
    same(model(mg.tensor(SRC), mg.tensor(TGT)), model(SRC, TGT))


# ---------------------------------------------------------------- randomness (42)


def test_no_two_layers_start_equal_and_the_same_seed_gives_the_same_model():
    mg.manual_seed(5)
    model, other = small(), small()
    matrices = [p.data for p in model.parameters() if p.ndim > 1]
    equal = [
        (i, j)
        for i, a in enumerate(matrices)
        for j, b in enumerate(matrices[:i])
        if a.shape == b.shape and np.array_equal(a, b)
    ]
    assert len(matrices) > 20 and equal == []
    assert (other.embedding.weight.data != model.embedding.weight.data).all()
    mg.manual_seed(5)
    for (name, p), (again, q) in zip(model.named_parameters(), small().named_parameters(), strict=True):
        assert name == again
        same(p, q)


def test_numpys_global_random_state_is_neither_read_nor_moved():
    np.random.seed(1)
    before = repr(np.random.get_state())
    mg.manual_seed(5)
    model = small(dropout=0.3)
    loss = Loss(model)()
    loss.backward()
    model.generate(SRC, 1, 2, max_new=3)
    assert repr(np.random.get_state()) == before
    np.random.seed(2)
    mg.manual_seed(5)
    same(Loss(small(dropout=0.3))(), loss)


def test_dropout_is_on_in_training_and_off_in_evaluation():
    model = small(dropout=0.3)
    assert (model(SRC, TGT).data != model(SRC, TGT).data).any()
    same(model.eval()(SRC, TGT), model(SRC, TGT))
    plain = small()
    plain.load_state_dict(model.state_dict())
    same(model(SRC, TGT), plain(SRC, TGT))


def test_first_values_are_glorots_and_embeddings_have_variance_one_over_d_model():
    model = small(d_model=64, d_ff=128, vocab_size=200)
    assert abs(model.embedding.weight.data.std() * 8 - 1) < 0.05
    w = model.encoder[0].feed_forward.linear1.weight.data
    bound = math.sqrt(6 / (64 + 128))
    assert np.abs(w).max() <= bound and abs(w.std() * 3**0.5 / bound - 1) < 0.05


def test_pre_norm_ends_each_stack_with_a_norm_and_post_norm_does_not():
    ends = ("encoder_norm.weight", "decoder_norm.weight")
    assert {
        norm: sum(name in ends for name, _ in small(norm).named_parameters()) for norm in ("post", "pre")
    } == {
        "post": 0,
        "pre": 2,
    }
    memory = small("pre").encode(SRC).data
    near(memory.mean(-1), np.zeros((2, 4)), 1e-12)
    near(memory.std(-1), np.ones((2, 4)), 1e-3)


@norms
def test_a_small_model_learns_a_batch_by_heart_and_writes_it(norm):
    mg.manual_seed(0)
    model = small(norm, d_model=16, d_ff=32).float()
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    src = np.random.default_rng(0).integers(3, 6, (6, 4))
    tgt = np.hstack([np.full((6, 1), 1), src[:, :-1]])
    for _ in range(200):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(src, tgt).reshape(-1, 6), src.reshape(-1))
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    assert (model.eval().generate(src, 1, 2, max_new=4) == src).all()
