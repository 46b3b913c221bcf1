"""python -m minigrad.attend RUN [TEXT ...]: a page that shows what a trained model looks at while it answers a text.

Knows the command line; what is looked at comes from models/attended.py, the page from viz/explorer.py.
"""

from pathlib import Path

from minigrad import saving, viz
from minigrad.cli.doors import Parser, load_models, open_door, report_errors
from minigrad.machine import blas_threads
from minigrad.training.folder import RunFolder
from minigrad.training.recipe import UsageError

EPILOG = """
examples:
  python -m minigrad.attend runs/dates-0001
  python -m minigrad.attend runs/dates-0001 "29th of november 2026" 29/11/26
  python -m minigrad.attend runs/reverse-0001 attention --out reverse.html

The page stands alone: one file that any browser opens, without a network.
"""


def main(argv=None):
    options = parse(argv)
    with report_errors(
        "minigrad.attend", UsageError, saving.FileProblem, ValueError, NotImplementedError
    ) as outcome:
        recipe, model = load_models().load_run(options.run)
        recorded = load_models("attended").recorded
        texts = options.text or [getattr(recipe, "example", None)]
        if not texts[0]:  # an own recipe without an example, or a run made before runs remembered theirs
            raise UsageError(
                f'this run has no example, so give a text to look at: python -m minigrad.attend {options.run} "..."'
            )
        with blas_threads(1):
            records = [recorded(recipe, model, text) for text in texts]
        path = Path(options.out or RunFolder(options.run).attention_page)
        write(records, path, f"What the model of {Path(options.run).name} looks at")
        print(f"Saved {path}: {summary(records[0][1])}. Open it in a browser.")
        return 0
    return outcome.status


def parse(argv):
    parser = Parser("minigrad.attend", epilog=EPILOG, description="Show what a trained model looks at while it answers a text: every layer and head, token by token.")  # fmt: skip
    parser.add_argument("run", help="the run's folder, such as runs/dates-0001")
    parser.add_argument("text", nargs="*", help='what the model is to read, such as "29th of november 2026"; several make a page of several; none: the recipe\'s example')  # fmt: skip
    parser.add_argument(
        "--out", metavar="FILE", help="the page (default: attention.html in the run's folder)"
    )
    return parser.parse_args(argv)


def write(records, path, title):
    try:
        viz.attention(records, path, title)
    except OSError as error:
        raise saving.FileProblem(
            f"The page {path} could not be written: {error.strerror}. Choose another with --out."
        ) from None


def summary(rows):
    """How many layers and heads of each kind."""
    kinds = {row.kind: [other.weights.shape[0] for other in rows if other.kind == row.kind] for row in rows}
    return ", ".join(f"{kind} {len(heads)} x {max(heads)} heads" for kind, heads in kinds.items())


if __name__ == "__main__":
    open_door("minigrad.attend", main)
