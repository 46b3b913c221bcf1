"""Rules with a term left out: every sum and difference in a rule's source, one at a time.

Knows Python's syntax tree; no calculus.

`x + y` becomes x, and becomes y; `x += y` becomes nothing. Sums that reckon with axes and places (inside brackets, ranges,
shapes) are left alone: they decide where a number goes, not what it is.
"""

import ast
import copy
import types

from minigrad.gradcheck.rule_source import helpers, syntax_tree

PLACES = set(
    "axis shape range axes transpose reshape slice concatenate split moveaxis expand_dims tile".split()
)


def without_a_term(fun):
    """(what was dropped, the function without it) for each term of a rule and of the helpers beside it that it calls."""
    for name, part in [(None, fun), *helpers(fun).items()]:
        tree = syntax_tree(part)
        if tree is None:
            continue
        for site in range(len(_sites(tree))):
            for keep in _ways(_sites(tree)[site]):
                label, changed = _drop(tree, site, keep)
                yield (f"{label} in {name}" if name else label), _compiled(changed, fun, part, name)


def is_readable(fun):
    """Can the source of a rule be had and compiled again?"""
    return syntax_tree(fun) is not None


def _sites(tree):
    """The sums and differences that count."""
    found, stack = [], [tree]
    while stack:
        node = stack.pop()
        if (
            isinstance(node, (ast.BinOp, ast.AugAssign))
            and isinstance(node.op, (ast.Add, ast.Sub))
            and not _joins_lists(node)
        ):
            found.append(node)
        for name, child in ast.iter_fields(node):
            if not (
                isinstance(node, ast.Subscript)
                and name == "slice"
                or isinstance(node, ast.arguments)
                or _is_place(node, name)
            ):
                stack += [
                    c for c in (child if isinstance(child, list) else [child]) if isinstance(c, ast.AST)
                ]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset, n.end_col_offset))


def _joins_lists(node):
    """Does `x + y` put tuples or lists together, or count them?"""
    if isinstance(node, ast.BinOp):
        return _joins_lists(node.left) or _joins_lists(node.right)
    return (
        isinstance(node, (ast.Tuple, ast.List, ast.ListComp))
        or isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "len"
    )


def _is_place(node, name):
    """Does this part of the tree reckon with axes or places?"""
    if isinstance(node, ast.keyword):
        return node.arg in PLACES
    if isinstance(node, ast.Call) and name == "args":
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return called in PLACES
    return False


def _ways(site):
    return ("nothing",) if isinstance(site, ast.AugAssign) else ("left", "right")


def _drop(tree, site, keep):
    """(what is dropped, the tree without it)."""
    tree = copy.deepcopy(tree)
    node = _sites(tree)[site]
    if keep == "nothing":
        label, new = ast.unparse(node), ast.Pass()
    elif keep == "left":
        label, new = f"{'+' if isinstance(node.op, ast.Add) else '-'} {ast.unparse(node.right)}", node.left
    else:
        label = ast.unparse(node.left)
        new = node.right if isinstance(node.op, ast.Add) else ast.UnaryOp(ast.USub(), node.right)

    class Put(ast.NodeTransformer):
        def generic_visit(self, other):
            return ast.copy_location(new, other) if other is node else super().generic_visit(other)

    return label, ast.fix_missing_locations(Put().visit(tree))


def _compiled(tree, fun, part, name):
    """The rule again: from the tree, or as it was but with one helper from the tree."""
    names = dict(fun.__globals__)
    new = _function(tree, names)
    if name is None:
        return new
    names[name] = new
    again = types.FunctionType(fun.__code__, names, fun.__name__, fun.__defaults__)
    again.__kwdefaults__ = fun.__kwdefaults__
    return again


def _function(tree, names):
    if isinstance(tree, ast.Lambda):
        return eval(compile(ast.Expression(tree), "<without a term>", "eval"), names)  # noqa: S307  (our own source)
    tree.decorator_list = []
    before = names.get(tree.name)
    exec(compile(ast.Module([tree], []), "<without a term>", "exec"), names)  # noqa: S102
    new = names[tree.name]
    names[tree.name] = before if before is not None else new
    return new
