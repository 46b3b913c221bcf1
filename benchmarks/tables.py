"""What was measured, as Markdown. Knows the reports that the command writes, not how they came about."""

from benchmarks import machine

HEADER = (
    "case", "threads", "side", "time", "quartiles", "minigrad / this", "quartiles", "of GEMM limit", "peak MB", "over import",
    "over inputs", "page faults",
)  # fmt: skip
BEGIN, END = "<!-- results -->", "<!-- end of results -->"


def page(reports):
    """The tables of several reports, each with its command and its machine."""
    return "\n\n".join(
        f"{table(report['results'])}\n\n`{report['command']}`: {describe(report['machine'])}" for report in reports
    )


def table(results):
    lines = [HEADER, ("---",) * len(HEADER)] + [row(result) for result in results]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def row(result):
    (low, middle, high), (least, ratio, most) = result["seconds"], result["ratio"]
    limit = result["of GEMM limit"]
    return (
        result["case"], str(result["threads"]), result["side"],
        f"{duration(middle)} per {result['unit']}", f"{duration(low)} to {duration(high)}",
        f"{ratio:.2f}", f"{least:.2f} to {most:.2f}", f"{limit[1]:.2f}" if limit else "",
        *(megabytes(result[key]) for key in ("peak MB", "MB over import", "MB over inputs")),
        f"{result['page faults a step']:.0f}",
    )  # fmt: skip


def duration(seconds):
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e6:.2f} us" if seconds < 1e-4 else f"{seconds * 1e3:.2f} ms"


def megabytes(figure):
    return "" if figure is None else f"{figure:.0f}"


def describe(facts):
    """The machine in a line, which belongs under every table."""
    blas = facts["blas"]
    versions = ", ".join(f"{name} {facts[name]}" for name in ("python", *machine.PACKAGES) if name in facts)
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['system']}; {versions}; NumPy's BLAS: {blas.get('internal_api')} "
        f"{blas.get('version')} ({blas.get('architecture')}); load before: {facts['load before']}"
    )
