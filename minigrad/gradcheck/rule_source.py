"""Read the source of rules: the syntax tree, the helper functions, whether a function is elementwise."""

import ast
import inspect
import math
import types

import numpy as np

from minigrad.engine.table import RULES, Row


def syntax_tree(fun):
    """Return the syntax tree of a function, a lambda or def; None if it has a closure or no source."""
    if not isinstance(fun, types.FunctionType) or fun.__closure__:
        return None
    try:
        tree = ast.parse(inspect.getsource(inspect.getmodule(fun)))
    except (OSError, TypeError):
        return None
    code = fun.__code__
    same_line = [
        n
        for n in ast.walk(tree)
        if isinstance(n, (ast.Lambda, ast.FunctionDef)) and n.lineno == code.co_firstlineno
    ]
    spans = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    inside = [
        n
        for n in same_line
        if all((n.lineno, n.col_offset) <= s <= (n.end_lineno, n.end_col_offset) for s in spans)
    ]
    return min(inside, key=lambda n: (n.end_lineno, n.end_col_offset), default=None)


def helpers(fun):
    """Return {name: function} for the functions that a rule calls and that are defined in its file."""
    named = {name: fun.__globals__.get(name) for name in fun.__code__.co_names}
    return {name: f for name, f in named.items() if is_beside(f, fun)}


def is_beside(f, fun):
    return (
        isinstance(f, types.FunctionType)
        and f.__globals__ is fun.__globals__
        and f.__module__ == fun.__module__
    )


def is_elementwise(fun, within=()):
    """Does each element of the value depend on one element of each argument only?

    A ufunc is if it has no signature. Another function is if its rules take no settings and use only
    arithmetic and elementwise functions.
    """
    if isinstance(fun, np.ufunc):
        return fun.signature is None  # matmul has one
    row = RULES.get(fun)
    return (
        type(row) is Row
        and all(_count(rule) == 2 + len(row.rules) for rule in row.rules if rule)
        and all(_uses_elementwise_only(rule, (*within, fun)) for rule in row.rules if rule)
    )


def _count(rule):
    return len(inspect.signature(rule).parameters)


def _uses_elementwise_only(rule, within):
    if not isinstance(rule, types.FunctionType):
        return False
    for name in rule.__code__.co_names:  # the globals and their attributes: np, abs
        used = rule.__globals__.get(name, getattr(np, name, getattr(math, name, None)))
        if used in within or isinstance(used, (types.ModuleType, float, types.BuiltinFunctionType)):
            continue
        by_element = (
            _uses_elementwise_only(used, (*within, used))
            if is_beside(used, rule)
            else is_elementwise(used, within)
        )
        if not by_element:
            return False
    return True
