"""Still pictures with matplotlib: a training curve, an attention map. Knows numbers and labels, no models."""

import warnings


def _figure(width, height):
    from matplotlib.figure import Figure  # not pyplot: no window, no global state, no display needed

    return Figure(figsize=(width, height), layout="constrained")


def curve(rows, path, metric=None, title="", share=True):
    """The loss of every step (logarithmic) and the metric (a share of 1, or not) where it was measured, from fit's rows, as a PNG."""
    figure = _figure(7, 4)
    axes = figure.add_subplot()
    axes.plot([r["step"] for r in rows], [r["loss"] for r in rows], color="tab:blue", linewidth=0.8)
    axes.set(xlabel="step", ylabel="training loss", yscale="log", title=title)
    axes.yaxis.label.set_color("tab:blue")
    measured = [(r["step"], r[metric]) for r in rows if metric in r]
    if measured:
        right = axes.twinx()
        right.plot(*zip(*measured, strict=True), color="tab:orange", marker="o", markersize=3)
        right.set(ylabel=f"{metric} on held-out data", ylim=(0, 1.03 if share else None))
        right.yaxis.label.set_color("tab:orange")
    figure.savefig(path, dpi=120)


def attention_map(weights, columns, rows, path, title=""):
    """Heads side by side: each row (what is written) over the columns (what is looked at), as a PNG.

    weights (H, rows, columns), each row summing to 1; columns, rows: labels, such as the characters.
    """
    heads, style = len(weights), dict(fontsize=8, family="DejaVu Sans Mono", parse_math=False)  # a $ is a $
    turned = 90 if max(map(len, columns)) > 3 else 0  # words beside one another would overlap
    figure = _figure(max(6, 1.2 + max(3.2, 0.16 * len(columns)) * min(heads, 2)), 0.7 + max(2.2, 0.22 * len(rows)) * -(-heads // 2))
    for head, panel in enumerate(weights):
        axes = figure.add_subplot(-(-heads // 2), min(heads, 2), head + 1)
        axes.imshow(panel, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(columns)), ["␣" if c == " " else c for c in columns], rotation=turned, **style)
        axes.set_yticks(range(len(rows)), rows, **style)
        axes.set_title(f"head {head + 1}", fontsize=9)
        axes.tick_params(length=0)
    figure.suptitle(title, fontsize=10)
    figure.supxlabel("looked at (source)", fontsize=9)
    figure.supylabel("written (target)", fontsize=9)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # of a script this font lacks: a box is drawn, and that is said enough
        figure.savefig(path, dpi=120)


def charts(panels, path, title=""):
    """Charts side by side, as a PNG. A panel is a dict: title, xlabel, ylabel; curves {name: {x: y}}, one colour for each name
    in all panels, "--" in a name's end a dashed line; level (y, label) for a line across; log for a logarithmic y."""
    figure = _figure(6 * len(panels), 4.2)
    names = list(dict.fromkeys(name.removesuffix("--") for panel in panels for name in panel["curves"]))
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), i + 1)
        for name, points in panel["curves"].items():
            plain = name.removesuffix("--")
            n = names.index(plain)
            style = dict(marker="osD^"[n % 4], markersize=8 - 1.5 * n % 6, label=plain)  # each smaller, so that equal curves show
            style = style if name == plain else dict(linestyle="--", linewidth=1, alpha=0.7)
            axes.plot(list(points), list(points.values()), color=f"C{n}", **style)
        if "level" in panel:
            axes.axhline(panel["level"][0], color="grey", linestyle=":", linewidth=1, label=panel["level"][1])
        axes.set(xlabel=panel["xlabel"], ylabel=panel["ylabel"], yscale="log" if panel.get("log") else "linear")
        axes.set_title(panel["title"], fontsize=10)
        axes.legend(fontsize=9)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=120)
