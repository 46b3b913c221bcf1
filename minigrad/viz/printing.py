"""Print a rule's source as a formula: `lambda g, y, _x: quotient(g, 2 * y)` becomes g / (2 * y).

So the page of the stepper shows the rule itself, not a copy of it.
"""

import ast
import copy
import functools
import inspect

from minigrad.gradcheck.rule_source import is_elementwise, syntax_tree
from minigrad.viz.mathml import BINDING, COMPARISONS

NAMES = {
    "absolute": "abs",
    "log": "ln",
    "log2": "log_2",
    "log10": "log_10",
    "rint": "round",
    "maximum": "max",
    "minimum": "min",
}


def print_rule(rule, letters):
    """Print a rule as a formula, a Python expression.

    Returns "" if it has several statements or unknown syntax.

    letters  names for the rule's parameters in order: g, the value, each argument. Parameters without a
             letter are settings
    """
    tree = syntax_tree(rule)
    returned = _returned_expression(tree)
    if returned is None:
        return ""
    parameters = [p.arg for p in tree.args.args]
    try:
        return ast.unparse(_Printer(rule.__globals__, parameters, letters).visit(copy.deepcopy(returned)))
    except _NoFormulaError:
        return ""


def _returned_expression(tree):
    """The expression that a function returns, if it does nothing else; else None."""
    if isinstance(tree, ast.Lambda):
        return tree.body
    steps = tree.body[ast.get_docstring(tree) is not None :] if tree else []
    return steps[0].value if len(steps) == 1 and isinstance(steps[0], ast.Return) else None


class _NoFormulaError(Exception):
    pass


class _Printer(ast.NodeTransformer):
    """Rewrites an expression in the notation of formulas. Leaves out settings such as an axis."""

    def __init__(self, names, parameters, letters):
        self.names, self.letters = names, dict(zip(parameters, letters))

    def generic_visit(self, node):
        raise _NoFormulaError

    def visit_Name(self, node):
        return ast.Name(self.letters.get(node.id, node.id))

    def visit_Constant(self, node):
        return node if type(node.value) in (int, float) else self.generic_visit(node)

    def visit_UnaryOp(self, node):
        return ast.UnaryOp(self._require(node.op, (ast.USub,)), self.visit(node.operand))

    def visit_BinOp(self, node):
        left, op, right = self.visit(node.left), self._require(node.op, BINDING), self.visit(node.right)
        return _product(left, right) if isinstance(op, ast.Mult) else ast.BinOp(left, op, right)

    def visit_Compare(self, node):
        """Bracket a comparison: [x > 0] is 1 where it holds, else 0."""
        if len(node.ops) > 1:
            self.generic_visit(node)
        ops = [self._require(node.ops[0], COMPARISONS)]
        return ast.List([ast.Compare(self.visit(node.left), ops, [self.visit(node.comparators[0])])])

    def _require(self, op, known):
        return op if type(op) in known else self.generic_visit(op)

    def visit_Attribute(self, node):
        if node.attr == "mT":
            return _call("T", self.visit(node.value))
        return ast.Name("pi") if node.attr == "pi" else self.generic_visit(node)

    def visit_Call(self, node):
        name, fun, args = self._parse_call(node)
        if not is_elementwise(fun):  # then arguments after the first may be settings
            args = [arg for arg in args if arg is args[0] or self._is_value(arg)]
        args = [self.visit(arg) for arg in args]
        if name == "quotient":
            return ast.BinOp(args[0], ast.Div(), args[1])
        if name == "solve":
            return ast.BinOp(_call("inv", args[0]), ast.MatMult(), args[1])
        if name == "where":
            return _choice(*args)
        return _call(NAMES.get(name, name), *args)

    def _parse_call(self, node):
        """Return (name, function, arguments) of a call such as np.exp(x), sigmoid(x) or x.sum()."""
        if isinstance(node.func, ast.Name):
            return node.func.id, self.names.get(node.func.id), node.args
        if not isinstance(node.func, ast.Attribute):
            self.generic_visit(node)
        owner, name = node.func.value, node.func.attr
        first, *rest = ast.unparse(owner).split(".")
        module = functools.reduce(lambda found, part: getattr(found, part, None), rest, self.names.get(first))
        if inspect.ismodule(module):
            return name, getattr(module, name, None), node.args
        return name, None, [owner, *node.args]

    def _is_value(self, arg):
        """Return whether an argument contains a number or a parameter with a letter.

        Axes and shapes do not.
        """
        if isinstance(arg, ast.Attribute):
            return arg.attr == "mT" and self._is_value(arg.value)
        is_value = isinstance(arg, ast.Constant) or getattr(arg, "id", None) in self.letters
        return is_value or any(map(self._is_value, ast.iter_child_nodes(arg)))


def _call(name, *args):
    return ast.Call(ast.Name(name), list(args), [])


def _is(node, number):
    return isinstance(node, ast.Constant) and node.value == number


def _product(left, right):
    """Build left * right, simplified: 0 * x is 0, and x * x is x ** 2."""
    if _is(left, 0):
        return left
    if ast.unparse(left) == ast.unparse(right):
        return ast.BinOp(left, ast.Pow(), ast.Constant(2))
    if isinstance(left, ast.UnaryOp) and ast.unparse(left.operand) == ast.unparse(right):
        return ast.UnaryOp(left.op, _product(right, right))
    return ast.BinOp(left, ast.Mult(), right)


def _choice(condition, x, y):
    """Build where(c, x, y) as x * c + y * (1 - c)."""
    otherwise = ast.BinOp(ast.Constant(1), ast.Sub(), condition)
    parts = [_product(*part) for part in ((x, condition), (y, otherwise)) if not _is(part[0], 0)]
    return parts[0] if len(parts) == 1 else ast.BinOp(parts[0], ast.Add(), parts[1])
