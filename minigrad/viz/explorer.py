"""The attention explorer: a page that shows which tokens each token attended to, in every layer and head.

Its input is the rows that models.attended returns (path, kind, weights, labels). Its script is explorer.js.
"""

import base64
from pathlib import Path

import numpy as np

from minigrad.viz import page as pages

LONGEST, MOST = 128, 1_000_000  # tokens of a text, and weights on a page (5.3 bytes each)
KINDS = {
    "encoder": (
        "Encoder",
        "Self-attention: every token attends to all tokens of its own text, before and after it.",
    ),
    "decoder": (
        "Decoder",
        "Causal self-attention: every token attends to itself and to earlier tokens; later ones are masked.",
    ),
    "cross": (
        "Cross",
        "Cross-attention: every token of the target (the text being written) attends to all source tokens.",
    ),
}
SHOWN = {" ": "␣", "\n": "↵", "\t": "⇥"}


def attention(records, path, title="What the model attends to"):
    """Write the page and return its path.

    records   [(name, rows)], the rows of models.attended.attended for each text; or one list of rows
    """
    records = as_records(records)
    parts = explorer(records)
    body = f"<h1>{pages.html.escape(title)}</h1>\n{parts['body']}"
    return pages.save(pages.page(title, body, parts["data"], parts["script"], parts["style"]), path)


def as_records(records):
    """Return [(name, rows)], also if given rows alone.

    Raises ValueError if there is nothing to show, or too much.
    """
    records = [("", records)] if records and hasattr(records[0], "weights") else list(records)
    rows = [row for _, rows in records for row in rows]
    if not rows:
        raise ValueError(
            "This model has no attention to show: none of its layers keeps its attention weights."
        )
    longest, weights = max(max(row.weights.shape[1:]) for row in rows), sum(row.weights.size for row in rows)
    if longest > LONGEST:
        raise ValueError(
            f"A text of {longest} tokens is too long for the page, which shows up to {LONGEST}; "
            "take a part of the text."
        )
    if weights > MOST:
        raise ValueError(
            f"There are {weights:,} attention weights, and a page holds at most {MOST:,}; "
            "take fewer or shorter texts."
        )
    return records


def explorer(records):
    """Return the explorer's {"body", "data", "script", "style"}, for a page with more than the explorer."""
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
    """Encode a row for the script. The weights of all heads are float32 bytes, exactly the model's."""
    weights = np.ascontiguousarray(row.weights, np.dtype("<f4"))
    labels = {
        name: [_show_blanks(token) for token in getattr(row, name) or ()]
        for name in ("queries", "keys", "writes")
    }
    return {
        "path": row.path,
        "kind": row.kind,
        "shape": weights.shape,
        "weights": base64.b64encode(weights).decode(),
        **labels,
        "entropy": [*entropy(weights), entropy(weights.mean(0))],
        "most": most(weights.shape, row.kind),
    }


def _show_blanks(text):
    """Replace spaces, line ends and tabs by visible signs."""
    return "".join(SHOWN.get(c, c) for c in text)


def entropy(weights):
    """The entropy of a head's weights in bits: the mean over its queries of -sum of w log2 w.

    weights                                            (..., Tq, Tk)
    -> entropies                                       (...)
    """
    w = np.asarray(weights, np.float64)
    return -(w * np.log2(np.where(w > 0, w, 1))).sum(-1).mean(-1)


def most(shape, kind):
    """The entropy of uniform attention: log2 of the number of visible tokens, averaged over the queries."""
    _, queries, keys = shape
    seen = np.arange(1, queries + 1) if kind == "decoder" else np.full(queries, keys)
    return float(np.log2(seen).mean())


BODY = """
<div id="explorer">
<h2 id="text"></h2>
<p><label id="texts">Shown: <select id="record"></select></label></p>
<p class="soft">In an attention layer every token becomes a weighted average over tokens. The weights are
shown here, and those of one token sum to 1. Each head of a layer computes its own weights.
A stronger shade is a larger weight: <span id="legend"></span> (shades follow the square root, so that small
weights are visible).</p>
<div role="tablist" id="tabs" aria-label="Kinds of attention"></div>
<div id="panel" role="tabpanel">
<p id="about"></p>
<h3>All heads</h3>
<p class="soft">One picture per head, one row of pictures per layer; the last picture is the average of the
heads. In a picture, each row is a query (the token that attends) and each column a key (a token attended to).
The entropy below it says how widely the head attends: 0 bits to one token only, <span id="most"></span> bits
to all tokens equally. Choose a head to enlarge it; arrow keys move between heads.</p>
<div class="scroll"><div id="heads" role="group" aria-label="Heads"></div></div>
<h3 id="chosen"></h3>
<p class="soft">Point at a row of the map, or at a query; arrow keys move from one query to the next.</p>
<div id="view">
<div class="scroll"><canvas id="map" role="img"></canvas></div>
<div>
<h4 id="from">Query</h4>
<div id="queries" role="group" aria-labelledby="from"></div>
<h4 id="said" aria-live="polite"></h4>
<ol id="keys" aria-labelledby="said"></ol>
</div>
</div>
</div>
</div>
"""
