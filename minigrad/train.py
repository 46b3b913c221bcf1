"""python -m minigrad.train [RECIPE]: train a model and leave a run folder with the weights, the figures and a report.

Knows the command line and how a run is shown; what is learned stands in the recipe, the loop in trainer.py.
"""

import argparse
import contextlib
import json
import shlex
import sys
from pathlib import Path

from minigrad import manual_seed, saving, viz
from minigrad._doors import GENERAL, Parser, UsageError, load_models, open_door, said, settings_of
from minigrad.machine import blas_threads, peak_memory
from minigrad.sharing import Sharing, cores, trial
from minigrad.trainer import TrainingError, fit
from minigrad.viz.report import cell, is_number, jsonable, rows_of

WIDTH = 80  # of a terminal, for what is printed as a table
EPILOG = """
examples:
  python -m minigrad.train                          learn to read dates, in about a minute
  python -m minigrad.train dates --norm pre         the same with today's order of norm and residual
  python -m minigrad.train dates --layers 1 --heads 1 --steps 300
  python -m minigrad.train dates --model lstm       what an LSTM without attention makes of the same dates
  python -m minigrad.train recall                   how far back RNN, LSTM, GRU and Transformer remember
  python -m minigrad.train reverse                  a GPT spells words backwards; also: sort, copy, add
  python -m minigrad.train text                     a GPT learns to write like Python's manual
  python -m minigrad.train text --text my.txt --context 128
  python -m minigrad.train text --tokens bpe --vocab-size 512
  python -m minigrad.train translate --pairs my.tsv learn to translate from sentence pairs of your own
  python -m minigrad.train my_recipe.py             a recipe of your own: a file with a class that extends
                                                    minigrad.trainer.Recipe

A run's folder holds config.json (settings), metrics.jsonl (a line a step), model.safetensors, pictures and
report.html, which shows all of it in a browser. Try other settings and compare the folders: that is what they are for.
"""


def main(argv=None):
    with said("minigrad.train", UsageError, saving.FileProblem, TrainingError, ValueError, NotImplementedError) as outcome:
        options = parse(argv)
        if options.threads > cores():
            raise UsageError(f"--threads {options.threads} is too many: this machine has {cores()} core{'s' * (cores() > 1)}, and more threads only wait for each other.")  # fmt: skip
        recipes = load_models()
        if options.list:
            list_recipes(recipes)
            return 0
        recipe_class = recipes.find(options.recipe)
        settings = chosen_settings(options, recipe_class)
        manual_seed(options.seed)
        recipe = recipe_class(settings)
        model = recipe.model()
        folder = open_folder(options.out, recipe.name)
        with threads_at_work(options, recipe, model) as sharing:
            return run(recipe, model, folder, options, sharing)
    return outcome.status


# ---------------------------------------------------------------- the command line


def positive(text):
    """A whole number from 1."""
    number = int(text) if text.lstrip("+-").isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number from 1, got {text!r}")
    return number


def natural(text):
    """A whole number from 0."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"needs a whole number from 0, got {text!r}")
    return int(text)


def number_in(low, high, low_allowed=True, high_allowed=True):
    """A number in a range."""
    words = f"{'from' if low_allowed else 'above'} {low:g} {'to' if high_allowed else 'to below'} {high:g}"

    def parse_number(text):
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not (low <= value <= high) or (value == low and not low_allowed) or (value == high and not high_allowed):
            raise argparse.ArgumentTypeError(f"needs a number {words}, got {text!r}")
        return value

    return parse_number


def parse(argv):
    parser = Parser("minigrad.train", epilog=EPILOG, description="Train a model built on minigrad, watch it learn, and keep the result.")
    parser.add_argument("recipe", nargs="?", default="dates", help="what to learn: a name from --list, or a recipe file of your own (default: dates)")
    parser.add_argument("--list", action="store_true", help="the recipes there are, and their settings")
    parser.add_argument("--steps", type=positive, help="how many batches to learn from")
    parser.add_argument("--batch-size", type=positive, help="examples in a batch: more is steadier and slower")
    parser.add_argument("--lr", type=number_in(0, 10, False), help="the highest learning rate; if the loss explodes, try a third of it")
    parser.add_argument("--d-model", type=positive, help="the width of the model: numbers for each token; a multiple of --heads")
    parser.add_argument("--layers", type=positive, help="layers in the encoder and as many in the decoder")
    parser.add_argument("--heads", type=positive, help="attention heads in a layer")
    parser.add_argument("--d-ff", type=positive, help="the width inside the feed-forward network")
    parser.add_argument("--dropout", type=number_in(0, 1, high_allowed=False), help="the share of numbers dropped in training, against overfitting")
    parser.add_argument("--model", metavar="NAME", help="the architecture, where a recipe has several: dates --model lstm")
    parser.add_argument("--distance", type=positive, help="recall: how far back the answer may lie")
    parser.add_argument("--text", metavar="FILE", help="the text to learn from, in UTF-8")
    parser.add_argument("--pairs", metavar="FILE", help="translate: your sentence pairs, in UTF-8, a source, a tab and its target on each line")
    parser.add_argument("--tokens", metavar="NAME", help="what a token is: characters, or bpe (pieces of words, learned from the text)")
    parser.add_argument("--vocab-size", type=positive, help="how many tokens bpe may have, from 256")
    parser.add_argument("--length", type=positive, help="reverse, sort, copy: the longest word, in letters")
    parser.add_argument("--digits", type=positive, help="add: the digits of each number")
    parser.add_argument("--context", type=positive, help="how many tokens the model can look at")
    parser.add_argument("--norm", choices=("post", "pre"), help="layer norm after each residual sum (the paper) or before each sublayer (today)")
    parser.add_argument("--label-smoothing", type=number_in(0, 1), help="how much of each right answer is spread over all (the paper: 0.1)")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="any other setting of the recipe (may be given again)")
    parser.add_argument("--seed", type=natural, default=0, help="where all random numbers start (default: 0); the same seed repeats the run")
    parser.add_argument("--threads", type=positive, default=1, help="threads to compute with (default: 1, which disturbs nobody)")
    parser.add_argument("--share", choices=("batch", "products", "auto"), default="auto", help="what several threads share: each batch, each matrix product, or what is measured to be faster at the start (default)")  # fmt: skip
    parser.add_argument("--out", help="the run's folder, new or empty (default: the next runs/NAME-0001)")
    parser.add_argument("--quiet", action="store_true", help="print the result only")
    return parser.parse_args(argv)


def list_recipes(recipes):
    for name in recipes.MODULES:
        recipe = recipes.find(name)
        print(f"{name:10s} {recipe.help}")
        print(" " * 11 + "  ".join(f"--{key.replace('_', '-')} {value}" for key, value in recipe.defaults.items() if value is not None))
        for key, names in recipe.choices.items():
            print(" " * 11 + f"--{key} can be {', '.join(names)}")
        taken = " ".join(f"--{option.replace('_', '-')}" for option in recipe.generating)
        print(" " * 11 + f"minigrad.generate takes {taken or 'no options'}")


def chosen_settings(options, recipe):
    """The recipe's defaults, changed by what was given."""
    given = {k: v for k, v in vars(options).items() if v is not None and k not in ("recipe", "list", "seed", "out", "quiet", "threads", "share", "set")}
    return settings_of(recipe, given, options.set)


def repeated(recipe, options):
    """The command that repeats a run: what differs from the defaults; of a whole path the last part, as folders differ between machines."""
    defaults, words = {**GENERAL, **recipe.defaults}, ["python -m minigrad.train", relative(options.recipe)]
    for key, value in recipe.settings.items():
        if key in defaults and value != defaults[key]:
            option = f"--{key.replace('_', '-')} " if key in vars(options) else f"--set {key}="
            words.append(option + shlex.quote(str(relative(value))))
    words.append(f"--seed {options.seed}")
    return " ".join(words + [f"--threads {options.threads} --share {options.share}"] * (options.threads > 1))


def relative(value):
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def open_folder(out, name):
    """The run's folder, made anew; one that holds something already is never written over."""
    if out is None:
        return saving.new_run_folder(name)
    if not out.strip():
        raise UsageError("--out needs the name of a folder, got an empty one.")
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"the folder {out} is not empty, and a run is never written over; choose another with --out.")
    except OSError as error:
        raise UsageError(f"the folder {out} could not be made: {error.strerror}. Choose another with --out.") from None
    return folder


# ---------------------------------------------------------------- a run


@contextlib.contextmanager
def threads_at_work(options, recipe, model):
    """Let that many threads compute; yields a Sharing if they share batches, None if they share matrix products."""
    if options.share == "auto" and options.threads > 1:
        choose_fastest(options, trial(recipe, model, options.threads))
    if options.share == "batch" and options.threads > 1:
        with Sharing(options.threads) as sharing:
            yield sharing
    else:
        with blas_threads(options.threads):
            yield None


def choose_fastest(options, seconds):
    """Set what the threads share, or that there is but one, to what was fastest in a trial; and say the times."""
    fastest, threads = min(seconds, key=seconds.get), options.threads
    options.share, options.threads = ("auto", 1) if fastest == "one" else (fastest, threads)
    if not options.quiet:
        chosen = {"batch": f"{threads} threads share each batch", "products": f"{threads} threads share each matrix product", "one": f"One thread, as {threads} are slower"}[fastest]  # fmt: skip
        batch, products, one = (f"{1e3 * seconds[way]:.3g} ms" for way in ("batch", "products", "one"))
        print(f"{chosen}. A trial: shared batches {batch}, shared products {products}, one thread {one} a step (see --share).")


def run(recipe, model, folder, options, sharing=None):
    """Train, evaluate, save, and say what can be done with the result. Ctrl-C ends the training early and keeps it."""
    settings = recipe.settings
    config = {"recipe": getattr(recipe, "file", recipe.name), "seed": options.seed, "settings": settings}
    config |= {"threads": options.threads, "share": options.share if options.threads > 1 else None}
    saving.save_json(folder / "config.json", config)
    parameters = sum(p.numel() for p in model.parameters())
    say = (lambda *_: None) if options.quiet else print
    say(f"{recipe.name}: {recipe.help}" if recipe.help else recipe.name)
    say(f"{type(model).__name__} of {parameters:,} parameters, {settings['steps']} steps of {settings['batch_size']}, seed {options.seed} -> {folder}")  # fmt: skip
    if recipe.note:
        say(recipe.note)
    diary = viz.Diary(recipe, model, load_models("attended").attended, repeated(recipe, options), options.threads)
    show = Progress(recipe, settings["steps"], folder, options.quiet, diary)
    stopped = False
    try:
        fit(recipe, model, show, sharing=sharing)
    except KeyboardInterrupt:
        stopped = True
    except TrainingError as error:
        diary.broken(folder, show.rows, error)
        say(f"What happened until then stands in {folder / 'report.html'}.")
        raise
    finally:
        show.close()
        saving.save_tensors(folder / "model.safetensors", model.state_dict())
    if stopped:
        say(f"Stopped after {len(show.rows)} steps; what was learned so far is kept.")
    try:
        finish(recipe, model.eval(), folder, show.rows, say, diary)
    except KeyboardInterrupt:
        say(f"\nStopped before the test was over; the weights are in {folder}.")
        stopped = True
    return 130 if stopped else 0


def finish(recipe, model, folder, rows, say, diary):
    """Test the trained model, draw, and say what there is and what to do with it."""
    say("Testing on held-out data ...")
    figures = recipe.evaluate(model, final=True)
    seconds = rows[-1]["seconds"] if rows else 0.0
    memory = {"peak memory MB": peak_memory()}
    saving.save_json(folder / "result.json", jsonable({**figures, "steps": len(rows), "training seconds": seconds, **memory}))
    report({**figures, **{name: mb for name, mb in memory.items() if mb}}, recipe, seconds, say)
    names = pictures(recipe, model, folder, rows, figures)
    names += diary.finish(folder, rows, figures)
    say(f"Saved in {folder}: model.safetensors, config.json, metrics.jsonl, result.json, {', '.join(names)}. Open {folder / 'report.html'} in a browser to see it all.")
    farewell(recipe, folder, say)


class Progress:
    """Listens to the training: a bar in a terminal, a line now and then elsewhere; writes metrics.jsonl as it goes."""

    def __init__(self, recipe, steps, folder, quiet, diary):
        from tqdm import tqdm

        self.recipe, self.quiet, self.diary, self.rows = recipe, quiet, diary, []
        self.log = open(folder / "metrics.jsonl", "w", encoding="utf-8")
        self.live = sys.stderr.isatty() and not quiet
        self.bar = tqdm(total=steps, disable=not self.live, unit="step", dynamic_ncols=True)

    def __call__(self, row):
        check_samples(row.get("samples", ()))
        self.diary(row)
        self.rows.append(row)
        self.log.write(json.dumps(jsonable(row)) + "\n")
        self.bar.update()
        if self.live:
            self.bar.set_postfix_str(f"loss {row['loss']:.4f}", refresh=False)
        if "samples" in row:
            self.log.flush()
            self.tell(row)

    def tell(self, row):
        if self.quiet:
            return
        metric = f"  {self.recipe.metric} {cell(row[self.recipe.metric], self.recipe.shown):>6s}" if self.recipe.metric in row else ""
        write = self.bar.write if self.live else print
        write(f"step {row['step']:5d}  loss {row['loss']:7.4f}{metric}  {row['seconds']:5.1f} s")
        for line in sample_lines(row["samples"]):
            write(line)
        sys.stdout.flush()

    def close(self):
        self.bar.close()
        self.log.close()


def check_samples(samples):
    for sample in samples:
        if not isinstance(sample, (tuple, list)) or len(sample) != 3:
            raise TrainingError(f"The recipe's samples(model) must give rows (source, prediction, target), got {sample!r}.")


def sample_lines(samples):
    """Rows (source, prediction, target) as lines, one each, or three where a line would be too long; texts that go on, whose target
    is None, with a mark where the model takes over."""
    answers = [(s, a, "right" if a == target else f"should be {target}") for s, a, target in samples if target is not None]
    lines = [f"      {source!s:32s} -> {answer!s:12s} {mark}" for source, answer, mark in answers]
    if max(map(len, lines), default=0) > WIDTH:
        lines = [line for source, answer, mark in answers for line in (f"      {source}", f"        -> {answer}", f"        {mark}")]
    texts = [f"{source}»{answer}" for source, answer, target in samples if target is None]
    return lines + ["      (what the model writes comes after »)"] * bool(texts) + [f"      | {line}" for text in texts for line in text.splitlines()]


def report(figures, recipe, seconds, say):
    """The figures at the end; the result itself is printed even when quiet."""
    if recipe.metric in figures:
        print(f"{recipe.metric} on held-out data: {cell(figures[recipe.metric], recipe.shown)} after {seconds:.1f} s of training", flush=True)
    for name, value in figures.items():
        if isinstance(value, dict):
            say(f"{name}:")
            say("\n".join(table(value, is_share(name))))
        elif name != recipe.metric:
            say(f"{name}: {as_text(name, value)}")


def as_text(name, value):
    """A figure beside the metric, which the recipe itself shows: a share in percent."""
    return cell(value, ".1%" if is_share(name) else ".1f" if is_number(value) and value >= 10 else ".4g")


def is_share(name):
    """Is a figure of this name a share of 1?"""
    return "exact match" in name or "accuracy" in name


def table(figures, percent=False):
    """Lines: a share each, or, of figures by row and column, a table; numbers that cannot be shares are no percentages."""
    head, rows = rows_of(figures)
    if not head:
        percent = percent or all(0 <= value <= 1 for value in figures.values() if is_number(value))
        return [f"      {name!s:36s} {cell(value, '.1%' if percent else '.4g'):>6s}" for name, value in rows]
    texts = [["", *map(str, head[1:])], *([str(name), *(cell(value, ".1%" if percent else ".3g") for value in values)] for name, *values in rows)]
    first, *others = (max(map(len, column)) for column in zip(*texts, strict=True))
    widths = [max(9, other + 2) for other in others]
    return [f"      {name:{max(20, first)}s}" + "".join(f"{text:>{width}s}" for text, width in zip(rest, widths, strict=True)) for name, *rest in texts]


def pictures(recipe, model, folder, rows, figures):
    """loss.png, attention.png where the recipe can show what its model looks at, and what the recipe draws itself."""
    names = []
    if rows:
        measured = recipe.metric if all(is_number(row[recipe.metric]) for row in rows if recipe.metric in row) else None
        viz.curve(rows, folder / "loss.png", measured, f"{recipe.name}: {len(rows)} steps", recipe.share)
        names.append("loss.png")
    looked = recipe.attention(model, recipe.example) if hasattr(recipe, "attention") else None
    if looked:
        written, weights, *read = looked  # what was read, where it is not the example's characters
        title = getattr(recipe, "attention_title", "What the decoder looks at in the source while it writes each character")
        viz.attention_map(weights, read[0] if read else recipe.example, written, folder / "attention.png", title)
        names.append("attention.png")
    return names + recipe.pictures(model, folder, rows, figures)


def farewell(recipe, folder, say):
    example = getattr(recipe, "example", None)
    commands = {f'generate {folder} "{example}"': "ask the model"} if example else {}
    commands |= {"train --help": "change the model, and see what happens", "gradcheck attention": "see that its gradients are right"}
    width = max(map(len, commands))
    say("\nWhat next?")
    for command, comment in commands.items():
        say(f"  python -m minigrad.{command:{width}s}   {comment}")


if __name__ == "__main__":
    open_door("minigrad.train", main)
