"""Where minigrad differs from PyTorch on purpose: one row each. Read by the tests against PyTorch, which run every row in both
libraries, and by the page "coming from PyTorch". Knows no code of either.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """What is done, what comes of it here and in PyTorch, and why."""

    name: str
    minigrad: str
    pytorch: str
    reason: str


DIFFERENCES = [
    Difference("cross_entropy, every target ignored", "0", "nan",
               "a batch without a target teaches nothing; its mean need not spoil the epoch's (the gradient is 0 in both)"),
    Difference("attention layer, a query that may see nothing", "finite", "nan",
               "there is nothing to average, so the heads give 0; F.scaled_dot_product_attention gives 0 in both"),
    Difference("attention, NaN in a value that no query may see", "finite", "nan",
               "what is masked is as if it were not there: padding may hold anything"),
    Difference("attention layer's boolean mask, True means", "may attend", "hidden",
               "one polarity everywhere, that of F.scaled_dot_product_attention; pass ~mask when you port a layer"),
    Difference("gradient of sqrt at 0 where nothing arrives", "0", "nan",
               "0 times an infinite slope: nothing arrives, so nothing leaves"),
    Difference("mse_loss of shapes (3,) and (3, 1)", "ValueError", "warning",
               "broadcasting a target against an output is nearly always a mistake"),
    Difference("nll_loss, every target ignored", "0", "nan",
               "as in cross_entropy"),
    Difference("gradient of binary_cross_entropy at p = 0 where the target is 1", "0", "finite",
               "there the loss is cut off at 100, so it is flat (PyTorch: -1e12); take the loss of logits, which is exact"),
    Difference("softplus(21.0) in float64", "log(1 + exp(21))", "21",
               "the stable form is exact everywhere, so the threshold is not needed"),
    Difference("scatter of two numbers to one place: the gradient goes to", "the last one", "both",
               "only one of them was written"),
    Difference("gradient of median() where three numbers are equal", "one gets all", "shared",
               "the median is one of the numbers; amax() and amin() share, as in PyTorch"),
    Difference("gradient of hypot at (0, 0)", "0", "nan",
               "as the norm's at 0"),
    Difference("gradient of det of a singular matrix", "LinAlgError", "works",
               "it is computed through the inverse; PyTorch's is inexact there"),
    Difference("float_power of float32", "float32", "float64",
               "float32 stays float32 everywhere"),
    Difference("prod over two axes", "works", "TypeError",
               "all reductions take several axes"),
    Difference("softmax without an axis, of a cube", "the last axis", "the first axis, with a warning",
               "the last axis holds the classes nearly everywhere"),
    Difference("empty", "zeros", "whatever was there",
               "memory that was never written is no place for surprises"),
    Difference("x += y on a computed x", "a new tensor", "the same tensor",
               "history is never rewritten; in place only on leaves under no_grad"),
    Difference("backward(create_graph=True)", "TypeError", "works",
               "higher orders have one door: grad(outputs, inputs, create_graph=True)"),
    Difference("x.data", "a NumPy array", "a tensor",
               "the array inside is what the engine computes on; x.detach() gives a tensor"),
    Difference("x.size()", "a tuple", "a torch.Size",
               "a tuple does all that is needed"),
    Difference("a plain list of modules as an attribute", "TypeError", "not found",
               "parameters that are silently not trained cost days"),
    Difference("assigning a layer before super().__init__()", "works", "AttributeError",
               "modules register nothing, so there is nothing to prepare"),
    Difference("state_dict of tied weights", "once", "under each name",
               "one parameter is saved once; both forms load"),
    Difference("the same parameter twice in one group", "ValueError", "warning",
               "it would move twice a step"),
    Difference("clip_grad_norm_ returns", "a float", "a tensor",
               "it is a number to print"),
    Difference("a recurrent layer called with lengths=", "works", "TypeError",
               "sequences of different length stay a padded array, instead of being packed and unpacked around the call"),
    Difference("LSTM with proj_size", "TypeError", "works",
               "hardly any model has a state smaller than its cell"),
    Difference(".cuda()", "NotImplementedError", "needs a GPU",
               "NumPy computes on the CPU; .to('cpu') is accepted and does nothing"),
]  # fmt: skip


def as_markdown():
    """The table of the page tutorials/coming_from_pytorch.md."""
    rows = [f"| {d.name} | {d.minigrad} | {d.pytorch} | {d.reason} |" for d in DIFFERENCES]
    return "\n".join(["| what | minigrad | PyTorch | why |", "| --- | --- | --- | --- |", *rows])
