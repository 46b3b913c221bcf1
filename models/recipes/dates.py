"""dates: an encoder-decoder learns to read dates as people write them: "29th of Nov 26" -> 2026-11-29.

By default the model is the paper's Transformer; --model lstm and the others show what it replaced.

This file generates the data: the calendar days of 1950 to 2049 in fourteen formats, all-numeric ones day
first, two-digit years within the same window. The days are split before they are written, so no test day is
ever trained on.
"""

import datetime
import string

import numpy as np

from minigrad import random
from models.recipes.encoder_decoder import RESERVED, Pairs, until_end

FIRST, LAST = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
EXAMPLE = datetime.date(2026, 11, 29)
DAYS = (LAST - FIRST).days + 1
MONTHS = "January February March April May June July August September October November December".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

FORMATS = (
    "{d} {month} {year}",  # 29 November 2026
    "{d} {mon} {year}",  # 29 Nov 2026
    "{d} {mon} {yy}",  # 29 Nov 26
    "{month} {d}, {year}",  # November 29, 2026
    "{mon} {d} {year}",  # Nov 29 2026
    "{weekday}, {d} {month} {year}",  # Sunday, 29 November 2026
    "{wday} {d} {mon} {yy}",  # Sun 29 Nov 26
    "{weekday} {month} {nth}, {year}",  # Sunday November 29th, 2026
    "{nth} of {month} {year}",  # 29th of November 2026
    "{mon} {nth}, {year}",  # Nov 29th, 2026
    "{dd}/{mm}/{year}",  # 29/11/2026
    "{d}/{m}/{yy}",  # 29/11/26
    "{d}.{m}.{year}",  # 29.11.2026
    "{dd}-{mm}-{yy}",  # 29-11-26
)

CHARACTERS = string.digits + string.ascii_letters + " ,./-"
NUMBER = {c: i + RESERVED for i, c in enumerate(CHARACTERS)}
VOCABULARY = len(CHARACTERS) + RESERVED
MAX_LENGTH = 48


def write(day, form, rng):
    """Write the day in one of the FORMATS, in one of three cases, and sometimes with stray spaces."""
    text = (str, str.lower, str.upper)[rng.integers(3)](neat(day, form))
    if rng.random() < 0.2:
        words = text.split(" ")
        words.insert(rng.integers(len(words) + 1), "")  # doubles a space, or puts one before or after
        text = " ".join(words)
    return text


def neat(day, form):
    """Write the day in one of the FORMATS, without stray spaces."""
    weekday, month = WEEKDAYS[day.weekday()], MONTHS[day.month - 1]
    return form.format(
        d=day.day, dd=f"{day.day:02}", m=day.month, mm=f"{day.month:02}", year=day.year, yy=f"{day.year % 100:02}",
        month=month, mon=month[:3], weekday=weekday, wday=weekday[:3], nth=f"{day.day}{ordinal(day.day)}",
    )  # fmt: skip


def ordinal(n):
    """st, nd, rd or th."""
    return "th" if n in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")


def encode(text):
    """Convert a text to token ids. Raises ValueError if it is empty, too long or has unknown characters."""
    unknown = sorted({c for c in text if c not in NUMBER})
    if unknown:
        raise ValueError(
            "The model knows only the letters a-z and A-Z, digits, space and , . / -; "
            f"{text!r} contains {' '.join(map(repr, unknown))}."
        )
    if not text.strip():
        raise ValueError("There is no date to read: the text is empty.")
    if len(text) > MAX_LENGTH:
        raise ValueError(
            f"A date of {len(text)} characters is too long for the model, which reads at most {MAX_LENGTH}."
        )
    return [NUMBER[c] for c in text]


def decode(tokens):
    """Convert tokens to a text, up to the end token."""
    return "".join(CHARACTERS[t - RESERVED] for t in until_end(tokens) if t >= RESERVED)


def split(seed):
    """(training, validation, test) days: 32,525, 1,000 and 3,000, disjoint; the same for the same seed."""
    order = np.random.default_rng([seed, DAYS]).permutation(DAYS)
    days = [FIRST + datetime.timedelta(days=int(n)) for n in order]
    return days[4000:], days[:1000], days[1000:4000]


class Dates(Pairs):
    """The data and the metric of the default run."""

    name = "dates"
    help = "an encoder-decoder reads dates as people write them and answers in ISO (a minute)"
    defaults = dict(steps=800, batch_size=64, lr=4e-3, d_model=64, layers=2, heads=4, d_ff=128, dropout=0.0, norm="post", label_smoothing=0.0, model="transformer")  # fmt: skip
    metric = "exact match"
    example = "29th of november 2026"
    attention_title = "Attention of the decoder's last layer to the source while it writes each character"
    vocab_size, max_len, max_new = VOCABULARY, MAX_LENGTH, 12
    encode, decode = staticmethod(encode), staticmethod(decode)
    label = staticmethod(lambda number: CHARACTERS[number - RESERVED])

    def __init__(self, settings):
        super().__init__(settings)
        self.training, self.validation, self.test = split(self.seed)
        self.fixed = {
            "validation": self.write_all(self.validation, 256, 1),
            "test": self.write_all(self.test, 1000, 2),
        }

    def write_all(self, days, count, worker):
        """Write `count` different days as fixed examples, the formats in turn."""
        rng = random.fresh("dates", 0, worker)
        return [
            (write(day, FORMATS[i % len(FORMATS)], rng), day.isoformat())
            for i, day in enumerate(days[:count])
        ]

    def batch(self, step):
        """(src (B, Ts), tgt (B, 12)): dates written anew for every step."""
        rng = random.fresh("data", step)
        days = [self.training[i] for i in rng.integers(len(self.training), size=self.settings["batch_size"])]
        forms = rng.integers(len(FORMATS), size=len(days))
        return self.rows(
            [(write(day, FORMATS[form], rng), day.isoformat()) for day, form in zip(days, forms, strict=True)]
        )

    def evaluate(self, model, final=False):
        """The fraction of held-out dates answered exactly right; at the end also by format."""
        examples = self.fixed["test" if final else "validation"]
        answers = self.answers(model, [text for text, _ in examples])
        right = [answer == iso for answer, (_, iso) in zip(answers, examples, strict=True)]
        figures = {self.metric: float(np.mean(right))}
        if final:
            figures["by format"] = {
                neat(EXAMPLE, form): float(np.mean(right[i :: len(FORMATS)]))
                for i, form in enumerate(FORMATS)
            }
        return figures

    def samples(self, model, count=3):
        """(source, prediction, target) rows."""
        part = self.fixed["validation"][:count]
        return [
            (text, answer, iso)
            for (text, iso), answer in zip(part, self.answer(model, [t for t, _ in part]), strict=True)
        ]
