"""What the doors (python -m minigrad.X) share: mistakes become sentences, and the package models is found or missed aloud."""

import contextlib
import sys


class UsageError(Exception):
    """Something on the command line cannot be followed."""


class _Outcome:
    status = 2


@contextlib.contextmanager
def said(door, *kinds):
    """Print an exception of these kinds as a sentence on stderr instead of a traceback; the exit status is then 2."""
    try:
        yield _Outcome
    except kinds as problem:
        print(f"{door}: {problem}", file=sys.stderr)


def load_models():
    """The package models, or a sentence if another folder of that name stands in front of it."""
    try:
        import models.recipes
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("models"):
            raise
        raise UsageError(
            "minigrad's package `models` was not found; most likely a folder or file of yours with that name stands in front of it. "
            "Rename yours, or run from another folder."
        ) from None
    return models
