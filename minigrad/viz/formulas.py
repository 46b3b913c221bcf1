"""The formula and the source of each rule, for the page of the stepper.

FORMULAS has only what a row of the table does not say itself. Gradients are printed from the rules
(printing.py), and a value without an entry is name(x, y). Formulas are Python expressions, so that a test can
evaluate them and compare with the rules. The letters are those of the rules: g is the gradient of the value,
x and y are the arguments, y is the value, or z where y is an argument. d(x) is the gradient of x.
"""

import ast
import inspect
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from minigrad import kernels
from minigrad.engine import array_functions as p
from minigrad.engine import graph
from minigrad.engine.graph import name_of
from minigrad.engine.recompute import recomputed
from minigrad.engine.table import RULES, EachRow, KernelRow, Row
from minigrad.viz.mathml import mathml
from minigrad.viz.printing import NAMES, print_rule

PACKAGE = Path(__file__).parents[2]
LONG = 14  # lines; a longer function is shown by its head and docstring only


@dataclass(frozen=True)
class Formula:
    """The formulas of a function's value and of each argument's gradient ("": none), with an explanation."""

    value: str
    to: tuple = ()
    words: str = ""


def formula(value="", *to, words=""):
    return Formula(value, to, words)


# ---------------------------------------------------------------- the table

ZERO_SLOPE = "A step function: its slope is 0 wherever it has one, so no gradient goes back."
RESHAPED = "The same elements in another shape; the gradient is reshaped back."
TIES = "The larger argument gets the whole gradient; at a tie each gets half."

# fmt: off
FORMULAS = {
    np.add: formula("x + y", words="A sum passes its gradient on unchanged, to both arguments."),
    np.subtract: formula("x - y"),
    np.multiply: formula("x * y", words="Each factor's slope is the other factor."),
    np.true_divide: formula("x / y"),
    np.negative: formula("-x"),
    np.power: formula("x**y", "g * y * x**(y - 1)", "g * z * ln(x)"),
    p.quotient: formula("x / y", words="A division in which 0 / 0 is 0."),
    np.exp: formula(words="The exponential is its own slope."),
    np.exp2: formula("2**x"),
    np.expm1: formula("exp(x) - 1"),
    np.log1p: formula("ln(1 + x)"),
    np.sqrt: formula(words="Where g and y are both 0, the gradient is 0."),
    np.square: formula("x**2"),
    np.tanh: formula(words="Far from 0 the value is near ±1 and the slope near 0: it saturates."),
    p.sigmoid: formula("1 / (1 + exp(-x))"),
    p.erfc: formula("1 - erf(x)"),
    p.softplus: formula("ln(1 + exp(x))"),
    p.relu: formula("max(x, 0)", words="The gradient passes where x was positive, and nowhere else."),
    np.sign: formula(words=ZERO_SLOPE),
    np.floor: formula(words=ZERO_SLOPE),
    np.ceil: formula(words=ZERO_SLOPE),
    np.trunc: formula(words=ZERO_SLOPE),
    np.rint: formula(words=ZERO_SLOPE),
    p.cast: formula("x", words="The same elements in another dtype."),
    np.hypot: formula("sqrt(x**2 + y**2)"),
    np.logaddexp: formula("ln(exp(x) + exp(y))"),
    np.fmod: formula("x - y * trunc(x / y)"),
    np.remainder: formula("x - y * floor(x / y)"),
    np.maximum: formula("max(x, y)", "g * [x > y]", "g * [y > x]", words=TIES),
    np.minimum: formula("min(x, y)", "g * [x < y]", "g * [y < x]", words="The smaller argument gets the whole gradient; at a tie each gets half."),
    np.where: formula("c * x + (1 - c) * y", words="c is 1 where the condition holds and 0 elsewhere; each argument gets the gradient of the elements it supplied."),
    np.tril: formula(words="Elements that were set to 0 get gradient 0."),
    np.triu: formula(words="Elements that were set to 0 get gradient 0."),
    np.sum: formula("Sum(i, x_i)", "d(x_i) = g", words="Every summand counts once, so g is copied to each."),
    np.amax: formula("max(i, x_i)", "d(x_i) = g * [x_i == y]", words="Only the largest element counts; equal maxima divide g equally."),
    np.amin: formula("min(i, x_i)", "d(x_i) = g * [x_i == y]", words="Only the smallest element counts; equal minima divide g equally."),
    p.norm: formula("sqrt(Sum(i, x_i**2))", "g * x / y", words="Along the vector itself; 0 at the zero vector."),
    np.prod: formula("Prod(i, x_i)", "d(x_i) = g * Prod(j != i, x_j)", words="Each factor's slope is the product of the others."),
    np.cumsum: formula("y_i = Sum(j <= i, x_j)", "d(x_j) = Sum(i >= j, g_i)", words="An element counts in every sum from its own position on."),
    np.reshape: formula("reshape(x)", words=RESHAPED),
    np.transpose: formula("transpose(x)", "untranspose(g)", words="The axes of the gradient are put back in their order."),
    np.swapaxes: formula(words="Two axes are swapped, and swapped back in the gradient."),
    np.squeeze: formula("reshape(x)", words=RESHAPED),
    np.expand_dims: formula("reshape(x)", words=RESHAPED),
    np.broadcast_to: formula("repeat(x)", words="The rule passes g on; the engine sums over the repeated axes."),
    p.getitem: formula("y_i = x_k_i", "d(x_k) = Sum(k_i == k, g_i)", words="A picked element gets its gradient, an element picked twice the sum of both, the rest 0."),
    p.scatter_add: formula("y_k = Sum(k_i == k, x_i)", "d(x_i) = g_k_i", words="The opposite of picking: each element gets the gradient of the position it was added to."),
    p.concatenate: formula("concatenate(x_1, x_2)", "d(x_i) = part_i(g)", words="Each array gets the part of g that belongs to it."),
    p.split: formula("y_i = part_i(x)", "concatenate(g_1, g_2)", words="The gradients of the parts are concatenated again."),
    graph.take_item: formula("items_i", "d(items_i) = g", words="One value out of several; the gradients of the others stay as they are."),
    np.matmul: formula("x @ y", "g @ T(y)", "T(x) @ g", words="The only order in which the shapes fit."),
    np.linalg.solve: formula("inv(x) @ y"),
    np.linalg.det: formula("det(x)", "g * y * T(inv(x))"),
    p.logabsdet: formula("ln(abs(det(x)))", "g * T(inv(x))"),
    np.linalg.cholesky: formula("x = y @ T(y)", "sym(inv(T(y)) @ tri(T(y) @ g) @ inv(y))", words="tri takes the lower triangle with half of its diagonal, sym makes symmetric (Murray 2016, equation 10)."),
    # kernels: their gradients are derived in the docstrings of their backward functions
    kernels.softmax: formula("y_i = exp(x_i) / Sum(j, exp(x_j))"),
    kernels.log_softmax: formula("y_i = x_i - ln(Sum(j, exp(x_j)))"),
    kernels.gelu: formula("x * Phi(x)", words="Phi(x) is the probability that a standard normal variable is below x."),
    kernels.silu: formula("x / (1 + exp(-x))"),
    kernels.linear: formula("x @ T(weight) + bias"),
    kernels.layer_norm: formula("(x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias"),
    kernels.rms_norm: formula("x / sqrt(mean(x**2) + epsilon) * weight"),
    kernels.embedding: formula("y_i = weight_k_i", words="k holds the token ids, the indices of rows of weight."),
    kernels.split_heads: formula("y_i = part_i(x)", words="The columns of x, head by head; the gradient of each head goes back to its columns."),
    kernels.rotate: formula("cos(a) * x_i - sin(a) * x_j", words="x_i and x_j are a pair, rotated by the angle a of their position; the gradient is rotated back."),
    kernels.merge_heads: formula("concatenate(x_1, x_2)", words="The heads side by side again; each gets the gradient of its columns."),
    kernels.attention: formula("softmax(q @ T(k) / sqrt(d_k)) @ v"),
    kernels.blocked_attention: formula("softmax(q @ T(k) / sqrt(d_k)) @ v"),
    kernels.cross_entropy: formula("y_i = -ln(p_t_i)", words="p is the softmax of the logits, t the target of each row: the loss is large where the model gave the right class a low probability."),
    kernels.rnn_states: formula("h_t = tanh(u_t + weight @ h_s)", words="s is the step before t."),
    kernels.lstm_states: formula("c_t = f * c_s + i * n", words="s is the step before t; h = o tanh(c). The gates i, f, o and the candidate n come from u and h."),
    kernels.gru_states: formula("h_t = (1 - z) * n + z * h_s", words="s is the step before t; the gates r, z and the candidate n come from u and h."),
    recomputed: formula("", words="A checkpoint: its intermediate values were not kept. Backward computes and records them again, then differentiates."),
}
# fmt: on


# ---------------------------------------------------------------- a row, for a reader


def rule_for_reader(fun):
    """Collect what the page shows of a function's rule, with formulas in MathML.

    -> {"value", "to", "words", "letters", "result", "derivation", "sources"}
    """
    row, known = RULES[fun], formula_of(fun)
    letters, rules = letters_of(row), rule_functions(row)
    # rules on the same line are shown once
    sources = {source["where"]: source for source in map(source_of, rules)}
    return {
        "value": mathml(_equation(known.value, result_of(row))),
        "to": [
            mathml(_equation(to, f"d({letter})"))
            for to, letter in zip(known.to, letters * (len(known.to) or 1), strict=False)
        ],
        "words": known.words,
        "letters": letters,
        "result": result_of(row),
        "derivation": "" if any(known.to) else " ".join((inspect.getdoc(rules[0]) or "").split()),
        "sources": [*sources.values()],
    }


def formula_of(fun):
    """The whole formula of a function: its entry in FORMULAS, completed from its name and its rules."""
    row, known = RULES[fun], FORMULAS.get(fun, Formula(""))
    letters = letters_of(row)[: len(row.rules) if type(row) is Row else None]
    name = name_of(fun)
    value = known.value or (
        f"{NAMES.get(name, name)}({', '.join(letters)})" if letters and name.isidentifier() else ""
    )
    to = known.to
    if not to and type(row) is Row:
        to = tuple(print_rule(rule, ("g", result_of(row), *letters)) if rule else "" for rule in row.rules)
    return Formula(value, to, known.words)


def result_of(row):
    """The letter of the value: z where y is an argument."""
    return "z" if "y" in letters_of(row) else "y"


def letters_of(row):
    """The argument names in the row's rules, in order: x, y; q, k, v, mask ..."""
    rule, skipped = (row.backward, 4) if isinstance(row, KernelRow) else (rule_functions(row)[0], 2)
    if isinstance(row, EachRow):
        return ["x_i"]
    if not isinstance(row, (Row, KernelRow)):
        return []
    return [
        q.name.lstrip("_")
        for q in inspect.signature(rule).parameters.values()
        if q.kind is q.POSITIONAL_OR_KEYWORD
    ][skipped:]


def rule_functions(row):
    """The functions whose source contains the row's rules."""
    if isinstance(row, KernelRow):
        return [row.backward]
    if isinstance(row, EachRow):
        return [row.rules]
    return [rule for rule in row.rules if rule] if isinstance(row, Row) else [type(row).vjp]


def source_of(rule):
    """The source of a rule: {"text": ..., "where": "minigrad/engine/rules.py, line 12"}.

    A function of more than LONG lines is shown by its head and docstring.
    """
    lines, first = inspect.getsourcelines(rule)
    path = Path(inspect.getsourcefile(rule))
    shown = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else path.name
    if len(lines) > LONG:
        lines = [*_head(lines), "    ...\n"]
    return {"text": textwrap.dedent("".join(lines)).rstrip(), "where": f"{shown}, line {first}"}


def _head(lines):
    """Take the lines of a function up to the end of its docstring."""
    definition = ast.parse(textwrap.dedent("".join(lines))).body[0]
    has_docstring = ast.get_docstring(definition) is not None
    return lines[: definition.body[0].end_lineno if has_docstring else definition.body[0].lineno - 1]


def _equation(text, left):
    return text if not text or " = " in text else f"{left} = {text}"
