"""How a verdict is said in words, to a learner. Knows what was found, not how."""


def told(verdict, key, most=3):
    """The lines on one exercise."""
    if verdict.right:
        return f"  ok    {verdict.name}: {verdict.total} of {verdict.total} checks. {key.why}"
    if not verdict.written:
        return f"  ...   {verdict.name} is not written yet."
    lines = [f"  WRONG {verdict.name}: {verdict.passed} of {verdict.total} checks passed."]
    if verdict.mistake:
        lines.append(f"        {verdict.mistake}")
    for title, sentence in verdict.problems[: 1 if verdict.mistake else most]:
        lines.append(f"        {f'[{title}] ' if title else ''}{sentence}")
    more = len(verdict.problems) - most
    if more > 0 and not verdict.mistake:
        lines.append(f"        and {more} more.")
    if verdict.printed.strip():
        printed = verdict.printed.rstrip().splitlines()
        lines.append("        It printed:")
        lines += [f"          | {line[:160]}" for line in printed[:8]] + ([f"          | ... {len(printed) - 8} more lines"] if len(printed) > 8 else [])
    return "\n".join(lines)
