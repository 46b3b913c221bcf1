"""Build self-contained pages: one HTML file with its style, script and data, which needs no network.

On every page the colours follow the reader's dark or light setting, and the column narrows with the window.
"""

import html
import json
import math

import numpy as np

STYLE = """
:root { color-scheme: light dark; --back: #fdfdfb; --ink: #1d2126; --soft: #667; --line: #d5d7da;
  --panel: #f3f4f2; --forward: #2b6cb0; --backward: #c05621; --leaf: #2f855a; --mark: #fde68a; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --ink: #e4e6e8; --soft: #9aa3ad;
  --line: #3a3f46; --panel: #1f2329; --forward: #7fb3e6; --backward: #f0a070; --leaf: #7ccf9f;
  --mark: #6b5a1e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 80rem; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; } h2 { font-size: 1.1rem; margin: 1.2rem 0 .4rem; }
code, pre, .number { font-size: .9em;
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
table { border-collapse: collapse; }
td, th { padding: .15rem .5rem; text-align: left; border-bottom: 1px solid var(--line); }
button, input, select { font: inherit; color: inherit; background: var(--panel);
  border: 1px solid var(--line); border-radius: .3rem; padding: .2rem .6rem; }
button:focus-visible, input:focus-visible, a:focus-visible, [tabindex]:focus-visible {
  outline: 3px solid var(--forward); outline-offset: 1px; }
img, svg { max-width: 100%; height: auto; }
.soft { color: var(--soft); } .scroll { overflow-x: auto; }
"""


def page(title, body, data=None, script="", style=""):
    """Build the HTML of a page.

    body    HTML
    data    what the script finds in its constant DATA
    script  JavaScript
    style   CSS, added to STYLE
    """
    known = "" if data is None else f'<script type="application/json" id="data">{embed(data)}</script>'
    start = "" if data is None else 'const DATA = JSON.parse(document.getElementById("data").textContent);\n'
    code = f"<script>\n{start}{script}\n</script>" if script else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>{STYLE}{style}</style>
</head>
<body>
{body}
{known}
{code}
</body>
</html>
"""


def embed(data):
    """Encode data as JSON that is safe inside a <script>. See plain() for arrays, NaN and infinities."""
    return (
        json.dumps(plain(data), separators=(",", ":"), ensure_ascii=False)
        .replace("</", "<\\/")
        .replace("<!--", "<\\u0021--")
    )


def plain(x, digits=6):
    """Convert to types that JSON has: arrays to nested lists, NaN and infinities to "nan", "inf", "-inf".

    Floats are rounded to `digits` significant digits.
    """
    if isinstance(x, dict):
        return {str(key): plain(value, digits) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(value, digits) for value in x]
    if isinstance(x, np.ndarray):
        return plain(x.tolist(), digits)
    if isinstance(x, np.generic):
        return plain(x.item(), digits)
    if isinstance(x, float):
        return float(f"{x:.{digits}g}") if math.isfinite(x) else str(x)
    return x


def save(text, path):
    """Write a page to a file in UTF-8 and return the path."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return path
