"""The table of rules: for each function and each of its arguments, how a gradient of the value becomes a gradient of the argument.

Such a rule is a vector-Jacobian product, *vjp*. The rules themselves are in rules.py.

Words used here and in the rules: g is the gradient of the value (of a scalar loss with respect to it), y the value itself
(z where y is an argument), x, y the arguments.
"""

import inspect

RULES = {}  # function -> Row
CONSTANT = object()  # in the table: a function whose value never carries a gradient (comparisons, argmax ...)


class Row:
    """What the table says of one function: a rule for each argument, None where there is no gradient.

    A rule is called as rule(g, y, *args, **kwargs). Its parameters tell what it reads: of one whose name begins with an
    underscore it may look at the shape and dtype only, and the engine keeps no more than that.
    """

    def __init__(self, fun, rules):
        self.fun, self.rules = fun, rules
        # which arguments need a gradient -> what must be kept for it, once it has been looked at
        self.reads_by_needs = {}

    def reads(self, needs):
        """(is y read?, is each argument read?) by the rules of those arguments that need a gradient."""
        reads = [_reads(rule, len(needs)) for rule, needed in zip(self.rules, needs) if needed and rule]
        return tuple(map(any, zip(*reads, strict=True))) or (False,) * (len(needs) + 1)

    def vjp(self, node, g, y, args, needs):
        """The gradient of each argument that has a rule and needs one, and None for the others."""
        gradients = []  # not in a comprehension, which costs a call of its own before Python 3.12
        for rule, needed in zip(self.rules, needs):
            gradients.append(rule(g, y, *args, **node.kwargs) if needed and rule else None)
        return gradients


class EachRow(Row):
    """A row for functions of any number of like arguments: one rule, told which argument is meant."""

    def vjp(self, node, g, y, args, needs):
        return [
            self.rules(i, g, y, *args, **node.kwargs) if needed else None for i, needed in enumerate(needs)
        ]

    def reads(self, needs):
        return _reads(self.rules, len(needs) + 1)[1:]


class KernelRow:
    """A hand-written pair: backward(g, y, saved, needs, *args, **kwargs) gives all gradients at once.

    `definition` is the same function composed from ops. Where the gradient must itself have a gradient, the engine runs
    the definition again and differentiates that, because what a kernel saved is a bare number to any later derivative.
    `value` is forward's y alone, where that saves time: it runs where nothing is recorded.
    """

    def __init__(self, definition, forward, backward, value=None):
        self.definition, self.forward, self.backward, self.value = definition, forward, backward, value
        self.reads_by_needs = {}

    def reads(self, needs):
        return (_reads(self.backward, 1)[0], *[True] * len(needs))

    def vjp(self, node, g, y, args, needs):
        return self.backward(g, y, node.saved, needs, *args, **node.kwargs)


def _reads(rule, count):
    """For y and each of `count` arguments: does the rule read its value? A leading underscore in the parameter's name says no.

    lambda g, _z, _x, y: g * y   reads y only: (False, False, True)
    """
    g, *rest = inspect.signature(rule).parameters.values()
    parameters = (
        [g, *rest] if g.kind is g.VAR_POSITIONAL else rest
    )  # g is always read; of *args the others are too
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    # *xs: all others bear that name
    names += [p.name for p in parameters if p.kind is p.VAR_POSITIONAL] * (count + 1)
    names += ["_"] * (count + 1)
    return tuple(not name.startswith("_") for name in names[: count + 1])


def defvjp(fun, *rules):
    """Add a row: one rule for each argument of `fun`, in order; None for an argument without a gradient."""
    RULES[fun] = Row(fun, rules)


def defvjp_each(fun, rule):
    """Add a row for a function of any number of like arguments: rule(i, g, y, *args, **kwargs) for the i-th."""
    RULES[fun] = EachRow(fun, rule)


def defkernel(definition, forward, backward, value=None):
    """Register a hand-derived pair for a definition; forward(*args, **kwargs) returns (y, saved), value(...) y alone."""
    if value:
        value.__name__ = forward.__name__  # which errors name
    RULES[forward] = definition.kernel = KernelRow(definition, forward, backward, value)
