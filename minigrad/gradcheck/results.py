"""The results of a check: errors, tables and diagnoses, printed in a terminal or a notebook."""

import html
from dataclasses import dataclass, field

import numpy as np

from minigrad.gradcheck.numeric import TOLERANCE, relative_error


class GradcheckError(AssertionError):
    """Raised when a gradient is wrong or cannot be checked.

    `report` holds the results, `diagnoses` the probable mistakes, likeliest first.
    """

    def __init__(self, sentence, report=None, diagnoses=()):
        super().__init__(sentence)
        self.report, self.diagnoses = report, list(diagnoses)


@dataclass
class Result:
    """The result for one input: the worst error, and the number of kinks that were skipped."""

    name: str
    error: float  # max|analytic - numeric| / max(FLOOR, largest |gradient|)
    index: tuple
    analytic: float
    numeric: float
    largest: float  # the largest gradient; near 0 the check says little
    kinks: int = 0
    problem: str = ""  # a wrong shape or dtype
    remark: str = ""
    evidence: object = field(default=None, repr=False, compare=False)  # all entries, for the diagnosis

    @property
    def note(self):
        notes = [f"{self.kinks} kinks skipped"] * bool(self.kinks) + [self.remark] * bool(self.remark)
        return ", ".join(notes + ["zero gradient"] * (self.largest < 1e-9))

    def right(self, tolerance=TOLERANCE):
        return self.error <= tolerance and not self.problem

    def __str__(self):
        if self.problem and not self.error > TOLERANCE or not np.isfinite(self.error) and self.problem:
            return f"{self.name}: {self.problem}"
        where = f" at index {self.index}" if self.index else ""
        return (
            f"{self.name}: backward gives {self.analytic:.8g}{where}, finite differences {self.numeric:.8g} "
            f"(relative error {self.error:.2g}, largest gradient {self.largest:.3g})"
        )


def compare(name, analytic, numeric, kinks=0, size=0.0):
    """Compare two arrays of the same shape. Returns a Result."""
    if not analytic.size:
        return Result(name, 0.0, (), 0.0, 0.0, 0.0, kinks)
    bad = ~(np.isfinite(analytic) & np.isfinite(numeric))
    a, n = np.where(bad, 0, analytic), np.where(bad, 0, numeric)
    index = np.unravel_index(np.argmax(np.where(bad, np.inf, np.abs(a - n))), bad.shape)
    index = tuple(int(i) for i in index)
    largest = float("inf") if bad.any() else float(np.abs([a, n]).max())
    return Result(
        name,
        relative_error(analytic, numeric, size),
        index,
        float(analytic[index]),
        float(numeric[index]),
        largest,
        kinks,
    )


@dataclass(frozen=True)
class Diagnosis:
    """A probable mistake: the name of the hypothesis that fits, and a sentence that explains it."""

    name: str
    sentence: str
    evidence: object = field(default=None, repr=False, compare=False)  # what it was derived from

    def __str__(self):
        return self.sentence


class Report(list):
    """The Results of a check, one for each input; prints as a table."""

    def __init__(self, results=(), tolerance=TOLERANCE):
        super().__init__(results)
        self.tolerance = tolerance

    @property
    def wrong(self):
        return [r for r in self if not r.right(self.tolerance)]

    @property
    def ok(self):
        return not self.wrong

    @property
    def worst(self):
        return max(self.wrong or self, key=lambda r: (bool(r.problem), r.error))

    @property
    def vacuous(self):
        """True if every gradient is zero."""
        return all(r.largest < 1e-9 for r in self)

    def sentence(self):
        """Describe the worst Result in one line."""
        others = f" ({len(self.wrong)} of {len(self)} tensors are wrong.)" if len(self) > 1 else ""
        return f"The gradient is wrong for {self.worst}.{others}"

    def rows(self):
        """Yield (name, shape, error, verdict) of each input."""
        for r in self:
            verdict = ("right" if r.right(self.tolerance) else "WRONG") + (f" ({r.note})" if r.note else "")
            shape = "" if r.evidence is None else str(r.evidence.x.shape)
            yield r.name, shape, f"{r.error:.1e}", verdict

    def __str__(self):
        table = [("input", "shape", "error", "verdict"), *self.rows()]
        widths = [max(len(row[i]) for row in table) for i in range(3)]
        lines = [
            "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]])
            for row in table
        ]
        return "\n".join(lines + [str(r) for r in self.wrong])

    __repr__ = __str__

    def _repr_html_(self):
        """The table for notebooks, with wrong inputs in red."""
        head = "<tr><th>input</th><th>shape</th><th>relative error</th><th>verdict</th></tr>"
        body = "".join(
            "<tr"
            + ' style="color:#b00"' * ("WRONG" in row[3])
            + ">"
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
            + "</tr>"
            for row in self.rows()
        )
        return f"<table>{head}{body}</table>" + "".join(f"<p>{html.escape(str(r))}</p>" for r in self.wrong)


def explained(headline, diagnoses, where=""):
    """Return a headline with the diagnoses below it."""
    lines = [headline, *(f"  {'Likely' if i == 0 else 'Or'}: {d}" for i, d in enumerate(diagnoses[:2]))]
    return "\n".join(lines + [f"  {where}"] * bool(where))
