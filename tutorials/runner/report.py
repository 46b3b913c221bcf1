"""How a verdict is said in words, to a learner. Knows what was found, not how."""

import textwrap


def told(verdict, key, most=3, praised=False):
    """The lines on one exercise; why it matters is said when it passes first."""
    if verdict.right:
        return f"  ok    {verdict.name}: {verdict.total} of {verdict.total} checks." + (
            "" if praised else f" {key.why}"
        )
    if not verdict.written:
        return f"  ...   {verdict.name} is not written yet."
    lines = [f"  WRONG {verdict.name}: {verdict.passed} of {verdict.total} checks passed."]
    if verdict.mistake:
        lines.append(f"        {verdict.mistake}")
    for title, sentence in verdict.problems[: 1 if verdict.mistake else most]:
        lines.append(f"        {f'[{title}] ' if title else ''}{sentence}")
    if verdict.problems[0][0] and not verdict.mistake:
        lines += tried(next(check for check in key.checks if check["title"] == verdict.problems[0][0]))
    more = len(verdict.problems) - most
    if more > 0 and not verdict.mistake:
        lines.append(f"        and {more} more.")
    if verdict.printed.strip():
        printed = verdict.printed.rstrip().splitlines()
        lines.append("        It printed:")
        lines += [f"          | {line[:160]}" for line in printed[:8]] + (
            [f"          | ... {len(printed) - 8} more lines"] if len(printed) > 8 else []
        )
    return "\n".join(lines)


def tried(check, most=4):
    """The lines of a check, so that it can be run again by hand; none if they are many."""
    body = textwrap.dedent("\n".join(check["source"].splitlines()[1:])).splitlines()
    if len(body) > most:
        return []
    random = f", with rng = np.random.default_rng({check['seed']})" if "rng" in "".join(body) else ""
    return [f"        The first of these checks was{random}:", *(f"          > {line}" for line in body)]
