"""Describe a verdict to a learner, as printed lines."""

import textwrap


def describe(verdict, key, most=3, passed_before=False):
    """Return the lines about one exercise. The first time it passes, they explain why it matters."""
    if verdict.right:
        why = "" if passed_before else f" {key.why}"
        return f"  ok    {verdict.name}: {verdict.total} of {verdict.total} checks.{why}"
    if not verdict.written:
        return f"  ...   {verdict.name} is not written yet."
    lines = [f"  WRONG {verdict.name}: {verdict.passed} of {verdict.total} checks passed."]
    if verdict.mistake:
        lines.append(f"        {verdict.mistake}")
    for title, sentence in verdict.problems[: 1 if verdict.mistake else most]:
        lines.append(f"        {f'[{title}] ' if title else ''}{sentence}")
    if verdict.problems[0][0] and not verdict.mistake:
        lines += source_lines(next(check for check in key.checks if check["title"] == verdict.problems[0][0]))
    more = len(verdict.problems) - most
    if more > 0 and not verdict.mistake:
        lines.append(f"        and {more} more.")
    if verdict.printed.strip():
        printed = verdict.printed.rstrip().splitlines()
        lines.append("        It printed:")
        lines += [f"          | {line[:160]}" for line in printed[:8]]
        lines += [f"          | ... {len(printed) - 8} more lines"] * (len(printed) > 8)
    return "\n".join(lines)


def source_lines(check, most=4):
    """Return the lines of a check, to run it again by hand; none if there are more than `most`."""
    body = textwrap.dedent("\n".join(check["source"].splitlines()[1:])).splitlines()
    if len(body) > most:
        return []
    random = f", with rng = np.random.default_rng({check['seed']})" if "rng" in "".join(body) else ""
    return [f"        The first of these checks was{random}:", *(f"          > {line}" for line in body)]
