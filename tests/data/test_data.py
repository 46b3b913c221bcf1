"""Texts and pairs that are read, and batches of them: what is in a batch, in which order, made by whom; files that cannot be used."""

import doctest
import json
import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import refuses, same

import minigrad as mg
from minigrad import data, generate, random, train
from minigrad.data import (
    BPE,
    Buckets,
    Bytes,
    Characters,
    DataLoader,
    PairDataset,
    Shuffled,
    TextDataset,
    padded,
    permutation,
    random_split,
    reading,
    tokenfile,
)
from minigrad.data.loader import nan_in
from minigrad.data.reading import LongText, read
from minigrad.data.text import encode_parts, learn_vocabulary
from minigrad.saving import FileProblem
from minigrad.training.loop import TrainingError, fit
from models.recipes import RecipeProblem, find, load_run
from models.recipes.text import Text, manual

SMALL = [
    "--layers",
    "1",
    "--d-model",
    "8",
    "--d-ff",
    "8",
    "--heads",
    "2",
    "--batch-size",
    "4",
    "--context",
    "8",
    "--steps",
    "2",
]
STORY = "the cät sat on the mat. 😀\r\nthe dog sat\ron the log.\n日本 the frog\n" * 40


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.txt"
    path.write_bytes(STORY.encode("utf-8-sig"))
    return str(path)


@pytest.fixture
def in_small_pieces(monkeypatch, tmp_path):
    """Every text counts as large, and is read a few characters at a time."""
    monkeypatch.setattr(tokenfile, "LARGE", 0)
    monkeypatch.setattr(reading, "PIECE", 7)
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "cache"))


def test_the_examples_in_the_docstrings_hold():
    for module in (data.order, data.reading, data.special):
        assert doctest.testmod(module).failed == 0


# ---------------------------------------------------------------- texts


def test_ends_of_lines_are_all_alike_and_the_mark_in_front_is_left_out(story):
    assert read(story) == STORY.replace("\r\n", "\n").replace("\r", "\n")


def test_a_text_in_pieces_is_the_text(story, in_small_pieces):
    text, whole = LongText(path=story), read(story)
    assert len(text) == len(whole) and text.symbols == "".join(sorted(set(whole)))
    for start, stop in ((0, 5), (3, 700), (len(whole) - 2, len(whole)), (9, 9)):
        assert "".join(text.part(start, stop)) == whole[start:stop]


@pytest.mark.parametrize("tokens", data.TOKENS)
def test_a_large_text_gives_the_tokens_of_a_small_one_from_a_file_that_is_written_once(
    story, tokens, in_small_pieces, monkeypatch
):
    text = LongText(path=story)
    vocabulary = learn_vocabulary(text, tokens, 280, 3)
    large = encode_parts(text, vocabulary)
    small = encode_parts(LongText(read(story)), learn_vocabulary(LongText(read(story)), tokens, 280, 3))
    for ours, theirs in zip(large, small, strict=True):
        same(ours[:], theirs)
        same(ours[5:90], theirs[5:90])
        assert len(ours[4:2]) == 0 and len(ours) == len(theirs)
    monkeypatch.setattr(tokenfile, "_write", lambda *_: pytest.fail("written again"))
    same(encode_parts(LongText(path=story), vocabulary)[1][:], small[1])


def test_a_text_that_has_changed_or_a_token_file_cut_off_is_encoded_anew(story, in_small_pieces, tmp_path):
    vocabulary = Bytes()
    before = encode_parts(LongText(path=story), vocabulary)[0]
    (tokens,) = (tmp_path / "cache").glob("*.tokens")
    os.truncate(tokens, 10)
    with refuses(ValueError, "were cut off", "start again"):
        before[:]
    assert len(encode_parts(LongText(path=story), vocabulary)[0][:]) == len(before)
    (tmp_path / "story.txt").write_text("other " * 50)
    assert vocabulary.decode(encode_parts(LongText(path=story), vocabulary)[0][:6]) == "other "
    assert not [*(tmp_path / "cache").glob(".*")]


def test_a_cache_that_cannot_be_written_is_a_sentence(story, in_small_pieces, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", story)
    with refuses(ValueError, "could not be written", "MINIGRAD_CACHE"):
        encode_parts(LongText(path=story), Bytes())


@given(st.text("ab .\n1é_'日", max_size=80), st.lists(st.integers(0, 80), max_size=8))
def test_bpe_of_pieces_is_bpe_of_the_whole_wherever_it_is_cut(text, cuts):
    bpe = BPE.train("ab ab. aba\n\n  b1é é日 ab" * 3, 290, reserved=1)
    ends = [0, *sorted(cuts), len(text)]
    found = [*bpe.encode_pieces(text[a:b] for a, b in zip(ends, ends[1:]))]
    assert np.concatenate(found).tolist() == bpe.encode(text).tolist()


def test_the_recipe_text_learns_the_same_from_a_large_text(story, in_small_pieces, monkeypatch):
    def losses(**settings):
        mg.manual_seed(0)
        one = Text(
            dict(
                text=story, steps=3, d_model=8, layers=1, heads=2, d_ff=8, context=8, batch_size=4, **settings
            )
        )
        assert ("cache" in (one.note or "")) == (tokenfile.LARGE == 0)
        return [row["loss"] for row in fit(one, one.model())], one.evaluate(one.model(), final=True).keys()

    for settings in ({}, {"tokens": "bytes"}, {"tokens": "bpe", "vocab_size": 270}):
        large = losses(**settings)
        monkeypatch.setattr(tokenfile, "LARGE", 1 << 25)
        assert losses(**settings) == large
        monkeypatch.setattr(tokenfile, "LARGE", 0)


def test_bpe_learns_from_passages_spread_over_a_long_text(monkeypatch):
    from minigrad.data import text

    monkeypatch.setattr(text, "LEARNED_FROM", 100)
    monkeypatch.setattr(reading, "PIECE", 50)
    long = LongText("a" * 500 + "b" * 500)
    long.part = lambda start, stop: (long.text[i : min(i + 50, stop)] for i in range(start, stop, 50))
    found = text._learned_from(long)
    assert len(found) <= 120 and {*found} == {"a", "b"}


def test_windows_of_a_text_dataset(story):
    training, validation = TextDataset.of_file(story, context=16)
    tokens, following = training[0]
    assert (
        training.vocabulary.decode([*tokens, following[-1]]) == read(story)[:17]
        and len(validation) == (len(validation.numbers) - 1) // 16
    )
    same(training[-1][0], training[len(training) - 1][0])
    with refuses(IndexError, f"there are {len(training)}"):
        training[len(training)]
    assert sum(len(x) for x, _ in DataLoader(training, batch_size=5, shuffle=True)) == len(training)


# ---------------------------------------------------------------- special tokens


@pytest.mark.parametrize(
    "vocabulary", [Bytes(3), Characters("<pad>end bos日", 3), BPE.train("<end> <end> low low", 300, 3)]
)
def test_special_tokens_go_there_and_back_by_name_and_no_text_makes_one(vocabulary):
    names = ["<pad>", "<bos>", "<end>"]
    for text in ("<bos>pad end<end><pad><pad>", "", "<end>", "a<pa<pad>d>"):
        numbers = vocabulary.encode_special(text, names)
        assert vocabulary.decode_special(numbers, names) == text and (numbers < 3).sum() == sum(
            text.count(name) for name in names
        )
        assert (vocabulary.encode(text) >= 3).all() and vocabulary.decode(vocabulary.encode(text)) == text
    with refuses(ValueError, "3 special tokens", "its own name"):
        vocabulary.encode_special("a", ["<pad>"])


def test_the_longest_name_of_a_special_token_is_read_first():
    assert Bytes(2).encode_special("<a><a>b", ["<a>", "<a>b"]).tolist() == [0, 1]


# ---------------------------------------------------------------- order


def test_a_round_has_everything_once_and_depends_on_seed_and_place_alone():
    shuffled = Shuffled(10, "here")
    first, again = shuffled[np.arange(25)], Shuffled(10, "here")[np.arange(25)]
    same(first, again)
    assert (
        sorted(first[:10]) == sorted(first[10:20]) == [*range(10)]
        and first[:10].tolist() != first[10:20].tolist()
    )
    same(Shuffled(10, "here").batch(2, 7), first[14:21])
    mg.manual_seed(1)
    assert shuffled[np.arange(10)].tolist() != first[:10].tolist()


@given(st.integers(2, 3000), st.integers(0, 2**32))
def test_scattering_is_a_permutation_without_a_table(count, seed):
    keys = np.random.default_rng(seed).integers(1 << 32, size=6, dtype=np.uint64)
    found = permutation.permute(np.arange(count), count, keys)
    assert sorted(found.tolist()) == [*range(count)]
    assert permutation.permute(np.array([count // 2]), count, keys)[0] == found[count // 2]


def test_scattered_places_look_shuffled(monkeypatch):
    found = {}
    for table in (1 << 22, 10):
        monkeypatch.setattr(permutation, "TABLE", table)
        found[table] = Shuffled(5000)[np.arange(5000)]
        neighbours = np.corrcoef(found[table][:-1], found[table][1:])[0, 1]
        assert (
            sorted(found[table]) == [*range(5000)]
            and abs(neighbours) < 0.05
            and abs(np.corrcoef(found[table], np.arange(5000))[0, 1]) < 0.05
        )


def test_buckets_hold_like_lengths_and_everything_once():
    lengths = np.random.default_rng(0).integers(1, 100, size=1000)
    buckets = Buckets(lengths, 16)
    batches = buckets.batches(random.fresh("data"))
    assert sorted(sum(batches, [])) == [*range(1000)] and len(batches) == len(buckets) == 63
    filled = sum(lengths[b].max() * len(b) for b in batches)
    assert filled < 1.1 * lengths.sum() and batches[0] != sorted(batches[0])
    assert (
        len(Buckets(lengths, 16, drop_last=True).batches(random.fresh("data")))
        == 62
        == len(Buckets(lengths, 16, drop_last=True))
    )
    rows = [np.arange(1, n + 1) for n in lengths]
    seen = [*DataLoader(rows, batch_sampler=buckets, collate_fn=padded)]
    assert sum((batch > 0).sum() for batch in seen) == lengths.sum() and len(seen) == 63


# ---------------------------------------------------------------- DataLoader


class Noisy:
    """Items that draw random numbers as they are made."""

    def __init__(self, count=10, bad=None):
        self.count, self.bad = count, bad

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if i == self.bad:
            raise KeyError("bad item")
        return np.float64(i), random.stream("noise").random(3)


def epochs(loader, count=3):
    return [[(x.copy(), noise.copy()) for x, noise in loader] for _ in range(count)]


def test_the_loader_has_pytorchs_names_and_shapes():
    loader = DataLoader(Noisy(), batch_size=4)
    assert [x.tolist() for x, _ in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] and len(loader) == 3
    assert [x.shape for x, _ in DataLoader(Noisy(), 4, True, drop_last=True)] == [(4,), (4,)]
    assert sorted(np.concatenate([x for x, _ in DataLoader(Noisy(), 3, shuffle=True)])) == [*range(10)]
    assert DataLoader([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], 2).__iter__().__next__()["b"] == ["x", "y"]
    assert [b.tolist() for b in DataLoader(range(5), batch_sampler=[[4, 0], [1]])] == [[4, 0], [1]]


def test_epochs_are_reproducible_and_prefetch_changes_nothing():
    plain = epochs(DataLoader(Noisy(), 4, shuffle=True))
    assert [x.tolist() for x, _ in plain[0]] != [x.tolist() for x, _ in plain[1]]
    for prefetch in (0, 1, 3, 50):
        random.stream("noise").random(7)  # what others draw changes nothing either
        loader = DataLoader(Noisy(), 4, shuffle=True, prefetch=prefetch)
        next(iter(loader))  # an iteration that is left early
        loader.set_epoch(0)
        for ours, theirs in zip(epochs(loader), plain, strict=True):
            for a, b in zip(ours, theirs, strict=True):
                same(a[0], b[0])
                same(a[1], b[1])
    loader.set_epoch(2)
    same([*loader][0][1], plain[2][0][1])


def test_making_batches_moves_no_stream_of_others():
    before = random.get_state()
    [*DataLoader(Noisy(), 4, shuffle=True, prefetch=2)]
    assert random.moved_since(before["streams"]) == {}


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


def test_the_thread_hands_exceptions_on_and_ends_with_the_iteration():
    seen = []
    with pytest.raises(KeyError, match="bad item"):
        for x, _ in DataLoader(Noisy(bad=7), 2, prefetch=4):
            seen.append(x.tolist())
    assert seen == [[0, 1], [2, 3], [4, 5]] and threads() == []
    for _ in DataLoader(Noisy(1000), 2, prefetch=4):
        assert len(threads()) == 1
        break
    assert threads() == []
    iterator = iter(DataLoader(Noisy(), 2, prefetch=2))
    next(iterator)
    del iterator
    assert threads() == []


def test_the_thread_takes_over_the_modes():
    with mg.no_grad():
        assert [*DataLoader(range(3), collate_fn=lambda _: mg.is_grad_enabled(), prefetch=2)] == [False] * 3


def test_a_nan_in_a_batch_is_named_before_the_loss(monkeypatch):
    rows = np.ones((6, 3), np.float32)
    rows[4, 1] = np.nan
    with refuses(ValueError, "Batch 1 of epoch 0 has a NaN", "(1, 1)", "3, 4, 5"):
        [*DataLoader(rows, 3)]
    assert (
        nan_in((np.arange(3), {"x": [rows]})) == "in the batch[1]['x'][0] at (4, 1), 1 in all"
        and nan_in((3, "a", np.arange(2))) is None
    )
    one = find("sort")({"steps": 1, "d_model": 8, "layers": 1, "heads": 2, "d_ff": 8})
    monkeypatch.setattr(one, "batch", lambda step: (rows, rows))
    with refuses(
        TrainingError, "batch of step 1 holds a NaN before anything was computed", "in the batch[0] at (4, 1)"
    ):
        fit(one, one.model())


def test_what_a_loader_cannot_do_is_a_sentence():
    for more, word in ((dict(batch_size=0), "batch_size"), (dict(prefetch=-1), "prefetch"), (dict(batch_size=1.5), "batch_size"), (dict(batch_sampler=[[0]], shuffle=True), "alone")):  # fmt: skip
        with refuses(ValueError, word):
            DataLoader([1, 2], **more)
    with refuses(ValueError, "(2,), (3,)", "collate_fn", "padded"):
        [*DataLoader([np.zeros(2), np.zeros(3)], 2)]


def test_padding_fills_up_on_the_right():
    assert padded([[1, 2], [], [3]], 9).tolist() == [[1, 2], [9, 9], [3, 9]] and padded([]).shape == (0, 0)


def test_random_split_shares_no_item_and_is_repeated_by_the_seed():
    a, b = random_split(range(11), (0.8, 0.2))
    assert (
        (len(a), len(b)) == (9, 2)
        and sorted([*a, *b]) == [*range(11)]
        and [*a] == [*random_split(range(11), (9, 2))[0]]
    )
    for lengths in ((5, 5), (0.5, 0.4), (12, -1)):
        with refuses(ValueError, "add up to the 11 items"):
            random_split(range(11), lengths)


# ---------------------------------------------------------------- files that cannot be used


BAD_TEXTS = {
    "empty": (b"", "is empty"), "one character": (b"a", "no other character"), "the same again": (b"a" * 2000, "no other character than 'a'"),
    "binary": (bytes(range(256)) * 9, "byte 0x"), "UTF-16": ("hello\nworld".encode("utf-16-le") * 99, "line 1 has the byte 0x0"),
    "latin": (b"ab\nc\n" * 99 + b"gr\xf6\xdfe\n" * 9, "line 199 has the byte 0xf6"), "cut": (b"abc " * 500 + b"\xe6\x97", "0xe6"),
    "short": (b"hello world " * 4, "must be longer than the context of 8"), "a mark only": (b"\xef\xbb\xbf", "is empty"),
}  # fmt: skip


@pytest.mark.parametrize("recipe", ["text", "mlm"])
@pytest.mark.parametrize("name", BAD_TEXTS)
def test_a_text_that_is_none_is_a_sentence_status_2_and_no_run(name, recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    content, words = BAD_TEXTS[name]
    (tmp_path / "t.txt").write_bytes(content)
    assert train.main([recipe, "--text", "t.txt", *SMALL]) == 2
    error = capsys.readouterr().err
    assert words in error and "Traceback" not in error and not (tmp_path / "runs").exists()


@pytest.mark.parametrize("option", [["text", "--text"], ["translate", "--pairs"]])
def test_folders_pipes_and_what_may_not_be_read_are_sentences(option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    for path, words in (
        (".", "it is a folder"),
        ("pipe", "a pipe or a device"),
        ("/dev/zero", "a pipe or a device"),
        ("none.txt", "No such file"),
        ("a" * 300, "too long"),
    ):
        assert train.main([*option, path, *SMALL]) == 2
        assert words in capsys.readouterr().err and not (tmp_path / "runs").exists()
    (tmp_path / "locked").write_text("x")
    os.chmod("locked", 0)
    if not os.access("locked", os.R_OK):  # root may read everything
        assert train.main([*option, "locked", *SMALL]) == 2 and "Permission denied" in capsys.readouterr().err


def test_pairs_name_their_line(tmp_path):
    path = tmp_path / "p.tsv"
    for content, words in ((b"a\tb\r\nc d\r\n", "no tab in line 2"), (b"a\tb\n\t\tc\n", "Source is missing in line 2"), (b"a\tb\n\na\t \n", "Target is missing in line 3"), (b"a\tb\nc\0\td\n", "line 2 has the byte 0x0"), (b"\n\r\n", "are empty")):  # fmt: skip
        path.write_bytes(content)
        with refuses(ValueError, words):
            PairDataset(path)
    path.write_bytes("\ufeffHi.\tHallo.\tby me\r\n\r\nGo!\t Geh! \rLos\tWeg".encode())
    assert [*PairDataset(path)] == [("Hi.", "Hallo."), ("Go!", "Geh!"), ("Los", "Weg")] and len(
        PairDataset(path)
    ) == 3


# ---------------------------------------------------------------- runs that were changed


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    path = folder.parent / "t.txt"
    path.write_text(manual()[:20000], encoding="utf-8")
    assert train.main(["text", "--text", str(path), *SMALL, "--quiet", "--out", str(folder)]) == 0
    return folder


def changed(folder, tmp_path, **values):
    copy = tmp_path / "changed"
    copy.mkdir(exist_ok=True)
    (copy / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config["settings"] |= values.pop("settings", {})
    (copy / "config.json").write_text(json.dumps(config | values))
    return copy


def test_a_run_of_a_newer_version_or_far_too_large_is_a_sentence(trained, tmp_path, capsys):
    assert json.loads((trained / "config.json").read_text())["version"] == 1
    for values, words in (({"version": 2}, "newer minigrad"), ({"version": "x"}, "newer"), ({"settings": {"d_model": 1 << 20}}, "does not fit model.safetensors"), ({"settings": {"context": 1 << 40}}, "does not fit")):  # fmt: skip
        with refuses((RecipeProblem, FileProblem), words):
            load_run(changed(trained, tmp_path, **values))
        assert generate.main([str(tmp_path / "changed"), "a"]) == 2 and words in capsys.readouterr().err


def test_unknown_characters_and_long_prompts_are_said_when_text_is_written(trained, capsys):
    assert generate.main([str(trained), "日"]) == 2 and "'日'" in capsys.readouterr().err
    assert (
        generate.main([str(trained), "word " * 50, "--max-new", "3"]) == 0
        and "longer than the context" in capsys.readouterr().err
    )
    assert generate.main([str(trained), "", "--max-new", "3"]) == 2 and capsys.readouterr().err


def test_padded_rows_keep_their_kind_of_number_and_their_other_axes():
    assert padded([np.array([0.5, 1.5]), [2.7]]).tolist() == [[0.5, 1.5], [2.7, 0.0]]
    assert padded([[1, 2], [3]], pad=9).tolist() == [[1, 2], [3, 9]] and padded([[1], []]).dtype == np.int64
    assert padded([np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)]).shape == (2, 2, 3)
    assert padded([np.ones(2, np.float32), np.ones(1, np.float32)]).dtype == np.float32
    with pytest.raises(ValueError, match="differ only in length, got shapes"):
        padded([np.ones((2, 3)), np.ones((2, 4))])
