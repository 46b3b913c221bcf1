"""The forward trace: every step, in order, counted right. Answers three of the lesson's questions by counting."""

import json

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, viz
from minigrad.trace import main
from minigrad.viz.trace import amount, trace_call
from models.attention import MultiHeadAttention, causal_mask
from models.gpt import GPT


@pytest.fixture(scope="module")
def gpt():
    mg.manual_seed(0)
    return GPT(11, d_model=8, num_heads=2, num_layers=2, max_len=6, dropout=0.0)


def attention(n, d_model=16, heads=2):
    layer = MultiHeadAttention(d_model, heads)
    return layer, viz.trace_forward(layer, mg.randn(1, n, d_model), mask=causal_mask(n))


def scores(trace, n):
    """The steps whose value is an attention matrix."""
    return [step for step in trace.steps if step.output[-2:] == (n, n) and len(step.output) == 4]


def test_question_4_the_attention_matrix_of_1000_tokens_and_8_heads_takes_32_megabytes():
    _, trace = attention(1000, 512, 8)
    softmax = scores(trace, 1000)[-1]
    assert (softmax.op, softmax.output, softmax.bytes) == ("divide", (1, 8, 1000, 1000), 32_000_000)


def test_question_7_each_head_projects_from_512_to_64():
    layer, trace = attention(10, 512, 8)
    product = next(step for step in trace["q_proj"].steps if step.op == "matmul")
    assert product.inputs == ((1, 10, 512), (512, 512)) and product.weights == ("", "q_proj.weight")
    split = next(step for step in trace.steps if step.op == "swapaxes")
    assert split.output == (1, 8, 10, 64)  # eight heads, each with columns of its own: W_i^Q is 512 x 64
    assert layer.q_proj.weight.shape == (8 * 64, 512)


def test_question_9_the_products_of_attention_grow_with_the_square_of_n():
    def products(n):  # Q K^T and weights @ V
        return sum(step.flops for step in attention(n)[1].steps if step.op == "matmul" and len(step.output) == 4)

    assert products(20) == 2 * (2 * 20 * 20 * 16)  # heads x d_k = d_model = 16
    assert products(40) == 4 * products(20)


def test_every_step_is_there_in_order():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    x = mg.randn(5, 3)
    trace = viz.trace_forward(net, x, values=True)
    assert [(step.module, step.op) for step in trace.steps] == [("0", "transpose"), ("0", "matmul"), ("0", "add"), ("1", "relu")]
    product = trace.steps[1]
    assert product.flops == 2 * 5 * 3 * 4 and product.parameters == 12 and product.bytes == 5 * 4 * 4
    assert trace.steps[0].bytes == 0  # a transpose is a view
    y = net(x).data
    last = trace.steps[-1]
    assert np.array_equal(last.value, y) and last.mean == pytest.approx(y.mean()) and last.std == pytest.approx(y.std())


def test_masked_scores_do_not_spoil_mean_and_std():
    trace = attention(4)[1]
    assert all(np.isfinite([step.mean, step.std]).all() for step in trace.steps)


def test_a_plain_function_can_be_traced():
    trace = viz.trace_forward(lambda x: (x * 2).exp().sum(), mg.ones(3))
    assert [step.op for step in trace.steps] == ["multiply", "exp", "sum"] and trace.flops == 9


def test_functions_of_several_values_show_each(gpt):
    trace = viz.trace_forward(gpt, np.array([[1, 2, 3]]))
    assert [step.output for step in trace["h.0.attn"].steps if step.op == "split"] == [(1, 3, 8)] * 3


def test_the_tree_collapses(gpt):
    trace = viz.trace_forward(gpt, np.array([[1, 2, 3]]))
    outermost, all_steps = trace.text(1), str(trace)
    assert "h.1 Block" in outermost and "attn" not in outermost and "c_attn Linear" in all_steps
    assert len(all_steps.splitlines()) > len(trace.text(2).splitlines()) > len(outermost.splitlines())
    block = next(line for line in outermost.splitlines() if line.startswith("h.0"))
    assert amount(sum(p.numel() for p in gpt.h[0].parameters())) in block and amount(trace["h.0"].flops) in block


def test_a_tied_weight_is_found_at_both_its_places(gpt):
    trace = viz.trace_forward(gpt, np.array([[1, 2, 3]]))
    assert [step.op for step in trace.steps if "wte.weight" in step.weights] == ["getitem", "transpose", "matmul"]


def test_rows_are_plain_data(gpt):
    rows = json.loads(json.dumps(viz.trace_forward(gpt, np.array([[1, 2]])).rows()))
    assert rows[0] | {"mean": 0, "std": 0} == {
        "module": "wte", "op": "getitem", "inputs": [[11, 8], [1, 2]], "weights": ["wte.weight", ""], "output": [1, 2, 8],
        "dtype": "float32", "parameters": 88, "flops": 0, "bytes": 64, "mean": 0, "std": 0,
    }  # fmt: skip


def test_what_is_kept_for_backward():
    x, w = mg.randn(10, 10), mg.randn(10, 10, requires_grad=True)
    y = (x @ w).exp()  # the product's rule reads x, that of exp its value
    assert viz.kept_for_backward(y) == 2 * 400
    assert viz.kept_for_backward(y.sum()) == 2 * 400  # a sum reads nothing
    assert viz.kept_for_backward(x) == 0


def test_a_module_that_did_not_run_is_a_sentence(gpt):
    with pytest.raises(KeyError, match=r"no step ran in a module 'h.7'; the outermost ones are wte, wpe, h.0, h.1, ln_f"):
        viz.trace_forward(gpt, np.array([[1]]))["h.7"]


def test_tracing_does_not_change_the_result(gpt):
    x = np.array([[4, 5, 6]])
    found = []
    trace_call(lambda: found.append(gpt(x)), gpt)
    with mg.definitions():
        assert np.array_equal(found[0].data, gpt(x).data)


def test_the_door_shows_a_recipe_and_one_of_its_modules(capsys):
    assert main(["dates", "--module", "decoder.1.cross_attention", "--depth", "all"]) == 0
    out = capsys.readouterr().out
    assert "cross_attention MultiHeadAttention" in out and "matmul (weight)" in out and "until backward" in out
    assert main(["reverse", "--json", "--batch-size", "2"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["output"][0] == 2


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["dates", "--module", "foo"], "no step ran in a module 'foo'"),
    (["nothing"], "there is no recipe 'nothing'"),
    (["dates", "--set", "depth=3"], "--set takes NAME=VALUE"),
    (["dates", "--batch-size", "0"], "--batch-size needs a whole number from 1"),
])  # fmt: skip
def test_what_cannot_be_followed_is_a_sentence(arguments, sentence, capsys):
    assert main(arguments) == 2
    assert sentence in capsys.readouterr().err
