"""The report of a run, report.html: curves, samples, layers, attention, figures, settings and command.

diary.py collects what the report shows.
"""

import html
import re
from pathlib import Path

from minigrad.training.figures import cell, environment, rows_of, single
from minigrad.training.health import NORMS, WARNINGS, layer_of
from minigrad.training.recipe import is_number
from minigrad.viz import page as pages
from minigrad.viz import svg
from minigrad.viz.explorer import as_records, explorer

STYLE = """
a { color: var(--forward); }
.wide { overflow-wrap: anywhere; } pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
dl { display: grid; grid-template-columns: fit-content(60%) minmax(0, 1fr); gap: .1rem 1rem; margin: 0; }
dt { color: var(--soft); overflow-wrap: anywhere; } th { overflow-wrap: break-word; }
dd { margin: 0; overflow-wrap: anywhere; } .right { color: var(--leaf); } .wrong { color: var(--backward); }
.figure { font-size: 1.3rem; }
.charts { display: grid; gap: 0 1.5rem; }
.charts { grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
"""


def in_order(names):
    """Number the names, as a chart's axis does: (1) a, (2) b."""
    return ", ".join(f"({i}) {name}" for i, name in enumerate(names, 1))


def report(path, run, rows, figures, settings, parameters, scales, attention, threads=1):
    """Write report.html.

    run          {"name", "help", "metric", "share", "shown" (formats the metric), "command",
                 "reason" (why training failed, or None), "titles" ({layer: its title, if not its name})}
    rows         of the training loop                 figures     of the final evaluation
    settings     of the recipe                        parameters  {name: number of elements}
    scales       {"before training": {layer: root mean square}, "after training": ...}
    attention    [(name, rows of attention)], or a string with the reason why there are none
    """
    parts, why = _explorer(attention)
    ended = ending(rows, settings, run)
    sections = {
        "Learning": _learning(rows, run),
        "Samples": _samples(rows),
        "Layers": _layers(rows, scales, run["titles"].get),
        "Attention": ATTENTION + parts["body"] if parts else f"<p>{_text(why)}</p>",
        "Figures": _figures(figures, run),
        "Settings": _settings(settings, parameters, threads, run, ended),
    }
    links = "".join(f'<a href="#{name}">{name}</a>' for name in sections)
    body = (
        f"<h1>{_text(run['name'])}: training report</h1><p>{_text(without_duration(run['help'] or ''))}</p>"
    )
    body += f"{_summary(rows, figures, run, parameters, settings)}<nav>{links}</nav>"
    body += "".join(
        f'<section id="{name}"><h2>{name}</h2>{content}</section>' for name, content in sections.items()
    )
    parts = parts or {"data": None, "script": "", "style": ""}
    return pages.save(
        pages.page(
            f"{run['name']}: report", body, parts["data"], parts["script"], svg.STYLE + parts["style"] + STYLE
        ),
        path,
    )


def without_duration(help):
    """Remove a duration such as "(a minute)" from a recipe's help: the report shows the measured one."""
    return re.sub(r" \([^()]*minutes?\)$", "", help)


def _explorer(attention):
    if isinstance(attention, str):
        return None, attention
    try:
        return explorer(as_records(attention)), None
    except ValueError as problem:
        return None, str(problem)


def ending(rows, settings, run):
    """Describe where a run failed or was stopped; "" for a run that is complete."""
    last, verb = rows[-1]["step"] if rows else 0, "failed" if run["reason"] else "was stopped"
    if last == settings["steps"] and not run["reason"]:
        return ""
    return (
        f"{verb} {'after' if run['reason'] else 'at'} step {last:,} of {settings['steps']:,}"
        if rows
        else f"{verb} before its first step was done"
    )


def _summary(rows, figures, run, parameters, settings):
    ended = ending(rows, settings, run)
    reason = f' <strong class="wrong">{_text(run["reason"])}</strong>' if run["reason"] else ""
    note = f"<p>The run {ended}.{reason}</p>" if ended else ""
    if not rows:
        return note
    note += "".join(
        f"<p>Warning at {_text(warning)}</p>" for row in rows for warning in row.get(WARNINGS, ())
    )
    metric = ""
    if run["metric"] in figures:
        value = cell(figures[run["metric"]], run["shown"])
        metric = f"{_text(run['metric'])} on held-out data: <strong>{_text(value)}</strong>, "
    last, count = rows[-1], sum(parameters.values())
    return (
        f'<p class="figure">{metric}after {last["step"]:,} steps and {last["seconds"]:.1f} s of training; '
        f"{count:,} parameters.</p>{note}"
    )


def _learning(rows, run):
    if not rows:
        return ""
    over = lambda key: [(row["step"], row[key]) for row in rows if key in row]  # noqa: E731
    positive = all(row["loss"] > 0 for row in rows)
    charts = [
        svg.chart({"loss": over("loss")}, "The loss of each step's batch", "step", "loss", log=positive)
    ]
    measured = [(step, single(value)) for step, value in over(run["metric"]) if is_number(single(value))]
    if measured:  # a stopped run may have no measurement yet
        caption = f"{_text(run['metric'])}, on data never trained on"
        if not run["reason"]:
            caption += (
                ". During training most recipes measure it on a part of these data; the figure at the top "
                "of the page is the final one, of all of them"
            )
        ends = dict(low=0.0, high=1.0) if run["share"] else {}
        charts.append(svg.chart({run["metric"]: measured}, caption, "step", run["metric"], **ends))
    charts.append(svg.chart({"learning rate": over("lr")}, "The learning rate", "step", "learning rate"))
    caption = (
        "The norm of the gradient, all parameters together, before clipping (to 1, unless the recipe "
        "sets another limit)"
    )
    charts.append(
        svg.chart({"gradient norm": over("gradient norm")}, caption, "step", "gradient norm", log=True)
    )
    return f'<div class="charts">{"".join(charts)}</div>'


def _layers(rows, scales, title):
    measured = [(row["step"], row[NORMS]) for row in rows if NORMS in row]
    layers = list(dict.fromkeys(layer for _, norms in measured for layer in norms))
    curves = {
        title(layer, layer): [(step, norms[layer]) for step, norms in measured if layer in norms]
        for layer in layers
    }
    names = list(dict.fromkeys(layer for scale in scales.values() for layer in scale))
    depth = {
        name: [(names.index(layer), scale[layer]) for layer in names if layer in scale]
        for name, scale in scales.items()
    }
    places = [title(name, name) for name in names]
    caption = (
        "The size of each layer's output (root mean square, first batch). In the order they first finished: "
        f"{_text(in_order(places))}"
    )
    charts = (
        svg.chart(
            curves, "The gradient norm of each layer, after clipping", "step", "gradient norm", log=True
        ),
        svg.chart(depth, caption, "layer", "root mean square", log=True, places=places),
    )
    return f'<div class="charts">{"".join(charts)}</div>'


def _samples(rows):
    """Format the model's answers at each evaluation; the first and the last are open, the others folded."""
    shown = [(row["step"], row["samples"]) for row in rows if row.get("samples")]
    if not shown:
        return "<p>The recipe shows no samples.</p>"
    blocks = [
        (
            f"<details{' open' * (i in (0, len(shown) - 1))}><summary>step "
            f"{step:,}</summary>{_sample_table(samples)}</details>"
        )
        for i, (step, samples) in enumerate(shown)
    ]
    return "".join(blocks)


def _sample_table(samples):
    texts = "".join(
        f"<pre><span class='soft'>{_text(source)}</span>{_text(answer)}</pre>"
        for source, answer, target in samples
        if target is None
    )
    lines = "".join(
        f'<tr><td class="wide">{_text(source)}</td>'
        f'<td class="wide {"right" if answer == target else "wrong"}">{_text(answer)}</td>'
        f'<td class="wide">{"✓ right" if answer == target else "✗ should be " + _text(target)}</td></tr>'
        for source, answer, target in samples
        if target is not None
    )
    head = (
        '<thead><tr><th scope="col">asked</th><th scope="col">answered</th><th scope="col"></th></tr></thead>'
    )
    return (
        f'<div class="scroll"><table class="number">{head}<tbody>{lines}</tbody></table></div>'
        if lines
        else ""
    ) + texts


def _figures(figures, run):
    """Format figures as a list, dicts of figures as tables; fractions of 1 like the metric, if it is one."""
    form = lambda name: run["shown"] if name == run["metric"] else ".4g"  # noqa: E731
    plain = {name: value for name, value in figures.items() if not isinstance(value, dict)}
    out = _list({name: cell(value, form(name)) for name, value in plain.items()}) if plain else ""
    for name, value in figures.items():
        if isinstance(value, dict):
            out += f"<h3>{_text(name)}</h3>{_by_name(value, run)}"
    return out or "<p>Nothing was evaluated.</p>"


def _by_name(value, run):
    head, rows = rows_of(value)
    found = [single(inner) for _, *values in rows for inner in values if is_number(single(inner))]
    form = run["shown"] if run["share"] and all(0 <= number <= 1 for number in found) else ".3g"
    return svg.table(head, [[name, *(cell(inner, form) for inner in values)] for name, *values in rows])


# ---------------------------------------------------------------- figures of any kind


def _settings(settings, parameters, threads, run, ended):
    by_layer = {}
    for name, count in parameters.items():
        by_layer[layer_of(name)] = by_layer.get(layer_of(name), 0) + count
    counts = [[run["titles"].get(name, name), f"{count:,}"] for name, count in by_layer.items()]
    total = ["total", f"{sum(parameters.values()):,}"]
    which = f", which {ended}" + " (the command runs to the end)" * (not run["reason"]) if ended else ""
    return (
        f"<p>To repeat this run{which}:</p><pre><code>{_text(run['command'])}</code></pre>"
        f"<h3>Configuration</h3>{_list(_readable(settings))}"
        f"<h3>Parameters</h3>{svg.table(['layer', 'parameters'], [*counts, total])}"
        f"<h3>Environment</h3>{_list(environment(threads))}"
    )


def _readable(settings):
    """Drop the vocabulary, and shorten absolute paths, which name a machine's folders, to their last part."""
    short = {name: value for name, value in settings.items() if name not in ("vocabulary", "seen")}
    return {
        name: Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value
        for name, value in short.items()
    }


def _list(items):
    return (
        "<dl>"
        + "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in items.items())
        + "</dl>"
    )


def _text(text):
    return html.escape(str(text))


ATTENTION = """<p class="soft">If there is a choice of texts below, it is the same text before and after
training: the untrained model reads what the trained one wrote, so that both can be compared field by field.
For any other text, <code>python -m minigrad.attend RUN "text"</code> makes such a page.</p>"""
