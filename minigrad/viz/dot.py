"""How a drawing looks: boxes, arrows, colours, legend, written in Graphviz's language DOT. Knows boxes and arrows; not how they were
found, nor who turns DOT into a picture.

Blue goes forward (values), orange comes back (gradients), in boxes and on arrows alike. The colours are told apart by the
colour-blind (after Okabe and Ito), and no kind differs in colour alone.
"""

import html
import textwrap
from itertools import zip_longest

import numpy as np

from minigrad.viz.boxes import is_setting

LIGHT = dict(back="#fdfdfb", ink="#1d2126", soft="#5d6670", forward="#0062a3", backward="#b84600", frame="#f1f2ef", frame_line="#aab0b6",
             leaf="#d3eee1", leaf_line="#00785a", constant="#e6e8ea", constant_line="#848b93", op="#ffffff", op_line="#69727c",
             module="#fcefc4", module_line="#a67c00", output="#f5dcec", output_line="#a0407c")  # fmt: skip
DARK = dict(back="#16181c", ink="#e8eaec", soft="#a3acb5", forward="#7cc0f5", backward="#ff9d5c", frame="#1d2026", frame_line="#565d66",
            leaf="#123d31", leaf_line="#3fc69b", constant="#33383e", constant_line="#8d959d", op="#24282e", op_line="#98a1aa",
            module="#43370f", module_line="#d9ae35", output="#46203a", output_line="#e08bbd")  # fmt: skip
SYMBOLS = dict(add="+", subtract="−", multiply="×", divide="÷", matmul="@", negative="−", power="xʸ", square="x²", sqrt="√", sum="Σ",
               exp="eˣ")  # fmt: skip
FONT = "Arial"  # the one whose widths every renderer knows
GAP = "\N{NO-BREAK SPACE}"
LONGEST = 24  # letters of a name; in a longer one the middle is left out, and the tooltip has it all
GRID = 4  # a matrix of up to so many rows and columns is shown as numbers


def number(x):
    """A number with three digits, and a real minus sign."""
    x = x.item() if isinstance(x, (np.ndarray, np.generic)) else x
    if isinstance(x, float):
        x = f"{x + 0.0:.3g}"  # + 0.0 makes 0 of -0
    return str(x).replace("-", "−")


def exact(x):
    """A number as its user wrote it: 6 digits where these say all, else so many as it has, so that 1.0001 is not called 1."""
    x = x[()] if isinstance(x, np.ndarray) else x
    if isinstance(x, (float, np.floating)):
        text = f"{x + 0.0:.6g}"
        x = text if type(x)(text) == x else str(x)
    return str(x).replace("-", "−")


def numbers(array):
    """The numbers of an array as rows of texts, all with as many decimals as the largest needs for three digits."""
    rows = np.atleast_2d(np.asarray(array))
    if rows.dtype.kind != "f" or rows.size == 1:
        return [[number(x) for x in row] for row in rows]
    finite = np.abs(rows[np.isfinite(rows)])
    largest = finite.max(initial=0)
    if (finite == np.rint(finite)).all() or not 1e-4 <= largest < 1e5:
        return [[number(x) for x in row] for row in rows]
    decimals = max(0, 2 - int(np.floor(np.log10(largest))))
    # z: no -0.00
    return [["0" if x == 0 else f"{x:z.{decimals}f}".replace("-", "−") for x in row] for row in rows]


def shape_of(shape):
    """2 × 3; of several values their number, and the shape if it is the same."""
    if shape and isinstance(shape[0], tuple):
        return f"{len(shape)} of {shape_of(shape[0])}" if len(set(shape)) == 1 else f"{len(shape)} values"
    return " × ".join(map(str, shape)) + " numbers" * (len(shape) == 1) if shape else "one number"


def fits_grid(value):
    """Is it small enough to be shown as numbers?"""
    return (
        isinstance(value, (np.ndarray, np.generic, int, float))
        and np.ndim(value) <= 2
        and all(0 < n <= GRID for n in np.shape(value))
    )


def cut(name):
    """A long name's beginning and end; paths differ at either."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2 - 1]}…{name[-LONGEST // 2 :]}"


# ---------------------------------------------------------------- what stands in a box


def font(text, color=None, size=None, bold=False):
    text = html.escape(text)
    text = f"<B>{text}</B>" if bold else text
    settings = (f' COLOR="{LIGHT[color]}"' if color else "") + (f' POINT-SIZE="{size}"' if size else "")
    return f"<FONT{settings}>{text}</FONT>" if settings else text


def table(rows, **settings):
    settings = dict(BORDER=0, CELLBORDER=0, CELLSPACING=0, CELLPADDING=1) | settings
    return f"<TABLE{_settings(settings)}>{''.join(f'<TR>{row}</TR>' for row in rows)}</TABLE>"


def cell(content, **settings):
    return f"<TD{_settings(settings)}>{content}</TD>"


def _settings(settings):
    return "".join(f' {name}="{value}"' for name, value in settings.items())


def grid(value, color):
    """The numbers of a small array, in its own rows and columns."""
    cells = ["".join(cell(font(text, color, 11), ALIGN="RIGHT") for text in row) for row in numbers(value)]
    return table(cells, CELLPADDING=2, CELLSPACING=1) if np.size(value) > 1 else table(cells, CELLPADDING=0)


def figures(vertex, has_gradient):
    """The rows with a vertex's value and gradient: numbers where they are few (a matrix's side by side), else shape and size."""
    pairs = [("value", vertex.value, "forward")]
    if has_gradient and vertex.gradient is not None:
        pairs.append(("gradient", vertex.gradient, "backward"))
    if fits_grid(vertex.value) and np.ndim(vertex.value) == 2:
        yield "".join(cell(font(word, color, 10)) for word, _, color in pairs)
        yield "".join(cell(grid(x, color), CELLPADDING=3) for _, x, color in pairs)
        pairs = []
    for word, x, color in pairs:
        if fits_grid(x):
            yield cell(font(word + GAP, color, 10), ALIGN="LEFT") + cell(grid(x, color), ALIGN="RIGHT")
        elif color == "forward":
            yield cell(font("shape" + GAP, color, 10), ALIGN="LEFT") + cell(
                font(shape_of(vertex.shape), color, 11), ALIGN="RIGHT"
            )
        elif isinstance(x, np.ndarray):
            yield cell(font("gradient up to" + GAP, color, 10), ALIGN="LEFT") + cell(
                font("±" + number(np.abs(x[np.isfinite(x)]).max(initial=0)), color, 11), ALIGN="RIGHT"
            )
    yield from alarms(vertex, has_gradient)


def alarms(vertex, has_gradient):
    """A row for the value and one for the gradient if not all of it is finite."""
    for word, x in [("value", vertex.value), ("gradient", vertex.gradient if has_gradient else None)]:
        arrays = [
            a
            for a in (x if isinstance(x, tuple) else (x,))
            if isinstance(a, np.ndarray) and a.dtype.kind == "f"
        ]
        size, strange = sum(a.size for a in arrays), sum(a.size - np.isfinite(a).sum() for a in arrays)
        if strange:
            yield wide(
                font(
                    f"{word}: {strange} of {size} {'is' if strange == 1 else 'are'} NaN or infinite",
                    "backward",
                    11,
                    bold=True,
                )
            )


def wide(content):
    return cell(content, COLSPAN=2)


def constant_figures(value):
    """A constant in numbers, if they are few, else what they are and in which shape."""
    if np.ndim(value) == 0:
        return font(exact(value), "ink", 11)
    if fits_grid(value):
        return grid(value, "ink")
    kind = dict(i="whole numbers", u="whole numbers", b="true or false").get(value.dtype.kind, "numbers")
    return f"{font(' × '.join(map(str, value.shape)), 'ink', 11)}<BR/>{font(kind, 'soft', 10)}"


def op_title(vertex, inline):
    """The op's symbol and name; `inline`: with the plain numbers that it was given, which then have no box."""
    symbol, before, after = SYMBOLS.get(vertex.name, ""), "", ""
    for place, parent in enumerate(vertex.parents if inline else ()):
        if is_plain_number(vertex, parent):
            text = exact(parent.value)
            before, after = (text + " ", after) if place == 0 else (before, f"{after} {text}")
    name = symbol or vertex.name
    return font(before + name + after, bold=True, size=14 if symbol else None) + (
        " " + font(vertex.name, "soft", 11) if symbol else ""
    )


def is_plain_number(op, parent):
    return parent.kind == "constant" and not is_setting(op, parent) and np.ndim(parent.value) == 0


# ---------------------------------------------------------------- the drawing

SHAPES = dict(
    leaf=dict(penwidth="2.2"), constant=dict(style="filled,dashed"), op=dict(penwidth="1.2"), module=dict(penwidth="1.2", style="filled"),
    output=dict(peripheries="2", penwidth="1.2"),
)  # fmt: skip


class Look:
    """Writes a Layout as DOT.

    root       the vertex the drawing is of              names      {vertex: what to call it}, beside the parameters' own
    numbers    show values and gradients, or else shapes?  backward  draw what comes back, or only what goes forward?
    direction  LR, TB ... as in Graphviz                 caption    a sentence below the drawing, or ""
    """

    def __init__(self, layout, root, names, numbers, backward, direction, caption):
        self.layout, self.root, self.names, self.numbers = layout, root, names, numbers
        self.backward = backward
        self.direction, self.caption = direction, caption
        self.boxes = [box for box in layout.boxes if numbers or not self._is_said_inline(box)]
        self.ids = {box: f"n{i}" for i, box in enumerate(self.boxes)}
        self.seen = set()  # kinds of boxes and arrows, for the legend

    def _is_said_inline(self, box):
        return box.kind == "constant" and np.ndim(box.last.value) == 0

    def source(self):
        import graphviz  # here, so that without a drawing nobody needs it

        dot = graphviz.Digraph("minigrad")
        dot.attr(
            rankdir=self.direction,
            bgcolor=LIGHT["back"],
            fontname=FONT,
            fontcolor=LIGHT["ink"],
            nodesep="0.3",
            ranksep="0.45",
            pad="0.25",
        )
        dot.attr(
            "node",
            shape="box",
            style="rounded,filled",
            fontname=FONT,
            fontcolor=LIGHT["ink"],
            fontsize="13",
            margin="0.09,0.05",
            height="0.3",
        )
        dot.attr("edge", fontname=FONT, fontsize="11", color=LIGHT["forward"], arrowsize="0.7")
        self._frame(dot, self.boxes, 0)
        for arrow in self.layout.arrows:
            if arrow.start in self.ids and arrow.end in self.ids:
                self._arrow(dot, arrow)
        dot.attr(label=f"<{self._legend()}>", labelloc="b", tooltip=" ")
        return dot.source

    def _frame(self, dot, boxes, level):
        """The boxes that stand in no further frame, and each frame with what stands in it; around a single op there is none."""
        inner = {}
        for box in boxes:
            if len(box.frames) > level:
                inner.setdefault(box.frames[level], []).append(box)
            else:
                self._box(dot, box)
        for (path, run), inside in inner.items():
            if len(inside) == 1 and path not in self.layout.times:
                self._frame(dot, inside, level + 1)
                continue
            above = inside[0].frames[level - 1][0] if level else ""
            with dot.subgraph(name=f"cluster_{run}") as frame:
                frame.attr(label=f"<{self._module_title(path, above)}>", style="rounded,filled", fillcolor=LIGHT["frame"], margin="10",
                           color=LIGHT["frame_line"], labeljust="l", labelloc="t", tooltip=path)  # fmt: skip
                self._frame(frame, inside, level + 1)

    # ---------------------------------------------------------------- boxes

    def _box(self, dot, box):
        kind = "output" if self.root in box.vertices else box.kind
        self.seen.add(kind)
        rows = self._module_rows(box) if box.kind == "module" else self._vertex_rows(box)
        settings = dict(
            fillcolor=LIGHT[kind],
            color=LIGHT[kind + "_line"],
            tooltip=box.path or self._plain_title(box.last),
        )
        dot.node(self.ids[box], f"<{table(rows)}>", **settings, **SHAPES[kind])

    def _plain_title(self, vertex):
        return self.names.get(vertex) or vertex.name or vertex.kind

    def _module_rows(self, box):
        yield wide(self._module_title(box.path, box.frames[-1][0] if box.frames else "", line="<BR/>"))
        yield wide(font(shape_of(box.last.shape), "forward", 11))
        yield from alarms(box.last, self.backward)

    def _module_title(self, path, above, line=" "):
        """encoder.0 … 3, EncoderLayer, ×4"""
        count, last = self.layout.times.get(path, (1, path))
        name = cut(_within(path, above)) + (f" … {last.rpartition('.')[2]}" if count > 1 else "")
        times = " " + font(f"×{count}", "module_line", 15, bold=True) if count > 1 else ""
        return (
            font(name, bold=True)
            + line
            + font(cut(type(self.layout.modules[path]).__name__), "soft", 11)
            + times
        )

    def _vertex_rows(self, box):
        vertex, name = box.last, self.names.get(box.last, "")
        if vertex.kind == "op":
            yield wide(
                (font(cut(name) + " = ", bold=True) if name else "")
                + op_title(vertex, inline=not self.numbers)
            )
        elif name or vertex.name:
            yield wide(
                font(cut(_within(name or vertex.name, box.frames[-1][0] if box.frames else "")), bold=True)
            )
        if vertex.kind == "constant":
            yield wide(constant_figures(vertex.value))
        elif self.numbers:
            yield from figures(vertex, self.backward)
        else:
            yield wide(font(shape_of(vertex.shape), "forward", 11))
            yield from alarms(vertex, self.backward)

    # ---------------------------------------------------------------- arrows

    def _arrow(self, dot, arrow):
        start, end = self.ids[arrow.start], self.ids[arrow.end]
        dot.edge(start, end)
        if self.backward and arrow.shares:
            # drawn from parent to child too, with its head at the tail, so that it lies beside its fellow and turns nothing around
            sent = self._sent(arrow)
            label = dict(label=f"<{sent}>") if sent else {}
            dot.edge(
                start,
                end,
                dir="back",
                style="dashed",
                color=LIGHT["backward"],
                fontcolor=LIGHT["backward"],
                **label,
            )

    def _sent(self, arrow):
        """What goes back on an arrow: += where it adds to what had come before; the number, if it is one; how broadcasting was undone."""
        share, lines = arrow.shares[0], []
        single = "module" not in (arrow.start.kind, arrow.end.kind)
        if single and self.numbers and share.parent.shape == ():
            lines = [number(share.sent)]
        if single and share.summed:
            self.seen.add("summed")
            lines = [summed(share.raw.shape, share.sent.shape), *lines]
        if arrow.added:
            self.seen.add("added")
            lines = ["+= " + (lines[0] if lines else ""), *lines[1:]]
        return "<BR/>".join(font(f" {line} ", bold=arrow.added) for line in lines)

    # ---------------------------------------------------------------- legend

    def _legend(self):
        """The caption, and what the colours, lines and words mean that occur."""
        kinds = [cell(" ", BORDER=1, BGCOLOR=LIGHT[k], COLOR=LIGHT[k + "_line"], WIDTH=16) + cell(font(" " + text, "soft", 11), ALIGN="LEFT")
                 for k, text in KINDS.items() if k in self.seen]  # fmt: skip
        ways = [cell(font(sign, color, 12, bold=True)) + cell(font(" " + text, "soft", 11), ALIGN="LEFT")
                for key, sign, text, color in WAYS if key == "forward" or self.backward and key in self.seen | {"backward"}]  # fmt: skip
        nothing = cell(" ", COLSPAN=2)
        rows = [kind + cell("    ") + way for kind, way in zip_longest(kinds, ways, fillvalue=nothing)]
        said = [
            cell(font(line, "soft", 12), COLSPAN=5, ALIGN="LEFT") for line in textwrap.wrap(self.caption, 58)
        ]
        return table([cell(" ", COLSPAN=5), *said, *rows], CELLSPACING=3)


KINDS = dict(
    leaf="parameter or other leaf", constant="constant", op="op", module="module, closed", output="the result"
)
WAYS = (
    ("forward", "→", "forward: values, shapes", "forward"),
    ("backward", "←", "backward: gradients", "backward"),
    ("added", "+=", "added to what came before", "backward"),
    ("summed", "summed", "broadcasting undone", "backward"),
)


def _within(path, above):
    """The path as it is called inside the module above."""
    return path.removeprefix(above + ".") if above else path


def summed(raw, sent):
    """How broadcasting was undone, in words: along which axes of the gradient it was summed, and the shapes before and after."""
    extra = len(raw) - len(sent)
    axes = [i for i, n in enumerate(raw) if i < extra or sent[i - extra] != n]
    if len(raw) == 2 and len(axes) == 1:
        return "summed over rows" if axes == [0] else "each row summed"
    return f"summed: {shape_of(raw)} to {shape_of(sent)}"
