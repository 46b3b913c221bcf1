"""The table of rules. A rule turns the gradient of a value into the gradient of one of its arguments.

Such a rule is a vector-Jacobian product, *vjp*. The rules themselves are in rules.py.

Letters used here and in the rules: g is the gradient of a scalar loss with respect to the value, y the value
itself (z where y is an argument), x and y the arguments.
"""

import inspect

RULES = {}  # function -> Row
CONSTANT = object()  # stands in the table for functions whose value has no gradient (comparisons, argmax ...)


class Row:
    """The row of one function: a rule for each argument, None where there is no gradient.

    A rule is called as rule(g, y, *args, **kwargs). The names of its parameters show what it reads: if a name
    begins with an underscore, the rule may read the shape and dtype only, and the engine keeps nothing else.
    """

    def __init__(self, fun, rules):
        self.fun, self.rules = fun, rules
        # cache of reads(): which arguments need a gradient -> which arrays must be kept
        self.reads_by_needs = {}

    def reads(self, needs):
        """Find what the rules of the arguments that need a gradient read: (is y read?, is each argument?)."""
        reads = [_reads(rule, len(needs)) for rule, needed in zip(self.rules, needs) if needed and rule]
        return tuple(map(any, zip(*reads, strict=True))) or (False,) * (len(needs) + 1)

    def vjp(self, node, g, y, args, needs):
        """Return the gradient of each argument that has a rule and needs one, and None for the others."""
        gradients = []  # a comprehension would cost a function call before Python 3.12
        for rule, needed in zip(self.rules, needs):
            gradients.append(rule(g, y, *args, **node.kwargs) if needed and rule else None)
        return gradients


class EachRow(Row):
    """A row for functions of any number of like arguments: one rule, which gets the index of the argument."""

    def vjp(self, node, g, y, args, needs):
        return [
            self.rules(i, g, y, *args, **node.kwargs) if needed else None for i, needed in enumerate(needs)
        ]

    def reads(self, needs):
        return _reads(self.rules, len(needs) + 1)[1:]


class KernelRow:
    """A hand-written pair: backward(g, y, saved, needs, *args, **kwargs) returns all gradients at once.

    `definition` is the same function composed from ops. Where the gradient must itself have a gradient, the
    engine runs the definition again and differentiates that, because any later derivative sees what a kernel
    saved as a constant. `value` computes forward's y alone. It is given where that saves time, and runs where
    nothing is recorded.
    """

    def __init__(self, definition, forward, backward, value=None):
        self.definition, self.forward, self.backward, self.value = definition, forward, backward, value
        self.reads_by_needs = {}

    def reads(self, needs):
        return (_reads(self.backward, 1)[0], *[True] * len(needs))

    def vjp(self, node, g, y, args, needs):
        return self.backward(g, y, node.saved, needs, *args, **node.kwargs)


def _reads(rule, count):
    """Does a rule read y, and each of `count` arguments? Not if a parameter's name begins with _.

    lambda g, _z, _x, y: g * y   reads y only: (False, False, True)
    """
    g, *rest = inspect.signature(rule).parameters.values()
    # every rule reads g, so g is left out; *args instead of g stands for the other parameters as well
    parameters = [g, *rest] if g.kind is g.VAR_POSITIONAL else rest
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    # *xs is the name of all remaining arguments
    names += [p.name for p in parameters if p.kind is p.VAR_POSITIONAL] * (count + 1)
    names += ["_"] * (count + 1)
    return tuple(not name.startswith("_") for name in names[: count + 1])


def defvjp(fun, *rules):
    """Add a row: one rule for each argument of `fun`, in order; None for an argument without a gradient."""
    RULES[fun] = Row(fun, rules)


def defvjp_each(fun, rule):
    """Add a row for a function of any number of like arguments: the i-th has rule(i, g, y, *args)."""
    RULES[fun] = EachRow(fun, rule)


def defkernel(definition, forward, backward, value=None):
    """Register a hand-derived pair: forward(*args, **kwargs) returns (y, saved), value(...) returns y."""
    if value:
        value.__name__ = forward.__name__  # the name in error messages
    RULES[forward] = definition.kernel = KernelRow(definition, forward, backward, value)
