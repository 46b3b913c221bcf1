"""python -m minigrad.runs [FOLDER]: the runs in a folder with their figures, a line each. Knows what lies in a run's folder; reads it
only, and no code of anybody's recipe.
"""

import json
import math
import shlex
from pathlib import Path

from minigrad import saving
from minigrad.cli.doors import Parser, load_models, open_door, report_errors
from minigrad.training.figures import cell
from minigrad.training.folder import RunFolder
from minigrad.training.progress import is_share
from minigrad.training.recipe import GENERAL, UsageError, is_number
from minigrad.viz.pictures import lower_is_better

TAIL = 1 << 22  # bytes of a log's end that are looked at
EPILOG = """
examples:
  python -m minigrad.runs                           all runs under runs/
  python -m minigrad.runs --sort metric             the best first, recipe by recipe
  python -m minigrad.runs elsewhere --json          the same figures for a program

A run is finished, running (a process writes into it), stopped at a step (go on with minigrad.train --resume), broke off at a step
(a NaN, an error: why stands in its broken.txt and report.html), or broken (its files cannot be read).
"""


def main(argv=None):
    options = parse(argv)
    with report_errors("minigrad.runs", UsageError, OSError) as outcome:
        runs = ordered(look_at_all(Path(options.folder), load_models()), options.sort)
        if options.json:
            print(json.dumps(runs, indent=2, default=str))
        elif not runs:
            print(f"There are no runs in {options.folder}. To make one: python -m minigrad.train")
        else:
            print("\n".join(table(runs)))
        return 0
    return outcome.status


def parse(argv):
    parser = Parser(
        "minigrad.runs",
        epilog=EPILOG,
        description="List runs: what they learned, how far they came, with which settings.",
    )
    parser.add_argument(
        "folder", nargs="?", default="runs", help="where the runs lie, or one run (default: runs)"
    )
    parser.add_argument(
        "--sort",
        choices=KEYS,
        default="run",
        help="by what they are ordered: the best, furthest or quickest first (default: run, the name)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args(argv)


# ---------------------------------------------------------------- what there is


def look_at_all(folder, recipes):
    """[what is known of a run] for the runs in a folder, or for the folder itself if it is one."""
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}. Runs lie under runs/, or where --out of minigrad.train said."
        )
    if RunFolder(folder).is_run():
        return [look_at(RunFolder(folder), recipes)]
    inside = [RunFolder(one) for one in sorted(folder.iterdir()) if one.is_dir()]
    return [look_at(one, recipes) for one in inside if one.is_run()]


def look_at(folder, recipes):
    """{"run", "recipe", "state", "steps", "of", "loss", "metric", "value", "share" (is it one of 1?), "seconds", "settings", "problem"};
    what is not known is None."""
    names = "run recipe state steps of loss metric value share seconds settings problem"
    run = dict.fromkeys(names.split())
    run["run"] = folder.path.name or str(folder)
    try:
        config = folder.read_config()
        recipe = recipes.find(config["recipe"]) if config["recipe"] in recipes.MODULES else None
        run |= {
            "recipe": Path(config["recipe"]).stem,
            "of": config["settings"].get("steps"),
            "settings": changed(config, recipe),
        }
        run |= figures(folder, config.get("metric") or (recipe and recipe.metric))
        run["share"] = is_share(run["metric"] or "")
        run["state"], run["problem"] = state(folder, run)
    except Exception as problem:
        # whatever can be wrong with files that are not as we left them: the others are listed all the same
        run |= {
            "state": "broken",
            "problem": f"{problem}"
            if isinstance(problem, ValueError)
            else f"{type(problem).__name__}: {problem}",
        }
    return run


def figures(folder, metric):
    """What the end of the log says: steps, loss, seconds, the metric; that of the final test, if there was one."""
    rows = last_rows(folder.log)
    last = next(rows, {})
    measured = next((row for row in (last, *rows) if metric in row), {}) if isinstance(metric, str) else {}
    result = saving.load_json(folder.result) if folder.result.exists() else {}
    found_there = {name: number(last.get(name)) for name in ("loss", "seconds")}
    steps = last.get("step", 0)
    if type(steps) is not int:
        raise ValueError(f"{folder.log} is not a log of steps: its last step is {steps!r:.20}.")
    final = isinstance(result, dict) and result.get("steps") == steps and metric in result
    return {
        **found_there,
        "steps": steps,
        "metric": metric,
        "value": number((result if final else measured).get(metric)),
    }


def number(value):
    return value if is_number(value) and math.isfinite(value) else None


def last_rows(path):
    """The rows at the end of a log, the last first; lines that are none are passed over."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        lines = file.read(TAIL).splitlines(keepends=True)
    for line in reversed(lines):
        if (row := saving.row_of(line)) is not None:
            yield row


def state(folder, run):
    """(state, why it broke off or None)."""
    if folder.log.is_file() and is_written(folder.log):
        return "running", None
    if folder.broken.is_file():
        with open(folder.broken, encoding="utf-8", errors="replace") as file:
            return f"broke off at step {run['steps']}", file.read(10_000).strip()
    if folder.result.exists() and run["steps"] == run["of"]:
        return "finished", None
    problem = None if folder.found_checkpoints() else "it has no checkpoint, so it would begin again"
    return f"stopped at step {run['steps']}", problem


def is_written(path):
    """Does another process hold the log (see saving.Lines)?"""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def changed(config, recipe):
    """{setting: value} that differ from the recipe's defaults, and the seed if it is not 0. Of a recipe of somebody's own, whose file is not
    opened, what the command says."""
    seed = {"seed": config["seed"]} if config["seed"] else {}
    if recipe is None:
        return in_command(config.get("command")) | seed
    defaults = {**GENERAL, **recipe.defaults}
    return {
        name: value
        for name, value in config["settings"].items()
        if name in defaults and value != defaults[name]
    } | seed


def in_command(command):
    """{name: text} of `python -m minigrad.train my_recipe.py --layers 1 --set depth=3 --seed 0`."""
    words = shlex.split(command.splitlines()[0]) if isinstance(command, str) and command else []
    pairs = [
        value.partition("=")[::2] if word == "--set" else (word[2:].replace("-", "_"), value)
        for word, value in zip(words, words[1:], strict=False)
        if word.startswith("--")
    ]
    return {name: value for name, value in pairs if name != "seed" and not value.startswith("--")}


# ---------------------------------------------------------------- how it is shown


def last_if_none(value):
    return (value is None, value if value is not None else 0)


def best_first(run):
    """The better figure of a metric first, metric by metric."""
    value, metric = run["value"], run["metric"] or ""
    return (metric, value is None, (value or 0) * (1 if lower_is_better(metric, run["share"]) else -1))


KEYS = {
    "run": lambda run: run["run"], "recipe": lambda run: (run["recipe"] or "", run["run"]), "state": lambda run: (run["state"], run["run"]),
    "steps": lambda run: -(run["steps"] or 0), "loss": lambda run: last_if_none(run["loss"]), "metric": best_first,
    "seconds": lambda run: last_if_none(run["seconds"]),
}  # fmt: skip


def ordered(runs, key):
    return sorted(runs, key=KEYS[key])


def table(runs):
    """Lines, columns as wide as they must be."""
    head = ("run", "recipe", "state", "steps", "loss", "metric", "seconds", "other than the defaults")
    rows = [head, *map(cells, runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 1)]
    return [
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]


def cells(run):
    of = f"/{run['of']:,}" if type(run["of"]) is int else ""
    steps = "" if run["steps"] is None else f"{run['steps']:,}{of}"
    shown = cell(run["value"], ".1%" if run["share"] else ".4g")
    metric = f"{run['metric']} {shown}" if run["value"] is not None else ""
    seconds = "" if run["seconds"] is None else f"{run['seconds']:.1f}"
    settings = " ".join(f"{name}={value}" for name, value in (run["settings"] or {}).items())
    loss = "" if run["loss"] is None else f"{run['loss']:.4g}"
    last = settings if run["state"] != "broken" else run["problem"]
    texts = (run["run"], run["recipe"] or "", run["state"], steps, loss, metric, seconds, last)
    return tuple(map(printable, texts))


def printable(text):
    """Without what a terminal would take for a command; names and settings are whatever somebody wrote."""
    return "".join(c if c.isprintable() else "?" for c in str(text))[:300]


if __name__ == "__main__":
    open_door("minigrad.runs", main)
