"""The reverse pass as a page to step through: `stepper(loss, "out.html")`. Knows how a history becomes what the page shows; the
pass itself is replay.py's, the formulas are formulas.py's, and what happens in the browser is in stepper.js and the scripts it names.
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
MOST_NUMBERS = 250_000  # on a page: about two megabytes
# of a matrix at most so many rows and columns are shown, the fewer the more matrices there are
SIDES = (64, 32, 16, 8, 4)
SLICES = 16  # and of more axes than two at most so many matrices


def stepper(loss, path="stepper.html", model=None, gradient=None, names=None):
    """Write a page that goes through the reverse pass of `loss` step by step; returns the path.

    model     an nn.Module: its parameters have their names, and what a module did is a box that opens; called several times in a
              row, one box, for the history does not say where a call ends
    gradient  to start from, where `loss` is not a single number
    names     {"x": x, ...} for leaves that no model names
    Compute the loss under minigrad.definitions() to see inside softmax, layer_norm, attention; else each is one step. The pass
    is run here, over the history as it is: call this before backward(), or after backward(retain_graph=True).
    """
    return save(page_of(loss, model, gradient, names), path)


def page_of(loss, model=None, gradient=None, names=None):
    """The page as text."""
    vertices, steps = replay(loss, model, gradient)
    if len(steps) > MOST_OPS:
        raise ValueError(
            f"The reverse pass has {len(steps)} steps, and a page shows at most {MOST_OPS}. Take fewer tokens, layers or time steps, "
            "or leave out definitions(), so that a kernel is one step."
        )
    title = f"The reverse pass, step by step: {len(steps)} step{'s' * (len(steps) != 1)}"
    data = as_data(vertices, steps, model, names or {})
    # the last one begins
    script = "\n".join(map(beside, ("figures.js", "layers.js", "drawing.js", "stepper.js")))
    return page(title, BODY.format(title=html.escape(title)), data, script, beside("stepper.css"))


def beside(name):
    """The text of a file that stands beside this one."""
    return Path(__file__).with_name(name).read_text("utf-8")


BODY = """<header><h1>{title}</h1>
  <div id="finding"><input id="search" type="search" placeholder="Search: op, name or module" aria-label="Search for an op, a name or a module (/)">
    <ul id="found" aria-label="What was found"></ul></div></header>
<div id="controls">
  <div role="toolbar" aria-label="Steps">
    <button id="first" aria-keyshortcuts="Home" title="To the beginning (Home)">|◀<span class="hidden"> to the beginning</span></button>
    <button id="back" aria-keyshortcuts="ArrowLeft" title="One step back (←)">◀<span class="hidden"> one step back</span></button>
    <button id="play" aria-keyshortcuts="Space" title="Play or pause (space)">▶ play</button>
    <button id="next" aria-keyshortcuts="ArrowRight" title="One step on (→)">▶<span class="hidden"> one step on</span></button>
    <button id="past" aria-label="Past this module" aria-keyshortcuts="PageDown" title="Past this module (PageDown)">▶▶<span class="wide"> past this module</span></button>
    <button id="last" aria-keyshortcuts="End" title="To the end (End)">▶|<span class="hidden"> to the end</span></button>
  </div>
  <input id="slider" type="range" min="0" value="0" aria-label="Step">
  <output id="count"></output>
</div>
<noscript><p>This page draws itself with a script, which this browser does not run.</p></noscript>
<main>
  <section id="graph" aria-label="The computation, from its leaves at the top to the loss at the bottom" tabindex="-1"></section>
  <section id="panel" aria-label="This step"><p id="says" aria-live="polite"></p><div id="card"></div></section>
</main>"""


# ---------------------------------------------------------------- the history as data


def as_data(vertices, steps, model, names):
    """What the script is given: nodes, groups, steps, rules, arrays; each refers to others by their places in these lists.

    nodes   kind, label, short (the label inside its group), setting, shape, exact (of a constant, if it is one number, all its
            digits), value, gradient, parents [[letter, node]], group, rule
    groups  label, path, parent, items: nodes as numbers, groups inside as [number]
    steps   node, shares: [to, letter, which argument, raw, sent, before, after, how broadcasting was undone]
    A value is the place of an array, or a list of such where an op has several values.
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
            "parents": [[letter, place[p]] for letter, p in lettered(v, _rule(v, rules)) if p in place],
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
                "shares": [_share(s, share, i, place, arrays, rules) for i, share in with_places(s)],
            }
            for s in steps
        ],
        "rules": [rule for _, rule in rules.values()],
        "arrays": arrays.data(),
    }


def _rule(vertex, rules):
    """(its place among the page's rules, what the page says of it)"""
    if vertex.node is None:
        return None
    fun = vertex.node.fun
    if fun not in rules:
        rules[fun] = (len(rules), rule_for_reader(fun))
    return rules[fun]


def _buffers(model):
    return dict(model.named_buffers()) if model is not None else {}


def _names(vertices, names):
    """{vertex: what it is called}. Leaves that nobody named are numbered."""
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


def lettered(vertex, rule):
    """[(letter, parent)]: the op's arguments with the letters that the rule gives them."""
    return [(letter_of(rule, i), parent) for i, parent in enumerate(vertex.parents)]


def letter_of(rule, i):
    letters = rule[1]["letters"]
    if letters == ["x_i"]:  # one rule for arguments of any number
        return f"x{i + 1}"
    return letters[i] if i < len(letters) else f"argument {i + 1}"


def with_places(step):
    """[(which argument, share)] of a step. A value that stands twice among the arguments has a share for each time."""
    found, i = [], 0
    for share in step.shares:
        while step.vertex.parents[i] is not share.parent or not step.vertex.node.needs[i]:
            i += 1
        found.append((i, share))
        i += 1
    return found


def _share(step, share, i, place, arrays, rules):
    with np.errstate(all="ignore"):  # inf - inf, which the page marks
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
        "undone": undone(share.raw.shape, share.sent.shape) if share.summed else "",
    }


def undone(raw, shape):
    """How a gradient of shape `raw` became one of `shape`, in words."""
    extra = len(raw) - len(shape)
    axes = [*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and raw[i + extra] != 1)]
    copies = int(np.prod([raw[axis] for axis in axes]))
    over = f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"
    return (
        f"Broadcasting had repeated it {copies} times, from {shape_of(shape)} to {shape_of(raw)}. Every copy counts, so the "
        f"gradients of the copies are added up: a sum over {over}, from {shape_of(raw)} back to {shape_of(shape)}."
    )


def setting(vertex, rule):
    """What an op was told besides its arrays: "axis=-1", "y=0.5"."""
    told = [
        f"{letter_of(rule, i)}={_short(arg)}"
        for i, arg in enumerate(vertex.node.args)
        if not isinstance(arg, (Value, Node, np.ndarray))
        and isinstance(arg, (bool, int, float, str, tuple, slice, np.generic))
    ]
    told += [
        f"{name}={_short(value)}"
        for name, value in vertex.node.kwargs.items()
        if value is not None and value is not False
    ]
    return ", ".join(told)


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
    """As NumPy writes it, but that () is hard to see."""
    return str(tuple(shape)) if shape else "one number"


# ---------------------------------------------------------------- modules as groups


def groups_of(vertices, model):
    """(groups, {vertex: the number of its group}). A group is one run of a module, of one call or several in a row: a stretch of the
    history without a gap, so that groups cannot stand in a circle, which two runs of one module taken together could. Group 0 holds
    everything.
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
    """The last ops of the history, up to the newest that a module ran: with a model, that is how the loss comes from its output."""
    ops = [v for v in vertices if v.node is not None]
    return set(itertools.takewhile(lambda v: v.module is None, reversed(ops)))


def _runs(module):
    """Does calling the module compute anything? A ModuleList only holds others."""
    return type(module).forward not in (Module.forward, ModuleList.forward)


def _chain(path):
    """h.0.attn -> h, h.0, h.0.attn"""
    parts = path.split(".") if path else []
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _last_part(path, outer):
    return path[len(outer) + 1 :] if outer else path


def _place_leaves(vertices, groups, group_of):
    """A leaf or constant stands in the innermost group in which all of its uses are."""

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
    """The arrays of a page, each once: a share is often the same array as a gradient, or as what another share is added to."""

    def __init__(self):
        self._found, self._arrays = {}, []

    def add(self, value):
        """The place of an array among all; a list of places for a tuple; None for None."""
        if value is None or isinstance(value, tuple):
            return None if value is None else [self.add(part) for part in value]
        array = np.asarray(value)
        key = (array.shape, array.dtype.str, array.tobytes())
        if key not in self._found:
            self._found[key] = len(self._arrays)
            self._arrays.append(array)
        return self._found[key]

    def data(self):
        """Each as {"shape", "numbers", "shown", "low", "high", "strange"}, in reading order. Where a page would become too large,
        corners are shown: "shown" is then their shape."""
        side = next(
            (s for s in SIDES if sum(corner(a, s).size for a in self._arrays) <= MOST_NUMBERS), SIDES[-1]
        )
        return [_described(a, corner(a, side)) for a in self._arrays]


def corner(array, side):
    """The first `side` rows and columns of the first so many matrices."""
    flat = array.reshape(-1, *array.shape[-2:]) if array.ndim > 2 else array
    return (
        flat[:SLICES, :side, :side]
        if array.ndim > 2
        else flat[tuple(slice(None, side if array.ndim == 2 else side * 4) for _ in array.shape)]
    )


def _described(array, shown):
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    return {
        "shape": list(array.shape),
        "numbers": shown.ravel(),
        "shown": list(shown.shape) if shown.size < array.size else None,
        "low": finite.min() if finite.size else None,
        "high": finite.max() if finite.size else None,
        "strange": int(array.size - finite.size),
    }
