"""Drop terms from rules: from every sum and difference in a rule's source, one at a time.

`x + y` becomes x, and becomes y; `x += y` is removed. Sums of axes and indices (inside brackets, ranges,
shapes) stay unchanged: they decide where a value goes, not what it is.
"""

import ast
import copy
import types

from minigrad.gradcheck.rule_source import helpers, syntax_tree

INDEXING = set(
    "axis shape range axes transpose reshape slice concatenate split moveaxis expand_dims tile".split()
)


def drop_terms(fun):
    """Yield (dropped term, rule without it) for each term of a rule and of its helpers in the same file."""
    for name, part in [(None, fun), *helpers(fun).items()]:
        tree = syntax_tree(part)
        if tree is None:
            continue
        for site in range(len(_sites(tree))):
            for keep in _sides(_sites(tree)[site]):
                label, changed = _drop(tree, site, keep)
                yield (f"{label} in {name}" if name else label), _compile(changed, fun, name)


def is_readable(fun):
    """Is the source of a rule available, so that it can be compiled again?"""
    return syntax_tree(fun) is not None


def _sites(tree):
    """List the sums and differences of a syntax tree whose terms can be dropped."""
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
                or _is_indexing(node, name)
            ):
                children = child if isinstance(child, list) else [child]
                stack += [c for c in children if isinstance(c, ast.AST)]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset, n.end_col_offset))


def _joins_lists(node):
    """Does `x + y` concatenate tuples or lists, or add their lengths?"""
    if isinstance(node, ast.BinOp):
        return _joins_lists(node.left) or _joins_lists(node.right)
    return (
        isinstance(node, (ast.Tuple, ast.List, ast.ListComp))
        or isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "len"
    )


def _is_indexing(node, name):
    """Does this part of the tree compute axes or indices?"""
    if isinstance(node, ast.keyword):
        return node.arg in INDEXING
    if isinstance(node, ast.Call) and name == "args":
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return called in INDEXING
    return False


def _sides(site):
    return ("nothing",) if isinstance(site, ast.AugAssign) else ("left", "right")


def _drop(tree, site, keep):
    """Return (dropped term, tree without it)."""
    tree = copy.deepcopy(tree)
    node = _sites(tree)[site]
    if keep == "nothing":
        label, new = ast.unparse(node), ast.Pass()
    elif keep == "left":
        label, new = f"{'+' if isinstance(node.op, ast.Add) else '-'} {ast.unparse(node.right)}", node.left
    else:
        label = ast.unparse(node.left)
        new = node.right if isinstance(node.op, ast.Add) else ast.UnaryOp(ast.USub(), node.right)

    class Replace(ast.NodeTransformer):
        def generic_visit(self, other):
            return ast.copy_location(new, other) if other is node else super().generic_visit(other)

    return label, ast.fix_missing_locations(Replace().visit(tree))


def _compile(tree, fun, name):
    """Compile the tree. Returns it as the rule, or the unchanged rule that calls it as the helper `name`."""
    names = dict(fun.__globals__)
    new = _evaluate(tree, names)
    if name is None:
        return new
    names[name] = new
    rule = types.FunctionType(fun.__code__, names, fun.__name__, fun.__defaults__)
    rule.__kwdefaults__ = fun.__kwdefaults__
    return rule


def _evaluate(tree, names):
    if isinstance(tree, ast.Lambda):
        return eval(compile(ast.Expression(tree), "<without a term>", "eval"), names)  # noqa: S307
    tree.decorator_list = []
    before = names.get(tree.name)
    exec(compile(ast.Module([tree], []), "<without a term>", "exec"), names)  # noqa: S102
    new = names[tree.name]
    names[tree.name] = before if before is not None else new
    return new
