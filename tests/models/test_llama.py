"""Llama: rotary positions in both layouts, shared keys and values, RMSNorm, SwiGLU; causality, cache, PyTorch's answer."""

import decoders
import numpy as np
import pytest
from decoders import Loss, llama, shaken, tokens
from oracle import check_every_parameter, check_tiers, leaf, near, refuses, same

import minigrad as mg
from minigrad import nn
from minigrad.gradcheck import gradcheck
from models.attention import MultiHeadAttention, causal_mask
from models.blocks import DecoderLayer, EncoderLayer, SwiGLU
from models.positional import LearnedPositions, Rotary, alibi, alibi_slopes, interleaved_to_halves

layouts = pytest.mark.parametrize("layout", ("halves", "interleaved"))


# ---------------------------------------------------------------- the whole model


def test_gradients_of_every_parameter():
    for pads in ((0, 0), (0, 2)):
        check_every_parameter(Loss(llama(d_model=8, num_layers=1, d_ff=5), pads=pads))
    for settings in ({}, {"dropout": 0.2}, {"tie_output": True, "rope_layout": "interleaved", "head_dim": 6}):
        assert gradcheck(Loss(llama(**settings)), fast=True) and gradcheck(
            Loss(shaken(llama(**settings))), fast=True, order=2
        )


def test_kernels_and_definitions_agree():
    model = shaken(llama())
    check_tiers(Loss(model), list(model.parameters()))


def test_no_logit_depends_on_a_later_token():
    decoders.check_later_tokens_change_nothing(shaken(llama()))
    model = shaken(llama())
    decoders.check_causality(model, "embedding", decoders.causal_cases(model))


@pytest.mark.parametrize("pads", ((0, 0), (0, 3), (8, 1)))
@layouts
def test_cached_logits_are_the_uncached_ones(layout, pads):
    decoders.check_cache(shaken(llama(rope_layout=layout)), pads)


def test_left_padding_changes_nothing():
    decoders.check_padding(shaken(llama()))


def test_only_distances_count_so_that_all_positions_may_be_moved():
    model, rows = shaken(llama()), tokens(2, 5)
    near(model(rows, positions=np.arange(4, 9)), model(rows), 1e-12)


def test_float32_stays_float32_and_there_are_no_biases():
    decoders.check_float32(llama().float())
    assert not [name for name, _ in llama().named_parameters() if "bias" in name]


def test_the_cache_holds_the_shared_heads_only():
    model = llama()
    cache = model.new_cache()
    with mg.no_grad():
        model(tokens(3, 4), cache=cache)
    assert cache[0].k.shape == (3, 2, 9, 4) and cache[0].length == 4  # (B, num_kv_heads, max_len, D)


def test_it_is_what_plain_pytorch_computes():
    torch = pytest.importorskip(
        "torch", reason="PyTorch is not installed; it serves as an oracle only (pip install torch)."
    )
    model, rows = shaken(llama()), tokens(2, 7)
    p = {name: torch.tensor(x.data, requires_grad=True) for name, x in model.named_parameters()}
    logits = plain_llama(torch, p, torch.tensor(rows[:, :6]))
    near(model(rows[:, :6]), logits, 1e-12)
    g = np.random.default_rng(3).standard_normal(logits.shape)
    logits.backward(torch.tensor(g))
    model(rows[:, :6]).backward(mg.tensor(g))
    for name, x in model.named_parameters():
        near(x.grad, p[name].grad, 1e-11)


def plain_llama(torch, p, tokens, heads=4, kv_heads=2, layers=2):
    """Complex numbers turn the pairs (i, i + D/2); keys and values are repeated."""
    TF, T = torch.nn.functional, tokens.shape[1]
    x = p["embedding.weight"][tokens]
    D = x.shape[-1] // heads
    turn = torch.polar(
        torch.ones(1, dtype=torch.float64),
        torch.outer(torch.arange(T), 10000 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)),
    )

    def rotated(a):
        z = torch.complex(a[..., : D // 2], a[..., D // 2 :]) * turn
        return torch.cat([z.real, z.imag], -1)

    for i in range(layers):
        name = f"layers.{i}"
        y = TF.rms_norm(x, x.shape[-1:], p[f"{name}.attention_norm.weight"], 1e-5)
        q, k, v = (
            (y @ p[f"{name}.attention.{c}_proj.weight"].T).unflatten(-1, (-1, D)).transpose(1, 2)
            for c in "qkv"
        )
        k, v = (a.repeat_interleave(heads // kv_heads, 1) for a in (rotated(k), v))
        y = TF.scaled_dot_product_attention(rotated(q), k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + y @ p[f"{name}.attention.out_proj.weight"].T
        y = TF.rms_norm(x, x.shape[-1:], p[f"{name}.feed_forward_norm.weight"], 1e-5)
        gate, up, down = (p[f"{name}.feed_forward.{part}_proj.weight"].T for part in ("gate", "up", "down"))
        x = x + (TF.silu(y @ gate) * (y @ up)) @ down
    return TF.rms_norm(x, x.shape[-1:], p["norm.weight"], 1e-5) @ p["output.weight"].T


# ---------------------------------------------------------------- rotary positions (39)


@layouts
def test_rotary_turns_by_position_keeps_lengths_and_leaves_position_0_alone(layout):
    rotary, x = Rotary(6, layout=layout), leaf(2, 3, 5, 6)
    y = rotary(x, np.arange(5))
    same(y.data[:, :, 0], x.data[:, :, 0])
    near((y.data**2).sum(-1), (x.data**2).sum(-1), 1e-13)
    assert (np.abs(y.data[:, :, 1:] - x.data[:, :, 1:]).max(-1) > 1e-3).all()
    assert gradcheck(lambda x: rotary(x, np.arange(5)), [leaf(1, 2, 5, 6)], order=2)


@layouts
def test_the_product_of_a_turned_query_and_key_depends_on_their_distance_alone(layout):
    rotary, q, k = Rotary(8, layout=layout), leaf(1, 1, 1, 8), leaf(1, 1, 1, 8, seed=1)

    def product(i, j):
        return (rotary(q, np.array([i])) * rotary(k, np.array([j]))).sum().item()

    for distance in (0, 1, 7):
        near(
            np.array([product(i, i + distance) for i in (3, 60, 2000)]),
            np.full(3, product(0, distance)),
            1e-11,
        )
    assert abs(product(0, 1) - product(0, 2)) > 1e-3


@layouts
def test_rotary_is_the_rotation_by_pos_times_frequency(layout):
    D, pos, x = 6, 13, leaf(1, 1, 1, 6)
    y = Rotary(D, layout=layout)(x, np.array([pos])).data.ravel()
    for i in range(D // 2):
        a, b = (i, i + D // 2) if layout == "halves" else (2 * i, 2 * i + 1)
        z = complex(x.data.ravel()[a], x.data.ravel()[b]) * np.exp(1j * pos * 10000 ** (-2 * i / D))
        near(y[[a, b]], np.array([z.real, z.imag]), 1e-14)


def test_weights_of_one_layout_are_brought_to_the_other():
    ours, theirs = (
        MultiHeadAttention(12, 3, rotary=Rotary(4, layout=layout)).double()
        for layout in ("halves", "interleaved")
    )
    state = theirs.state_dict()
    for name in ("q_proj", "k_proj"):
        state[f"{name}.weight"] = interleaved_to_halves(
            theirs.q_proj.weight.data if name[0] == "q" else theirs.k_proj.weight.data, 3
        )
        bias = state[f"{name}.bias"].data
        state[f"{name}.bias"] = interleaved_to_halves(bias[:, None], 3)[:, 0]
    ours.load_state_dict(state)
    x = leaf(2, 5, 12)
    near(ours(x, mask=causal_mask(5)), theirs(x, mask=causal_mask(5)), 1e-13)


def test_rotary_refuses_odd_widths_other_layouts_and_positions_beyond_its_table():
    with refuses(ValueError, "even", "5"):
        Rotary(5)
    with refuses(ValueError, "halves", "interleaved", "'pairs'"):
        Rotary(4, layout="pairs")
    with refuses(ValueError, "9 tokens", "max_len = 8"):
        Rotary(4, max_len=8)(leaf(1, 1, 1, 4), np.array([8]))


# ---------------------------------------------------------------- learned positions, ALiBi


def test_learned_positions_are_rows_of_a_table_and_end():
    positions = LearnedPositions(6, 4)
    same(positions(np.array([[0, 2], [5, 5]])), positions.weight.data[[[0, 2], [5, 5]]])
    with refuses(ValueError, "7 tokens", "max_len = 6"):
        positions(np.arange(7))


def test_alibi_slopes_are_the_published_ones():
    near(alibi_slopes(8), 0.5 ** np.arange(1, 9), 1e-15)
    near(alibi_slopes(4), np.array([2**-2, 2**-4, 2**-6, 2**-8]), 1e-15)
    # four, and every other of eight
    near(alibi_slopes(6), np.array([2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]), 1e-15)


def test_alibi_is_causal_depends_on_distance_alone_and_works_as_a_mask():
    bias = alibi(2, 5).data
    assert bias.shape == (1, 2, 5, 5) and (bias[:, :, ~np.tri(5, dtype=bool)] == -np.inf).all()
    near(
        bias[:, :, 1:, 1:][..., np.tri(4, dtype=bool)],
        bias[:, :, :-1, :-1][..., np.tri(4, dtype=bool)],
        1e-15,
    )
    near(bias[0, :, 4, 1], -3 * alibi_slopes(2), 1e-15)
    same(alibi(2, 2, 5), bias[:, :, 3:])  # the last queries of a longer sequence
    attention, x = MultiHeadAttention(4, 2).double(), leaf(2, 5, 4)
    changed = mg.tensor(np.concatenate([x.data[:, :3], x.data[:, 3:] + 9], 1))
    same(attention(x, mask=alibi(2, 5)).data[:, :3], attention(changed, mask=alibi(2, 5)).data[:, :3])


# ---------------------------------------------------------------- RMSNorm, SwiGLU, the choice of norm


def test_rms_norm_of_zeros_and_of_other_shapes():
    x = mg.zeros(2, 4, requires_grad=True)
    y = nn.RMSNorm(4)(x)
    y.sum().backward()
    assert (y.data == 0).all() and np.isfinite(x.grad.data).all()
    with refuses(ValueError, "rms_norm over (5,)", "(2, 4)"):
        nn.RMSNorm(5)(x)


def test_swiglu_is_its_formula():
    layer, x = SwiGLU(4, 6).double(), leaf(2, 3, 4)
    gate, up = x.data @ layer.gate_proj.weight.data.T, x.data @ layer.up_proj.weight.data.T
    near(layer(x), (gate / (1 + np.exp(-gate)) * up) @ layer.down_proj.weight.data.T, 1e-14)


def test_layers_take_swiglu_and_rms_norm():
    encoder, decoder = (
        kind(4, 2, 6, 0.0, "pre", "swiglu", "rms").double() for kind in (EncoderLayer, DecoderLayer)
    )
    assert isinstance(encoder.feed_forward, SwiGLU) and isinstance(decoder.residual3.norm, nn.RMSNorm)
    assert gradcheck(encoder, [leaf(2, 3, 4)], fast=True) and gradcheck(
        decoder, [leaf(2, 3, 4), leaf(2, 4, 4)], fast=True
    )
    with refuses(ValueError, "layer", "rms", "'batch'"):
        EncoderLayer(4, 2, 6, norm_kind="batch")
