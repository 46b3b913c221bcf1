"""README.md and docs/: their blocks of code, their commands, their links."""

import re

from helpers import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"(?:pip|python|mpiexec)\s")


def text_of(page):
    return page.read_text(encoding="utf-8")


def blocks(page):
    """(language, text) of each fenced block; the language of commands and output is ""."""
    parts = re.split(r"^```(\w*)\n", text_of(page), flags=re.M)
    return list(zip(parts[1::4], parts[2::4], strict=True))


def commands(page):
    """The commands of a page, from its blocks and from its text, without comments."""
    lines = [line for language, text in blocks(page) if not language for line in text.splitlines()]
    prose = re.sub(r"^```.*?^```\n", "", text_of(page), flags=re.M | re.S)
    found = [*lines, *re.findall(r"`([^`\n]+)`", prose)]
    return [line.split("  #")[0].strip() for line in found if COMMAND.match(line)]


def links(page):
    """The files that a page links to, relative to its folder."""
    return re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", text_of(page))
