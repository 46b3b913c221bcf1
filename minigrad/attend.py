"""python -m minigrad.attend RUN [TEXT ...]: write a page of a model's attention while it answers a text.

models/attended.py records the attention weights, viz/explorer.py writes the page.
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

The page is one file that any browser opens, without a network.
"""


def main(argv=None):
    options = parse(argv)
    with report_errors(
        "minigrad.attend", UsageError, saving.FileProblem, ValueError, NotImplementedError
    ) as outcome:
        recipe, model = load_models().load_run(options.run)
        recorded = load_models("attended").recorded
        texts = options.text or [getattr(recipe, "example", None)]
        if not texts[0]:  # a recipe without an example, or a run older than the saving of examples
            raise UsageError(
                f'this run has no example, so give a text: python -m minigrad.attend {options.run} "..."'
            )
        with blas_threads(1):
            records = [recorded(recipe, model, text) for text in texts]
        path = Path(options.out or RunFolder(options.run).attention_page)
        write(records, path, f"Attention of the model of {Path(options.run).name}")
        print(f"Saved {path}: {summary(records[0][1])}. Open it in a browser.")
        return 0
    return outcome.status


def parse(argv):
    parser = Parser(
        "minigrad.attend",
        epilog=EPILOG,
        description="Show a model's attention while it answers a text: every layer and head, token by token.",
    )
    parser.add_argument("run", help="the run's folder, such as runs/dates-0001")
    text = (
        'a text for the model, such as "29th of november 2026"; several are put on one page; without any, '
        "the example of the recipe"
    )
    parser.add_argument("text", nargs="*", help=text)
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
    """Count the layers and heads of each kind: "encoder 2 x 4 heads"."""
    kinds = {row.kind: [other.weights.shape[0] for other in rows if other.kind == row.kind] for row in rows}
    return ", ".join(f"{kind} {len(heads)} x {max(heads)} heads" for kind, heads in kinds.items())


if __name__ == "__main__":
    open_door("minigrad.attend", main)
