"""Show a run's progress: lines or a bar while it trains; figures, tables and pictures at its end."""

import sys

from minigrad import saving, viz
from minigrad.machine import peak_memory
from minigrad.training.figures import cell, jsonable, rows_of
from minigrad.training.health import WARNINGS
from minigrad.training.loop import TrainingError
from minigrad.training.recipe import is_number

WIDTH = 80  # of a terminal, for what is printed as a table


class Progress:
    """A listener of the training loop that shows a progress bar in a terminal, prints a line at each
    evaluation, and appends each row to the log, a saving.Lines.

    listeners   called with each row before it is logged; they may add to it
    done        number of earlier steps, whose rows are in the log
    """

    def __init__(self, recipe, log, quiet, listeners, done=0):
        from tqdm import tqdm

        self.recipe, self.log, self.quiet, self.listeners = recipe, log, quiet, listeners
        self.live = sys.stderr.isatty() and not quiet
        self.bar = tqdm(
            total=recipe.settings["steps"],
            initial=done,
            disable=not self.live,
            unit="step",
            dynamic_ncols=True,
        )

    def __call__(self, row):
        check_samples(row.get("samples", ()))
        for listener in self.listeners:
            listener(row)
        self.log.append(jsonable(row))
        self.bar.update()
        if self.live:
            self.bar.set_postfix_str(f"loss {row['loss']:.4f}", refresh=False)
        if "samples" in row:
            self.flush()
            self.print_row(row)
        for warning in row.get(WARNINGS, ()):
            self.warn(warning)

    def print_row(self, row):
        if self.quiet:
            return
        metric = (
            f"  {self.recipe.metric} {cell(row[self.recipe.metric], self.recipe.shown):>6s}"
            if self.recipe.metric in row
            else ""
        )
        write = self.bar.write if self.live else print
        write(f"step {row['step']:5d}  loss {row['loss']:7.4f}{metric}  {row['seconds']:5.1f} s")
        for line in sample_lines(row["samples"]):
            write(line)
        sys.stdout.flush()

    def flush(self):
        try:
            self.log.flush()
        except saving.FileProblem as problem:
            self.warn(f"{problem} The rows stay in memory until there is room.")

    def warn(self, message):
        """Print a problem that does not stop the training."""
        self.bar.clear()
        print(f"minigrad.train: {message}", file=sys.stderr, flush=True)

    def close(self):
        self.bar.close()
        try:
            self.log.close()
        except saving.FileProblem as problem:
            self.warn(str(problem))


def finish(recipe, model, folder, rows, say, diary):
    """Test the trained model, draw the pictures, print the figures, the saved files and what to do next."""
    say("Testing on held-out data ...")
    figures = recipe.evaluate(model, final=True)
    done, seconds = (rows[-1]["step"], rows[-1]["seconds"]) if rows else (0, 0.0)
    memory = {"peak memory MB": peak_memory()}
    report({**figures, **{name: mb for name, mb in memory.items() if mb}}, recipe, seconds, say)
    names = pictures(recipe, model, folder, rows, figures)
    names += diary.finish(folder, rows, figures)
    saving.save_json(
        folder.result, jsonable({**figures, "steps": done, "training seconds": seconds, **memory})
    )
    always = folder.weights, folder.checkpoints, folder.config, folder.repeat, folder.log, folder.result
    names = [*(path.name for path in always), *names]
    say(f"Saved in {folder}: {', '.join(names)}. Open {folder.report} in a browser to see it all.")
    farewell(recipe, folder, say)


def check_samples(samples):
    for sample in samples:
        if not isinstance(sample, (tuple, list)) or len(sample) != 3:
            raise TrainingError(
                f"The recipe's samples(model) must return rows (source, prediction, target), got {sample!r}."
            )


def sample_lines(samples):
    """Format rows (source, prediction, target): one line each, or three if a line would be too long. A target
    of None means a continued text: a mark shows where the model begins."""
    answers = [
        (s, a, "right" if a == target else f"should be {target}")
        for s, a, target in samples
        if target is not None
    ]
    lines = [f"      {source!s:32s} -> {answer!s:12s} {mark}" for source, answer, mark in answers]
    if max(map(len, lines), default=0) > WIDTH:
        lines = [
            line
            for source, answer, mark in answers
            for line in (f"      {source}", f"        -> {answer}", f"        {mark}")
        ]
    texts = [f"{source}»{answer}" for source, answer, target in samples if target is None]
    return (
        lines
        + ["      (the model's text begins after »)"] * bool(texts)
        + [f"      | {line}" for text in texts for line in text.splitlines()]
    )


def report(figures, recipe, seconds, say):
    """Print the figures at the end; the metric is printed even with --quiet."""
    if recipe.metric in figures:
        print(
            f"{recipe.metric} on held-out data: {cell(figures[recipe.metric], recipe.shown)} after "
            f"{seconds:.1f} s of training",
            flush=True,
        )
    for name, value in figures.items():
        if isinstance(value, dict):
            say(f"{name}:")
            say("\n".join(table(value, is_share(name))))
        elif name != recipe.metric:
            say(f"{name}: {as_text(name, value)}")


def as_text(name, value):
    """Format a figure other than the metric (which the recipe formats): fractions of 1 in percent."""
    return cell(value, ".1%" if is_share(name) else ".1f" if is_number(value) and value >= 10 else ".4g")


def is_share(name):
    """Return True if a figure of this name is a fraction of 1, to be shown in percent."""
    return "exact match" in name or "accuracy" in name


def table(figures, percent=False):
    """Format figures as lines: {name: figure} one per line, {row: {column: figure}} as a table. In percent
    only if all of them can be fractions of 1."""
    head, rows = rows_of(figures)
    if not head:
        percent = percent or all(0 <= value <= 1 for value in figures.values() if is_number(value))
        return [f"      {name!s:36s} {cell(value, '.1%' if percent else '.4g'):>6s}" for name, value in rows]
    texts = [
        ["", *map(str, head[1:])],
        *(
            [str(name), *(cell(value, ".1%" if percent else ".3g") for value in values)]
            for name, *values in rows
        ),
    ]
    first, *others = (max(map(len, column)) for column in zip(*texts, strict=True))
    widths = [max(9, other + 2) for other in others]
    return [
        f"      {name:{max(20, first)}s}"
        + "".join(f"{text:>{width}s}" for text, width in zip(rest, widths, strict=True))
        for name, *rest in texts
    ]


def pictures(recipe, model, folder, rows, figures):
    """Draw the loss, recipe.attention if there is one, and recipe.pictures. Returns names of files."""
    names = []
    if rows:
        measured = (
            recipe.metric
            if all(is_number(row[recipe.metric]) for row in rows if recipe.metric in row)
            else None
        )
        viz.curve(rows, folder.loss, measured, f"{recipe.name}: {len(rows)} steps", recipe.share)
        names.append(folder.loss.name)
    attention = recipe.attention(model, recipe.example) if hasattr(recipe, "attention") else None
    if attention:
        written, weights, *read = attention  # read: the tokens read, unless they are the example's characters
        title = getattr(recipe, "attention_title", "Source characters attended to by each written character")
        viz.attention_map(weights, read[0] if read else recipe.example, written, folder.attention, title)
        names.append(folder.attention.name)
    return names + recipe.pictures(model, folder.path, rows, figures)


def farewell(recipe, folder, say):
    example = getattr(recipe, "example", None)
    commands = {f'generate {folder} "{example}"': "ask the model"} if example else {}
    commands |= {
        "train --help": "change the model, and see what happens",
        "gradcheck attention": "check that its gradients are right",
    }
    width = max(map(len, commands))
    say("\nWhat next?")
    for command, comment in commands.items():
        say(f"  python -m minigrad.{command:{width}s}   {comment}")
