"""RNN, LSTM and GRU: beside PyTorch, by gradcheck, kernel beside definition, sentences; and the models built on them."""

import warnings

import numpy as np
import pytest
from helpers import functions
from oracle import by, gradients, leaf, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad import generate, kernels, nn, optim
from minigrad import train as door
from minigrad.gradcheck import gradcheck
from minigrad.nn.utils import clip_grad_norm_
from models.mlp import MLP
from models.recipes import dates
from models.recurrent import CELLS, AdditiveAttention, EncoderDecoder, Reader

tiers = pytest.mark.parametrize("tier", ("kernel", "definition"))
KINDS = ("RNN", "LSTM", "GRU")
T, B, C, H = 5, 3, 4, 6


def numbers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def pair(name, *sizes, **settings):
    """A layer of ours and PyTorch's with the same numbers in it, float64; our state_dict is what PyTorch loads."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; it serves as an oracle only (pip install torch).")
    ours, theirs = getattr(nn, name)(*sizes, **settings).double(), getattr(torch.nn, name)(*sizes, **settings).double()
    state = {key: torch.tensor(value.numpy()) for key, value in ours.state_dict().items()}
    assert list(state) == list(theirs.state_dict())
    theirs.load_state_dict(state)
    return ours, theirs, torch


def flat(outputs):
    """(output, (h, c)) -> [output, h, c]."""
    return [x for part in outputs for x in flat(part)] if isinstance(outputs, (tuple, list)) else [outputs]


def alike(ours, theirs, torch, x, states=(), **more):
    """Equal outputs, and equal gradients of input, first states and every parameter, for random incoming gradients."""
    xs, ts = [mg.tensor(a, requires_grad=True) for a in (x, *states)], [torch.tensor(a, requires_grad=True) for a in (x, *states)]
    give = lambda state: () if not state else (state[0] if len(state) == 1 else tuple(state),)  # noqa: E731
    y, t = flat(ours(xs[0], *give(xs[1:]), **more)), flat(theirs(ts[0], *give(ts[1:])))
    seeds = [numbers(*one.shape, seed=8 + i) for i, one in enumerate(y)]
    sum((one * g).sum() for one, g in zip(y, seeds, strict=True)).backward()
    sum((one * torch.tensor(g)).sum() for one, g in zip(t, seeds, strict=True)).backward()
    for one, other in zip(y, t, strict=True):
        near(one, other, 1e-12)
    for one, other in zip(xs, ts, strict=True):
        near(one.grad, other.grad, 1e-11)
    for (name, p), (their_name, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert name == their_name
        near(p.grad, q.grad, 1e-11)


def states_for(name, *shape):
    return [numbers(*shape, seed=3 + i) for i in range(2 if name.startswith("LSTM") else 1)]


# ---------------------------------------------------------------- beside PyTorch

SETTINGS = {
    "plain": {},
    "two layers": dict(num_layers=2),
    "bidirectional": dict(bidirectional=True),
    "three layers, both ways, batch first": dict(num_layers=3, bidirectional=True, batch_first=True),
    "without bias": dict(bias=False, num_layers=2),
}


@tiers
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("begun", (False, True), ids=("from zeros", "from a state"))
def test_layers_equal_pytorch(name, settings, begun, tier):
    ours, theirs, torch = pair(name, C, H, **settings)
    count = settings.get("num_layers", 1) * (1 + settings.get("bidirectional", False))
    x = numbers(*((B, T) if settings.get("batch_first") else (T, B)), C)
    with by(tier):
        alike(ours, theirs, torch, x, states_for(name, count, B, H) if begun else ())


@tiers
def test_a_relu_rnn_equals_pytorch(tier):
    with by(tier):
        alike(*pair("RNN", C, H, 2, "relu"), numbers(T, B, C), states_for("RNN", 2, B, H))


@pytest.mark.parametrize("name", KINDS)
def test_one_sequence_without_a_batch_equals_pytorch(name):
    alike(*pair(name, C, H, num_layers=2, bidirectional=True, batch_first=True), numbers(T, C), states_for(name, 4, H))


@tiers
@pytest.mark.parametrize("batch", [(B,), ()], ids=("batch", "alone"))
@pytest.mark.parametrize("settings", [{}, {"bias": False}], ids=("bias", "no bias"))
@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells_equal_pytorch(name, settings, batch, tier):
    with by(tier):
        alike(*pair(name, C, H, **settings), numbers(*batch, C), states_for(name, *batch, H))
        alike(*pair(name, C, H, **settings), numbers(*batch, C))


@tiers
@pytest.mark.parametrize("both_ways", (False, True))
@pytest.mark.parametrize("name", KINDS)
def test_lengths_mean_what_packed_sequences_mean_in_pytorch(name, both_ways, tier):
    ours, theirs, torch = pair(name, C, H, num_layers=2, bidirectional=both_ways)
    lengths = np.array([3, 5, 1])

    def packed(x, *state):
        pack = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
        output, state = theirs(pack, *state)
        return torch.nn.utils.rnn.pad_packed_sequence(output, total_length=T)[0], state

    packed.named_parameters = theirs.named_parameters
    with by(tier):
        alike(ours, packed, torch, numbers(T, B, C), states_for(name, 4 if both_ways else 2, B, H), lengths=lengths)


def test_dropout_stands_between_layers_only():
    torch = pytest.importorskip("torch")
    assert torch.nn.LSTM(C, H, 2, dropout=1.0)(torch.zeros(T, B, C))[0].shape == (T, B, H)
    ours, theirs, torch = pair("GRU", C, H, num_layers=2, dropout=1.0)  # everything dropped: no chance involved
    alike(ours, theirs, torch, numbers(T, B, C))
    alike(ours.eval(), theirs.eval(), torch, numbers(T, B, C))


def test_first_values_are_pytorchs():
    layer = nn.LSTM(C, 25, 2, bidirectional=True)
    assert all(np.abs(p.data).max() <= 0.2 for p in layer.parameters())
    assert 0.95 * 0.2 < np.abs(layer.weight_hh_l1_reverse.data).max()
    assert not np.array_equal(layer.weight_hh_l0.data, layer.weight_hh_l0_reverse.data)


# ---------------------------------------------------------------- gradients, tiers, precision


@pytest.mark.parametrize("order", (1, 2))
@pytest.mark.parametrize("name", KINDS)
def test_gradcheck_of_every_parameter(name, order):
    layer = getattr(nn, name)(2, 3, num_layers=2, bidirectional=True).double()
    assert gradcheck(Through(layer, np.array([3, 1])), [leaf(3, 2, 2)], order=order, seed=1)


class Through(nn.Module):
    """All that a layer returns, as one number for each place of its output."""

    def __init__(self, layer, lengths=None):
        self.layer, self.lengths = layer, lengths

    def forward(self, x):
        output, state = self.layer(x, lengths=self.lengths)
        return output * output + sum((one * one).sum() for one in flat(state))


@pytest.mark.parametrize("order", (0, 1, 2))
@pytest.mark.parametrize("lengths", [None, np.array([4, 7, 0])], ids=("whole", "padded"))
@pytest.mark.parametrize("name", KINDS)
def test_kernel_equals_definition(name, lengths, order):
    layer = Through(getattr(nn, name)(4, 5, num_layers=2, bidirectional=True).double(), lengths)
    x = leaf(7, 3, 4)
    wanted = [x, *layer.parameters()]
    found = {}
    for tier in ("kernel", "definition"):
        with by(tier):
            y = layer(x)
            if order == 0:
                found[tier] = [y]
            elif order == 1:
                found[tier] = gradients(y, wanted)
            else:
                first = mg.grad((y * y).sum(), wanted, create_graph=True)
                found[tier] = mg.grad(sum((g * g).sum() for g in first), wanted)
    for fast, plain in zip(found["kernel"], found["definition"], strict=True):
        near(fast, plain, 1e-12)


@pytest.mark.parametrize("name", KINDS)
def test_float32_stays_float32_and_is_as_exact_as_float32_can_be(name):
    layer = getattr(nn, name)(4, 5, num_layers=2, bidirectional=True)
    x = leaf(7, 3, 4, dtype=np.float32)
    outputs = flat(layer(x))
    sum((y * y).sum() for y in outputs).backward()
    assert {t.dtype for t in (*outputs, x.grad, *(p.grad for p in layer.parameters()))} == {np.dtype(np.float32)}
    again = flat(layer.double()(x.double()))
    for y, exact in zip(outputs, again, strict=True):
        near(y, exact, 1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_what_stands_after_a_sequences_end_changes_nothing_not_even_if_it_is_nan(name):
    layer = getattr(nn, name)(4, 5, num_layers=2, bidirectional=True).double()
    lengths, x = np.array([2, 4]), numbers(4, 2, 4)
    results = []
    for filling in (0.0, np.nan):
        x[2:, 0] = filling
        given = mg.tensor(x, requires_grad=True)
        outputs = flat(layer(given, lengths=lengths))
        layer.zero_grad()
        sum((y * y).sum() for y in outputs).backward()
        results.append([*outputs, given.grad, *(p.grad for p in layer.parameters())])
        same(outputs[0].data[2:, 0], np.zeros((2, 10)))
        same(given.grad.data[2:, 0], np.zeros((2, 4)))
    for one, other in zip(*results, strict=True):
        same(one, other.data)


@pytest.mark.parametrize("name", KINDS)
def test_a_cell_step_by_step_is_the_layer(name):
    layer, cell = getattr(nn, name)(4, 5).double(), getattr(nn, name + "Cell")(4, 5).double()
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in layer.state_dict().items()})
    x, state, seen = mg.tensor(numbers(6, 2, 4)), None, []
    for step in x:
        state = cell(step, state)
        seen.append(flat(state)[0])
    near(mg.stack(seen), layer(x)[0], 1e-14)


def test_the_kernel_is_what_runs_unless_definitions_are_asked_for():
    x = leaf(3, 2, 4)
    layer = nn.LSTM(4, 5).double()
    assert kernels.lstm_states in functions(layer(x)[0])
    with mg.definitions():
        assert kernels.lstm_states not in functions(layer(x)[0])


# ---------------------------------------------------------------- sentences


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nn.LSTM(0, 3), ["input_size 0"]),
        (lambda: nn.GRU(3, 4, num_layers=0), ["num_layers 0"]),
        (lambda: nn.RNN(3, 4, nonlinearity="gelu"), ["tanh", "'gelu'"]),
        (lambda: nn.LSTM(3, 4, num_layers=2, dropout=2), ["dropout", "2"]),
        (lambda: nn.LSTM(3, 4)(mg.zeros(2, 5, 7)), ["(2, 5, 7)", "input_size", "3 numbers"]),
        (lambda: nn.LSTM(3, 4)(mg.zeros(0, 2, 3)), ["at least one step"]),
        (lambda: nn.LSTM(3, 4)(mg.zeros(5, 2, 3), mg.zeros(1, 2, 4)), ["pair (h_0, c_0)"]),
        (lambda: nn.GRU(3, 4)(mg.zeros(5, 2, 3), mg.zeros(2, 2, 4)), ["(1, 2, 4)", "(2, 2, 4)"]),
        (lambda: nn.GRU(3, 4)(mg.zeros(5, 2, 3), lengths=[5, 6]), ["from 0 to 5", "[5, 6]"]),
        (lambda: nn.GRUCell(3, 4)(mg.zeros(2, 3), mg.zeros(3, 4)), ["(2, 4)", "(3, 4)"]),
        (lambda: nn.LSTMCell(3, 4)(mg.zeros(2, 2, 3)), ["1 or 2 axes"]),
    ],
)  # fmt: skip
def test_mistakes_are_sentences(make, words):
    with refuses(ValueError, *words):
        make()


def test_dropout_on_a_single_layer_warns_as_in_pytorch():
    with pytest.warns(UserWarning, match="between layers"):
        nn.LSTM(3, 4, dropout=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.LSTM(3, 4, 2, dropout=0.5)


# ---------------------------------------------------------------- the models built on them

SRC, TGT = np.array([[3, 1, 4, 0, 0], [2, 2, 5, 1, 6]]), np.array([[1, 3, 3, 5], [1, 4, 2, 2]])
models = pytest.mark.parametrize(("cell", "attention"), [(cell, attention) for cell in CELLS for attention in (False, True)])


def model(cell="lstm", attention=True, **settings):
    mg.manual_seed(0)
    return EncoderDecoder(7, d_model=6, cell=cell, attention=attention, **{"num_layers": 2, "dropout": 0.0, **settings}).double()


def bahdanau(attention, state, memory):
    """The formula at one query: softmax_j(v . tanh(W s + U h_j + b)) over the rows of the memory, and their mean."""
    W, U, b, v = (p.data for p in (attention.state_proj.weight, attention.memory_proj.weight, attention.memory_proj.bias, attention.score.weight))
    scores = np.array([v[0] @ np.tanh(W @ state + U @ h + b) for h in memory])
    weights = np.exp(scores) / np.exp(scores).sum()
    return weights @ memory, weights


def test_additive_attention_is_bahdanaus_formula_over_what_is_not_padding():
    attention = AdditiveAttention(3, 4, 5).double()
    state, memory = numbers(2, 3), numbers(2, 6, 4)
    lengths, tensor = [6, 2], mg.tensor(memory)
    context, weights = attention(mg.tensor(state), tensor, attention.memory_proj(tensor), np.arange(6) < np.array(lengths)[:, None])
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


def test_a_beam_finds_nothing_less_likely_than_greedy_decoding():
    one = model()
    one.output.weight.data *= 5

    def log_probability(written):
        logits = one(SRC, np.concatenate([[[1], [1]], written[:, :-1]], 1))
        chosen = mg.log_softmax(logits, -1).data
        return np.array([sum(chosen[i, t, token] for t, token in enumerate(row)) for i, row in enumerate(written)])

    greedy, beam = (one.generate(SRC, 1, 99, max_new=4, beams=n) for n in (1, 20))  # no token 99: nothing ends early
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


@pytest.mark.parametrize(("cell", "attention"), [("lstm", False), ("gru", False), ("lstm", True), ("gru", True)])
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
        return np.where(np.arange(5) < mg.random.fresh("lengths", step).integers(2, 6, (64, 1)), mg.random.fresh("t", step).integers(1, 6, (64, 5)), 0)

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
    near(one(mg.tensor(x)), np.tanh(x @ first.weight.data.T + first.bias.data) @ last.weight.data.T + last.bias.data, 1e-14)


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
