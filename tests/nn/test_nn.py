"""Modules: what they find, save, load and refuse; containers, first values, dropout, embeddings; float32 in a whole step."""

import copy
import pickle

import numpy as np
import pytest
from helpers import nodes
from oracle import gradients, leaf, near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad import nn, optim
from minigrad.engine.graph import Node
from minigrad.nn import init
from models.samples import Call
from models.transformer import Transformer


class Net(nn.Module):
    """Something of everything: layers, a parameter of its own, a buffer, a tied weight, and plain attributes."""

    def __init__(self):
        self.first = nn.Linear(3, 3)
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
        self.inner[0].weight = self.first.weight
        self.scale = nn.Parameter(mg.ones(3))
        self.register_buffer("shift", mg.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("count", mg.tensor([4]))
        self.name, self.nothing, self.numbers = "net", None, [1, 2]

    def forward(self, x):
        return self.inner(self.first(x)) * self.scale + self.shift


NAMES = ["scale", "first.weight", "first.bias", "inner.0.bias"]
BUFFERS = ["shift", "count"]


def net(**_):
    return Net()


# ---------------------------------------------------------------- what is found


def test_parameters_are_found_by_path_each_once():
    model = net()
    assert [name for name, _ in model.named_parameters()] == NAMES
    assert len({id(p) for p in model.parameters()}) == len(list(model.parameters())) == 4
    assert dict(model.named_parameters())["first.weight"] is model.inner[0].weight
    assert [name for name, _ in model.named_buffers()] == BUFFERS and all(
        not b.requires_grad for b in model.buffers()
    )


def test_modules_are_found_by_path_each_once_and_children_only_one_level_down():
    model = net()
    model.again = model.first
    assert [path for path, _ in model.named_modules()] == ["", "first", "inner", "inner.0", "inner.1"]
    assert [name for name, _ in model.named_children()] == ["first", "inner", "again"]
    assert [path for path, _ in model.named_modules(remove_duplicate=False)][-1] == "again"
    assert sum(1 for _ in model.modules()) == 5


def test_a_parameter_is_a_leaf_that_wants_its_gradient_and_float32_by_default():
    p = nn.Parameter([1.0, 2.0])
    assert (p.requires_grad, p.is_leaf, p.dtype) == (True, True, np.float32) and isinstance(p, mg.Tensor)
    assert not nn.Parameter(mg.ones(2), requires_grad=False).requires_grad
    with refuses(TypeError, "floating point"):
        nn.Parameter([1, 2])


def test_attributes_can_be_replaced_and_deleted_and_the_names_follow():
    model = net()
    del model.scale
    model.first = nn.Linear(3, 3, bias=False)
    assert [name for name, _ in model.named_parameters()] == [
        "first.weight",
        "inner.0.weight",
        "inner.0.bias",
    ]


@pytest.mark.parametrize("held", [
    [nn.Linear(2, 2)], (nn.Linear(2, 2),), {"a": nn.Linear(2, 2)}, [nn.Parameter([1.0])],
], ids=("list", "tuple", "dict", "parameters"))  # fmt: skip
def test_modules_hidden_in_a_plain_list_are_refused_with_the_way_out(held):
    model = nn.Module()
    model.layers = held
    with refuses(TypeError, "Module.layers", type(held).__name__, "nn.ModuleList", "nn.ModuleDict"):
        list(model.parameters())


def test_a_module_without_forward_says_so():
    class Empty(nn.Module):
        pass

    with refuses(NotImplementedError, "Empty", "forward"):
        Empty()(1)


def test_zero_grad_and_requires_grad_reach_every_parameter():
    model = net()
    model(mg.ones(2, 3)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    model.requires_grad_(False)
    assert not any(p.requires_grad for p in model.parameters()) and not model(mg.ones(2, 3)).requires_grad


def test_apply_visits_the_innermost_first_and_gives_back_the_module():
    seen = []
    model = net()
    assert model.apply(lambda m: seen.append(type(m).__name__)) is model
    assert seen == ["Linear", "Linear", "Dropout", "Sequential", "Net"]


def test_train_and_eval_reach_everything_inside():
    model = net()
    assert all(m.training for m in model.modules())
    assert model.eval() is model and not any(m.training for m in model.modules())
    assert model.train() is model and all(m.training for m in model.modules())
    same(model.eval()(mg.ones(2, 3)), model(mg.ones(2, 3)))


# ---------------------------------------------------------------- saving and loading


def numbers(model):
    return {name: p.data.copy() for name, p in model.state_dict().items()}


def test_a_state_has_every_name_once_and_shares_memory():
    model = net()
    state = model.state_dict()
    assert list(state) == NAMES + BUFFERS and not any(p.requires_grad for p in state.values())
    assert np.shares_memory(state["scale"].data, model.scale.data)


def test_loading_copies_the_numbers_and_keeps_the_parameters_themselves():
    model, other = net(), net()
    kept = list(other.parameters())
    other.load_state_dict(model.state_dict())
    assert all(p is q for p, q in zip(kept, other.parameters(), strict=True))
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        same(a, b)
        assert not np.shares_memory(a.data, b.data)
    other.load_state_dict(
        {name: array.astype(np.float64) for name, array in numbers(model).items() if name != "count"},
        strict=False,
    )
    assert other.scale.dtype == np.float32


@pytest.mark.parametrize("change, words", [
    (lambda s: s.pop("scale"), ("missing", "scale")),
    (lambda s: s.update(extra=np.ones(2)), ("not known", "extra")),
    (lambda s: s.update(scale=np.ones(4)), ("scale: the module has (3,), the state (4,)",)),
    (lambda s: (s.pop("first.bias"), s.update(extra=np.ones(2), scale=np.ones((3, 1)))), ("first.bias", "extra", "(3, 1)")),
    (lambda s: s.update(count=np.array([1.5])), ("count", "int64", "float64")),
    (lambda s: s.update(scale=np.array([1j, 1, 1])), ("complex",)),
], ids=("missing", "unexpected", "shape", "all at once", "dtype", "complex"))  # fmt: skip
def test_a_state_that_does_not_fit_is_refused_by_name_and_nothing_is_loaded(change, words):
    model = net()
    before, state = numbers(model), {name: array + 1 for name, array in numbers(model).items()}
    change(state)
    with refuses((RuntimeError, TypeError), *words):
        model.load_state_dict(state)
    for name, array in numbers(model).items():
        same(array, before[name])


def test_strict_false_leaves_out_names_but_not_shapes():
    model = net()
    model.load_state_dict({"scale": np.full(3, 7.0), "extra": np.ones(2)}, strict=False)
    assert model.scale.tolist() == [7.0] * 3
    with refuses(RuntimeError, "scale", "(4,)", "nothing was loaded"):
        model.load_state_dict({"scale": np.ones(4)}, strict=False)


def test_a_tied_weight_loads_under_either_of_its_names():
    model, state = net(), numbers(net())
    state["inner.0.weight"] = state.pop("first.weight")
    model.load_state_dict(state)
    same(model.first.weight, state["inner.0.weight"])


def test_loading_is_a_write_so_a_backward_of_before_is_refused():
    model, x = nn.Linear(3, 2), leaf(2, 3, dtype=np.float32)
    loss = model(x).sum()
    model.load_state_dict(nn.Linear(3, 2).state_dict())
    with refuses(RuntimeError, "linear", "changed in place"):
        loss.backward()


def test_copies_and_pickles_of_a_module_are_equal_and_independent():
    model = net()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert [name for name, _ in other.named_parameters()] == NAMES  # ties included
        same(other.eval()(mg.ones(2, 3)), model.eval()(mg.ones(2, 3)))
        assert not np.shares_memory(other.scale.data, model.scale.data) and other.scale.requires_grad


# ---------------------------------------------------------------- dtype and device


def test_double_and_float_change_floating_numbers_only_and_drop_stale_gradients():
    model = net()
    model(mg.ones(2, 3)).sum().backward()
    assert model.double() is model and {p.dtype for p in model.parameters()} == {np.dtype("float64")}
    assert (model.shift.dtype, model.count.dtype) == (np.float64, np.int64)
    assert all(p.grad is None and p.is_leaf for p in model.parameters())
    assert model(leaf(2, 3)).dtype == np.float64
    assert model.float().scale.dtype == model.to(mg.float32).scale.dtype == np.float32
    assert model.to(dtype=mg.float64).scale.dtype == model.to("cpu").scale.dtype == np.float64


def test_there_is_only_the_cpu():
    model = nn.Linear(2, 2)
    assert model.cpu() is model.to("cpu") is model.to(device="cpu") is model
    for call in (
        model.cuda,
        lambda: model.to("cuda"),
        lambda: model.to("cuda:0"),
        lambda: model.to(device="mps"),
    ):
        with refuses(NotImplementedError, "CPU only", ".to('cpu')"):
            call()
    with refuses(TypeError, "floating point", "int64"):
        model.to(mg.int64)


# ---------------------------------------------------------------- how it prints


def test_a_module_prints_as_a_tree_with_settings():
    assert repr(net()) == (
        "Net(\n  (first): Linear(in_features=3, out_features=3, bias=True)\n  (inner): Sequential(\n"
        "    (0): Linear(in_features=3, out_features=3, bias=True)\n    (1): Dropout(p=0.5)\n  )\n)"
    )
    assert repr(nn.LayerNorm(4)) == "LayerNorm((4,), eps=1e-05, elementwise_affine=True)"
    assert repr(nn.Embedding(5, 2, padding_idx=0)) == "Embedding(5, 2, padding_idx=0)"
    assert repr(nn.GELU("tanh")) == "GELU(approximate='tanh')" and repr(nn.ReLU()) == "ReLU()"


def test_nodes_note_the_module_that_was_running():
    model = net()
    inside = {node.module for node in nodes(model(mg.ones(2, 3)))}
    assert inside == {model, model.first, model.inner[0], model.inner[1]}
    assert nodes(model.scale * 2)[0].module is None


# ---------------------------------------------------------------- containers


def test_containers_hold_modules_in_order():
    a, b, c = nn.Tanh(), nn.Linear(2, 2), nn.ReLU()
    chain = nn.Sequential(a, b).append(c)
    assert (len(chain), list(chain), chain[0], chain[-1]) == (3, [a, b, c], a, c)
    assert isinstance(chain[1:], nn.Sequential) and list(chain[1:]) == [b, c]
    x = leaf(2, dtype=np.float32)
    same(chain(x), F.relu(b(F.tanh(x))))
    some = nn.ModuleList([a]).extend([b, c])
    assert list(some) == [a, b, c] and list(some[:2]) == [a, b] and type(some[:2]) is nn.ModuleList
    assert [name for name, _ in some.named_parameters()] == ["1.weight", "1.bias"]
    assert [name for name, _ in chain[1:].named_parameters()] == ["0.weight", "0.bias"]
    assert list(nn.Sequential()) == [] and nn.Sequential()(x) is x


def test_a_dict_of_modules():
    a, b = nn.Tanh(), nn.Linear(2, 2)
    named = nn.ModuleDict({"a": a})
    named["b"] = b
    assert (
        named.keys() == list(named) == ["a", "b"]
        and named.values() == [a, b]
        and named.items() == [("a", a), ("b", b)]
    )
    assert len(named) == 2 and "a" in named and "c" not in named and named["b"] is b
    assert [name for name, _ in named.named_parameters()] == ["b.weight", "b.bias"]
    with refuses(KeyError, "'c'", "a, b"):
        named["c"]


@pytest.mark.parametrize(
    "make",
    (
        lambda x: nn.Sequential(x),
        lambda x: nn.ModuleList([x]),
        lambda x: nn.ModuleDict({"a": x}),
        lambda x: nn.ModuleList().append(x),
    ),
)
def test_containers_hold_nothing_but_modules(make):
    with refuses(TypeError, "takes only modules", "function"):
        make(lambda x: x)


def test_a_list_does_not_say_how_it_is_called():
    with refuses(NotImplementedError, "ModuleList", "forward"):
        nn.ModuleList([nn.Tanh()])(mg.ones(2))


# ---------------------------------------------------------------- layers


def test_linear_is_x_times_the_weight_transposed_plus_bias_for_any_leading_axes():
    layer = nn.Linear(4, 3).double()
    for shape in ((4,), (2, 4), (2, 3, 4), (0, 4), (2, 0, 4)):
        x = leaf(*shape)
        near(layer(x), x.data @ layer.weight.data.T + layer.bias.data, 1e-14)
    assert (
        nn.Linear(4, 3, bias=False).bias is None and len(list(nn.Linear(4, 3, bias=False).parameters())) == 1
    )


@pytest.mark.parametrize("error, words, run", [
    (ValueError, ("linear", "(2, 3)", "4"), lambda: nn.Linear(4, 3)(mg.ones(2, 3))),
    (ValueError, ("at least one feature", "0"), lambda: nn.Linear(0, 3)),
    (ValueError, ("layer_norm", "(4,)", "(2, 3)"), lambda: nn.LayerNorm(4)(mg.ones(2, 3))),
    (ValueError, ("padding_idx", "7", "5 rows"), lambda: nn.Embedding(5, 2, padding_idx=7)),
    (IndexError, ("token id 5", "vocabulary of 5", "0..4"), lambda: nn.Embedding(5, 2)([[1, 5]])),
    (IndexError, ("token id -1",), lambda: nn.Embedding(5, 2)(mg.tensor([-1]))),
    (TypeError, ("must be integers", "float32"), lambda: nn.Embedding(5, 2)(mg.tensor([1.0]))),
    (ValueError, ("probability", "1.5"), lambda: nn.Dropout(1.5)),
    (ValueError, ("probability", "-0.1"), lambda: F.dropout(mg.ones(2), -0.1)),
    (ValueError, ("'none' or 'tanh'", "'fast'"), lambda: nn.GELU("fast")(mg.ones(2))),
    (ValueError, ("(2, 3)", "(3,)", "targets"), lambda: nn.CrossEntropyLoss()(mg.ones(2, 3), mg.tensor([0, 1, 2]))),
    (IndexError, ("target 3", "3 classes 0..2"), lambda: nn.CrossEntropyLoss()(mg.ones(1, 3), mg.tensor([3]))),
    (ValueError, ("(2, 5, 3)", "reshape(-1, C)"), lambda: nn.CrossEntropyLoss()(mg.ones(2, 5, 3), np.zeros((2, 5), int))),
    (ValueError, ("reduction", "'avg'"), lambda: nn.CrossEntropyLoss(reduction="avg")(mg.ones(1, 3), [0])),
    (ValueError, ("one shape", "(3,)", "(3, 1)"), lambda: nn.MSELoss()(mg.ones(3), mg.ones(3, 1))),
])  # fmt: skip
def test_layers_refuse_what_does_not_fit_in_a_sentence(error, words, run):
    with refuses(error, *words):
        run()


def test_all_targets_ignored_gives_zero_and_ignored_logits_get_exactly_zero():
    x = leaf(3, 4)
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)(x, [-100, -100, -100])
    assert loss.item() == 0 and (gradients(loss, [x])[0] == 0).all()
    (g,) = gradients(F.cross_entropy(x, [1, -100, 2], label_smoothing=0.1), [x])
    assert (g[1] == 0).all() and (g[[0, 2]] != 0).all()


def test_class_weights_may_be_a_list_and_may_want_a_gradient():
    from minigrad.gradcheck import gradcheck

    x, weight = leaf(4, 3), mg.tensor([0.5, 2.0, 1.0], dtype=np.float64, requires_grad=True)
    same(F.cross_entropy(x, [0, 1, 2, 1], [0.5, 2.0, 1.0]), F.cross_entropy(x, [0, 1, 2, 1], weight.detach()))
    for reduction in ("mean", "sum", "none"):
        assert gradcheck(
            lambda x, w, r=reduction: F.cross_entropy(
                x, [0, 1, -100, 1], w, reduction=r, label_smoothing=0.1
            ),
            [x, weight],
        )


# ---------------------------------------------------------------- embedding (15)


def test_rows_used_twice_get_both_gradients_and_unused_rows_none():
    layer = nn.Embedding(4, 2)
    layer([0, 0, 1]).sum().backward()
    assert layer.weight.grad.tolist() == [[2, 2], [1, 1], [0, 0], [0, 0]]


@pytest.mark.parametrize("padding_idx", (1, -3))
def test_the_padding_row_is_zero_and_stays_so(padding_idx):
    layer = nn.Embedding(4, 2, padding_idx=padding_idx)
    assert layer.weight.data[1].tolist() == [0, 0] and (layer.weight.data[[0, 2, 3]] != 0).all()
    optimizer = optim.SGD(layer.parameters(), lr=1.0)
    (layer(np.array([[0, 1], [1, 2]])) + 1).sum().backward()
    assert layer.weight.grad.tolist() == [[1, 1], [0, 0], [1, 1], [0, 0]]
    optimizer.step()
    assert layer.weight.data[1].tolist() == [0, 0]


def test_an_index_may_be_a_list_an_array_or_a_tensor_of_any_shape():
    layer = nn.Embedding(4, 2)
    for index in (
        3,
        [3],
        np.array([[0, 1]]),
        mg.tensor([[[2]]]),
        np.zeros((0, 2), int),
        np.array([1], np.uint8),
    ):
        assert layer(index).shape == (*np.shape(index), 2)
    same(layer([2, 0]), layer.weight.data[[2, 0]])


# ---------------------------------------------------------------- dropout (34)


def test_dropout_is_the_identity_in_evaluation_and_at_zero():
    x = leaf(50)
    assert (
        nn.Dropout(0.5).eval()(x) is x and nn.Dropout(0.0)(x) is x and F.dropout(x, 0.5, training=False) is x
    )


def test_dropout_zeroes_a_share_and_scales_the_rest_and_the_backward_agrees():
    x = mg.ones(100, 100, dtype=np.float64, requires_grad=True)
    y = nn.Dropout(0.3)(x)
    assert set(np.unique(y.data)) == {0.0, 1 / 0.7} and abs((y.data == 0).mean() - 0.3) < 0.02
    y.sum().backward()
    same(x.grad, y.data)


def test_dropout_of_everything_gives_zero_and_gradient_zero():
    x = leaf(5)
    y = nn.Dropout(1.0)(x)
    y.sum().backward()
    assert (y.data == 0).all() and (x.grad.data == 0).all()


def test_dropout_draws_anew_each_time_and_alike_after_the_same_seed():
    layer, x = nn.Dropout(0.5), mg.ones(100)
    mg.manual_seed(1)
    first, second = layer(x), layer(x)
    mg.manual_seed(1)
    same(layer(x), first)
    assert (first.data != second.data).any()


# ---------------------------------------------------------------- first values


@pytest.mark.parametrize("fill, std, bound", [
    (init.xavier_uniform_, (2 / 700) ** 0.5, (6 / 700) ** 0.5), (init.xavier_normal_, (2 / 700) ** 0.5, None),
    (init.kaiming_uniform_, (2 / 400) ** 0.5, (6 / 400) ** 0.5), (init.kaiming_normal_, (2 / 400) ** 0.5, None),
    (lambda w: init.uniform_(w, -3, 3), 3 / 3**0.5, 3), (lambda w: init.normal_(w, 0, 0.02), 0.02, None),
], ids=("xavier uniform", "xavier normal", "kaiming uniform", "kaiming normal", "uniform", "normal"))  # fmt: skip
def test_first_values_have_the_spread_of_their_formula(fill, std, bound):
    weight = nn.Parameter(mg.zeros(300, 400))
    assert fill(weight) is weight and weight.dtype == np.float32 and weight.is_leaf
    assert abs(weight.data.std() / std - 1) < 0.02 and abs(weight.data.mean()) < 0.02 * std
    assert bound is None or 0.99 * bound < np.abs(weight.data).max() <= bound


def test_constant_first_values_and_what_they_refuse():
    weight = nn.Parameter(mg.empty(2, 3))
    assert (
        init.ones_(weight).data.min() == init.constant_(weight, 1.0).data.max() == 1.0
        and not init.zeros_(weight).data.any()
    )
    with refuses(ValueError, "matrices", "(3,)"):
        init.xavier_uniform_(mg.zeros(3))


def test_a_linear_layer_starts_within_one_over_the_root_of_its_inputs_and_no_two_start_equal():
    one, two = nn.Linear(100, 50), nn.Linear(100, 50)
    assert (
        np.abs(one.weight.data).max() <= 0.1
        and np.abs(one.bias.data).max() <= 0.1
        and one.bias.data.std() > 0.03
    )
    assert (one.weight.data != two.weight.data).mean() > 0.99
    mg.manual_seed(4)
    three = nn.Linear(100, 50)
    mg.randn(1000)  # another stream
    mg.manual_seed(4)
    same(nn.Linear(100, 50).weight, three.weight)


# ---------------------------------------------------------------- float32 in a whole training step (24)


@pytest.mark.parametrize("make", [
    lambda p: optim.SGD(p, lr=np.float64(0.1), momentum=np.float64(0.9), weight_decay=np.float64(0.1)),
    lambda p: optim.Adam(p, lr=np.float64(0.1), weight_decay=np.float64(0.1)), lambda p: optim.AdamW(p, lr=np.float64(0.1)),
], ids=("SGD", "Adam", "AdamW"))  # fmt: skip
@pytest.mark.parametrize("norm", ("post", "pre"))
def test_there_is_no_float64_anywhere_in_a_training_step(norm, make):
    src, tgt = np.array([[3, 1, 4, 0], [2, 2, 5, 1]]), np.array([[1, 3, 3], [1, 4, 0]])
    model = Transformer(
        6, d_model=8, num_heads=2, num_layers=1, d_ff=12, dropout=0.1, norm=norm, activation="gelu"
    )
    optimizer = make(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        logits = model(src, tgt)
        loss = (
            F.cross_entropy(logits.reshape(-1, 6), tgt.reshape(-1), ignore_index=0, label_smoothing=0.1)
            * 2.0
            / np.float64(3)
        )
        walked = nodes(loss)
        assert len(walked) > 30 and {node.dtype for node in walked} == {np.dtype("float32")}
        for node in walked:
            held = [a.data if isinstance(a, mg.Tensor) else a for a in node.args if not isinstance(a, Node)]
            saved = node.saved if isinstance(node.saved, tuple) else (node.saved,)
            assert not [
                a for a in (*held, *saved, node.y) if isinstance(a, np.ndarray) and a.dtype == np.float64
            ], node
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), np.float64(0.01))
        optimizer.step()
        everything = [x for p in model.parameters() for x in (p.data, p.grad.data)]
        everything += [
            x for state in optimizer.state.values() for x in state.values() if isinstance(x, np.ndarray)
        ]
        assert {x.dtype for x in everything} == {np.dtype("float32")}


def test_a_call_with_fixed_arguments_has_the_modules_parameters():
    assert [name for name, _ in Call(nn.Linear(2, 2), a=mg.ones(2)).named_parameters()] == [
        "module.weight",
        "module.bias",
    ]


def test_evaluating_puts_every_module_back_as_it_was():
    model = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
    model[1].eval()
    with model.evaluating():
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == [True, True, False, False]


def test_a_buffer_that_is_not_persistent_is_cast_but_not_saved():
    module = nn.Module()
    module.register_buffer("table", mg.ones(3), persistent=False)
    assert list(module.state_dict()) == [] and [name for name, _ in module.named_buffers()] == ["table"]
    assert module.double().table.dtype == mg.float64
    module.load_state_dict({})


def test_a_module_named_like_a_method_is_refused():
    with pytest.raises(KeyError, match="'items'.*another name"):
        nn.ModuleDict({"items": nn.Identity()})
