"""Attention grown up: shared keys and values, widths of its own, caches, PyTorch's weights, every kind of mask."""

import numpy as np
import pytest
from oracle import by, gradients, leaf, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad.gradcheck import gradcheck
from models import attention as module
from models.attention import KVCache, MultiHeadAttention, SourceCache, causal_mask, from_torch_state
from models.blocks import EncoderLayer

tiers = pytest.mark.parametrize("tier", ("kernel", "definition"))
PADDING = np.array([[True, True, True, False], [True, True, False, False]])[:, None, None, :]  # (2, 1, 1, 4)
MASKS = {
    "none": None, "causal": causal_mask(4).data, "padding": PADDING, "both": causal_mask(4).data & PADDING,
    "each head": np.random.default_rng(0).random((2, 4, 4, 4)) < 0.7, "added": np.random.default_rng(1).standard_normal((4, 4)),
    "added, -inf": np.where(np.tri(4, dtype=bool), np.random.default_rng(2).standard_normal((4, 4)), -np.inf),
    "a row hidden": np.array([[True, True, False, True], [False] * 4, [True] * 4, [False, True, True, True]]),
}  # fmt: skip
masks = pytest.mark.parametrize("name", MASKS)


# ---------------------------------------------------------------- shared keys and values


@tiers
@masks
@pytest.mark.parametrize("kv_heads", (1, 2))
def test_shared_heads_are_repeated_heads(name, kv_heads, tier):
    shared, full, mask = (
        MultiHeadAttention(8, 4, num_kv_heads=kv_heads).double(),
        MultiHeadAttention(8, 4).double(),
        MASKS[name],
    )
    state = {key: t.data for key, t in shared.state_dict().items()}
    for part in ("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias"):
        state[part] = np.repeat(state[part].reshape(kv_heads, 2, -1), 4 // kv_heads, 0).reshape(
            full.state_dict()[part].shape
        )
    full.load_state_dict(state)
    x = leaf(2, 4, 8)
    with by(tier):
        a, b = shared(x, mask=mask, need_weights=True), full(x, mask=mask, need_weights=True)
        near(a[0], b[0], 1e-13)
        near(a[1], b[1], 1e-13)
        near(*(gradients(out, [x])[0] for out, _ in (a, b)), 1e-12)


def test_the_gradient_of_shared_heads_and_of_widths_of_their_own():
    mask = MASKS["each head"]
    assert gradcheck(
        lambda x, a=MultiHeadAttention(8, 4, num_kv_heads=2).double(): a(x, mask=mask),
        [leaf(2, 4, 8)],
        order=2,
    )
    wide = MultiHeadAttention(6, 2, head_dim=5, kv_dim=3).double()
    assert (
        wide.q_proj.weight.shape == (10, 6)
        and wide.k_proj.weight.shape == (10, 3)
        and wide.out_proj.weight.shape == (6, 10)
    )
    assert gradcheck(wide, [leaf(2, 3, 6), leaf(2, 4, 3)], order=2, fast=True)
    assert wide(leaf(2, 3, 6), leaf(2, 4, 3), need_weights=True)[1].shape == (2, 2, 3, 4)


def test_what_does_not_fit_together_is_a_sentence():
    with refuses(ValueError, "4 heads", "3 heads of keys", "divide"):
        MultiHeadAttention(8, 4, num_kv_heads=3)
    with refuses(ValueError, "path", "'plain'", "'quick'"):
        MultiHeadAttention(8, 4, path="quick")
    with refuses(ValueError, "d_model = 10", "4 heads"):
        MultiHeadAttention(10, 4)
    with refuses(ValueError, "(B, T, C)", "(3, 8)", "unsqueeze"):
        MultiHeadAttention(8, 4)(leaf(3, 8))
    with refuses(ValueError, "(1, 3, 2, 2)", "1 head or 4", "(1, 4, 2, 2)"):
        MultiHeadAttention(8, 4, num_kv_heads=2)(
            leaf(1, 2, 8, dtype=np.float32), mask=np.ones((1, 3, 2, 2), bool)
        )
    assert MultiHeadAttention(10, 4, head_dim=3)(leaf(1, 2, 10, dtype=np.float32)).shape == (1, 2, 10)


def test_another_way_of_computing_it_can_be_put_in(monkeypatch):
    calls = []

    def other(*args):
        calls.append(len(args))
        return F.scaled_dot_product_attention(*args)

    monkeypatch.setitem(module.PATHS, "other", other)
    x = leaf(2, 4, 8)
    plain, own = MultiHeadAttention(8, 2).double(), MultiHeadAttention(8, 2, path="other").double()
    own.load_state_dict(plain.state_dict())
    same(own(x, mask=causal_mask(4)), plain(x, mask=causal_mask(4)))
    assert calls == [5]  # q, k, v, mask, dropout


# ---------------------------------------------------------------- caches


def test_a_cache_is_made_at_the_first_use_keeps_the_dtype_and_ends_with_a_sentence():
    cache, k = KVCache(4), mg.randn(2, 3, 2, 5)
    with mg.no_grad():
        got = cache.update(k, 2 * k)
        assert cache.k.shape == (2, 3, 4, 5) and cache.k.dtype == np.float32 and cache.length == 2
        same(got[0], k)
        got = cache.update(k[:, :, :1], k[:, :, :1])
        same(got[0], np.concatenate([k.data, k.data[:, :, :1]], 2))
        with refuses(ValueError, "room for 4", "it holds 3", "2 more"):
            cache.update(k, k)
        assert cache.length == 3  # it is as it was
    with mg.no_grad(), refuses(ValueError, "(1, 3)", "(2, 3)", "new cache"):
        other = KVCache(4)
        other.update(k[:1], k[:1])
        other.update(k, k)
    cache.select(np.array([1, 1]))
    same(cache.k[0], cache.k[1])


def test_while_recorded_gradients_reach_the_new_keys_and_what_was_there_is_a_constant():
    attention, x = MultiHeadAttention(4, 2).double(), leaf(2, 5, 4)
    whole = attention(x, mask=causal_mask(5))
    cache = KVCache(5)
    first = attention(x[:, :2], mask=causal_mask(2), cache=cache)
    second = attention(x[:, 2:], mask=causal_mask(3, 5), cache=cache)
    near(mg.concatenate([first, second], 1), whole, 1e-14)
    (d,) = gradients(second, [x])
    assert (d[:, :2] == 0).all() and (d[:, 2:] != 0).all()


def test_a_source_is_projected_once():
    attention, memory = MultiHeadAttention(4, 2).double(), leaf(2, 3, 4)
    x, cache = leaf(2, 1, 4), SourceCache()
    cache.select(np.array([0]))  # nothing in it yet
    once = attention(x, memory, cache=cache)
    again = attention(x, None, cache=cache)
    same(once, attention(x, memory))
    same(again, once)


# ---------------------------------------------------------------- PyTorch's weights


KINDS = {
    "same width": {},
    "other width": {"kdim": 6, "vdim": 6},
    "two other widths": {"kdim": 6, "vdim": 5},
    "no bias": {"bias": False},
}


def pair(d_model=8, kdim=None, vdim=None, bias=True, batch_first=True):
    """Our attention of four heads and PyTorch's, with the same numbers in them."""
    torch = pytest.importorskip(
        "torch", reason="PyTorch is not installed; it serves as an oracle only (pip install torch)."
    )
    theirs = torch.nn.MultiheadAttention(
        d_model, 4, bias=bias, kdim=kdim, vdim=vdim, batch_first=batch_first, dtype=torch.float64
    )
    for p in theirs.parameters():
        torch.nn.init.normal_(p, std=0.5)
    ours = MultiHeadAttention(d_model, 4, bias=bias, kv_dim=kdim, v_dim=vdim).double()
    ours.load_state_dict(from_torch_state(theirs.state_dict()))
    return ours, theirs, torch


@tiers
@masks
@pytest.mark.parametrize("kind", KINDS)
def test_pytorchs_weights_give_pytorchs_output_weights_and_gradients(name, kind, tier):
    ours, theirs, torch = pair(**KINDS[kind])
    inputs = [leaf(2, 4, 8), leaf(2, 4, theirs.kdim, seed=1), leaf(2, 4, theirs.vdim, seed=2)]
    a, b, c = (torch.tensor(t.data, requires_grad=True) for t in inputs)
    mask, seeing, hidden = MASKS[name], [0, 1, 2, 3], None
    if name == "a row hidden":
        seeing = [0, 2, 3]  # to a query that may see nothing PyTorch gives NaN, so it is not asked
    if mask is not None:
        turned = torch.tensor(mask if mask.dtype == float else ~mask)[
            ..., seeing if mask.shape[-2] > 1 else slice(None), :
        ]
        hidden = turned.broadcast_to(2, 4, len(seeing), 4).reshape(8, len(seeing), 4)
    with by(tier):
        out, weights = ours(*inputs, mask=mask, need_weights=True)
        same(ours(*inputs, mask=mask), out)
        same(weights[:, :, sorted({0, 1, 2, 3} - {*seeing})].any(), np.array(False))
        out = out[:, seeing]
        expected, their_weights = theirs(a[:, seeing], b, c, attn_mask=hidden, average_attn_weights=False)
        near(weights[:, :, seeing], their_weights, 1e-13)
        near(out, expected, 1e-12)
        g = np.random.default_rng(5).standard_normal(out.shape)
        out.backward(mg.tensor(g))
    expected.backward(torch.tensor(g))
    for x, t in zip(inputs, (a, b, c), strict=True):
        near(x.grad, t.grad, 1e-12)
    theirs_by_name = from_torch_state({name: p.grad for name, p in theirs.named_parameters()})
    for name, p in ours.named_parameters():
        near(p.grad, theirs_by_name[name], 1e-12)


@pytest.mark.parametrize("batch_first", (True, False))
def test_pytorchs_own_two_masks_are_one_of_ours_turned_over(batch_first):
    ours, theirs, torch = pair(batch_first=batch_first)
    turn = (lambda y: y) if batch_first else (lambda y: y.swapaxes(0, 1))
    x = leaf(2, 4, 8)
    a = torch.tensor(turn(x.data), requires_grad=True)
    hidden = dict(
        key_padding_mask=~torch.tensor(PADDING[:, 0, 0]), attn_mask=~torch.tensor(causal_mask(4).data[0, 0])
    )
    expected, their_weights = theirs(a, a, a, **hidden)
    out, weights = ours(x, mask=MASKS["both"], need_weights=True)
    near(out, turn(expected), 1e-12)
    near(out, turn(theirs(a, a, a, need_weights=False, **hidden)[0]), 1e-12)
    # PyTorch's weights are the mean over the heads, if not asked otherwise
    near(weights.mean(1), their_weights, 1e-13)
    g = np.random.default_rng(5).standard_normal(out.shape)
    out.backward(mg.tensor(g))
    expected.backward(torch.tensor(turn(g)))
    near(x.grad, turn(a.grad), 1e-12)


def test_a_state_with_keys_of_its_own_is_refused():
    with refuses(ValueError, "add_bias_kv"):
        from_torch_state({"bias_k": np.zeros(3)})


def test_a_state_of_something_else_is_a_sentence_that_says_what_to_pass():
    of_a_layer = {
        "self_attn.in_proj_weight": np.zeros((24, 8)),
        "self_attn.out_proj.weight": np.zeros((8, 8)),
        "linear1.weight": 0,
        "norm1.bias": 0,
    }
    with refuses(
        ValueError,
        "one nn.MultiheadAttention",
        "self_attn.in_proj_weight",
        "and 1 more",
        "theirs.self_attn.state_dict()",
    ):
        from_torch_state(of_a_layer)
    with refuses(ValueError, "an empty state"):
        from_torch_state({})


def test_a_state_of_pytorchs_given_to_ours_names_what_turns_it_and_not_strict():
    state = {"in_proj_weight": np.zeros((24, 8)), "out_proj.weight": np.zeros((8, 8))}
    with pytest.raises(RuntimeError, match=r"models.attention.from_torch_state\(state\)") as caught:
        MultiHeadAttention(8, 2, bias=False).load_state_dict(state)
    assert "strict=False" not in str(caught.value)
    with refuses(RuntimeError, "models.attention.from_torch_state"):
        EncoderLayer(8, 2, 8).load_state_dict({f"self_attn.{name}": value for name, value in state.items()})


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ("attn_mask", ("mask=~attn_mask", "True = may attend", "floats")),
        ("key_padding_mask", ("mask=~key_padding_mask[:, None, None, :]", "True = may attend")),
        ("is_causal", ("causal_mask(T)",)),
        ("masc", ("'masc'", "query, key, value, mask")),
    ],
)
def test_pytorchs_names_of_masks_are_led_to_ours(theirs, words):
    with refuses(TypeError, theirs, *words):
        MultiHeadAttention(8, 2)(mg.randn(1, 3, 8), **{theirs: None})
