"""Formulas set in MathML. Knows Python's syntax tree and how mathematics is written; nothing of rules."""

import ast
import html

SIGNS = {"pi": "π", "epsilon": "ε", "Phi": "Φ"}
FUNCTIONS_OF_INDEX = {"Sum": "∑", "Prod": "∏", "max": "max", "min": "min"}
OPERATORS = {ast.Add: "+", ast.Sub: "−", ast.Mult: "·", ast.MatMult: " "}
COMPARISONS = {ast.Gt: ">", ast.Lt: "<", ast.GtE: "≥", ast.LtE: "≤", ast.Eq: "=", ast.NotEq: "≠"}
BINDING = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.MatMult: 2, ast.Div: 2, ast.Pow: 4}


def mathml(text):
    """A formula set in MathML; "" for none."""
    if not text:
        return ""
    sides = [_set(ast.parse(side, mode="eval").body) for side in text.split(" = ")]
    return f'<math displaystyle="true">{_sign("=").join(sides)}</math>'


def _set(tree):
    """One part of a formula as an element."""
    return globals()[f"_set_{type(tree).__name__.lower()}"](tree)


def _sign(text):
    return f"<mo>{html.escape(text)}</mo>"


def _row(*parts):
    return f"<mrow>{''.join(parts)}</mrow>"


def _bracketed(inner, left="(", right=")"):
    return _row(_sign(left), inner, _sign(right))


def _set_name(tree):
    """x; with underscores x_i, and x_k_i for an index that has an index."""
    first, *rest = tree.id.split("_")
    name = f"<mi>{SIGNS.get(first, first)}</mi>"
    return f"<msub>{name}{_set_name(ast.Name('_'.join(rest)))}</msub>" if rest else name


def _set_constant(tree):
    return f"<mn>{tree.value}</mn>"


def _set_unaryop(tree):
    return _row(_sign("−"), _inside(tree.operand, 2))


def _set_binop(tree):
    kind = type(tree.op)
    if kind is ast.Div:
        return f"<mfrac>{_set(tree.left)}{_set(tree.right)}</mfrac>"
    if kind is ast.Pow:
        return f"<msup>{_inside(tree.left, 5)}{_set(tree.right)}</msup>"
    binds = BINDING[kind]
    between = '<mspace width="0.25em"/>' if kind is ast.MatMult else _sign(OPERATORS[kind])
    return _row(_inside(tree.left, binds), between, _inside(tree.right, binds + (kind is ast.Sub)))


def _inside(tree, binds):
    """A part of something that binds so tightly: in brackets where it binds less itself. A fraction needs none beside a product."""
    own = BINDING.get(type(getattr(tree, "op", None)), 2 if isinstance(tree, ast.UnaryOp) else 5)
    is_fraction = isinstance(getattr(tree, "op", None), ast.Div)
    return _bracketed(_set(tree)) if own < binds and not (is_fraction and binds <= 2) else _set(tree)


def _set_list(tree):
    """[x > 0]: 1 where it holds, else 0."""
    return _bracketed(_set(tree.elts[0]), "[", "]")


def _set_compare(tree):
    return _row(_set(tree.left), _sign(COMPARISONS[type(tree.ops[0])]), _set(tree.comparators[0]))


def _set_call(tree):
    name, args = tree.func.id, tree.args
    if name in FUNCTIONS_OF_INDEX and len(args) == 2 and _is_index(args[0]):
        return _row(f"<munder>{_sign(FUNCTIONS_OF_INDEX[name])}{_set(args[0])}</munder>", _inside(args[1], 2))
    inner = _sign(",").join(map(_set, args))
    special = {
        "d": lambda: f"<mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo>{inner}</mrow></mfrac>",
        "sqrt": lambda: f"<msqrt>{inner}</msqrt>",
        "exp": lambda: f"<msup><mi>e</mi>{_set(args[0])}</msup>",
        "abs": lambda: _bracketed(inner, "|", "|"),
        "T": lambda: f"<msup>{_inside(args[0], 5)}<mi>T</mi></msup>",
        "inv": lambda: f"<msup>{_inside(args[0], 5)}<mrow>{_sign('−')}<mn>1</mn></mrow></msup>",
    }
    return special[name]() if name in special else _row(_set_name(tree.func), _bracketed(inner))


def _is_index(tree):
    return isinstance(tree, ast.Compare) or isinstance(tree, ast.Name) and tree.id in ("i", "j")
