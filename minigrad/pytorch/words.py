"""Suggestions for mistyped words."""

import difflib


def did_you_mean(word, known):
    """Return ` (did you mean lr?)` if a known word is similar, else an empty string."""
    near = difflib.get_close_matches(str(word), [str(one) for one in known], 1)
    return f" (did you mean {near[0]}?)" if near else ""
