"""python -m benchmarks [JOB ...]: measure our steps beside others', in turns. Knows the command line and the printed table."""

import argparse
import importlib
import importlib.util
import json
import sys

from benchmarks import machine, measure

JOBS = {"dates": "benchmarks.dates", "overhead": "benchmarks.overhead"}
HEADER = ("case", "threads", "side", "time", "quartiles", "minigrad / this", "quartiles", "peak MB", "page faults a step")


def main(argv=None):
    options = parse(argv)
    for name in machine.unset_misleading():
        print(f"{name} was set; unset it for benchmarks. The measured processes run without it.", file=sys.stderr)
    if importlib.util.find_spec("threadpoolctl") is None:
        print("Giving all sides the same threads needs threadpoolctl: pip install threadpoolctl", file=sys.stderr)
        return 1
    words = sys.argv[1:] if argv is None else argv
    report = {"command": " ".join(["python -m benchmarks", *words]), "machine": machine.facts()}
    try:
        report["results"] = measure_all(options)
    except measure.Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    report["machine"]["blas"] = report["results"][0]["blas"]
    print("\n" + table(report["results"]) + "\n\n" + describe(report["machine"]))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    return 0


def parse(argv):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure minigrad beside PyTorch and others.")
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"what to measure: {', '.join(JOBS)} (default: all)")
    parser.add_argument("--threads", type=positive, nargs="+", default=[1], help="for each side (default: 1); several in turn")
    parser.add_argument("--rounds", type=positive, default=15, help="turns of each side (default: 15)")
    parser.add_argument("--steps", type=positive, default=20, help="timed steps in a turn (default: 20)")
    parser.add_argument("--json", metavar="FILE", help="write everything that was measured to this file")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the command; the figures mean nothing")
    options = parser.parse_args(argv)
    unknown = [job for job in options.jobs if job not in JOBS]
    if unknown:
        parser.error(f"there is no job {unknown[0]!r}; there are: {', '.join(JOBS)}")
    return options


def positive(text):
    """A whole number from 1."""
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number from 1, got {text!r}")
    return number


def measure_all(options):
    """The results of all jobs, one case after the other."""
    results = []
    for job in options.jobs or JOBS:
        for case in importlib.import_module(JOBS[job]).cases(options.tiny):
            say_who_is_missing(case)
            for threads in options.threads:
                print(f"{case.name}, threads: {threads} ...", file=sys.stderr, flush=True)
                results += measure.run(case, threads, options.rounds, options.steps)
    return results


def say_who_is_missing(case):
    for side in case.sides:
        if not side.is_installed():
            print(f"{case.name}: without {side.name}, which is not installed", file=sys.stderr)


# ---------------------------------------------------------------- what is printed


def table(results):
    """The results as a Markdown table."""
    lines = [HEADER, ("---",) * len(HEADER)] + [row(result) for result in results]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def row(result):
    (low, middle, high), (least, ratio, most) = result["seconds"], result["ratio"]
    peak = "" if result["peak MB"] is None else f"{result['peak MB']:.0f}"
    return (
        result["case"], str(result["threads"]), result["side"],
        f"{duration(middle)} per {result['unit']}", f"{duration(low)} to {duration(high)}",
        f"{ratio:.2f}", f"{least:.2f} to {most:.2f}", peak, f"{result['page faults a step']:.0f}",
    )  # fmt: skip


def duration(seconds):
    return f"{seconds * 1e6:.2f} us" if seconds < 1e-4 else f"{seconds * 1e3:.2f} ms"


def describe(facts):
    """The machine in a line, which belongs under every table."""
    blas = facts["blas"]
    versions = ", ".join(f"{name} {facts[name]}" for name in ("python", *machine.PACKAGES) if name in facts)
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['system']}; {versions}; NumPy's BLAS: {blas.get('internal_api')} "
        f"{blas.get('version')} ({blas.get('architecture')}); load before: {facts['load before']}"
    )


if __name__ == "__main__":
    sys.exit(main())
