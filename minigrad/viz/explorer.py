"""The attention explorer: one page that shows, for recorded texts, which token looked at which, in every layer and head.

Knows the rows that models.attended hands over (path, kind, weights, labels); no models. Its script is in explorer.js beside it.
"""

import base64
from pathlib import Path

import numpy as np

from minigrad.viz import page as pages

LONGEST, MOST = 128, 1_000_000  # tokens of a text, and weights on a page (of 5.3 bytes each)
KINDS = {
    "encoder": ("Encoder", "Self-attention: every token looks at all tokens of its own text, those before it and those after it."),
    "decoder": ("Decoder", "Self-attention that looks back: every token looks at itself and at those before it; what comes later is hidden from it."),
    "cross": ("Cross", "Cross-attention: every token of what is being written looks at all tokens of the source."),
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
        raise ValueError(
            "This model has no attention to show: none of its layers keeps the weights of what it looks at."
        )
    longest, weights = max(max(row.weights.shape[1:]) for row in rows), sum(row.weights.size for row in rows)
    if longest > LONGEST:
        raise ValueError(
            f"A text of {longest} tokens is too long to be seen on one page, which shows up to {LONGEST}; take a part of it."
        )
    if weights > MOST:
        raise ValueError(
            f"There are {weights:,} attention weights, and a page holds {MOST:,}; take fewer or shorter texts."
        )
    return records


def explorer(records):
    """{"body", "data", "script", "style"}: the parts of a page that make the explorer, for a page that holds more than it."""
    folder = Path(__file__).parent
    data = {
        "kinds": KINDS,
        "records": [{"name": name, "layers": [_layer(row) for row in rows]} for name, rows in records],
    }
    return {
        "body": BODY,
        "data": data,
        "script": (folder / "explorer.js").read_text(encoding="utf-8"),
        "style": (folder / "explorer.css").read_text(encoding="utf-8"),
    }


def _layer(row):
    """A row as the script reads it: the weights of all heads as the bytes of float32, which are exactly the model's."""
    weights = np.ascontiguousarray(row.weights, np.dtype("<f4"))
    labels = {
        name: [_shown(text) for text in getattr(row, name) or ()] for name in ("queries", "keys", "writes")
    }
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
<h2 id="text"></h2>
<p><label id="texts">Shown: <select id="record"></select></label></p>
<p class="soft">In an attention layer every token takes up something of other tokens; the weights shown here say which share from
which, and those of one token sum to 1. Several heads do so side by side, each in its own way.
A stronger shade is a larger share: <span id="legend"></span> (it follows the square root, so that small shares can be seen).</p>
<div role="tablist" id="tabs" aria-label="Kinds of attention"></div>
<div id="panel" role="tabpanel">
<p id="about"></p>
<h3>All heads</h3>
<p class="soft">One picture a head, one row a layer; the last is the average of the heads. In a picture, a row of fields is a token that looks,
a column one that is looked at. Below stands the entropy, how widely the head looks: 0 bits is at one token only,
<span id="most"></span> bits at all alike. Choose a head to see it large; arrow keys move.</p>
<div class="scroll"><div id="heads" role="group" aria-label="Heads"></div></div>
<h3 id="chosen"></h3>
<p class="soft">Point at a row of the map, or at a token that looks; arrow keys move from one to the next.</p>
<div id="view">
<div class="scroll"><canvas id="map" role="img"></canvas></div>
<div>
<h4 id="from">Who looks</h4>
<div id="queries" role="group" aria-labelledby="from"></div>
<h4 id="said" aria-live="polite"></h4>
<ol id="keys" aria-labelledby="said"></ol>
</div>
</div>
</div>
</div>
"""
