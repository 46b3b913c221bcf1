"""Draw line charts as SVG strings for a page. They use the page's colours, dark or light."""

import html
import math

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 500, 270, 74, 46, 12, 14
POINTS = 400  # points of a curve; more would not be visible

STYLE = """
:root { --tone: 40%; } @media (prefers-color-scheme: dark) { :root { --tone: 62%; } }
figure { margin: 0 0 1.2rem; } figure svg { width: 100%; max-width: 44rem; display: block; }
figure text { fill: var(--ink); font-size: 13px; }
figure .grid { stroke: var(--line); } figure .curve { fill: none; stroke-width: 1.8; }
.names { list-style: none; margin: .2rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: .1rem 1rem;
  font-size: .85rem; }
.names svg { width: 1.6rem; height: .7rem; display: inline-block; vertical-align: middle;
  margin-right: .3rem; }
@media (max-width: 40rem) { figure text { font-size: 16px; } }
figure details { font-size: .85rem; } figcaption { margin-bottom: .3rem; }
"""


def chart(curves, caption, xlabel, ylabel, log=False, places=None, low=None, high=None):
    """Draw curves as an HTML figure: the chart, its names, and the values as a table for screen readers.

    curves     {name: [(x, y)]}; x are integers, such as steps
    places     names of the integers on the x axis, if they count things
    low, high  ends of the y axis; by default the smallest and the largest value
    """
    curves = {
        name: [(x, y) for x, y in points if math.isfinite(y) and (y > 0 or not log)]
        for name, points in curves.items()
    }
    points = [point for one in curves.values() for point in one]
    if not points:
        return f"<figure><figcaption>{caption}</figcaption><p>Nothing was measured.</p></figure>"
    x, y = (
        _axis([x for x, _ in points], LEFT, WIDTH - RIGHT, whole=True),
        _axis([y for _, y in points], HEIGHT - BOTTOM, TOP, log, low, high),
    )
    colours = {
        name: f"hsl({(210 + 360 * i / len(curves)) % 360:.0f} 65% var(--tone))"
        for i, name in enumerate(curves)
    }
    lines = "".join(_curve(x, y, thin(one), colours[name], len(one) < 20) for name, one in curves.items())
    drawing = _grid(x, y, places) + lines + _axis_labels(xlabel, ylabel)
    label = f"{html.escape(caption)}; the values are in the table below"
    picture = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{drawing}</svg>'
    names = (
        "".join(f"<li>{_swatch(colours[name])}{html.escape(name)}</li>" for name in curves)
        if len(curves) > 1
        else ""
    )
    values = _value_table(curves, xlabel, places)
    return (
        f'<figure><figcaption>{caption}</figcaption>{picture}<ul class="names">{names}</ul>{values}</figure>'
    )


def thin(points):
    """Reduce many points to at most POINTS: neighbours are replaced by their mean."""
    size = -(-len(points) // POINTS)
    parts = [points[i : i + size] for i in range(0, len(points), size)]
    return [(part[-1][0], sum(y for _, y in part) / len(part)) for part in parts]


class _axis:
    """An axis: maps a value to its coordinate, and has the round numbers that get a tick."""

    def __init__(self, values, start, end, log=False, low=None, high=None, whole=False):
        self.scale = math.log10 if log else float
        low, high = min(values) if low is None else low, max(values) if high is None else high
        self.low, self.high = self.scale(low), self.scale(high)
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self.start, self.end = start, end
        self.ticks = (
            _powers(self.low, self.high) if log else _round(self.low, self.high, least=1 if whole else 0)
        )

    def __call__(self, value):
        return self.start + (self.scale(value) - self.low) / (self.high - self.low) * (self.end - self.start)


def _round(low, high, count=6, least=0):
    """Round ticks: multiples of 1, 2 or 5 times a power of ten, at least `least` apart."""
    rough = max(least, (high - low) / count)
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _powers(low, high):
    """Logarithmic ticks: powers of ten, and if these are few also 2 and 5 times powers of ten."""
    factors = (1,) if high - low > 2.5 else (1, 2, 5)
    ticks = [f * 10.0**i for i in range(math.floor(low), math.ceil(high) + 1) for f in factors]
    inside = [tick for tick in ticks if low - 1e-9 <= math.log10(tick) <= high + 1e-9]
    return inside if len(inside) > 1 else [10**low, 10**high]


def _curve(x, y, points, colour, dots):
    line = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
    marks = (
        "".join(f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" style="fill: {colour}"/>' for a, b in points)
        if dots
        else ""
    )
    return f'<polyline class="curve" style="stroke: {colour}" points="{line}"/>{marks}'


def _grid(x, y, places):
    lines = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(t):.1f}" y2="{y(t):.1f}"/>'
        for t in y.ticks
    )
    labels = "".join(
        f'<text x="{LEFT - 6}" y="{y(t) + 4:.1f}" text-anchor="end">{t:.3g}</text>' for t in y.ticks
    )
    ticks = [(t, f"{t:g}") for t in x.ticks] if places is None else [(i, i + 1) for i in range(len(places))]
    at = HEIGHT - BOTTOM + (18 if places is None else 16)
    below = "".join(f'<text x="{x(i):.1f}" y="{at}" text-anchor="middle">{text}</text>' for i, text in ticks)
    return lines + labels + below


def _axis_labels(xlabel, ylabel):
    middle = (HEIGHT - BOTTOM + TOP) / 2
    return (
        f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(xlabel)}</text>'
        f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{html.escape(ylabel)}'
        "</text>"
    )


def _swatch(colour):
    return (
        '<svg viewBox="0 0 32 12" aria-hidden="true">'
        f'<line x1="0" x2="32" y1="6" y2="6" style="stroke: {colour}; stroke-width: 4"/></svg>'
    )


def _value_table(curves, xlabel, places):
    """A folded table of the values at up to 12 evenly spaced x."""
    every = sorted({x for points in curves.values() for x, _ in points})
    some = (
        every
        if places
        else [every[round(i * (len(every) - 1) / 11)] for i in range(12)]
        if len(every) > 12
        else every
    )
    rows = [
        [
            places[x] if places else f"{x:g}",
            *(f"{dict(points)[x]:.3g}" if x in dict(points) else "" for points in curves.values()),
        ]
        for x in some
    ]
    return f"<details><summary>values as a table</summary>{table([xlabel, *curves], rows)}</details>"


def table(head, rows):
    """Build an HTML table whose first column names the rows."""
    first = "".join(f'<th scope="col">{html.escape(str(cell))}</th>' for cell in head)
    rest = "".join(
        f'<tr><th scope="row">{html.escape(str(name))}</th>'
        + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    head = f"<thead><tr>{first}</tr></thead>" if any(head) else ""
    return f'<div class="scroll"><table>{head}<tbody>{rest}</tbody></table></div>'
