"""python tests/support/fuzzing.py [COUNT] [READER ...]: give COUNT hostile files to each function that reads
files.

A reader may return a result or raise one of our errors. Anything else is a crash, and a call longer than
SECONDS is a hang. The process may use at most LIMIT bytes of memory. No reader may start a program, unpickle,
or write outside the folder. The command prints the totals.
"""

import contextlib
import json
import os
import resource
import signal
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from minigrad import runs, saving, tensor
from minigrad.cli import configs
from minigrad.cli.options import names
from minigrad.data import Characters, PairDataset, remembered
from minigrad.data.reading import LongText
from minigrad.data.text import encode_parts, learn_vocabulary
from minigrad.training import checkpoints
from minigrad.training.recipe import UsageError
from models import recipes
from models.recipes import RecipeProblem, find, load_run

SECONDS, LIMIT = 10, 2 << 30
# exactly these types; load_state_dict raises RuntimeError
OURS = (ValueError, saving.FileProblem, RecipeProblem, UsageError, RuntimeError)
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pickle.find_class")

# ---------------------------------------------------------------- inputs

TOML = b'# a run\nrecipe = "dates"\nseed = 3\n\n[settings]\nlr = 1e-3\nlayers = 2\nnorm = "pre\\u00e9"\n'
NUMBERS = st.integers() | st.sampled_from([-1, 0, 2**31, 2**63, 2**64, 10**30]) | st.floats()
TEXTS = st.text(max_size=8) | st.sampled_from(
    ["../../etc/passwd", "a\0b", "/dev/zero", "/", "NaN", "9" * 5000, "256 256", "\ud800", "dates", "x.py"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=6,
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), st.binary(max_size=9)), min_size=1, max_size=4)
RAW = (
    st.binary(max_size=200)
    | st.integers(1, 200_000).map(lambda n: b"[" * n)
    | st.integers(1, 50_000).map(lambda n: b'{"a":' * n)
)


def edit(valid):
    """Generate valid bytes with some removed and some inserted, or with the end cut off."""

    def apply(edits):
        data = valid
        for fraction, removed, inserted in edits:
            at = int(fraction * len(data))
            data = data[:at] + inserted + data[at + removed :]
        return data

    return EDITS.map(apply) | st.integers(0, len(valid)).map(lambda n: valid[:n])


def spoil(valid):
    """Generate a JSON value in which some parts are replaced by others."""

    def paths(value, path=()):
        yield path
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            yield from paths(value[key], (*path, key))

    def apply(changes):
        data = json.loads(json.dumps(valid))
        for path, value in changes:
            inside = data
            with contextlib.suppress(LookupError, TypeError):
                for key in path[:-1]:
                    inside = inside[key]
                inside[path[-1]] = value
        return data

    return st.lists(
        st.tuples(st.sampled_from([path for path in paths(valid) if path]), VALUES), min_size=1, max_size=3
    ).map(apply)


def as_json(values):
    return values.map(lambda value: json.dumps(value).encode())


def headers():
    """Generate safetensors files: entries of any dtype, shape and offset, some with a wrong header length."""
    number = st.integers(0, 40) | st.sampled_from([-1, -8, 2**31, 2**62, 2**64])
    kind = st.sampled_from("F32 F32 F64 F16 BF16 I64 U8 BOOL C64 F8_E4M3 F4 XX".split())
    entry = st.fixed_dictionaries(
        {
            "dtype": kind,
            "shape": st.lists(number, max_size=3) | st.just([1] * 99),
            "data_offsets": st.lists(number, min_size=2, max_size=2),
        }
    )
    note = st.dictionaries(TEXTS, VALUES, max_size=2)
    header = st.dictionaries(TEXTS, entry | VALUES, max_size=3) | note.map(
        lambda inside: {"__metadata__": inside}
    )

    def whole(header, length, data, twice):
        text = json.dumps(header).encode()
        text = text[:-1] + b"," + text[1:] if twice and len(text) > 2 else text  # every name twice
        return struct.pack("<Q", len(text) if length is None else length % 2**64) + text + data

    return st.builds(whole, header, st.none() | st.none() | number, st.binary(max_size=64), st.booleans())


# ---------------------------------------------------------------- readers


class Files:
    """A folder with a run and a file of each kind, all valid. The inputs are made from them."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.run, self.file = self.folder / "run", self.folder / "file"
        self.run.mkdir()
        recipe = find("sort")(dict(d_model=8, layers=1, heads=2, d_ff=8, length=3))
        self.config = {"recipe": "sort", "seed": 0, "settings": recipe.settings, "version": 1}
        saving.save_tensors(self.run / "model.safetensors", recipe.model().state_dict())
        self.weights = (self.run / "model.safetensors").read_bytes()
        text = find("text")(
            dict(vocabulary="abc ", d_model=8, layers=1, heads=2, d_ff=8, context=8, example="")
        )
        self.other = {"recipe": "text", "seed": 0, "settings": text.settings}
        saving.save_tensors(self.file, text.model().state_dict())
        self.others_weights = self.file.read_bytes()
        checkpoints.write(
            self.file,
            {"step": 3, "best": None, "model": {"a": tensor([1.0, 2.0])}, "list": [np.arange(3), "x", 1.5]},
        )
        self.checkpoint = self.file.read_bytes()

    def inputs(self):
        """Map each reader to (inputs, function of one input)."""
        bpe = {"kind": "bpe", "reserved": 0, "merges": ["97 98", "256 99", "32 257"]}
        doubled = st.integers(2, 80).map(
            lambda n: bpe | {"merges": ["97 97", *(f"{256 + i} {256 + i}" for i in range(n))]}
        )
        pairs = "Hi.\tHallo.\r\n\nGo!\tGeh!\t日本\n".encode() * 3
        rows = b"".join(
            json.dumps({"step": i, "loss": 1 / (i + 1), "samples": [["a", "b", None]]}).encode() + b"\n"
            for i in range(5)
        )
        configs_json = as_json(spoil(self.config) | spoil(self.other)) | edit(
            json.dumps(self.config).encode()
        )
        prose = "the cät sat on\r\nthe mat. 日本 😀 ".encode("utf-8-sig") * 9
        return {
            "safetensors": (headers() | edit(self.weights) | RAW, self.from_file(saving.load_tensors)),
            "weights of a run": (edit(self.weights) | RAW, self.weights_of_a_run),
            "checkpoint": (edit(self.checkpoint) | RAW, self.from_file(checkpoints.read)),
            "config.json": (configs_json | as_json(VALUES) | RAW, self.config_of_a_run),
            "tokenizer JSON": (spoil(bpe) | doubled | VALUES | st.text(max_size=9), tokenizer),
            "pairs": (edit(pairs) | RAW, self.from_file(PairDataset)),
            "text": (edit(prose) | RAW | st.just(b"\0" * 99), self.from_file(text_of)),
            "metrics.jsonl": (edit(rows) | RAW, self.from_file(metrics)),
            "config.toml": (edit(TOML) | RAW, self.from_file(config_toml)),
            "list of runs": (edit(rows) | configs_json | as_json(VALUES) | RAW, self.list_of_runs),
        }

    def from_file(self, read):
        """A function that writes its bytes to a file and calls `read` on the file."""

        def reader(data):
            self.file.write_bytes(data)
            read(self.file)

        return reader

    def list_of_runs(self, data):
        """List the run with these bytes as each of the files that the list reads.

        The list must never raise.
        """
        for name in ("config.json", "metrics.jsonl", "result.json", "broken.txt"):
            (self.run / "config.json").write_text(json.dumps(self.config))
            (self.run / name).write_bytes(data)
            try:
                (run,) = runs.summarize_all(self.run, recipes)
                "".join(runs.table([run])).encode()
                json.dumps(run, default=str)
            finally:
                (self.run / name).unlink()

    def weights_of_a_run(self, data):
        (self.run / "config.json").write_text(json.dumps(self.config))
        (self.run / "model.safetensors").write_bytes(data)
        load_run(self.run)

    def config_of_a_run(self, data):
        (self.run / "model.safetensors").write_bytes(
            self.others_weights if b'"text"' in data else self.weights
        )
        (self.run / "config.json").write_bytes(data)
        recipe, model = load_run(self.run)
        recipe.answer(model, ["abc"]) if recipe.name == "sort" else recipe.vocabulary.encode("abc")


def tokenizer(value):
    vocabulary = remembered(value)
    numbers = vocabulary.encode(
        vocabulary.decode(range(len(vocabulary))) if isinstance(vocabulary, Characters) else "abc 日"
    )
    vocabulary.decode(numbers)


def text_of(path):
    text = LongText(path=path)
    for tokens in ("characters", "bytes", "bpe"):
        vocabulary = learn_vocabulary(text, tokens, 270)
        training, validation = encode_parts(text, vocabulary)
        training, validation = vocabulary.decode(training), vocabulary.decode(validation)
        assert len(training + validation) == len(text), "decoding must give the text back"


def config_toml(path):
    configs.arguments(path, names("file"), {"lr", "layers"})


def metrics(path):
    lines = saving.Lines(path)
    try:
        lines.keep(3)
    finally:
        lines.close()


# ---------------------------------------------------------------- fuzzing


class Watch:
    """Raises, while it is on, if a reader does something forbidden, or takes too long."""

    def __init__(self):
        self.folder = None
        sys.addaudithook(self)  # forever: Python cannot remove an audit hook

    def __call__(self, event, arguments):
        if self.folder is None:
            return
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        if event in FORBIDDEN or (writes and not str(arguments[0]).startswith((self.folder, "/dev/null"))):
            raise AssertionError(f"a reader did this: {event} {arguments!r:.200}")

    @contextlib.contextmanager
    def on(self, folder):
        self.folder, before = str(folder), signal.signal(signal.SIGALRM, self.hangs)
        signal.alarm(SECONDS)
        try:
            yield
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
            self.folder = None

    @staticmethod
    def hangs(*_):
        raise TimeoutError(f"a reader took longer than {SECONDS} s")


WATCH = Watch()


def fuzz(inputs, read, folder, count):
    """Call a reader on many inputs.

    Returns (inputs tried, inputs refused); raises if a reader does anything else.
    """
    tried, refused = [], []

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(inputs)
    def once(value):
        tried.append(1)
        try:
            with WATCH.on(folder), np.errstate(all="ignore"):
                read(value)
        except OURS as problem:
            assert type(problem) in OURS and len(str(problem).split()) > 4, (
                f"not one of our errors: {problem!r}"
            )
            refused.append(1)

    once()
    return len(tried), len(refused)


def main(count=1000, *names):
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    total = failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (inputs, read) in Files(folder).inputs().items():
            if names and name not in names:
                continue
            try:
                tried, refused = fuzz(inputs, read, folder, int(count))
                total += tried
                print(
                    f"{name:18s} {tried:8,d} inputs, {refused:8,d} refused, {tried - refused:8,d} read",
                    flush=True,
                )
            except BaseException as error:
                failures += 1
                notes = getattr(error, "__notes__", "")
                print(
                    f"{name:18s} FAILED: {type(error).__name__}: {error!s:.500}\n{notes!s:.1500}", flush=True
                )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{total:,} inputs, {failures} readers with crashes or hangs, peak memory {memory} MB")
    return 1 if failures else 0


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main(*sys.argv[1:]))
