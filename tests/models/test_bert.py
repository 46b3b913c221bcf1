"""BERT: masking 80/10/10, token types, pooling; gradients of every parameter; PyTorch's answer. (PITFALLS 37)"""

import numpy as np
import pytest
from oracle import check_every_parameter, check_tiers, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad.gradcheck import gradcheck
from minigrad.nn import Module
from models.bert import BERT, IGNORED, hide

MASK, SPECIAL, VOCABULARY = 1, 2, 9
ROWS = np.array([[3, 4, 5, 8, 0], [7, 2, 0, 0, 0]])
TYPES = np.array([[0, 0, 1, 1, 0], [0, 1, 0, 0, 0]])


def bert(**settings):
    settings = {
        "d_model": 8,
        "num_heads": 2,
        "num_layers": 2,
        "d_ff": 12,
        "max_len": 6,
        "dropout": 0.0,
        **settings,
    }
    model, rng = BERT(VOCABULARY, **settings).double(), np.random.default_rng(0)
    for p in model.parameters():
        p.data += rng.normal(0, 0.2, p.shape)
    return model


class Loss(Module):
    """The loss of filling in, and of the pooled summary, as a function of the parameters alone."""

    def __init__(self, model):
        self.model = model

    def forward(self):
        seen, asked = hide(ROWS, MASK, (SPECIAL, VOCABULARY), np.random.default_rng(3), 0.5, never=(0,))
        assert (asked != IGNORED).any()
        filled = F.cross_entropy(
            self.model(seen, TYPES).reshape(-1, VOCABULARY), asked.reshape(-1), ignore_index=IGNORED
        )
        return filled + (self.model.pool(self.model.encode(ROWS, TYPES)) ** 2).sum()


# ---------------------------------------------------------------- masking (37)


def test_of_the_asked_80_in_100_are_masked_10_replaced_and_10_left():
    tokens = np.random.default_rng(0).integers(SPECIAL, 1000, size=(500, 200))
    seen, asked = hide(tokens, MASK, (SPECIAL, 1000), np.random.default_rng(1))
    chosen = asked != IGNORED
    assert abs(chosen.mean() - 0.15) < 0.005
    assert abs((seen[chosen] == MASK).mean() - 0.8) < 0.01
    changed = chosen & (seen != MASK) & (seen != tokens)
    assert abs(changed.sum() / chosen.sum() - 0.1) < 0.01
    assert abs((seen[chosen] == tokens[chosen]).mean() - 0.1) < 0.01
    same(asked[chosen], tokens[chosen])
    same(seen[~chosen], tokens[~chosen])
    assert (
        seen[changed].min() >= SPECIAL and seen[changed].max() < 1000 and len(np.unique(seen[changed])) > 500
    )


@pytest.mark.parametrize("ordinary", (48, (48,), (9, 9)))
def test_ordinary_tokens_that_are_no_range_are_a_sentence(ordinary):
    with refuses(ValueError, "pair (low, high)", repr(ordinary)):
        hide(ROWS, 49, ordinary)


def test_rows_of_different_lengths_are_a_sentence():
    with refuses(ValueError, "lengths 3, 1", "padding"):
        bert()([[1, 2, 3], [4]])


def test_what_is_never_hidden_is_never_hidden_and_token_0_can_be_learned():
    tokens = np.tile([0, 1, 2, 3], (200, 50))
    seen, asked = hide(tokens, 9, (0, 4), np.random.default_rng(0), never=(1, 3))
    assert (asked[(tokens == 1) | (tokens == 3)] == IGNORED).all() and (seen[tokens == 1] == 1).all()
    assert (asked[tokens == 0] == 0).any()  # the answer 0 is an answer; "not asked" is IGNORED
    logits = mg.tensor(np.zeros((1, 4)), requires_grad=True)
    F.cross_entropy(logits, np.array([0]), ignore_index=IGNORED).backward()
    assert logits.grad.data[0, 0] < 0


def test_masking_depends_on_its_stream_alone():
    tokens = np.tile(np.arange(2, 9), (20, 3))
    first = hide(tokens, MASK, (2, 9))
    mg.manual_seed(0)
    again, other = hide(tokens, MASK, (2, 9)), hide(tokens, MASK, (2, 9))
    same(first[0], again[0])
    assert (other[0] != again[0]).any()


# ---------------------------------------------------------------- the model


def test_gradients_of_every_parameter():
    check_every_parameter(Loss(bert(num_layers=1, d_model=4, d_ff=5)))
    for dropout in (0.0, 0.2):
        assert gradcheck(Loss(bert(dropout=dropout)), fast=True) and gradcheck(
            Loss(bert(dropout=dropout)), fast=True, order=2
        )


def test_kernels_and_definitions_agree():
    model = bert()
    check_tiers(Loss(model), list(model.parameters()))


def test_it_looks_both_ways_and_not_at_padding():
    model = bert()
    before = model(ROWS).data
    for place in range(4):
        changed = ROWS.copy()
        changed[0, place] = 6
        assert (model(changed).data[0, :4] != before[0, :4]).any(-1).all()
    near(model(ROWS[:, :4]).data[0], before[0, :4], 1e-13)
    near(model(ROWS[1:, :2]).data[0], before[1, :2], 1e-13)


def test_types_count_and_default_to_0():
    model = bert()
    same(model(ROWS), model(ROWS, np.zeros_like(ROWS)))
    assert (model(ROWS, TYPES).data != model(ROWS).data).any()


def test_the_summary_is_of_the_first_token_and_the_output_is_the_embedding_again():
    model = bert()
    encoded = model.encode(ROWS)
    near(
        model.pool(encoded),
        np.tanh(encoded.data[:, 0] @ model.pooler.weight.data.T + model.pooler.bias.data),
        1e-14,
    )
    assert sum(p.shape == (VOCABULARY, 8) for p in model.parameters()) == 1
    with refuses(ValueError, "7 tokens", "max_len = 6"):
        model(np.ones((1, 7), int))


@pytest.mark.parametrize("activation", ("gelu", "relu"))
def test_it_is_what_pytorchs_encoder_layers_compute(activation):
    torch = pytest.importorskip(
        "torch", reason="PyTorch is not installed; it serves as an oracle only (pip install torch)."
    )
    model = bert(activation=activation)
    p = {name: torch.tensor(x.data) for name, x in model.named_parameters()}
    norm = torch.nn.functional.layer_norm
    x = p["tokens.weight"][ROWS] + p["positions.weight"][:5] + p["types.weight"][TYPES]
    x = norm(x, (8,), p["norm.weight"], p["norm.bias"])
    for layer in model.layers:
        x = their_layer(torch, layer, activation)(x, src_key_padding_mask=torch.tensor(ROWS == 0))
    bent = {"gelu": torch.nn.functional.gelu, "relu": torch.relu}[activation](
        x @ p["transform.weight"].T + p["transform.bias"]
    )
    y = (
        norm(bent, (8,), p["transform_norm.weight"], p["transform_norm.bias"]) @ p["tokens.weight"].T
        + p["output_bias"]
    )
    near(model(ROWS, TYPES), y, 1e-12)


def their_layer(torch, layer, activation):
    """PyTorch's encoder layer with the numbers of ours."""
    p = {name: torch.tensor(x.data) for name, x in layer.named_parameters()}
    state = {
        f"self_attn.in_proj_{kind}": torch.cat([p[f"self_attention.{c}_proj.{kind}"] for c in "qkv"])
        for kind in ("weight", "bias")
    }
    names = {"self_attn.out_proj": "self_attention.out_proj", "linear1": "feed_forward.linear1", "linear2": "feed_forward.linear2",
             "norm1": "residual1.norm", "norm2": "residual2.norm"}  # fmt: skip
    state |= {
        f"{theirs}.{kind}": p[f"{ours}.{kind}"]
        for theirs, ours in names.items()
        for kind in ("weight", "bias")
    }
    out = torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, activation, batch_first=True, dtype=torch.float64)
    out.load_state_dict(state)
    return out
