"""python -m minigrad.generate RUN [PROMPT ...]: ask a trained model. Knows run folders and options; the answering is the recipe's.

Without a prompt it reads lines from standard input.
"""

import sys
import time
import warnings

from minigrad import saving
from minigrad._doors import Parser, UsageError, load_models, open_door, said
from minigrad.machine import blas_threads

DESCRIPTION = """
Ask a model that minigrad.train has trained. Which options it takes depends on its recipe: those that write on take all,
those that give one answer few or none. `python -m minigrad.train --list` says which; an option of no use is refused.
"""
EPILOG = """
examples:
  python -m minigrad.generate runs/dates-0001 "29th of november 2026"
  python -m minigrad.generate runs/text-0001 "The " --temperature 0.8 --top-k 20 --max-new 300 --seed 1
  python -m minigrad.generate runs/translate-0001 "Good morning." --beam 4
  python -m minigrad.generate runs/text-0001 "The " --temperature 0     always the likeliest character
"""


def main(argv=None):
    options = parse(argv)
    with said("minigrad.generate", UsageError, saving.FileProblem, RuntimeError, ValueError, NotImplementedError) as outcome:
        recipe, model = load_models().load_run(options.run)
        chosen = chosen_options(options, recipe)
        with blas_threads(1), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: print(f"minigrad.generate: {message}", file=sys.stderr)
            warnings.simplefilter("always")
            return answer(recipe, model, options.prompt or typed_lines(), chosen)
    return outcome.status


def parse(argv):
    parser = Parser("minigrad.generate", epilog=EPILOG, description=DESCRIPTION)
    parser.add_argument("run", help="the run's folder, such as runs/dates-0001")
    parser.add_argument("prompt", nargs="*", default=[], help='what to ask, or to continue, such as "29th of november 2026"; several are answered in turn; none: lines of standard input')  # fmt: skip
    parser.add_argument("--temperature", type=float, help="below 1 bolder, above 1 more even; 0 always takes the likeliest")
    parser.add_argument("--top-k", type=int, help="choose among the k likeliest only")
    parser.add_argument("--top-p", type=float, help="choose among the likeliest that together reach this probability")
    parser.add_argument("--repetition-penalty", type=float, help="above 1: what stands there already becomes less likely")
    parser.add_argument("--beam", type=int, help="follow so many continuations at once and show the likeliest")
    parser.add_argument("--max-new", type=int, help="how many tokens to write at most")
    parser.add_argument("--seed", type=int, help="the same seed writes the same")
    return parser.parse_args(argv)


def chosen_options(options, recipe):
    """The options that were given; a sentence if the recipe has no use for one, or for two at once."""
    given = {key: value for key, value in vars(options).items() if value is not None and key not in ("run", "prompt")}
    unknown = [f"--{key.replace('_', '-')}" for key in given if key not in recipe.generating]
    if unknown:
        known = ", ".join(f"--{key.replace('_', '-')}" for key in recipe.generating) or "no options"
        raise UsageError(f"a model of the recipe {recipe.name} has no use for {', '.join(unknown)}; it takes {known}.")
    wrong = [key for key in ("beam", "max_new") if given.get(key, 1) < 1]
    if wrong or given.get("seed", 0) < 0:
        raise UsageError(f"--{(wrong or ['seed'])[0].replace('_', '-')} needs a whole number from {1 if wrong else 0}.")
    chance = [f"--{key.replace('_', '-')}" for key in given if key not in ("beam", "max_new")]
    if "beam" in given and chance:
        raise UsageError(f"--beam takes the likeliest and leaves nothing to chance; leave out {', '.join(chance)}.")
    return given


def answer(recipe, model, prompts, chosen):
    """Print the answer to each prompt; one that cannot be read gets a sentence, and the status becomes 2."""
    status = 0
    for prompt in prompts:
        try:
            write(recipe, model, prompt, chosen, len(prompts) > 1 if isinstance(prompts, list) else False)
        except ValueError as problem:
            print(f"minigrad.generate: {problem}", file=sys.stderr)
            status = 2
    return status


def write(recipe, model, prompt, chosen, named):
    """The answer piece by piece, as it comes; where it continues the prompt, the prompt first and the speed at the end. `named`:
    say which prompt it answers, which also shows that a date without quotes arrives in pieces."""
    continues = "max_new" in recipe.generating
    pieces, count, start = recipe.stream(model, prompt, **chosen), 0, time.perf_counter()
    for piece in pieces:
        if not count and (continues or named):
            print(prompt if continues else f"{prompt}\n  -> " if len(prompt) > 40 else f"{prompt} -> ", end="")
        print(piece, end="", flush=True)
        count += 1
    print(flush=True)
    if continues:
        seconds = time.perf_counter() - start
        print(f"[{count} tokens, {count / seconds:,.0f} a second]", file=sys.stderr)


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
    open_door("minigrad.generate", main)
