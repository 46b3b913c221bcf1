"""Files of pairs: a source, a tab and its target on each line."""

from minigrad.data.reading import check_no_zeros, open_text

FORMAT = """A pairs file is text in UTF-8 with a pair on each line, the source, a tab, the target, such as
Good morning.\tGuten Morgen.
A spreadsheet with two columns, saved as tab-separated text, is such a file."""


class PairDataset:
    """The (source, target) pairs of a file, in its order.

    Ignores further columns, as in the files of tatoeba.org, empty lines, and spaces around a text.
    """

    def __init__(self, path):
        with open_text(path, "pairs") as file:
            self.pairs = [pair(line, number, path) for number, line in enumerate(file, 1) if line.strip()]
        if not self.pairs:
            raise ValueError(f"The pairs {path} are empty. {FORMAT}")

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        return self.pairs[i]


def pair(line, number, path):
    """Split a line into (source, target).

    Raises ValueError, with the line, if the tab or one of them is missing.
    """
    check_no_zeros(line, number, path, "pairs")
    source, *others = (column.strip() for column in line.split("\t"))
    where = f"line {number} of {path}: {line.strip()[:60]!r}. {FORMAT}"
    if not others:
        raise ValueError(f"There is no tab in {where}")
    if not source or not others[0]:
        raise ValueError(f"{'Source' if not source else 'Target'} is missing in {where}")
    return source, others[0]
