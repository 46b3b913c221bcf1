"""Format reports of measurements as Markdown tables."""

import json
import sys
from pathlib import Path

from benchmarks import machine

HEADER = (
    "job", "threads", "side", "time", "minigrad / this (quartiles)", "of GEMM limit", "peak MB",
    "over import", "over inputs", "page faults",
)  # fmt: skip
BEGIN, END = "<!-- results -->", "<!-- end of results -->"


def main(argv):
    """Run `python -m benchmarks write PAGE JSON ...`: write tables between the markers of a page."""
    if len(argv) < 2:
        print(
            "A page and at least one report are needed: "
            "python -m benchmarks write benchmarks/README.md out.json",
            file=sys.stderr,
        )
        return 2
    path, *files = map(Path, argv)
    text = path.read_text(encoding="utf-8")
    if not 0 <= text.find(BEGIN) < text.find(END):
        print(f"{path} has no markers for the tables: a line {BEGIN}, then a line {END}.", file=sys.stderr)
        return 1
    reports = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    path.write_text(f"{before}{BEGIN}\n{page(reports)}\n{after}", encoding="utf-8")
    return 0


def page(reports):
    """Format the tables of several reports, each with its command and its machine."""
    return "\n\n".join(
        f"{table(r['results'])}\n\n`{r['command']}`. {describe(r['machine'])}" for r in reports
    )


def table(results):
    lines = [HEADER, ("---",) * len(HEADER)] + [row(result) for result in results]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def row(result):
    least, ratio, most = result["ratio"]
    limit = result["of GEMM limit"]
    return (
        result["case"],
        str(result["threads"]),
        result["side"],
        f"{duration(result['seconds'][1])} per {result['unit']}",
        f"{ratio:.2f} ({least:.2f} to {most:.2f})",
        f"{limit[1]:.2f}" if limit else "",
        *(megabytes(result[key]) for key in ("peak MB", "MB over import", "MB over inputs")),
        f"{result['page faults a step']:.0f}",
    )


def duration(seconds):
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e6:.2f} us" if seconds < 1e-4 else f"{seconds * 1e3:.2f} ms"


def megabytes(figure):
    return "" if figure is None else f"{figure:.0f}"


def describe(facts):
    """Describe the machine in the line below a table."""
    blas = facts["blas"]
    versions = ", ".join(f"{name} {facts[name]}" for name in ("python", *machine.PACKAGES) if name in facts)
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['system']}; {versions}; NumPy's BLAS: "
        f"{blas.get('internal_api')} {blas.get('version')} ({blas.get('architecture')}); "
        f"load before: {facts['load before']}"
    )
