"""python -m minigrad.generate RUN [PROMPT ...]: ask a trained model. Knows run folders; the answering is the recipe's.

Without a prompt it reads lines from standard input.
"""

import argparse
import sys

from minigrad import saving
from minigrad._doors import UsageError, load_models, said
from minigrad.machine import blas_threads


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m minigrad.generate", description="Ask a model that minigrad.train has trained.")
    parser.add_argument("run", help="the run's folder, such as runs/dates-0001")
    parser.add_argument("prompt", nargs="*", help='what to ask, such as "29th of november 2026"; several are answered in turn; none: lines of standard input')  # fmt: skip
    options = parser.parse_args(argv)
    with said("minigrad.generate", UsageError, saving.FileProblem, RuntimeError, ValueError) as outcome:
        recipe, model = load_models().recipes.load_run(options.run)
        with blas_threads(1):
            return answer(recipe, model, options.prompt or typed_lines())
    return outcome.status


def answer(recipe, model, prompts):
    """Print the answer to each prompt; one that cannot be read gets a sentence, and the status becomes 2."""
    status = 0
    for prompt in prompts:
        try:
            print(recipe.answer(model, [prompt])[0], flush=True)
        except ValueError as problem:
            print(f"minigrad.generate: {problem}", file=sys.stderr)
            status = 2
    return status


def typed_lines():
    if sys.stdin.isatty():
        print("Type what to read, a line each; an empty line ends.", file=sys.stderr)
    for line in sys.stdin:
        line = line.rstrip("\n")
        if not line and sys.stdin.isatty():
            return
        if line:
            yield line


if __name__ == "__main__":
    sys.exit(main())
