"""python -m benchmarks [JOB ...]: measure steps of minigrad and other libraries in turns.

python -m benchmarks where [JOB]: profile one of our steps, op by op (where.py)
python -m benchmarks learn FILE: train a GPT on a text, by minigrad and by PyTorch in turns (learn.py)
python -m benchmarks write PAGE JSON ...: write the tables of results into a page (tables.py)
python -m benchmarks.long_text: measure a text of 1,000 MB
python -m benchmarks.distributed: measure several processes
"""

import argparse
import importlib
import importlib.util
import json
import shlex
import sys
from dataclasses import replace
from fnmatch import fnmatch

from benchmarks import machine, measure, tables

JOBS = {  # name -> the module with its cases
    "reference": "benchmarks.gpt",
    "tiny": "benchmarks.gpt",
    "small": "benchmarks.gpt",
    "dates": "benchmarks.dates",
    "large": "benchmarks.gpt",
    "mlp": "benchmarks.mlp",
    "lstm": "benchmarks.lstm",
    "scalar": "benchmarks.scalar",
    "attention": "benchmarks.attention",
    "decoding": "benchmarks.decoding",
    "smollm2": "benchmarks.smollm2",
    "gradcheck": "benchmarks.gradcheck",
    "overhead": "benchmarks.overhead",
    "tricks": "benchmarks.tricks",
}


def main(argv=None):
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["write"]:
        return tables.main(words[1:])
    if words[:1] == ["where"]:
        from benchmarks import where

        return where.main(words[1:], JOBS)
    if words[:1] == ["learn"]:
        from benchmarks import learn

        return learn.main(words[1:])
    return compare(words)


def compare(words):
    options = parse(words)
    for name in machine.unset_misleading():
        print(
            f"{name} is set and would distort the figures; the measured processes run without it.",
            file=sys.stderr,
        )
    if importlib.util.find_spec("threadpoolctl") is None:
        print(
            "Benchmarks need threadpoolctl to give all sides the same threads: pip install threadpoolctl",
            file=sys.stderr,
        )
        return 1
    report = {"command": command(words), "machine": machine.facts(), "results": []}
    refused = measure_all(options, report)
    if report["results"]:
        print("\n" + tables.page([report]))
    return 1 if refused else 0


def command(words):
    """Rebuild the command line, without the name of the JSON file, which the reader does not have."""
    words = [
        word
        for word, before in zip(words, ["", *words])
        if before != "--json" and not word.startswith("--json")
    ]
    return " ".join(["python -m benchmarks", *map(shlex.quote, words)])


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure minigrad beside PyTorch and others."
    )
    parser.add_argument(
        "jobs", nargs="*", metavar="JOB", help=f"what to measure: {', '.join(JOBS)} (default: all)"
    )
    parser.add_argument(
        "--threads",
        type=positive,
        nargs="+",
        default=[1],
        help="threads of each side (default: 1); several values are measured in turn",
    )
    parser.add_argument("--rounds", type=positive, help="turns of each side (default: the job's, mostly 15)")
    parser.add_argument(
        "--steps", type=positive, help="timed steps in a turn (default: the job's, mostly 20)"
    )
    parser.add_argument(
        "--sides",
        nargs="+",
        metavar="NAME",
        help="compare with these sides only, such as torch or 'torch*' (default: all)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all measurements to this file")
    parser.add_argument(
        "--tiny", action="store_true", help="small sizes, to try the command; the figures mean nothing"
    )
    options = parser.parse_args(argv)
    unknown = [job for job in options.jobs if job not in JOBS]
    if unknown:
        parser.error(f"there is no job {unknown[0]!r}; there are: {', '.join(JOBS)}")
    return options


def positive(text):
    """Parse a positive integer."""
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return number


def measure_all(options, report):
    """Measure all jobs into report["results"], which is saved after each case.

    Returns the number of refused cases, and prints why they were refused.
    """
    refused = 0
    for job in options.jobs or JOBS:
        for case in importlib.import_module(JOBS[job]).cases(job, options.tiny):
            case = choose(case, options.sides)
            for threads in options.threads:
                print(f"{case.name}, threads: {threads} ...", file=sys.stderr, flush=True)
                try:
                    report["results"] += measure.run(case, threads, options.rounds, options.steps)
                except measure.Refusal as refusal:
                    print(refusal, file=sys.stderr)
                    refused += 1
                    continue
                report["machine"]["blas"] = report["results"][0]["blas"]
                if options.json:
                    with open(options.json, "w") as file:
                        json.dump(report, file, indent=1)
    return refused


def choose(case, patterns):
    """Reduce a case to our side and those that match a pattern (None: all).

    Prints which are not installed.
    """
    ours, *others = case.sides
    others = [
        s for s in others if patterns is None or any(fnmatch(s.name.lower(), p.lower()) for p in patterns)
    ]
    for side in others:
        if not side.is_installed():
            print(f"{case.name}: skipping {side.name}, which is not installed", file=sys.stderr)
    return replace(case, sides=(ours, *others))


if __name__ == "__main__":
    sys.exit(main())
