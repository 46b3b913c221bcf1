"""Files of pairs: a source, a tab and its target on each line. Knows lines and columns; no language."""

from minigrad.data.reading import no_zeros, opened

FORMAT = """A pairs file is text in UTF-8 with a pair on each line, the source, a tab, the target, such as
Good morning.\tGuten Morgen.
Of two spreadsheet columns one makes it by saving them as tab-separated text."""


class PairDataset:
    """The (source, target) texts of a file, in its order. Further columns are passed over, as in the files of tatoeba.org, and so are
    empty lines and blanks around a text."""

    def __init__(self, path):
        with opened(path, "pairs") as file:
            self.pairs = [pair(line, number, path) for number, line in enumerate(file, 1) if line.strip()]
        if not self.pairs:
            raise ValueError(f"The pairs {path} are empty. {FORMAT}")

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        return self.pairs[i]


def pair(line, number, path):
    """(source, target) of a line; sentences for what it lacks, with its number."""
    no_zeros(line, number, path, "pairs")
    source, *others = (column.strip() for column in line.split("\t"))
    shown = f"line {number} of {path}: {line.strip()[:60]!r}. {FORMAT}"
    if not others:
        raise ValueError(f"There is no tab in {shown}")
    if not source or not others[0]:
        raise ValueError(f"{'Source' if not source else 'Target'} is missing in {shown}")
    return source, others[0]
