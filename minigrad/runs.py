"""python -m minigrad.runs [FOLDER]: list the runs in a folder, one line each with state and figures.

It only reads files and never runs the code of a recipe.
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

TAIL = 1 << 22  # bytes read from the end of a log
EPILOG = """
examples:
  python -m minigrad.runs                           all runs under runs/
  python -m minigrad.runs --sort metric             the best first, recipe by recipe
  python -m minigrad.runs elsewhere --json          the same figures for a program

A run is finished, running (a process is writing into it), stopped at a step (see minigrad.train --resume),
failed at a step (a NaN, an error: broken.txt and report.html say why), or broken (its files cannot be read).
"""


def main(argv=None):
    options = parse(argv)
    with report_errors("minigrad.runs", UsageError, OSError) as outcome:
        runs = sorted(summarize_all(Path(options.folder), load_models()), key=KEYS[options.sort])
        if options.json:
            print(json.dumps(runs, indent=2, default=str))
        elif not runs:
            print(f"There are no runs in {options.folder}. To train one: python -m minigrad.train")
        else:
            print("\n".join(table(runs)))
        return 0
    return outcome.status


def parse(argv):
    parser = Parser(
        "minigrad.runs",
        epilog=EPILOG,
        description="List runs: recipe, state, steps, figures and settings.",
    )
    parser.add_argument(
        "folder", nargs="?", default="runs", help="a folder of runs, or one run (default: runs)"
    )
    parser.add_argument(
        "--sort",
        choices=KEYS,
        default="run",
        help="sort by a column, the best, furthest or fastest first (default: run, the name)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args(argv)


# ---------------------------------------------------------------- reading runs


def summarize_all(folder, recipes):
    """Summarize each run in a folder, or the folder itself if it is a run."""
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}. Runs are under runs/, or where minigrad.train --out put them."
        )
    if RunFolder(folder).is_run():
        return [summarize(RunFolder(folder), recipes)]
    inside = [RunFolder(one) for one in sorted(folder.iterdir()) if one.is_dir()]
    return [summarize(one, recipes) for one in inside if one.is_run()]


def summarize(folder, recipes):
    """Summarize a run: {"run", "recipe", "state", "steps", "of", "loss", "metric", "value", "share" (True if
    the metric is a fraction of 1), "seconds", "settings", "problem"}; unknown values are None."""
    names = "run recipe state steps of loss metric value share seconds settings problem"
    run = dict.fromkeys(names.split())
    run["run"] = folder.path.name or str(folder)
    try:
        config = folder.read_config()
        recipe = recipes.find(config["recipe"]) if config["recipe"] in recipes.MODULES else None
        run |= {
            "recipe": Path(config["recipe"]).stem,
            "of": config["settings"].get("steps"),
            "settings": changed_settings(config, recipe),
        }
        run |= figures(folder, config.get("metric") or (recipe and recipe.metric))
        run["share"] = is_share(run["metric"] or "")
        run["state"], run["problem"] = state(folder, run)
    except Exception as problem:
        # edited files can raise anything; the other runs are listed all the same
        kind = "" if isinstance(problem, ValueError) else f"{type(problem).__name__}: "
        run |= {"state": "broken", "problem": f"{kind}{problem}"}
    return run


def figures(folder, metric):
    """Read steps, loss, seconds and metric from the end of the log; the metric from a final test, if any."""
    rows = last_rows(folder.log)
    last = next(rows, {})
    measured = next((row for row in (last, *rows) if metric in row), {}) if isinstance(metric, str) else {}
    result = saving.load_json(folder.result) if folder.result.exists() else {}
    steps = last.get("step", 0)
    if type(steps) is not int:
        raise ValueError(f"{folder.log} is not a log of steps: its last step is {steps!r:.20}.")
    final = isinstance(result, dict) and result.get("steps") == steps and metric in result
    return {
        "loss": finite_or_none(last.get("loss")),
        "seconds": finite_or_none(last.get("seconds")),
        "steps": steps,
        "metric": metric,
        "value": finite_or_none((result if final else measured).get(metric)),
    }


def finite_or_none(value):
    return value if is_number(value) and math.isfinite(value) else None


def last_rows(path):
    """Yield the rows at the end of a log, the last first; lines that are not rows are skipped."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        lines = file.read(TAIL).splitlines(keepends=True)
    for line in reversed(lines):
        if (row := saving.row_of(line)) is not None:
            yield row


def state(folder, run):
    """Determine (state of a run, problem or None)."""
    if folder.log.is_file() and is_locked(folder.log):
        return "running", None
    if folder.broken.is_file():
        with open(folder.broken, encoding="utf-8", errors="replace") as file:
            return f"failed at step {run['steps']}", file.read(10_000).strip()
    if folder.result.exists() and run["steps"] == run["of"]:
        return "finished", None
    problem = (
        None if folder.found_checkpoints() else "it has no checkpoint, so it would start again from step 0"
    )
    return f"stopped at step {run['steps']}", problem


def is_locked(path):
    """Return True if another process holds the lock of the log (see saving.Lines)."""
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


def changed_settings(config, recipe):
    """Settings that differ from the recipe's defaults, and the seed if it is not 0. A recipe file of the
    user's own is not opened; its settings are taken from the run's command."""
    seed = {"seed": config["seed"]} if config["seed"] else {}
    if recipe is None:
        return settings_in_command(config.get("command")) | seed
    defaults = {**GENERAL, **recipe.defaults}
    return {
        name: value
        for name, value in config["settings"].items()
        if name in defaults and value != defaults[name]
    } | seed


def settings_in_command(command):
    """Parse a run's command: {"depth": "3"} of `python -m minigrad.train my_recipe.py --set depth=3`."""
    words = shlex.split(command.splitlines()[0]) if isinstance(command, str) and command else []
    pairs = [
        value.partition("=")[::2] if word == "--set" else (word[2:].replace("-", "_"), value)
        for word, value in zip(words, words[1:], strict=False)
        if word.startswith("--")
    ]
    return {name: value for name, value in pairs if name != "seed" and not value.startswith("--")}


# ---------------------------------------------------------------- sorting and printing


def none_last(value):
    return (value is None, value if value is not None else 0)


def best_first(run):
    """Sort key: by metric, the best figure of each first."""
    value, metric = run["value"], run["metric"] or ""
    return (metric, value is None, (value or 0) * (1 if lower_is_better(metric, run["share"]) else -1))


KEYS = {
    "run": lambda run: run["run"],
    "recipe": lambda run: (run["recipe"] or "", run["run"]),
    "state": lambda run: (run["state"], run["run"]),
    "steps": lambda run: -(run["steps"] or 0),
    "loss": lambda run: none_last(run["loss"]),
    "metric": best_first,
    "seconds": lambda run: none_last(run["seconds"]),
}


def table(runs):
    """Format the runs as lines, with columns as wide as their longest cell."""
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
    """Replace control characters, which a terminal would execute: names and settings may hold anything."""
    return "".join(c if c.isprintable() else "?" for c in str(text))[:300]


if __name__ == "__main__":
    open_door("minigrad.runs", main)
