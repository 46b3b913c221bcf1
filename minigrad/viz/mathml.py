"""Translate formulas, which are Python expressions, to MathML."""

import ast
import html

SIGNS = {"pi": "π", "epsilon": "ε", "Phi": "Φ"}
FUNCTIONS_OF_INDEX = {"Sum": "∑", "Prod": "∏", "max": "max", "min": "min"}
OPERATORS = {ast.Add: "+", ast.Sub: "−", ast.Mult: "·", ast.MatMult: " "}
COMPARISONS = {ast.Gt: ">", ast.Lt: "<", ast.GtE: "≥", ast.LtE: "≤", ast.Eq: "=", ast.NotEq: "≠"}
BINDING = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.MatMult: 2, ast.Div: 2, ast.Pow: 4}


def mathml(text):
    """Translate a formula such as "y = x**2" to MathML; "" stays ""."""
    if not text:
        return ""
    sides = [_set(ast.parse(side, mode="eval").body) for side in text.split(" = ")]
    return f'<math displaystyle="true">{_sign("=").join(sides)}</math>'


def _set(tree):
    """Typeset a syntax tree as a MathML element."""
    return globals()[f"_set_{type(tree).__name__.lower()}"](tree)


def _sign(text):
    return f"<mo>{html.escape(text)}</mo>"


def _row(*parts):
    return f"<mrow>{''.join(parts)}</mrow>"


def _bracket(inner, left="(", right=")"):
    return _row(_sign(left), inner, _sign(right))


def _set_name(tree):
    """Typeset x, x_i with an index, x_k_i with an index that has an index."""
    first, *rest = tree.id.split("_")
    name = f"<mi>{SIGNS.get(first, first)}</mi>"
    return f"<msub>{name}{_set_name(ast.Name('_'.join(rest)))}</msub>" if rest else name


def _set_constant(tree):
    return f"<mn>{tree.value}</mn>"


def _set_unaryop(tree):
    return _row(_sign("−"), _operand(tree.operand, 2))


def _set_binop(tree):
    kind = type(tree.op)
    if kind is ast.Div:
        return f"<mfrac>{_set(tree.left)}{_set(tree.right)}</mfrac>"
    if kind is ast.Pow:
        return f"<msup>{_operand(tree.left, 5)}{_set(tree.right)}</msup>"
    binds = BINDING[kind]
    between = '<mspace width="0.25em"/>' if kind is ast.MatMult else _sign(OPERATORS[kind])
    return _row(_operand(tree.left, binds), between, _operand(tree.right, binds + (kind is ast.Sub)))


def _operand(tree, binds):
    """Typeset an operand of an operator with binding strength `binds`, in brackets if the operand binds less.

    A fraction in a product needs no brackets.
    """
    own = BINDING.get(type(getattr(tree, "op", None)), 2 if isinstance(tree, ast.UnaryOp) else 5)
    is_fraction = isinstance(getattr(tree, "op", None), ast.Div)
    return _bracket(_set(tree)) if own < binds and not (is_fraction and binds <= 2) else _set(tree)


def _set_list(tree):
    """Typeset [x > 0], which is 1 where the condition holds, else 0."""
    return _bracket(_set(tree.elts[0]), "[", "]")


def _set_compare(tree):
    return _row(_set(tree.left), _sign(COMPARISONS[type(tree.ops[0])]), _set(tree.comparators[0]))


def _set_call(tree):
    name, args = tree.func.id, tree.args
    if name in FUNCTIONS_OF_INDEX and len(args) == 2 and _is_index(args[0]):
        return _row(
            f"<munder>{_sign(FUNCTIONS_OF_INDEX[name])}{_set(args[0])}</munder>", _operand(args[1], 2)
        )
    inner = _sign(",").join(map(_set, args))
    special = {
        "d": lambda: f"<mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo>{inner}</mrow></mfrac>",
        "sqrt": lambda: f"<msqrt>{inner}</msqrt>",
        "exp": lambda: f"<msup><mi>e</mi>{_set(args[0])}</msup>",
        "abs": lambda: _bracket(inner, "|", "|"),
        "T": lambda: f"<msup>{_operand(args[0], 5)}<mi>T</mi></msup>",
        "inv": lambda: f"<msup>{_operand(args[0], 5)}<mrow>{_sign('−')}<mn>1</mn></mrow></msup>",
    }
    return special[name]() if name in special else _row(_set_name(tree.func), _bracket(inner))


def _is_index(tree):
    return isinstance(tree, ast.Compare) or isinstance(tree, ast.Name) and tree.id in ("i", "j")
