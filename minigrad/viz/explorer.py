"""The attention explorer: one page that shows, for recorded texts, which token looked at which, in every layer and head.

Knows the rows that models.attended hands over (path, kind, weights, labels); no models. Its script is in explorer.js beside it.
"""

import base64
from pathlib import Path

import numpy as np

from minigrad.viz import page as pages

LONGEST, MOST = 128, 1_000_000  # tokens of a text, and weights on a page (of 5.3 bytes each)
KINDS = {
    "encoder": ("Both ways", "Self-attention of an encoder: every token looks at all tokens of its text, before and after it."),
    "decoder": ("Looking back", "Self-attention of a decoder: every token looks at itself and those before it; what comes later is hidden from it."),
    "cross": ("At the source", "Cross-attention: every token of what is written looks at all tokens of the source."),
}  # fmt: skip
SHOWN = {" ": "␣", "\n": "↵", "\t": "⇥"}


def attention(records, path, title="What the model looks at"):
    """Write the page; returns its path.

    records   [(name, rows)]: of each text a name and its rows, as models.attended.attended gives them; or one list of rows
    """
    records = as_records(records)
    parts = explorer(records)
    body = f"<h1>{pages.html.escape(title)}</h1>\n{parts['body']}"
    return pages.save(pages.page(title, body, parts["data"], parts["script"], parts["style"]), path)


def as_records(records):
    """[(name, rows)], also of rows alone; a sentence where there is nothing to show, or too much."""
    records = [("", records)] if records and hasattr(records[0], "weights") else list(records)
    rows = [row for _, rows in records for row in rows]
    if not rows:
        raise ValueError("This model has no attention to show: none of its layers keeps the weights of what it looks at.")
    longest, weights = max(max(row.weights.shape[1:]) for row in rows), sum(row.weights.size for row in rows)
    if longest > LONGEST:
        raise ValueError(f"A text of {longest} tokens is too long to be seen on one page, which shows up to {LONGEST}; take a part of it.")
    if weights > MOST:
        raise ValueError(f"There are {weights:,} attention weights, and a page holds {MOST:,}; take fewer or shorter texts.")
    return records


def explorer(records):
    """{"body", "data", "script", "style"}: the parts of a page that make the explorer, for a page that holds more than it."""
    folder = Path(__file__).parent
    data = {"kinds": KINDS, "records": [{"name": name, "layers": [_layer(row) for row in rows]} for name, rows in records]}
    return {
        "body": BODY,
        "data": data,
        "script": (folder / "explorer.js").read_text(encoding="utf-8"),
        "style": (folder / "explorer.css").read_text(encoding="utf-8"),
    }


def _layer(row):
    """A row as the script reads it: the weights of all heads as the bytes of float32, which are exactly the model's."""
    weights = np.ascontiguousarray(row.weights, np.dtype("<f4"))
    labels = {name: [_shown(text) for text in getattr(row, name) or ()] for name in ("queries", "keys", "writes")}
    entropies = [*entropy(weights), entropy(weights.mean(0))]
    return {"path": row.path, "kind": row.kind, "shape": weights.shape, "weights": base64.b64encode(weights).decode(), **labels,
            "entropy": entropies, "most": most(weights.shape, row.kind)}  # fmt: skip


def _shown(text):
    """A token so that blanks can be seen."""
    return "".join(SHOWN.get(c, c) for c in text)


def entropy(weights):
    """How widely a head looks, in bits: the mean over its queries of -sum of w log2 w. weights (..., Tq, Tk) -> (...)."""
    w = np.asarray(weights, np.float64)
    return -(w * np.log2(np.where(w > 0, w, 1))).sum(-1).mean(-1)


def most(shape, kind):
    """The entropy of a head that looks everywhere alike: log2 of the tokens it may see, on average over the queries."""
    _, queries, keys = shape
    seen = np.arange(1, queries + 1) if kind == "decoder" else np.full(queries, keys)
    return float(np.log2(seen).mean())


BODY = """
<div id="explorer">
<p class="soft">A darker field is a larger share of the attention:
<span id="legend" aria-hidden="true"></span> (the shades follow the square root, so that small shares can be seen).</p>
<p><label id="texts">Text <select id="record"></select></label></p>
<div role="tablist" id="tabs" aria-label="Kinds of attention"></div>
<div id="panel" role="tabpanel">
<p id="about"></p>
<h2>All heads</h2>
<p class="soft">A row is a layer, the last picture in it the average of its heads. In each picture a row of fields is a token that looks, and a
column a token that is looked at. Below it the entropy, in bits: 0 means that every token looks at one other, and the figure after
"of" that it looks everywhere alike. Choose one to see it larger (arrow keys move).</p>
<div class="scroll"><div id="heads" role="group" aria-label="Heads"></div></div>
<h2 id="chosen"></h2>
<p class="soft">Point at a token that looks, or move with the arrow keys.</p>
<div id="view">
<div class="scroll"><canvas id="map" role="img"></canvas></div>
<div>
<h3 id="from">Who looks</h3>
<div id="queries" role="group" aria-labelledby="from"></div>
<h3 id="said" aria-live="polite"></h3>
<ol id="keys" aria-labelledby="said"></ol>
</div>
</div>
</div>
</div>
"""
