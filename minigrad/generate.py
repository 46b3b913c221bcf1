"""python -m minigrad.generate RUN [PROMPT ...]: ask a trained model. Knows run folders; the answering is the recipe's.

Without a prompt it reads lines from standard input.
"""

import argparse
import sys
from pathlib import Path

from minigrad import manual_seed, saving
from minigrad.train import UsageError, find_recipe


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m minigrad.generate", description="Ask a model that minigrad.train has trained.")
    parser.add_argument("run", help="the run's folder, such as runs/dates-0001")
    parser.add_argument("prompt", nargs="*", help='what to ask, such as "29th of november 2026"; several are answered in turn; none: lines of standard input')  # fmt: skip
    options = parser.parse_args(argv)
    try:
        recipe, model = load_run(options.run)
    except (saving.FileProblem, UsageError, RuntimeError, ValueError) as problem:
        print(f"minigrad.generate: {problem}", file=sys.stderr)
        return 2
    status = 0
    for prompt in options.prompt or typed_lines():
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


def load_run(folder):
    """(recipe, model with its trained weights, in evaluation) of a run's folder."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"there is no run {folder}. Train one with `python -m minigrad.train`; runs are folders under runs/.")
    config = saving.load_json(folder / "config.json")
    if not isinstance(config, dict) or not {"recipe", "seed", "settings"} <= set(config):
        raise saving.FileProblem(f"{folder / 'config.json'} is not a run's configuration: it must hold recipe, seed and settings.")
    manual_seed(config["seed"])
    recipe = find_recipe(config["recipe"])(config["settings"])
    model = recipe.model()
    model.load_state_dict(saving.load_tensors(folder / "model.safetensors"))
    return recipe, model.eval()


if __name__ == "__main__":
    sys.exit(main())
