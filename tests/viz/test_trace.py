"""Tests of the forward trace: every step, in order, with correct counts.

Three questions of the lesson are answered by counting.
"""

import json
import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, train, viz
from minigrad.trace import main
from minigrad.viz.trace import amount, trace_call
from models.attention import MultiHeadAttention, causal_mask
from models.gpt import GPT
from models.positional import PositionalEncoding


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
        return sum(
            step.flops for step in attention(n)[1].steps if step.op == "matmul" and len(step.output) == 4
        )

    assert products(20) == 2 * (2 * 20 * 20 * 16)  # heads x d_k = d_model = 16
    assert products(40) == 4 * products(20)


def test_every_step_is_there_in_order():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    x = mg.randn(5, 3)
    trace = viz.trace_forward(net, x, values=True)
    assert [(step.module, step.op) for step in trace.steps] == [
        ("0", "transpose"),
        ("0", "matmul"),
        ("0", "add"),
        ("1", "relu"),
    ]
    product = trace.steps[1]
    assert product.flops == 2 * 5 * 3 * 4 and product.parameters == 12 and product.bytes == 5 * 4 * 4
    assert trace.steps[0].bytes == 0  # a transpose is a view
    y = net(x).data
    last = trace.steps[-1]
    assert (
        np.array_equal(last.value, y)
        and last.mean == pytest.approx(y.mean())
        and last.std == pytest.approx(y.std())
    )


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
    assert (
        amount(sum(p.numel() for p in gpt.h[0].parameters())) in block and amount(trace["h.0"].flops) in block
    )


def titles(text):
    """The first column of a trace, down to the legend."""
    return [re.match(r" *\S+( \S+)*", line).group() for line in text.split("\n\n")[0].splitlines()[1:]]


def test_the_module_asked_for_is_the_root_and_depth_counts_from_it(gpt):
    trace = viz.trace_forward(gpt, np.array([[1, 2, 3]]))
    part = trace["h.1"]
    inside = ["ln_1 LayerNorm", "attn CausalSelfAttention", "· add", "ln_2 LayerNorm", "mlp MLP", "· add"]
    assert titles(part.text(1)) == ["h.1 Block", *("  " + title for title in inside)]
    assert titles(part["h.1.mlp"].text(1))[:2] == ["h.1.mlp MLP", "  c_fc Linear"]
    assert titles(trace["h"].text(1)) == ["h ModuleList", "  0 Block", "  1 Block"]
    own = next(line for line in part.text(1).splitlines() if line.startswith("h.1 "))
    assert (
        own.split()[2:5]
        == next(line for line in trace.text(1).splitlines() if line.startswith("h.1 ")).split()[2:5]
    )
    assert amount(part.flops) in own and f"{len(part)} steps in h.1" in str(part)


def test_a_module_that_runs_twice_is_two_rows_and_says_so():
    class Twice(nn.Module):
        def __init__(self):
            self.embedding, self.last = nn.Embedding(5, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.last(self.embedding(x) * 2) + self.embedding(x)

    trace = viz.trace_forward(Twice(), np.array([1, 2]))
    assert titles(trace.text(1)) == [
        "embedding Embedding",
        "· multiply",
        "last Linear",
        "embedding Embedding (again)",
        "· add",
    ]
    assert titles(trace["embedding"]["embedding"].text(1))[::2] == [
        "embedding Embedding",
        "embedding Embedding (again)",
    ]


def test_the_input_shown_is_the_data_not_a_parameter_or_a_table():
    layer = PositionalEncoding(8, max_len=10)
    model = nn.Sequential(layer)
    trace = viz.trace_forward(model, mg.randn(1, 3, 8))
    row = next(line for line in trace.text(1).splitlines() if line.startswith("0 PositionalEncoding"))
    assert row.split()[2:4] == ["1x3x8", "1x3x8"]
    # a table does not train
    assert trace.steps[0].weights == ("0.table",) and sum(step.parameters for step in trace.steps) == 0


def test_many_inputs_do_not_break_the_columns():
    x = mg.randn(1, 64)
    lines = (
        viz.trace_forward(lambda: mg.concatenate([mg.concatenate([x] * 11), x, x, x, x, x]))
        .text()
        .splitlines()
    )
    assert (
        lines[1].split()[:6] == ["·", "concatenate", "11", "of", "1x64", "11x64"]
        and "11x64 ... (6)" in lines[2]
    )
    assert len({len(line) for line in lines[:3]}) == 1


def test_the_table_explains_itself(gpt):
    text = viz.trace_forward(gpt, np.array([[1, 2, 3]])).text(1)
    assert all(
        word in text
        for word in ("· is one op", "No FLOPs", "No bytes", "Input 1: a scalar", "-inf", "definitions")
    )


def test_dropout_is_among_the_steps_in_training_only():
    model = GPT(11, d_model=8, num_heads=2, num_layers=1, max_len=6, dropout=0.5)
    training = viz.trace_forward(model, np.array([[1, 2]]))
    assert len(training) > len(viz.trace_forward(model.eval(), np.array([[1, 2]])))


def test_a_tied_weight_is_found_at_both_its_uses(gpt):
    trace = viz.trace_forward(gpt, np.array([[1, 2, 3]]))
    assert [step.op for step in trace.steps if "wte.weight" in step.weights] == [
        "getitem",
        "transpose",
        "matmul",
    ]


def test_rows_are_plain_data(gpt):
    rows = json.loads(json.dumps(viz.trace_forward(gpt, np.array([[1, 2]])).rows()))
    assert rows[0] | {"mean": 0, "std": 0} == {
        "module": "wte", "op": "getitem", "inputs": [[11, 8], [1, 2]], "weights": ["wte.weight", ""],
        "output": [1, 2, 8],
        "dtype": "float32", "parameters": 88, "flops": 0, "bytes": 64, "mean": 0, "std": 0,
    }  # fmt: skip


def test_what_is_kept_for_backward():
    x, w = mg.randn(10, 10), mg.randn(10, 10, requires_grad=True)
    y = (x @ w).exp()  # the product's rule reads x, that of exp its value
    assert viz.kept_for_backward(y) == 2 * 400
    assert viz.kept_for_backward(y.sum()) == 2 * 400  # a sum reads nothing
    assert viz.kept_for_backward(x) == 0


def test_asking_for_a_module_that_did_not_run_raises(gpt):
    with pytest.raises(
        KeyError, match=r"no step ran in a module 'h.7'; the outermost ones are wte, wpe, h.0, h.1, ln_f"
    ):
        viz.trace_forward(gpt, np.array([[1]]))["h.7"]


def test_tracing_does_not_change_the_result(gpt):
    x = np.array([[4, 5, 6]])
    found = []
    trace_call(lambda: found.append(gpt(x)), gpt)
    with mg.definitions():
        assert np.array_equal(found[0].data, gpt(x).data)


def test_the_command_shows_a_recipe_and_one_of_its_modules(capsys):
    assert main(["dates", "--module", "decoder.1.cross_attention", "--depth", "all"]) == 0
    out = capsys.readouterr().out
    assert (
        "cross_attention MultiHeadAttention" in out
        and "matmul (weight)" in out
        and "parameters of decoder.1.cross_attention 66.6 kB" in out
    )
    assert "backward" not in out  # what is kept belongs to the whole model
    assert main(["reverse", "--json", "--batch-size", "2"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]  # one a line
    assert rows[0]["output"][0] == 2 and {"wte", "h.0.attn", "the loss"} <= {row["module"] for row in rows}


def test_the_report_on_a_whole_model_says_what_backward_keeps(capsys):
    assert main(["dates", "--set", "model=lstm", "--set", "d_model=16"]) == 0
    out = capsys.readouterr().out
    kept, definitions = re.search(
        r"and ([\d.]+) kB of values that the forward.* would keep ([\d.]+) kB", out, re.S
    ).groups()
    # an LSTM's kernel saves its gates
    assert float(kept) > float(definitions) and "can be more or less" in out


@pytest.mark.parametrize("arguments", [["--pairs", "p.tsv"], ["--set", "pairs=p.tsv"]])
def test_translate_takes_a_file_of_pairs(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"{a} {b} {c}.\t{c} {b} {a}!" for a in "abcdefgh" for b in "ijklmn" for c in "opqrs"]
    (tmp_path / "p.tsv").write_text("\n".join(lines))
    sizes = [f"--set={size}" for size in ("tokens=characters", "d_model=16", "heads=2")]
    assert main(["translate", *arguments, *sizes]) == 0
    assert "the loss" in capsys.readouterr().out


def test_a_run_is_traced_as_it_trains(tmp_path, capsys):
    sizes = [
        "--d-model",
        "8",
        "--heads",
        "2",
        "--layers",
        "1",
        "--d-ff",
        "8",
        "--dropout",
        "0.5",
        "--steps",
        "1",
        "--batch-size",
        "2",
    ]
    assert train.main(["dates", *sizes, "--quiet", "--out", str(tmp_path / "run")]) == 0
    assert main([str(tmp_path / "run"), "--depth", "all"]) == 0
    assert "Dropout" in capsys.readouterr().out


def test_steps_after_the_model_are_the_loss(capsys):
    assert main(["dates"]) == 0
    *_, last = titles(capsys.readouterr().out)
    assert last == "the loss"
    assert main(["recall", "--module", "the loss", "--set", "distance=5"]) == 0
    out = capsys.readouterr().out
    assert titles(out)[:3] == ["the loss", "  · reshape", "  · amax"] and "has no parameters" in out


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["dates", "--module", "foo"], "no step ran in a module 'foo'"),
    (["nothing"], "there is no recipe 'nothing'"),
    (["runs/nope"], "there is no run runs"),
    (["translate"], "--pairs FILE.tsv"),
    (["dates", "--pairs", "p.tsv"], "the recipe dates has no setting --pairs"),
    (["dates", "--set", "depth=3"], "--set takes NAME=VALUE"),
    (["dates", "--batch-size", "0"], "--batch-size needs a whole number from 1"),
])  # fmt: skip
def test_wrong_arguments_are_reported_in_one_line(arguments, sentence, capsys):
    assert main(arguments) == 2
    assert sentence in capsys.readouterr().err
