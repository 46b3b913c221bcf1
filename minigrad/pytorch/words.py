"""Words that were mistyped. Knows what is near to what; not where the words come from."""

import difflib


def did_you_mean(word, known):
    """` (did you mean lr?)` if one of the known words is near, else nothing."""
    near = difflib.get_close_matches(str(word), [str(one) for one in known], 1)
    return f" (did you mean {near[0]}?)" if near else ""
