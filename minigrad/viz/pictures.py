"""Draw PNG pictures with matplotlib: training curves, attention maps, charts."""

import math
import textwrap
import warnings

LOWER_IS_BETTER = ("bits", "loss", "error", "perplexity")  # words in the names of such figures


def lower_is_better(metric, share):
    """Return whether a lower value of this metric is better.

    With share=True the metric is a fraction of 1.
    """
    return not share and any(word in metric for word in LOWER_IS_BETTER)


def _figure(width, height):
    from matplotlib.figure import Figure  # not pyplot: no window, no global state, no display needed

    return Figure(figsize=(width, height), layout="constrained")


def curve(rows, path, metric=None, title="", share=True):
    """Draw the loss of every step, on a logarithmic axis, and the metric where it was measured, as a PNG.

    rows   from fit
    share  True if the metric is a fraction of 1, such as an accuracy
    """
    figure = _figure(7, 4)
    axes = figure.add_subplot()
    losses = [r["loss"] for r in rows]
    axes.plot([r["step"] for r in rows], losses, color="tab:blue", linewidth=0.8)
    axes.set(xlabel="step", ylabel="training loss (lower is better)", title=title)
    axes.yaxis.label.set_color("tab:blue")
    if min(losses) > 0:  # some losses, such as a log-likelihood, are not
        _use_log_scale(axes, max(losses) / min(losses))
    points = [(r["step"], r[metric]) for r in rows if metric in r]
    if points:
        _draw_metric(axes.twinx(), points, metric, share)
    figure.savefig(path, dpi=120)


def _use_log_scale(axes, ratio):
    """Make the y axis logarithmic, with plain numbers at its ticks even on less than a power of ten."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(
        MaxNLocator(6) if ratio < 8 else LogLocator(subs=(1, 2, 5) if ratio < 1000 else (1,))
    )
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_metric(axes, points, metric, share):
    """Draw the metric's points on an axis of its own.

    A single point, which makes no line, is labelled with its value.
    """
    axes.plot(
        *zip(*points, strict=True),
        color="tab:orange",
        marker="o",
        markersize=3 if len(points) > 1 else 7,
        clip_on=False,
    )
    if len(points) == 1:
        ((step, value),) = points
        text = f"{value:.1%}" if share else f"{value:.3g}"
        axes.annotate(
            text, (step, value), (-6, 6), textcoords="offset points", ha="right", color="tab:orange"
        )
    name = f"{metric} on held-out data" + " (lower is better)" * lower_is_better(metric, share)
    axes.set(ylabel=textwrap.fill(name, 36), ylim=(0, 1.03 if share else None))
    axes.yaxis.label.set_color("tab:orange")


def attention_map(weights, columns, rows, path, title=""):
    """Draw the attention weights of all heads side by side, as a PNG.

    weights        the weights of each row (target) over the columns (source)              (H, rows, columns)
    columns, rows  labels, such as characters
    """
    heads, across = len(weights), min(len(weights), 2)
    down = -(-heads // across)
    # height of a panel in inches: many rows are closer together
    height = min(max(2.2, 0.22 * len(rows)), max(3.3, 0.065 * len(rows)))
    figure = _figure(max(6, 1.8 + max(3.2, 0.16 * len(columns)) * across), 1.1 + height * down)
    panels = figure.subplots(down, across, squeeze=False).flat
    for head, axes in enumerate(panels):
        if head == heads:  # with an odd number of heads the last panel stays empty
            axes.remove()
            continue
        image = axes.imshow(weights[head], cmap="Blues", vmin=0, vmax=1, aspect="auto")
        _label(axes, columns, rows, every=math.ceil(0.11 * len(rows) / height))
        axes.set_title(f"head {head + 1}", fontsize=9)
    bar = figure.colorbar(image, ax=figure.axes, shrink=0.6, aspect=30)
    bar.set_label("attention weight", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    whole = " → ".join(_text(labels) for labels in (columns, rows))
    figure.suptitle(title + "\n" + textwrap.fill(whole, 90, max_lines=3), fontsize=10, parse_math=False)
    figure.supxlabel("source (keys)", fontsize=9)
    figure.supylabel("target (queries)", fontsize=9)
    with warnings.catch_warnings():
        # a glyph that this font lacks is drawn as a box: no warning needed
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(path, dpi=120)


def _label(axes, columns, rows, every=1):
    """Label all columns, and every n-th row (`every`) where there is no room for all."""
    style = dict(fontsize=8, family="DejaVu Sans Mono", parse_math=False)  # a $ is a $
    rotation = 90 if max(map(len, columns)) > 3 else 0  # words side by side would overlap
    axes.set_xticks(
        range(len(columns)), ["␣" if c == " " else c for c in columns], rotation=rotation, **style
    )
    axes.set_yticks(range(0, len(rows), every), rows[::every], **style)
    axes.tick_params(length=0)


def _text(labels):
    """Join the labels to the line of text they are pieces of, without the end token."""
    labels = labels[:-1] if labels[-1] == "end" else labels
    return "".join(labels).replace("␣", " ").strip()


def charts(panels, path, title=""):
    """Draw charts side by side, as a PNG. Each panel is a dict:

    title, xlabel, ylabel
    curves  {name: {x: y}}: a name has the same colour in all panels, and a dashed line if it ends in "--"
    level   optional (y, label): a horizontal line
    log     optional: True for a logarithmic y axis
    """
    figure = _figure(6 * len(panels), 4.2)
    names = list(dict.fromkeys(name.removesuffix("--") for panel in panels for name in panel["curves"]))
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), i + 1)
        for name, points in panel["curves"].items():
            plain = name.removesuffix("--")
            n = names.index(plain)
            # each marker smaller than the last, so that equal curves show
            style = dict(marker="osD^"[n % 4], markersize=8 - 1.5 * n % 6, label=plain)
            style = style if name == plain else dict(linestyle="--", linewidth=1, alpha=0.7)
            axes.plot(list(points), list(points.values()), color=f"C{n}", **style)
        if "level" in panel:
            axes.axhline(panel["level"][0], color="grey", linestyle=":", linewidth=1, label=panel["level"][1])
        axes.set(
            xlabel=panel["xlabel"], ylabel=panel["ylabel"], yscale="log" if panel.get("log") else "linear"
        )
        axes.set_title(panel["title"], fontsize=10)
        axes.legend(fontsize=9)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=120)
