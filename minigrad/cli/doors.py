"""Run the commands (python -m minigrad.X), "doors" for short: print errors in one line, parse options, and
import the package `models`."""

import argparse
import contextlib
import importlib
import os
import sys

from minigrad.pytorch.words import did_you_mean
from minigrad.training.recipe import UsageError


def open_door(door, main):
    """Run a command's main and exit with its status. Ctrl-C and memory errors print no traceback."""
    status = 2
    # a console or file that cannot write a character, as on Windows, gets a ? instead
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        status = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"\n{door}: stopped.", file=sys.stderr)
        status = 130
    except MemoryError:
        print(
            f"{door}: this does not fit into memory; try fewer or smaller layers (--layers, --d-model) or a "
            "smaller --batch-size.",
            file=sys.stderr,
        )
    except BrokenPipeError:  # the reader of our output has ended (| head), so nothing can be printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    sys.exit(status)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that reports a bad option in one line instead of a page of usage."""

    def __init__(self, door, **settings):
        super().__init__(
            prog=f"python -m {door}", formatter_class=argparse.RawDescriptionHelpFormatter, **settings
        )
        self.door = door

    def parse_args(self, args=None, namespace=None):
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(word + self._suggest(word) for word in unknown)}")
        return options

    def _suggest(self, word):
        return (
            did_you_mean(word.partition("=")[0], self._option_string_actions) if word.startswith("--") else ""
        )

    def error(self, message):
        message = message.removeprefix("argument ").rstrip(".")
        self.exit(2, f"{self.door}: {message}.\nTo see all options: {self.prog} --help\n")


class _Outcome:
    status = 2


@contextlib.contextmanager
def report_errors(door, *kinds):
    """Print exceptions of these types in one line on stderr, without a traceback; the status is then 2."""
    try:
        yield _Outcome
    except kinds as problem:
        if isinstance(problem, BrokenPipeError):  # open_door handles it
            raise
        print(f"{door}: {problem}", file=sys.stderr)


def load_models(part="recipes"):
    """Import models.recipes, or another part of the package models. Raises UsageError if another package
    named `models` is found first."""
    try:
        module = importlib.import_module(f"models.{part}")
    except ImportError:
        if _ours(sys.modules.get("models")):
            raise  # the right package, and an import in it fails
        raise UsageError(_SHADOWED) from None
    if part == "recipes" and not hasattr(module, "load_run"):
        raise UsageError(_SHADOWED)
    return module


def _ours(package):
    """Return True if the package models is the one beside minigrad."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return (
        getattr(package, "__file__", None)
        and os.path.dirname(os.path.dirname(os.path.abspath(package.__file__))) == here
    )


_SHADOWED = (
    "minigrad's package `models` was not found; most likely a folder or file of yours with that name is "
    "found first. Rename yours, or run from another folder."
)
