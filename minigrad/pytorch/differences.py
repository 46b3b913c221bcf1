"""Intended differences from PyTorch, one row each.

The tests against PyTorch run every row in both libraries; the page "coming from PyTorch" shows the rows as a
table.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """An operation, its result here and in PyTorch, and the reason."""

    name: str
    minigrad: str
    pytorch: str
    reason: str


DIFFERENCES = [
    Difference("cross_entropy, every target ignored", "0", "nan",
               "a batch without a target must not turn the epoch's mean into "
               "NaN (the gradient is 0 in both)"),
    Difference("attention layer, a query that may attend to no key", "finite", "nan",
               "there is nothing to average, so the heads are 0; "
               "F.scaled_dot_product_attention gives 0 in both"),
    Difference("attention, NaN in a value to which no query may attend", "finite", "nan",
               "what is masked has no influence, so padding may contain anything"),
    Difference("attention layer's boolean mask, True means", "may attend", "hidden",
               "one polarity everywhere, that of F.scaled_dot_product_attention; "
               "pass ~mask when you port a layer"),
    Difference("gradient of sqrt at 0 if the incoming gradient is 0", "0", "nan",
               "0 times an infinite slope is 0 here: no gradient arrives, so none leaves"),
    Difference("mse_loss of shapes (3,) and (3, 1)", "ValueError", "warning",
               "broadcasting a target against an output is usually a mistake"),
    Difference("nll_loss, every target ignored", "0", "nan",
               "as in cross_entropy"),
    Difference("gradient of binary_cross_entropy at p = 0 where the target is 1", "0", "finite",
               "the loss is limited to 100, so it is flat there (PyTorch: "
               "-1e12); the loss of logits is exact"),
    Difference("softplus(21.0) in float64", "log(1 + exp(21))", "21",
               "the stable form is exact everywhere, so the threshold is not needed"),
    Difference("scatter of two elements to one position: the gradient goes to", "the last one", "both",
               "only one of them was written"),
    Difference("gradient of median() of three equal elements", "one gets all", "shared",
               "the median is one of the elements; amax() and amin() share, as in PyTorch"),
    Difference("gradient of hypot at (0, 0)", "0", "nan",
               "like the norm's at 0"),
    Difference("gradient of det of a singular matrix", "LinAlgError", "works",
               "it is computed from the inverse; PyTorch's is inexact there"),
    Difference("float_power of float32", "float32", "float64",
               "float32 stays float32 everywhere"),
    Difference("prod over two axes", "works", "TypeError",
               "all reductions accept several axes"),
    Difference("softmax of three axes, without axis=", "the last axis", "the first axis, with a warning",
               "the classes are nearly always the last axis"),
    Difference("empty", "zeros", "whatever was there",
               "uninitialized memory would only surprise"),
    Difference("x += y on a computed x", "a new tensor", "the same tensor",
               "history is never rewritten; in place only on leaves under no_grad"),
    Difference("backward(create_graph=True)", "TypeError", "works",
               "higher derivatives have one way: grad(outputs, inputs, create_graph=True)"),
    Difference("x.data", "a NumPy array", "a tensor",
               "the engine computes on this array; x.detach() returns a tensor"),
    Difference("x.size()", "a tuple", "a torch.Size",
               "a tuple is enough"),
    Difference("a plain list of modules as an attribute", "TypeError", "not found",
               "parameters that are silently not trained cost days"),
    Difference("assigning a layer before super().__init__()", "works", "AttributeError",
               "modules register nothing, so there is nothing to prepare"),
    Difference("state_dict of tied weights", "once", "under each name",
               "one parameter is saved once; both forms load"),
    Difference("the same parameter twice in one group", "ValueError", "warning",
               "it would be updated twice in each step"),
    Difference("clip_grad_norm_ returns", "a float", "a tensor",
               "it is a number to print"),
    Difference("a recurrent layer called with lengths=", "works", "TypeError",
               "sequences of different lengths stay a padded array and need no packing"),
    Difference("LSTM with proj_size", "TypeError", "works",
               "few models have a state smaller than their cell"),
    Difference(".cuda()", "NotImplementedError", "needs a GPU",
               "NumPy computes on the CPU; .to('cpu') is accepted and does nothing"),
]  # fmt: skip


def as_markdown():
    """Return the table of the page tutorials/coming_from_pytorch.md."""
    rows = [f"| {d.name} | {d.minigrad} | {d.pytorch} | {d.reason} |" for d in DIFFERENCES]
    return "\n".join(["| what | minigrad | PyTorch | why |", "| --- | --- | --- | --- |", *rows])
