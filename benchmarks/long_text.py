"""Measure the time to the first step and the memory of the recipe `text` on a generated text of many
megabytes.

    python -m benchmarks.long_text                                     1,000 MB, in characters and in BPE
    tokens
    python -m benchmarks.long_text --megabytes 64 --tokens characters

Each kind of token is measured twice, in a new process each time: the second process finds the tokens that the
first wrote to a file. The text repeats Python's manual, its lines in a new order each time. Every sixteenth
line gets a new word, so that new words keep coming, as in real texts.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import machine
from minigrad import manual_seed
from minigrad.training.loop import fit
from models.recipes import find
from models.recipes.text import manual

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))
NEW = 16  # lines per new word


def write(path, size):
    """Write a text of `size` bytes or a little more."""
    lines, rng, written = manual().splitlines(), np.random.default_rng(0), 0
    with open(path, "w", encoding="utf-8") as file:
        while written < size:
            words = rng.choice(LETTERS, (len(lines) // NEW + 1, 8))
            rows = [lines[i] for i in rng.permutation(len(lines))]
            rows[::NEW] = [f"{row} {''.join(word)}" for row, word in zip(rows[::NEW], words)]
            written += len(piece := "\n".join(rows) + "\n")
            file.write(piece)


def measure(path, tokens, steps):
    """Measure one line of the table and print it. Runs in a new process."""
    start = time.perf_counter()
    manual_seed(0)
    recipe = find("text")({"text": path, "tokens": tokens, "steps": steps})
    ready, first = time.perf_counter() - start, []
    fit(
        recipe,
        recipe.model(),
        lambda row: first or first.append(time.perf_counter() - start),
        evaluate_every=steps,
    )
    size = f"{sum(map(len, recipe.split())):,} {tokens}, {len(recipe.vocabulary):,} different"
    total = time.perf_counter() - start
    print(
        f"| {size} | {ready:.0f} | {first[0]:.0f} | {total:.0f} | {machine.peak_memory():.0f} |", flush=True
    )


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.long_text", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the text (default: 1000)")
    parser.add_argument(
        "--tokens", nargs="+", default=["characters", "bpe"], choices=["characters", "bytes", "bpe"]
    )
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--text", help=argparse.SUPPRESS)  # for the child process: the generated text
    options = parser.parse_args(argv)
    if options.text:
        measure(options.text, *options.tokens, options.steps)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        write(path := Path(folder) / "long.txt", options.megabytes * 10**6)
        print(
            f"{path.stat().st_size / 1e6:,.0f} MB of text, {options.steps} steps and an evaluation.\n\n"
            "| tokens | s to all tokens | s to the first step | s in total | peak MB |\n"
            "| --- | --- | --- | --- | --- |",
            flush=True,
        )
        for tokens in options.tokens:
            child = [
                sys.executable,
                "-m",
                "benchmarks.long_text",
                "--text",
                str(path),
                "--tokens",
                tokens,
                "--steps",
                str(options.steps),
            ]
            for _ in range(2):
                subprocess.run(child, env={**os.environ, "MINIGRAD_CACHE": folder}, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
