"""Draw the pictures of the lessons from the numbers of tutorials/measurements.py.

Each function returns its numbers. Given a path, it also draws a PNG; given a function in place of the path,
it calls that with the figure.

    python tutorials/figures.py FOLDER        writes all pictures, in a few seconds
"""

import sys
from pathlib import Path

import numpy as np

import minigrad as mg
from tutorials import measurements

# colour-blind people can distinguish these (Okabe & Ito 2008)
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"


def _figure(width, height, title):
    """Make a figure. At 7 inches wide, its text stays readable where a page shows it at 700 pixels."""
    # imported on first use; pyplot would need a display
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, fontsize=12)
    return figure


def _panel(axes, title, xlabel, ylabel, **settings):
    axes.set(xlabel=xlabel, ylabel=ylabel, **settings)
    axes.set_title(title, fontsize=10)
    return axes


def _save(figure, path):
    path(figure) if callable(path) else figure.savefig(path, dpi=120)


def drawn(picture, **settings):
    """Call one of the functions below. Returns (figure, numbers), the same at every call; writes no file."""
    made = []
    mg.manual_seed(0)
    numbers = picture(made.append, **settings)
    return made[0], numbers


def _doubling(axes, values):
    """Make the x axis logarithmic, with a tick at each measured value."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:,}" for value in values])


# ---------------------------------------------------------------- positions, scores, masks


def positions(path=None, length=100, d_model=64):
    """The sinusoidal encoding as a map, and the similarity of each two positions."""
    table, similarity = measurements.positions(length, d_model)
    if path:
        figure = _figure(7, 6.4, "Sinusoidal positions: near ones are alike, and only the distance counts")
        left, right, below = figure.subplot_mosaic("AB;CC", height_ratios=(3, 2)).values()
        image = left.imshow(table, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
        figure.colorbar(image, ax=left, label="value")
        _panel(left, "the encoding", "dimension: fast waves left, slow right", "position")
        figure.colorbar(
            right.imshow(similarity, cmap="viridis", aspect="auto"), ax=right, label="share of the largest"
        )
        _panel(right, "dot product of each two positions", "position", "position")
        for at, colour, line in zip((20, 50, 80), (BLUE, ORANGE, GREEN), ("-", "--", ":"), strict=True):
            below.plot(similarity[at], line, color=colour, label=f"with position {at}")
        _panel(
            below,
            "three rows of that map: the same hill, moved",
            "position",
            "dot product\n(share of the largest)",
            ylim=(None, 1.25),
            yticks=(0.4, 0.6, 0.8, 1.0),
        )
        below.legend(fontsize=9, ncols=3, loc="upper center")
        _save(figure, path)
    return table, similarity


def softmax_saturation(path=None, widths=(1, 4, 16, 64, 256, 1024)):
    """The saturation of softmax as d_k grows, with the scores divided by sqrt(d_k) and not divided."""
    found = measurements.softmax_saturation(widths)
    if path:
        figure = _figure(7, 3.9, r"Without $1/\sqrt{d_k}$, wide queries and keys saturate the softmax")
        left, right = figure.subplots(1, 2)
        for name, label, colour, marker in (
            ("scaled", r"scores divided by $\sqrt{d_k}$", BLUE, "o"),
            ("unscaled", "not divided", ORANGE, "s"),
        ):
            for axes, what in ((left, "largest"), (right, "gradient")):
                low, middle, high = found[name][what].T
                axes.fill_between(widths, low, high, color=colour, alpha=0.2, linewidth=0)
                axes.plot(widths, middle, color=colour, marker=marker, label=label)
        left.axhline(1 / 32, color=GREY, linestyle=":")
        left.text(widths[-1], 0.045, "1/32: all keys alike", ha="right", fontsize=8, color="#444444")
        across = "$d_k$, the width of queries and keys"
        _panel(
            left,
            "the attention goes to one key of 32 ...",
            across,
            "largest weight (share of the attention)",
            ylim=(0, 1.03),
        )
        _panel(
            right,
            "... and hardly any gradient passes",
            across,
            "norm of the gradient at the scores",
            yscale="log",
        ).legend(fontsize=9, loc="lower left")
        for axes in (left, right):
            _doubling(axes, widths)
        figure.supxlabel(
            "random queries and keys of variance 1; line: the median query, band: the middle half of them",
            fontsize=9,
            color="#444444",
        )
        _save(figure, path)
    return found


def masks(path=None):
    """The masks of a Transformer as matrices: which query may attend to which key."""
    found = measurements.masks()
    if path:
        figure = _figure(7, 5.4, "Attention masks: each row is a query, and sees the keys marked blue")
        panels = figure.subplots(2, 3).flat
        for axes, (title, (allowed, queries, keys)) in zip(panels, found.items(), strict=False):
            _mask(_panel(axes, title, "", ""), allowed, queries, keys)
        _meaning(figure.axes[-1])
        figure.supxlabel("keys: what is looked at", fontsize=10)
        figure.supylabel("queries: who looks", fontsize=10)
        _save(figure, path)
    return found


def _mask(axes, allowed, queries, keys):
    from matplotlib.colors import ListedColormap

    axes.imshow(allowed, cmap=ListedColormap(["#E4E4E4", BLUE]), vmin=0, vmax=1)
    for row, column in np.argwhere(~allowed):
        axes.text(column, row, "×", ha="center", va="center", color=GREY)
    axes.set_xticks(range(len(keys)), keys, rotation=45, fontsize=9)
    axes.set_yticks(range(len(queries)), queries, fontsize=9)
    axes.set_xticks(np.arange(len(keys)) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(queries)) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(length=0, which="both")


def _meaning(axes):
    """Write the legend of the five masks into the sixth panel."""
    axes.axis("off")
    lines = (
        "blue: may look   × hidden", "", "causal: not at the future", "padding: not at fill-ins (pad)",
        "cross-attention: the target", "  looks at the source", "with a cache: two new tokens;",
        "  three came before, so the", "  diagonal ends bottom right",
    )  # fmt: skip
    axes.text(-0.05, 0.95, "\n".join(lines), transform=axes.transAxes, va="top", fontsize=9)


# ---------------------------------------------------------------- how far gradients reach


def gradient_by_depth(path=None, depth=18, depths=(2, 4, 8, 16, 32)):
    """The gradient at each layer of a deep encoder: without residuals, with post-norm, with pre-norm."""
    by_layer, last = measurements.gradient_by_depth(depth), measurements.gradient_of_last_layer(depths)
    if path:
        figure = _figure(7, 4, "Residuals carry the gradient to the first layer of a deep Transformer")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        looks = {
            "none": ("no residual, no norm", ORANGE, "s"),
            "post": ("norm after the residual (post)", BLUE, "o"),
            "pre": ("norm inside the residual (pre)", GREEN, "^"),
        }
        for name, (label, colour, marker) in looks.items():
            left.plot(
                range(1, depth + 1), by_layer[name], color=colour, marker=marker, markersize=4, label=label
            )
            if name in last:
                right.plot(depths, last[name], color=colour, marker=marker, label=label)
        _panel(
            left,
            f"at each layer of {depth}, before training",
            "layer (1 is next to the input)",
            "norm of the gradient at its weights",
            yscale="log",
        ).legend(fontsize=9)
        left.set_xticks([1, *range(3, depth + 1, 3)])
        _panel(
            right,
            "at the last layer of each stack",
            "number of layers in the stack",
            "the same, on a plain scale",
            ylim=(0, None),
        )
        _doubling(right, depths)
        _save(figure, path)
    return by_layer, last


def gradient_by_distance(path=None, length=101):
    """The dependence of the last output on each earlier input: RNN, LSTM, attention."""
    found = measurements.gradient_by_distance(length)
    if path:
        figure = _figure(7, 4.2, "Far inputs fade in an RNN, slower in an LSTM; attention sees all alike")
        axes = figure.add_subplot()
        path_length = {
            "RNN": "one step of the net for each step back",
            "LSTM": "the same, through gates",
            "attention": "one step from anywhere",
        }
        for (name, ratio), colour, marker in zip(found.items(), (ORANGE, BLUE, GREEN), "s^o", strict=True):
            axes.plot(ratio, color=colour, marker=marker, markevery=10, label=f"{name}: {path_length[name]}")
        _panel(
            axes,
            "one layer of width 64, before any training",
            "distance: how many steps the input lies before the output",
            "gradient there / gradient at distance 0",
            yscale="log",
        ).legend(fontsize=10, loc="lower left")
        _save(figure, path)
    return found


# ---------------------------------------------------------------- two parameters, memory


def loss_surface(path=None, steps=60):
    """SGD and Adam on the way down a narrow valley."""
    found = measurements.loss_surface(steps)
    if path:
        figure = _figure(7, 4.6, f"{steps} steps down a narrow valley: a line fitted to twenty points")
        axes = figure.add_subplot()
        depth = np.log10(found["loss"])
        surface = axes.contourf(
            found["slope"],
            found["intercept"],
            depth,
            np.linspace(depth.min(), depth.max(), 14),
            cmap="Greys_r",
            alpha=0.75,
        )
        figure.colorbar(surface, ax=axes, label="mean squared error").set_ticks(
            [-1, 0, 1], labels=["0.1", "1", "10"]
        )
        for name, colour, marker in (("SGD", ORANGE, "s"), ("Adam", BLUE, "o")):
            axes.plot(
                *found[name].T,
                color=colour,
                marker=marker,
                markersize=3.5,
                linewidth=1.3,
                label=f"{name}, step size {measurements.STEP_SIZES[name]}",
            )
        axes.plot(
            *found["lowest"],
            "*",
            color="white",
            markeredgecolor="black",
            markersize=12,
            label="lowest loss",
            zorder=3,
        )
        _panel(
            axes,
            "SGD crosses it, then creeps along it; Adam swings, and arrives",
            "slope of the line",
            "intercept of the line",
        ).legend(fontsize=10)
        _save(figure, path)
    return found


def attention_memory(path=None, lengths=(512, 1024, 2048, 4096)):
    """The memory of attention against the length, plain and in blocks."""
    found = measurements.attention_memory(lengths)
    if path:
        _save(attention_memory_figure(lengths, found), path)
    return found


def attention_memory_figure(lengths, found):
    """Draw the figure of attention_memory."""
    figure = _figure(7, 4, "Attention at twice the length: four times the memory, in blocks only twice")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, what, title in zip(
        panels,
        ("kept", "peak"),
        ("kept after the forward pass", "at most, forward and backward"),
        strict=True,
    ):
        for name, colour, marker in (("plain", ORANGE, "s"), ("blocked", BLUE, "o")):
            axes.plot(lengths, found[name][what] / 1e6, color=colour, marker=marker, label=name)
        _panel(
            axes,
            title,
            "n, tokens in the sequence",
            "megabytes, for one head of width 64" * (what == "kept"),
            yscale="log",
        )
        axes.yaxis.set_major_formatter("{x:g}")
        axes.legend(fontsize=9)
        _doubling(axes, lengths)
    return figure


PICTURES = (
    positions,
    softmax_saturation,
    masks,
    gradient_by_depth,
    gradient_by_distance,
    loss_surface,
    attention_memory,
)


def write_all(folder):
    """Write every picture to FOLDER/<name of the function>.png. Returns the paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        mg.manual_seed(0)  # so that each picture does not depend on the others
        picture(folder / f"{picture.__name__}.png")
    return [folder / f"{picture.__name__}.png" for picture in PICTURES]


if __name__ == "__main__":
    print(*(write_all(sys.argv[1]) if len(sys.argv) > 1 else [__doc__]), sep="\n")
