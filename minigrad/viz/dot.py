"""Write the boxes and arrows of a drawing in DOT, Graphviz's language, with colours and a legend.

Blue is forward (values) and orange is backward (gradients), in boxes and on arrows alike. Colour-blind
readers can distinguish the colours (after Okabe and Ito), and no two kinds of box differ in colour alone.
"""

import html
import textwrap
from itertools import zip_longest

import numpy as np

from minigrad.viz.boxes import is_setting

LIGHT = dict(back="#fdfdfb", ink="#1d2126", soft="#5d6670", forward="#0062a3", backward="#b84600",
             frame="#f1f2ef", frame_line="#aab0b6", leaf="#d3eee1", leaf_line="#00785a", constant="#e6e8ea",
             constant_line="#848b93", op="#ffffff", op_line="#69727c", module="#fcefc4",
             module_line="#a67c00", output="#f5dcec", output_line="#a0407c")  # fmt: skip
DARK = dict(back="#16181c", ink="#e8eaec", soft="#a3acb5", forward="#7cc0f5", backward="#ff9d5c",
            frame="#1d2026", frame_line="#565d66", leaf="#123d31", leaf_line="#3fc69b", constant="#33383e",
            constant_line="#8d959d", op="#24282e", op_line="#98a1aa", module="#43370f", module_line="#d9ae35",
            output="#46203a", output_line="#e08bbd")  # fmt: skip
SYMBOLS = dict(add="+", subtract="−", multiply="×", divide="÷", matmul="@", negative="−", power="xʸ",
               square="x²", sqrt="√", sum="Σ", exp="eˣ")  # fmt: skip
FONT = "Arial"  # every renderer knows its widths
GAP = "\N{NO-BREAK SPACE}"
LONGEST = 24  # characters of a name in a box; a longer name loses its middle, and the tooltip has all of it
GRID = 4  # largest number of rows and columns of a matrix that is shown element by element


def number(x):
    """Format a number with three digits and a real minus sign."""
    x = x.item() if isinstance(x, (np.ndarray, np.generic)) else x
    if isinstance(x, float):
        x = f"{x + 0.0:.3g}"  # + 0.0 makes 0 of -0
    return str(x).replace("-", "−")


def exact(x):
    """Format a constant exactly, with 6 digits or with all if it has more: 1.0001 is not shown as 1."""
    x = x[()] if isinstance(x, np.ndarray) else x
    if isinstance(x, (float, np.floating)):
        text = f"{x + 0.0:.6g}"
        x = text if type(x)(text) == x else str(x)
    return str(x).replace("-", "−")


def numbers(array):
    """Format an array as rows of strings, with the decimals that show three digits of the largest element."""
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
    """Format a shape: 2 × 3. For several values: their count, and their shape if all have the same."""
    if shape and isinstance(shape[0], tuple):
        return f"{len(shape)} of {shape_of(shape[0])}" if len(set(shape)) == 1 else f"{len(shape)} values"
    return " × ".join(map(str, shape)) + " elements" * (len(shape) == 1) if shape else "a scalar"


def fits_grid(value):
    """Return whether a value is small enough to be shown element by element."""
    return (
        isinstance(value, (np.ndarray, np.generic, int, float))
        and np.ndim(value) <= 2
        and all(0 < n <= GRID for n in np.shape(value))
    )


def cut(name):
    """Shorten a long name to its beginning and end: paths differ at either."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2 - 1]}…{name[-LONGEST // 2 :]}"


# ---------------------------------------------------------------- the content of a box


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
    """Show the elements of a small array in rows and columns."""
    cells = ["".join(cell(font(text, color, 11), ALIGN="RIGHT") for text in row) for row in numbers(value)]
    return table(cells, CELLPADDING=2, CELLSPACING=1) if np.size(value) > 1 else table(cells, CELLPADDING=0)


def value_rows(vertex, has_gradient):
    """Yield the table rows with a vertex's value and gradient: all elements of a small array, with value and
    gradient of a matrix side by side; shape and largest gradient of a larger one."""
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
    """Yield a row for the value and one for the gradient if some elements are not finite."""
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


def constant_content(value):
    """Show a small constant element by element, a larger one by shape and dtype."""
    if np.ndim(value) == 0:
        return font(exact(value), "ink", 11)
    if fits_grid(value):
        return grid(value, "ink")
    kind = dict(i="integers", u="integers", b="booleans", f="floats").get(value.dtype.kind, "elements")
    return f"{font(' × '.join(map(str, value.shape)), 'ink', 11)}<BR/>{font(kind, 'soft', 10)}"


def op_title(vertex, inline):
    """The op's symbol and name. With `inline` also its plain-number arguments, which then have no box."""
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
    leaf=dict(penwidth="2.2"),
    constant=dict(style="filled,dashed"),
    op=dict(penwidth="1.2"),
    module=dict(penwidth="1.2", style="filled"),
    output=dict(peripheries="2", penwidth="1.2"),
)


class Look:
    """Writes a Layout as DOT.

    root       the vertex that is the result
    names      {vertex: name}, besides the names of parameters
    numbers    True: show values and gradients. False: show shapes
    backward   True: draw the gradients that come back too
    direction  LR, TB ... as in Graphviz
    caption    a line of text below the drawing, or ""
    """

    def __init__(self, layout, root, names, numbers, backward, direction, caption):
        self.layout, self.root, self.names, self.numbers = layout, root, names, numbers
        self.backward = backward
        self.direction, self.caption = direction, caption
        self.boxes = [box for box in layout.boxes if numbers or not self._is_inline(box)]
        self.ids = {box: f"n{i}" for i, box in enumerate(self.boxes)}
        self.seen = set()  # kinds of boxes and arrows, for the legend

    def _is_inline(self, box):
        return box.kind == "constant" and np.ndim(box.last.value) == 0

    def source(self):
        import graphviz  # here: only a drawing needs it

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
        """Add the boxes that are in no deeper frame, then each frame with its boxes.

        A single op gets no frame.
        """
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
                frame.attr(label=f"<{self._module_title(path, above)}>", style="rounded,filled", margin="10",
                           fillcolor=LIGHT["frame"], color=LIGHT["frame_line"], labeljust="l", labelloc="t",
                           tooltip=path)  # fmt: skip
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
            yield wide(constant_content(vertex.value))
        elif self.numbers:
            yield from value_rows(vertex, self.backward)
        else:
            yield wide(font(shape_of(vertex.shape), "forward", 11))
            yield from alarms(vertex, self.backward)

    # ---------------------------------------------------------------- arrows

    def _arrow(self, dot, arrow):
        start, end = self.ids[arrow.start], self.ids[arrow.end]
        dot.edge(start, end)
        if self.backward and arrow.shares:
            # from parent to child too, with the head at the tail: it lies beside its twin and keeps the ranks
            sent = self._backward_label(arrow)
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

    def _backward_label(self, arrow):
        """Label a backward arrow.

        The label has "+=" if the gradient is added to an earlier one, how broadcasting was undone, and the
        gradient itself if it is a scalar.
        """
        share, lines = arrow.shares[0], []
        single = "module" not in (arrow.start.kind, arrow.end.kind)
        if single and self.numbers and share.parent.shape == ():
            lines = [number(share.sent)]
        if single and share.summed:
            self.seen.add("summed")
            lines = [describe_sum(share.raw.shape, share.sent.shape), *lines]
        if arrow.added:
            self.seen.add("added")
            lines = ["+= " + (lines[0] if lines else ""), *lines[1:]]
        return "<BR/>".join(font(f" {line} ", bold=arrow.added) for line in lines)

    # ---------------------------------------------------------------- legend

    def _legend(self):
        """The caption, and the meaning of the colours, lines and words that occur in this drawing."""
        kinds = [
            cell(" ", BORDER=1, BGCOLOR=LIGHT[k], COLOR=LIGHT[k + "_line"], WIDTH=16) + self._meaning(text)
            for k, text in KINDS.items()
            if k in self.seen
        ]
        seen = {"forward"} | (self.seen | {"backward"} if self.backward else set())
        ways = [
            cell(font(sign, color, 12, bold=True)) + self._meaning(text)
            for key, sign, text, color in WAYS
            if key in seen
        ]
        nothing = cell(" ", COLSPAN=2)
        rows = [kind + cell("    ") + way for kind, way in zip_longest(kinds, ways, fillvalue=nothing)]
        caption = [
            cell(font(line, "soft", 12), COLSPAN=5, ALIGN="LEFT") for line in textwrap.wrap(self.caption, 58)
        ]
        return table([cell(" ", COLSPAN=5), *caption, *rows], CELLSPACING=3)

    def _meaning(self, text):
        return cell(font(" " + text, "soft", 11), ALIGN="LEFT")


KINDS = dict(
    leaf="parameter or other leaf", constant="constant", op="op", module="closed module", output="result"
)
WAYS = (
    ("forward", "→", "forward: values, shapes", "forward"),
    ("backward", "←", "backward: gradients", "backward"),
    ("added", "+=", "added to an earlier gradient", "backward"),
    ("summed", "summed", "broadcasting undone", "backward"),
)


def _within(path, above):
    """The path relative to the module above."""
    return path.removeprefix(above + ".") if above else path


def describe_sum(raw, sent):
    """Describe how broadcasting was undone: the axes summed over, or the shapes before and after the sum."""
    extra = len(raw) - len(sent)
    axes = [i for i, n in enumerate(raw) if i < extra or sent[i - extra] != n]
    if len(raw) == 2 and len(axes) == 1:
        return "summed over rows" if axes == [0] else "each row summed"
    return f"summed: {shape_of(raw)} to {shape_of(sent)}"
