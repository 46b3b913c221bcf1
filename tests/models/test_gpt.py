"""GPT: GPT-2 as published, beside a plain PyTorch one; its ties, first values, causality and cache."""

import math

import decoders
import numpy as np
import pytest
from decoders import VOCABULARY, Loss, gpt, shaken, tokens
from oracle import check_every_parameter, check_tiers, gradients, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad import optim
from minigrad.gradcheck import gradcheck
from minigrad.viz import kept_for_backward
from models.gpt import GPT, from_gpt2_state

# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize("pads", ((0, 0), (0, 2)))
def test_gradients_of_every_parameter_entry_by_entry(pads):
    check_every_parameter(Loss(gpt(d_model=4, num_layers=1, d_ff=5, max_len=5), pads=pads))


@pytest.mark.parametrize("dropout", (0.0, 0.2))
def test_gradients_along_random_directions(dropout):
    assert gradcheck(Loss(gpt(dropout=dropout)), fast=True)
    # first values of 0.02 are too curved for differences
    assert gradcheck(Loss(shaken(gpt(dropout=dropout))), fast=True, order=2)


def test_kernels_and_definitions_agree():
    model = shaken(gpt())
    check_tiers(Loss(model), list(model.parameters()))


def test_float32_stays_float32():
    decoders.check_float32(gpt().float())


def test_checkpointed_blocks_keep_less_and_give_the_same():
    def loss_and_gradients(checkpointed):
        mg.manual_seed(5)
        model = gpt(dropout=0.3, num_layers=4).double()
        model.checkpointed = checkpointed
        mg.manual_seed(6)
        loss = Loss(model)()
        kept = kept_for_backward(loss)
        return loss, gradients(loss, list(model.parameters())), kept

    one, other = loss_and_gradients(False), loss_and_gradients(True)
    same(one[0], other[0])
    for g, h in zip(one[1], other[1], strict=True):
        near(g, h, 1e-13)
    assert other[2] < one[2] / 3


# ---------------------------------------------------------------- causality, cache, padding (28, 30)


def test_no_logit_depends_on_a_later_token():
    decoders.check_later_tokens_change_nothing(shaken(gpt()))
    model = shaken(gpt())
    decoders.check_causality(model, "wte", decoders.causal_cases(model))


@pytest.mark.parametrize("pads", ((0, 0), (0, 3), (8, 1)))
def test_cached_logits_are_the_uncached_ones(pads):
    decoders.check_cache(shaken(gpt()), pads)


def test_left_padding_changes_nothing():
    decoders.check_padding(shaken(gpt()))


def test_more_than_the_context_is_refused():
    with refuses(ValueError, "10 tokens", "max_len = 9"):
        gpt()(tokens(1, 10))
    with refuses(ValueError, "(batch, length)", "(4,)"):
        gpt()(tokens(4))
    model, cache = gpt(), gpt().new_cache()
    with mg.no_grad(), refuses(ValueError, "10 tokens", "max_len = 9"):
        model(tokens(1, 9), cache=cache)
        model(tokens(1, 1), cache=cache)


# ---------------------------------------------------------------- GPT-2's names, values, ties (35, 39)


def test_the_names_are_gpt2s():
    names = {name for name, _ in gpt(num_layers=1).named_parameters()}
    parts = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
    assert names == {"wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"} | {
        f"h.0.{p}.{k}" for p in parts for k in ("weight", "bias")
    }


def test_gpt2_small_has_its_124_million_parameters():
    small = GPT(50257, 96, 12, 1, 64)  # its formula, at a width a test can afford
    count = lambda V, C, T, L: V * C + T * C + 2 * C + L * (12 * C * C + 13 * C)  # noqa: E731
    assert sum(p.numel() for p in small.parameters()) == count(50257, 96, 64, 1)
    assert count(50257, 768, 1024, 12) == 124_439_808


def test_first_values_are_gpt2s():
    check_first_values(GPT(50, 64, 4, 8, 32), 0.02)
    check_first_values(GPT(50, 64, 4, 8, 32, init_std=0.1), 0.1)


def check_first_values(model, std):
    for name, p in model.named_parameters():
        if p.ndim > 1:
            # 4 = sqrt(2 * 8 layers)
            expected = 0.02 if name.startswith("w") else std / 4 if name.endswith("c_proj.weight") else std
            assert abs(p.data.std() / expected - 1) < 0.1, name
        else:
            assert (p.data == (1 if "ln_" in name and name.endswith("weight") else 0)).all(), name
    loss = F.cross_entropy(model(tokens(4, 32)).reshape(-1, 50), tokens(4, 32, seed=1).reshape(-1))
    assert abs(loss.item() - math.log(50)) < 0.2  # at first every token is as likely


def test_the_tied_embedding_is_one_parameter_moved_and_decayed_once_and_saved_once():
    model = shaken(gpt())
    assert sum(p is model.wte.weight for p in model.parameters()) == 1
    assert [name for name in model.state_dict() if "wte" in name or "head" in name] == ["wte.weight"]
    before = model.wte.weight.data.copy()
    for p in model.parameters():
        p.grad = mg.zeros_like(p)
    optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5).step()
    near(model.wte.weight, before * 0.95, 1e-15)


def test_the_gradient_of_the_tied_embedding_is_the_sum_of_its_uses():
    model, rows = shaken(gpt()), tokens(2, 6)
    loss = Loss(model, rows)()
    (whole,) = gradients(loss, [model.wte.weight])
    as_input = model.wte = decoders.Embeds(model.wte)
    loss = Loss(model, rows)()
    dw, dx = gradients(loss, [as_input.inner.weight, as_input.kept])
    spread = np.zeros_like(dw)
    np.add.at(spread, rows[:, :-1], dx)
    near(whole, dw + spread, 1e-13)


def test_it_is_gpt2_as_plain_pytorch_writes_it():
    torch = pytest.importorskip(
        "torch", reason="PyTorch is not installed; it serves as an oracle only (pip install torch)."
    )
    ours, rows = shaken(gpt(num_layers=3)), tokens(2, 8)
    theirs = {name: torch.tensor(p.data, requires_grad=True) for name, p in ours.named_parameters()}
    logits = plain_gpt2(torch, theirs, torch.tensor(rows[:, :-1]), heads=2, layers=3)
    near(ours(rows[:, :-1]), logits, 1e-12)
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, VOCABULARY), torch.tensor(rows[:, 1:]).reshape(-1)
    )
    loss.backward()
    Loss(ours, rows)().backward()
    for name, p in ours.named_parameters():
        near(p.grad, theirs[name].grad, 1e-11)


def plain_gpt2(torch, p, x, heads, layers):
    """The architecture once more, in PyTorch's words, from a dict of parameters."""
    TF, T = torch.nn.functional, x.shape[1]

    def norm(x, name):
        return TF.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"], 1e-5)

    def linear(x, name):
        return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    x = p["wte.weight"][x] + p["wpe.weight"][:T]
    for i in range(layers):
        q, k, v = (
            a.unflatten(-1, (heads, -1)).transpose(1, 2)
            for a in linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").split(x.shape[-1], -1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(torch.ones(T, T).tril() == 0, -math.inf)
        x = x + linear((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), f"h.{i}.attn.c_proj")
        inner = TF.gelu(linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate="tanh")
        x = x + linear(inner, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ p["wte.weight"].T


def test_published_weights_are_read_with_their_conv1d_matrices_turned_and_their_masks_left_out():
    model, other = shaken(gpt()), gpt()
    turned = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    published = {
        f"transformer.{name}": t.data.T.copy() if name.endswith(turned) else t.data
        for name, t in model.state_dict().items()
    }
    published |= {
        "lm_head.weight": model.wte.weight.data,
        "transformer.h.0.attn.bias": np.tri(9),
        "transformer.h.0.attn.masked_bias": 1e4,
    }
    with refuses(RuntimeError, "models.gpt.from_gpt2_state(state)"):
        other.load_state_dict(published)
    other.load_state_dict(from_gpt2_state(published))
    same(other(tokens(2, 5)), model(tokens(2, 5)))


def test_without_biases():
    model = gpt(bias=False)
    assert not [name for name, _ in model.named_parameters() if "bias" in name]
    assert gradcheck(Loss(model), fast=True)
