"""Write the reverse pass as a page to step through: `stepper(loss, "out.html")`.

This file converts a history to the page's data. replay.py runs the pass, formulas.py has the formulas, and
stepper.js and the scripts it names run in the browser.
"""

import html
import itertools
from pathlib import Path

import numpy as np

from minigrad.engine.graph import Node, Value
from minigrad.engine.reverse_pass import plus
from minigrad.nn import Module, ModuleList
from minigrad.viz.dot import exact
from minigrad.viz.formulas import rule_for_reader
from minigrad.viz.page import page, save
from minigrad.viz.replay import replay

MOST_OPS = 2000
MOST_NUMBERS = 250_000  # elements of all arrays on a page: about two megabytes
# possible limits for the rows and columns of a matrix: the more matrices, the lower the limit
SIDES = (64, 32, 16, 8, 4)
SLICES = 16  # largest number of matrices shown of an array with more than two axes


def stepper(loss, path="stepper.html", model=None, gradient=None, names=None):
    """Write a page that goes through the reverse pass of `loss` step by step. Returns the path.

    model     an nn.Module: its parameters name the leaves, and each module is a box that opens. A module
              called several times in a row is one box, because the history does not record where a call ends
    gradient  to start from, if `loss` is no scalar
    names     {"x": x, ...} for leaves that are no parameters of the model

    Compute the loss under minigrad.definitions() to see inside softmax, layer_norm and attention; otherwise
    each is one step. The pass runs here: call stepper() before backward(), or after
    backward(retain_graph=True).
    """
    return save(page_of(loss, model, gradient, names), path)


def page_of(loss, model=None, gradient=None, names=None):
    """Build the page as a string."""
    vertices, steps = replay(loss, model, gradient)
    if len(steps) > MOST_OPS:
        raise ValueError(
            f"The reverse pass has {len(steps)} steps, and a page shows at most {MOST_OPS}. Take fewer "
            "tokens, layers or time steps, or leave out definitions(), so that each kernel is one step."
        )
    title = f"The reverse pass, step by step: {len(steps)} step{'s' * (len(steps) != 1)}"
    data = as_data(vertices, steps, model, names or {})
    # the last script starts the page
    script = "\n".join(map(read, ("figures.js", "layers.js", "drawing.js", "stepper.js")))
    return page(title, BODY.format(title=html.escape(title)), data, script, read("stepper.css"))


def read(name):
    """Read a file of this folder."""
    return Path(__file__).with_name(name).read_text("utf-8")


BODY = """<header><h1>{title}</h1>
  <div id="finding"><input id="search" type="search" placeholder="Search: op, name or module"
      aria-label="Search for an op, a name or a module (/)">
    <ul id="found" aria-label="Search results"></ul></div></header>
<div id="controls">
  <div role="toolbar" aria-label="Steps">
    <button id="first" aria-keyshortcuts="Home" title="To the beginning (Home)"
      >|◀<span class="hidden"> to the beginning</span></button>
    <button id="back" aria-keyshortcuts="ArrowLeft" title="One step back (←)"
      >◀<span class="hidden"> one step back</span></button>
    <button id="play" aria-keyshortcuts="Space" title="Play or pause (space)">▶ play</button>
    <button id="next" aria-keyshortcuts="ArrowRight" title="One step forward (→)"
      >▶<span class="hidden"> one step forward</span></button>
    <button id="past" aria-label="Skip this module" aria-keyshortcuts="PageDown"
      title="Skip this module (PageDown)">▶▶<span class="wide"> skip this module</span></button>
    <button id="last" aria-keyshortcuts="End" title="To the end (End)"
      >▶|<span class="hidden"> to the end</span></button>
  </div>
  <input id="slider" type="range" min="0" value="0" aria-label="Step">
  <output id="count"></output>
</div>
<noscript><p>This page needs JavaScript, which this browser does not run.</p></noscript>
<main>
  <section id="graph" aria-label="The computation, from its leaves at the top to the loss at the bottom"
    tabindex="-1"></section>
  <section id="panel" aria-label="This step"><p id="says" aria-live="polite"></p>
    <div id="card"></div></section>
</main>"""


# ---------------------------------------------------------------- the history as data


def as_data(vertices, steps, model, names):
    """Convert a history to the script's data: lists of nodes, groups, steps, rules and arrays.

    nodes   kind, label, short (the label inside its group), setting, shape, exact (a scalar constant with all
            its digits), value, gradient, parents [[letter, node]], group, rule
    groups  label, path, parent, items: each item is a node's index, or [index] of a group
    steps   node, shares {to, letter, formula (which of the rule's), raw, sent, before, after, undone (how
            broadcasting was undone)}

    Nodes, groups, rules and arrays refer to each other by index. A value is the index of an array, or a list
    of indices if an op has several values.
    """
    arrays, rules = Arrays(), {}
    place = {vertex: i for i, vertex in enumerate(vertices)}
    named = _names(vertices, {**_buffers(model), **names})
    groups, group_of = groups_of(vertices, model)
    nodes = [
        {
            "kind": v.kind,
            "label": named[v],
            "short": named[v].removeprefix(groups[group_of[v]]["path"] + "."),
            "setting": setting(v, _rule(v, rules)) if v.node else "",
            "shape": shape_text(v.value),
            "exact": _short(v.value[()]) if v.kind == "constant" and v.shape == () else "",
            "value": arrays.add(v.value),
            "gradient": arrays.add(v.gradient),
            "parents": [[letter, place[p]] for letter, p in with_letters(v, _rule(v, rules)) if p in place],
            "group": group_of[v],
            "rule": _rule(v, rules)[0] if v.node else None,
        }
        for v in vertices
    ]
    return {
        "nodes": nodes,
        "groups": groups,
        "steps": [
            {
                "node": place[s.vertex],
                "shares": [_share(s, share, i, place, arrays, rules) for i, share in with_positions(s)],
            }
            for s in steps
        ],
        "rules": [rule for _, rule in rules.values()],
        "arrays": arrays.data(),
    }


def _rule(vertex, rules):
    """Return (index among the page's rules, rule) of a vertex, None if it is no op.

    Adds new rules to `rules`.
    """
    if vertex.node is None:
        return None
    fun = vertex.node.fun
    if fun not in rules:
        rules[fun] = (len(rules), rule_for_reader(fun))
    return rules[fun]


def _buffers(model):
    return dict(model.named_buffers()) if model is not None else {}


def _names(vertices, names):
    """Name each vertex. Leaves without a name are numbered."""
    given = {
        id(held): name for name, tensor in names.items() for held in (tensor, getattr(tensor, "data", tensor))
    }
    found = {v: v.name for v in vertices}
    for v in vertices:
        for arg, parent in zip(v.node.args if v.node else (), v.parents, strict=True):
            if id(arg) in given:
                found[parent] = given[id(arg)]
    nameless = [v for v in vertices if v.kind == "leaf" and not found[v]]
    found.update({v: f"leaf {i}" if len(nameless) > 1 else "leaf" for i, v in enumerate(nameless, 1)})
    found.update({v: "constant" for v in vertices if not found[v]})
    return found


def with_letters(vertex, rule):
    """Pair each argument of an op with its letter in the rule: [(letter, parent)]."""
    return [(letter_of(rule, i), parent) for i, parent in enumerate(vertex.parents)]


def letter_of(rule, i):
    letters = rule[1]["letters"]
    if letters == ["x_i"]:  # one rule for any number of arguments
        return f"x{i + 1}"
    return letters[i] if i < len(letters) else f"argument {i + 1}"


def with_positions(step):
    """Pair each share of a step with the position of its argument: [(position, share)].

    A value that is passed as two arguments has two shares.
    """
    found, i = [], 0
    for share in step.shares:
        while step.vertex.parents[i] is not share.parent or not step.vertex.node.needs[i]:
            i += 1
        found.append((i, share))
        i += 1
    return found


def _share(step, share, i, place, arrays, rules):
    with np.errstate(all="ignore"):  # inf - inf: the page marks the NaN
        after = share.sent if share.before is None else plus(share.before, share.sent)
    rule = _rule(step.vertex, rules)
    return {
        "to": place[share.parent],
        "letter": letter_of(rule, i),
        "formula": i if len(rule[1]["letters"]) > 1 else 0,
        "raw": arrays.add(share.raw),
        "sent": arrays.add(share.sent),
        "before": arrays.add(share.before),
        "after": arrays.add(after),
        "undone": describe_unbroadcast(share.raw.shape, share.sent.shape) if share.summed else "",
    }


def describe_unbroadcast(raw, shape):
    """Explain in words how a gradient of shape `raw` was summed to `shape`."""
    extra = len(raw) - len(shape)
    axes = [*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and raw[i + extra] != 1)]
    copies = int(np.prod([raw[axis] for axis in axes]))
    over = f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"
    return (
        f"Broadcasting repeated it {copies} times, from {shape_of(shape)} to {shape_of(raw)}. Every copy "
        f"counts, so the gradients of the copies are added: a sum over {over}, from {shape_of(raw)} back to "
        f"{shape_of(shape)}."
    )


def setting(vertex, rule):
    """The arguments of an op that are no arrays: "axis=-1", "y=0.5"."""
    settings = [
        f"{letter_of(rule, i)}={_short(arg)}"
        for i, arg in enumerate(vertex.node.args)
        if not isinstance(arg, (Value, Node, np.ndarray))
        and isinstance(arg, (bool, int, float, str, tuple, slice, np.generic))
    ]
    settings += [
        f"{name}={_short(value)}"
        for name, value in vertex.node.kwargs.items()
        if value is not None and value is not False
    ]
    return ", ".join(settings)


def _short(x):
    if isinstance(x, slice):
        return ":".join(
            "" if part is None else str(part)
            for part in ((x.start, x.stop) if x.step is None else (x.start, x.stop, x.step))
        )
    if isinstance(x, tuple):
        return f"({', '.join(map(_short, x))}{',' * (len(x) == 1)})"
    if isinstance(x, np.ndarray):
        return f"an array {shape_of(x.shape)}"
    return (
        exact(x).replace("−", "-")
        if isinstance(x, (float, np.floating))
        else "..."
        if x is Ellipsis
        else str(x)
    )


def shape_text(value):
    return " and ".join(map(shape_text, value)) if isinstance(value, tuple) else shape_of(np.shape(value))


def shape_of(shape):
    """Format a shape as NumPy does, except (), which is hard to see."""
    return str(tuple(shape)) if shape else "a scalar"


# ---------------------------------------------------------------- modules as groups


def groups_of(vertices, model):
    """Group the vertices by module. Returns (groups, {vertex: index of its group}).

    A group is one run of a module (one call, or several in a row), a contiguous part of the history. Groups
    therefore form no cycle; two runs of a module in one group could. Group 0 holds everything.
    """
    paths = {id(m): path for path, m in model.named_modules()} if model is not None else {}
    kinds = (
        {path: type(m).__name__ for path, m in model.named_modules() if _runs(m)} if model is not None else {}
    )
    kinds[LOSS] = "outside the model"
    loss = _tail(vertices) if model is not None else ()
    groups, group_of, open_ = [{"label": "", "path": "", "parent": None, "items": []}], {}, [0]
    for v in (v for v in vertices if v.node is not None):
        chain = (
            [LOSS] if v in loss else [path for path in _chain(paths.get(id(v.module), "")) if path in kinds]
        )
        kept = 0
        while kept < min(len(chain), len(open_) - 1) and groups[open_[kept + 1]]["path"] == chain[kept]:
            kept += 1
        del open_[kept + 1 :]
        for path in chain[kept:]:
            groups.append(
                {
                    "label": _last_part(path, groups[open_[-1]]["path"]),
                    "kind": kinds[path],
                    "path": path,
                    "parent": open_[-1],
                    "items": [],
                }
            )
            groups[open_[-1]]["items"].append([len(groups) - 1])
            open_.append(len(groups) - 1)
        group_of[v] = open_[-1]
    _place_leaves(vertices, groups, group_of)
    for i, v in enumerate(vertices):
        groups[group_of[v]]["items"].append(i)
    return groups, group_of


LOSS = "the loss"


def _tail(vertices):
    """The ops after the last one that a module ran: with a model, they compute the loss from its output."""
    ops = [v for v in vertices if v.node is not None]
    return set(itertools.takewhile(lambda v: v.module is None, reversed(ops)))


def _runs(module):
    """Return whether calling the module computes anything. A ModuleList only holds others."""
    return type(module).forward not in (Module.forward, ModuleList.forward)


def _chain(path):
    """List the modules on the path to a module: h.0.attn -> h, h.0, h.0.attn."""
    parts = path.split(".") if path else []
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _last_part(path, outer):
    return path[len(outer) + 1 :] if outer else path


def _place_leaves(vertices, groups, group_of):
    """Put each leaf and constant into the innermost group that contains all of its uses."""

    def around(g):
        return [*around(groups[g]["parent"]), g] if groups[g]["parent"] is not None else [g]

    chains = {}
    for v in (v for v in vertices if v.node is not None):
        for parent in (p for p in v.parents if p.node is None):
            chain = around(group_of[v])
            before = chains.get(parent, chain)
            chains[parent] = [a for a, b in zip(before, chain, strict=False) if a == b]
    group_of.update({vertex: chains.get(vertex, [0])[-1] for vertex in vertices if vertex.node is None})


# ---------------------------------------------------------------- arrays


class Arrays:
    """The arrays of a page, without duplicates: a share often equals a gradient or another share."""

    def __init__(self):
        self._found, self._arrays = {}, []

    def add(self, value):
        """Add an array and return its index; a list of indices for a tuple; None for None."""
        if value is None or isinstance(value, tuple):
            return None if value is None else [self.add(part) for part in value]
        array = np.asarray(value)
        key = (array.shape, array.dtype.str, array.tobytes())
        if key not in self._found:
            self._found[key] = len(self._arrays)
            self._arrays.append(array)
        return self._found[key]

    def data(self):
        """List the arrays as {"shape", "numbers", "shown", "low", "high", "strange"}, in row-major order.

        If the page would be too large, only corners are shown: "shown" is then the shape of the corner.
        """
        side = next(
            (s for s in SIDES if sum(corner(a, s).size for a in self._arrays) <= MOST_NUMBERS), SIDES[-1]
        )
        return [_describe(a, corner(a, side)) for a in self._arrays]


def corner(array, side):
    """Take the first `side` rows and columns, of the first SLICES matrices if the array has several."""
    flat = array.reshape(-1, *array.shape[-2:]) if array.ndim > 2 else array
    return (
        flat[:SLICES, :side, :side]
        if array.ndim > 2
        else flat[tuple(slice(None, side if array.ndim == 2 else side * 4) for _ in array.shape)]
    )


def _describe(array, shown):
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    return {
        "shape": list(array.shape),
        "numbers": shown.ravel(),
        "shown": list(shown.shape) if shown.size < array.size else None,
        "low": finite.min() if finite.size else None,
        "high": finite.max() if finite.size else None,
        "strange": int(array.size - finite.size),
    }
