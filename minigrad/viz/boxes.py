"""The boxes and arrows that a drawing of a history consists of. dot.py decides how they look.

Three things keep the drawing of a large history small: a module becomes one box (collapse), repeated layers
are drawn once (fold), and what only one box uses, such as its parameters and constants, is not drawn.
"""

import re
from dataclasses import dataclass, field
from os.path import commonprefix

import numpy as np

from minigrad.engine.graph import Value
from minigrad.gradcheck.rule_source import is_elementwise
from minigrad.viz.replay import path_of


@dataclass(eq=False)
class Box:
    """A box of the drawing: one vertex, or all vertices of a run of a module (a call, or several in a row).

    kind    "leaf", "constant", "op", "module"
    path    the module's path, "" unless kind is "module"
    frames  the opened modules around the box, outermost first: (path, number of the run)
    """

    kind: str
    vertices: list = field(default_factory=list)
    path: str = ""
    frames: tuple = ()

    @property
    def last(self):
        return self.vertices[-1]


@dataclass(eq=False)
class Arrow:
    """An arrow from the box of a value to the box of an op that uses the value.

    vertex  the value that goes forward
    shares  the gradients that the reverse pass sends back
    added   True if they are added to a gradient that came back on another arrow
    """

    start: Box
    end: Box
    vertex: object
    shares: list
    added: bool = False


def levels(path):
    """Split a module's path into levels. An index stays with the name of its list: h.0.attn -> h.0, attn."""
    return tuple(re.split(r"\.(?!\d+(?:\.|$))", path)) if path else ()


def is_setting(op, constant):
    """Return whether this argument of an op is a setting, such as a shape or an axis, rather than a value.

    A plain number is a value only as an argument of an elementwise function.
    """
    if constant.kind != "constant" or isinstance(constant.value, np.ndarray):
        return False
    return not is_elementwise(op.node.fun) or not isinstance(constant.value, (int, float, np.generic))


class Layout:
    """The boxes and arrows of a history.

    depth  None: one box per op. n: a module n levels deep is one box, and so is any module without submodules
    fold   True: draw equal layers once

    A node records which module was running, but not in which call. Calls of one module in a row, each fed by
    the previous one, are therefore one run, as a loop inside the module would be. Calls with other ops
    between them, or with no path between them, are separate runs.
    """

    def __init__(self, vertices, steps, model=None, depth=None, fold=True):
        self.depth = depth
        self.modules = dict(model.named_modules()) if model is not None else {}
        self.buffers = [b.data for b in model.buffers()] if model is not None else []
        self.ops = [v for v in vertices if v.kind == "op"]
        self.tensors = {
            p
            for v in self.ops
            for p, arg in zip(v.parents, v.node.args, strict=True)
            if isinstance(arg, Value)
        }
        # path_of walks all modules: call it once per module
        paths = {id(v.module): path_of(v, model) for v in self.ops}
        self.place = {v: levels(paths[id(v.module)]) for v in self.ops}
        # alike: vertex -> the vertex drawn in its place; times: path of a folded layer -> (count, last path)
        self.alike, self.times = {}, {}
        self.users = self._users()
        if fold:
            self._fold(self.ops, 0)
        self.ops = [v for v in self.ops if v not in self.alike]
        self.shares = {step.vertex: step.shares for step in steps}
        self._make_boxes()
        self._make_arrows()

    def representative(self, vertex):
        """Return the vertex that is drawn in place of `vertex`: itself unless its layer is folded."""
        while vertex in self.alike:  # a layer within a layer may be folded twice
            vertex = self.alike[vertex]
        return vertex

    def _users(self):
        """Map each drawn vertex to the ops that use it."""
        users = {}
        for op in self.ops:
            for parent in op.parents:
                users.setdefault(self.representative(parent), []).append(op)
        return users

    # ---------------------------------------------------------------- folding

    def _fold(self, ops, level):
        """Find equal modules h.0, h.1 ... in a row, draw all as the first, then fold inside the first."""
        runs = [run for run in runs_of(ops, self.place, level) if len(self.place[run[0]]) > level]
        while runs:
            first, count = runs[0], self._count_alike(runs, level)
            for run in runs[1:count]:
                self._draw_as(run, first, level)
            if count > 1:
                path, last = (".".join(self.place[run[0]][: level + 1]) for run in (first, runs[count - 1]))
                self.times[path] = (count, last)
            self._fold(first, level + 1)
            runs = runs[count:]

    def _count_alike(self, runs, level):
        """Count the equal layers at the start of `runs`, each fed by the previous one."""
        count = 1
        while count < len(runs) and self._follows(runs[0], runs[count - 1], runs[count], level):
            count += 1
        return count

    def _follows(self, first, before, run, level):
        """Return whether `run` is the next layer after `before` and equal to `first`.

        No other layer may read `before`. Equal layers run the same ops on arguments from the same sources.
        """
        names = [self.place[r[0]][level] for r in (before, run)]
        (list_before, i), (list_after, j) = (name.rpartition(".")[::2] for name in names)
        if (
            list_before != list_after
            or not i.isdigit()
            or not j.isdigit()
            or int(j) != int(i) + 1
            or len(first) != len(run)
        ):
            return False
        twin, before = dict(zip(first, run, strict=True)), set(before)
        near = before | set(run)
        elsewhere = any(user not in near for op in before for user in self.users.get(op, ()))
        return not elsewhere and all(self._is_like(x, y, twin, before, level) for x, y in twin.items())

    def _is_like(self, x, y, twin, before, level):
        same = (
            x.name == y.name
            and x.shape == y.shape
            and self.place[x][level + 1 :] == self.place[y][level + 1 :]
        )
        return same and len(x.parents) == len(y.parents) and all(
            _same_source(p, q, twin, before) for p, q in zip(x.parents, y.parents, strict=True)
        )  # fmt: skip

    def _draw_as(self, run, first, level):
        path = ".".join(self.place[run[0]][: level + 1]) + "."
        for x, y in zip(first, run, strict=True):
            self.alike[y] = x
            for p, q in zip(x.parents, y.parents, strict=True):
                if q.kind == "constant" or q.kind == "leaf" and q.name.startswith(path):
                    if p is not q:
                        self.alike[q] = p

    # ---------------------------------------------------------------- boxes

    def _make_boxes(self):
        self.box = {}  # vertex -> its box
        runs, closed = self._runs(), {}
        for vertex in self.ops:
            level = self._closing_level(vertex)
            if level is None:
                self.box[vertex] = Box("op", [vertex], frames=self._frames(self.place[vertex], runs[vertex]))
            else:
                closed.setdefault((runs[vertex][level - 1], level), []).append(vertex)
        for (_, level), group in closed.items():
            self._close(group, level, runs)
        self._tell_apart()
        for vertex, users in self._users().items():
            self._make_source(vertex, users)

    def _runs(self):
        """Number the run of each op's module at each level.

        A module that runs again after another has two runs.
        """
        found, counter = {v: [] for v in self.ops}, 0

        def number(ops, level):
            nonlocal counter
            for run in runs_of(ops, self.place, level):
                if len(self.place[run[0]]) > level:
                    counter += 1
                    for v in run:
                        found[v].append(counter)
                    number(run, level + 1)

        number(self.ops, 0)
        return found

    def _frames(self, where, run):
        return tuple((".".join(where[: i + 1]), run[i]) for i in range(len(where)))

    def _closing_level(self, vertex):
        """Return the level of the closed module that hides this op, or None if the op is drawn."""
        where = self.place[vertex]
        if self.depth is None or not where:
            return None
        if len(where) >= self.depth:
            return self.depth
        has_modules = len([*self.modules[".".join(where)].modules()]) > 1
        return None if has_modules else len(where)

    def _close(self, group, level, runs):
        """Make one box for each run of a module.

        Calls in a row without a path between them get a box each.
        """
        for part in split_connected(group, self.representative):
            where = self.place[part[0]][:level]
            path = ".".join(where)
            box = Box("module", part, path, self._frames(where[:-1], runs[part[0]]))
            self.box.update((v, box) for v in part)

    def _tell_apart(self):
        """Give the parts of a module that runs in several parts names of their own.

        Such a module has several boxes in one frame: residual, residual. A part whose ops all belong to one
        submodule is named after the submodule: residual.norm.
        """
        parts = {}
        for box in self.boxes:
            if box.kind == "module" and box.frames:
                parts.setdefault((box.frames, box.path), []).append(box)
        for boxes in parts.values():
            for box in boxes if len(boxes) > 1 else ():
                box.path = ".".join(commonprefix([self.place[v] for v in box.vertices]))  # of tuples, too

    def _make_source(self, vertex, users):
        """Make a box for a leaf or a constant, unless it is a setting or internal to its modules."""
        if vertex.kind == "op" or all(
            is_setting(user, vertex) or self._hides(self.box[user], vertex) for user in users
        ):
            return
        around = {self.box[user].frames for user in users}
        at_home = len(around) == 1 and not self._is_data(vertex)
        self.box[vertex] = Box(vertex.kind, [vertex], frames=around.pop() if at_home else ())

    def _hides(self, box, vertex):
        if box.kind != "module":
            return False
        return vertex.name.startswith(box.path + ".") if vertex.kind == "leaf" else not self._is_data(vertex)

    def _is_data(self, vertex):
        """Return whether a constant is probably input data.

        Input data are integers such as token ids, or a tensor that is no buffer of the model.
        """
        if vertex.kind != "constant" or not np.ndim(vertex.value):
            return False
        is_own = any(np.may_share_memory(vertex.value, buffer) for buffer in self.buffers)
        return (
            vertex.value.dtype.kind in "iu"
            or vertex in self.tensors
            and vertex.value.dtype.kind == "f"
            and not is_own
        )

    # ---------------------------------------------------------------- arrows

    def _make_arrows(self):
        self.arrows, between = [], {}
        for op in self.ops:
            shares, end = list(self.shares.get(op, ())), self.box[op]
            for parent in op.parents:
                vertex = self.representative(parent)
                share = next((s for s in shares if s.parent is parent), None)
                if share is not None:
                    shares.remove(share)
                start = self.box.get(vertex)
                if start is None or start is end:
                    continue
                arrow = between.get((start, end, vertex)) if "module" in (start.kind, end.kind) else None
                if arrow is None:
                    arrow = between[start, end, vertex] = Arrow(start, end, vertex, [])
                    self.arrows.append(arrow)
                arrow.shares += [share] if share is not None else []
        self._mark_added()

    def _mark_added(self):
        """Mark the arrows that add to a gradient: all back to a value but the first, newest op first."""
        arrived = set()
        for arrow in reversed(self.arrows):
            if arrow.shares:
                single = "module" not in (arrow.start.kind, arrow.end.kind)
                arrow.added = arrow.shares[0].before is not None if single else arrow.vertex in arrived
                arrived.add(arrow.vertex)

    @property
    def boxes(self):
        return list(dict.fromkeys(self.box.values()))

    def keep_nearest(self, root, most):
        """Keep at most `most` boxes, those nearest to the root, and the arrows between them."""
        kept, i, sources = [self.box[root]], 0, {}
        for arrow in self.arrows:
            sources.setdefault(arrow.end, []).append(arrow.start)
        while i < len(kept) < most:
            kept += [box for box in dict.fromkeys(sources.get(kept[i], ())) if box not in kept]
            i += 1
        kept = set(kept[:most])
        self.box = {vertex: box for vertex, box in self.box.items() if box in kept}
        self.arrows = [arrow for arrow in self.arrows if arrow.start in kept and arrow.end in kept]


def runs_of(ops, place, level):
    """Split a list of ops where the module at that level changes."""
    runs, before = [], None
    for op in ops:
        here = place[op][: level + 1]
        if not runs or here != before:
            runs.append([])
        runs[-1].append(op)
        before = here
    return runs


def split_connected(vertices, representative=lambda v: v):
    """Split the vertices into parts with no path between them."""
    part, inside = {}, set(vertices)
    for v in vertices:
        mine = [v]
        for parent in {representative(p) for p in v.parents} & inside:
            if part[parent] is not mine:
                mine = _join(part[parent], mine, part)
        part.setdefault(v, mine)
    return list({id(p): sorted(p, key=lambda v: v.node.birth) for p in (part[v] for v in vertices)}.values())


def _join(a, b, part):
    a.extend(b)
    part.update((v, a) for v in b)
    return a


def _same_source(p, q, twin, before):
    """Return whether the arguments p and q of two equal layers come from the same source.

    The source is inside the layer, in the previous layer, or one value outside both.

    twin    the ops of p's layer -> those of q's layer
    before  the ops of the layer before q's
    """
    if q in before:
        return p not in twin
    if p.kind != q.kind:
        return False
    if p.kind != "op":
        return (
            p is q or np.shape(p.value) == np.shape(q.value)
            if isinstance(p.value, np.ndarray)
            else repr(p.value) == repr(q.value)
        )
    return twin.get(p, p) is q
