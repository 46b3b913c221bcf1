"""RNN, LSTM and GRU: beside PyTorch, by gradcheck, kernel beside definition, sentences."""

import warnings

import numpy as np
import pytest
from helpers import functions
from oracle import by, gradients, leaf, near, refuses, same

import minigrad as mg
from minigrad import kernels, nn
from minigrad.gradcheck import gradcheck

tiers = pytest.mark.parametrize("tier", ("kernel", "definition"))
KINDS = ("RNN", "LSTM", "GRU")
T, B, C, H = 5, 3, 4, 6


def numbers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def pair(name, *sizes, **settings):
    """A layer of ours and PyTorch's with the same numbers in it, float64; our state_dict is what PyTorch loads."""
    torch = pytest.importorskip(
        "torch", reason="PyTorch is not installed; it serves as an oracle only (pip install torch)."
    )
    ours, theirs = (
        getattr(nn, name)(*sizes, **settings).double(),
        getattr(torch.nn, name)(*sizes, **settings).double(),
    )
    state = {key: torch.tensor(value.numpy()) for key, value in ours.state_dict().items()}
    assert list(state) == list(theirs.state_dict())
    theirs.load_state_dict(state)
    return ours, theirs, torch


def flat(outputs):
    """(output, (h, c)) -> [output, h, c]."""
    return [x for part in outputs for x in flat(part)] if isinstance(outputs, (tuple, list)) else [outputs]


def alike(ours, theirs, torch, x, states=(), **more):
    """Equal outputs, and equal gradients of input, first states and every parameter, for random incoming gradients."""
    xs, ts = (
        [mg.tensor(a, requires_grad=True) for a in (x, *states)],
        [torch.tensor(a, requires_grad=True) for a in (x, *states)],
    )
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
    alike(
        *pair(name, C, H, num_layers=2, bidirectional=True, batch_first=True),
        numbers(T, C),
        states_for(name, 4, H),
    )


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
        alike(
            ours,
            packed,
            torch,
            numbers(T, B, C),
            states_for(name, 4 if both_ways else 2, B, H),
            lengths=lengths,
        )


def test_dropout_stands_between_layers_only():
    torch = pytest.importorskip("torch")
    assert torch.nn.LSTM(C, H, 2, dropout=1.0)(torch.zeros(T, B, C))[0].shape == (T, B, H)
    # everything dropped: no chance involved
    ours, theirs, torch = pair("GRU", C, H, num_layers=2, dropout=1.0)
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
    assert {t.dtype for t in (*outputs, x.grad, *(p.grad for p in layer.parameters()))} == {
        np.dtype(np.float32)
    }
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
        (lambda: nn.LSTM(3, 4)(mg.zeros(2, 5, 7)), ["(2, 5, 7)", "input_size", "of length 3"]),
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
