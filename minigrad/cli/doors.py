"""What the doors (python -m minigrad.X) share: mistakes become sentences, those in options too, the package models is found or
missed aloud, and the settings of a recipe are read."""

import argparse
import contextlib
import importlib
import os
import sys

from minigrad.pytorch.words import did_you_mean
from minigrad.training.recipe import UsageError


def open_door(door, main):
    """Run a door's main and leave with its status; what ends it from outside gets a sentence too."""
    status = 2
    # a console or file that cannot write a character, as on Windows, gets a ? for it
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
        print(f"{door}: this does not fit into memory; try fewer or smaller layers (--layers, --d-model) or a smaller --batch-size.", file=sys.stderr)  # fmt: skip
    except BrokenPipeError:  # whoever read our output has gone (| head): nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    sys.exit(status)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser of the door's name whose mistakes are a sentence, not a page of usage with the sentence at its end."""

    def __init__(self, door, **settings):
        super().__init__(
            prog=f"python -m {door}", formatter_class=argparse.RawDescriptionHelpFormatter, **settings
        )
        self.door = door

    def parse_args(self, args=None, namespace=None):
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(word + self._meant(word) for word in unknown)}")
        return options

    def _meant(self, word):
        return (
            did_you_mean(word.partition("=")[0], self._option_string_actions) if word.startswith("--") else ""
        )

    def error(self, message):
        message = message.removeprefix("argument ").rstrip(".")
        self.exit(2, f"{self.door}: {message}.\nTo see what there is: {self.prog} --help\n")


class _Outcome:
    status = 2


@contextlib.contextmanager
def report_errors(door, *kinds):
    """Print an exception of these kinds as a sentence on stderr instead of a traceback; the exit status is then 2."""
    try:
        yield _Outcome
    except kinds as problem:
        if isinstance(problem, BrokenPipeError):  # open_door's
            raise
        print(f"{door}: {problem}", file=sys.stderr)


def load_models(part="recipes"):
    """models.recipes, or another part of the package models; a sentence if something else of that name stands in front of it."""
    try:
        module = importlib.import_module(f"models.{part}")
    except ImportError:
        if _ours(sys.modules.get("models")):
            raise  # it is the right package, and something in it fails
        raise UsageError(_SHADOWED) from None
    if part == "recipes" and not hasattr(module, "load_run"):
        raise UsageError(_SHADOWED)
    return module


def _ours(package):
    """Whether the package models is the one that lies beside minigrad."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return (
        getattr(package, "__file__", None)
        and os.path.dirname(os.path.dirname(os.path.abspath(package.__file__))) == here
    )


_SHADOWED = (
    "minigrad's package `models` was not found; most likely a folder or file of yours with that name stands in front of it. "
    "Rename yours, or run from another folder."
)
