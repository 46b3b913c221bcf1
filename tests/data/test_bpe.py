"""Byte pair encoding: the fast trainer against its definition, there and back on all of Unicode, streaming, and what runs keep of it."""

import doctest
import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from oracle import refuses

from minigrad import data, generate, train
from minigrad.data import BPE, Bytes, Characters, bpe, remembered, vocabulary
from models.recipes import load_run
from models.recipes.text import Text, manual

UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)  # all but halves of surrogate pairs
LETTERS = st.text("aab b\n.1é", max_size=60)  # few, so that pairs repeat, overlap and tie
POEM = "low lower lowest, newer newest: 99 naïve 日本語 😀 widest\n\n" * 3
VOCABULARY = BPE.train(POEM, 290, reserved=3)


# ---------------------------------------------------------------- which pairs


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(bpe).failed == 0 and doctest.testmod(data.characters).failed == 0


@given(LETTERS | UNICODE, st.integers(0, 30))
@example("aaaa aaa aa", 5)
def test_the_fast_trainer_finds_the_merges_of_the_definition(text, count):
    assert bpe.learn(text, count) == bpe.definition(text, count)


def test_the_merges_of_sennrichs_example():
    """Sennrich et al. 2016, figure 1, its words as often as there; ties are ours: the lowest numbers."""
    text = " ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3)
    symbols = BPE.train(text, 256 + 4).symbols[256:]
    assert symbols[:2] == [b"es", b"est"] and bpe.definition(text, 4) == bpe.learn(text, 4)


def test_of_pairs_that_occur_equally_often_the_lowest_numbers_come_first():
    assert bpe.learn("zyzy baba", 1) == [(ord("b"), ord("a"))] == bpe.learn("baba zyzy", 1)
    assert bpe.learn("cdcd abab", 2)[0] == (ord("a"), ord("b"))


def test_a_pair_that_occurs_once_is_not_joined_so_a_vocabulary_may_be_smaller_than_asked():
    assert bpe.learn("abcdef", 10) == [] and len(BPE.train("abcdef", 1000)) == 256
    assert len(BPE.train("ab ab", 1000, reserved=2)) == 256 + 2 + 1


def test_no_symbol_reaches_over_a_cut():
    text = "the dog. the dog, 12 dogs_and   more\n\tlines 日本語。"
    assert "".join(bpe.pieces(text)) == text
    assert bpe.pieces("the dog, 12 dogs") == ["the", " dog", ",", " 12", " dogs"]
    assert b"e d" not in BPE.train("the dog " * 50, 400).symbols


@given(UNICODE | LETTERS)
def test_the_pieces_are_the_text(text):
    assert "".join(bpe.pieces(text)) == text


# ---------------------------------------------------------------- there and back


@given(UNICODE | LETTERS | st.text("lowerst 日é", max_size=30))
def test_every_text_goes_there_and_back(text):
    for vocab in (VOCABULARY, Bytes(), Bytes(2)):
        numbers = vocab.encode(text)
        assert (
            numbers.dtype == np.int64
            and numbers.ndim == 1
            and (numbers >= vocab.reserved).all()
            and (numbers < len(vocab)).all()
        )
        assert vocab.decode(numbers) == text and "".join(vocab.stream(numbers)) == text
        assert vocab.count_characters(numbers) == len(text)


@given(st.text("lowerst n,", max_size=30))
def test_without_merges_bpe_is_bytes_and_with_them_shorter(text):
    assert BPE().encode(text).tolist() == Bytes().encode(text).tolist() == list(text.encode())
    assert len(VOCABULARY.encode(text)) <= len(text)


def test_what_was_joined_in_training_is_joined_in_encoding():
    """Encoding the training text gives the words as training left them."""
    words = [list(piece.encode()) for piece in bpe.pieces(POEM)]
    merges = bpe.definition(POEM, 40)
    for new, pair in enumerate(merges, 256):
        words = [bpe.join(word, pair, new) for word in words]
    assert BPE(merges).encode(POEM).tolist() == sum(words, [])


@pytest.mark.slow
def test_100_000_random_strings_of_all_of_unicode_go_there_and_back():
    """Of any characters there are, of few that the merges know, and with special tokens by name between them."""
    rng, names, known = np.random.default_rng(0), ["<pad>", "<start>", "<end>"], np.array([*"lowerst 日é,\n"])
    for _ in range(100_000):
        codes = rng.integers(0x110000 - 0x800, size=rng.integers(30))
        text = "".join(chr(c + 0x800 * (c >= 0xD800)) for c in codes) + "".join(
            rng.choice(known, size=rng.integers(30))
        )
        assert VOCABULARY.decode(VOCABULARY.encode(text)) == text
        marked = names[rng.integers(3)] + text + names[rng.integers(3)]
        assert VOCABULARY.decode_special(VOCABULARY.encode_special(marked, names), names) == marked


@pytest.mark.slow
def test_a_thousand_merges_of_a_megabyte():
    """1.1 s on the machine that this was written on (--durations 1); the target is 20."""
    assert len(bpe.learn((manual() * 3)[:1_000_000], 1000)) == 1000


def test_special_tokens_have_numbers_and_no_text():
    assert VOCABULARY.decode([0, 1, *VOCABULARY.encode("low"), 2]) == "low" and len(VOCABULARY) == 290
    assert (
        "".join(VOCABULARY.stream([0, *VOCABULARY.encode("é"), 2])) == "é"
        and VOCABULARY.count_characters([0, 1, 2]) == 0
    )


def test_half_a_surrogate_pair_is_a_sentence():
    for vocab in (VOCABULARY, Bytes()):
        with refuses(ValueError, r"'\ud800'", "position 2", "half of a surrogate pair", "encoding"):
            vocab.encode("ab\ud800c")
    with refuses(ValueError, "half of a surrogate pair"):
        BPE.train("\udfff", 300)


# ---------------------------------------------------------------- piece by piece


def test_a_character_in_several_tokens_is_held_back_until_it_is_whole():
    numbers = Bytes().encode("a😀é")
    assert list(Bytes().stream(numbers)) == ["a", "", "", "", "😀", "", "é"]
    assert list(Bytes().stream(numbers[:3])) == ["a", "", "", "�"]  # cut off: said at the end
    assert list(Bytes().stream([0xFF, 0x61])) == ["�", "a"] and Bytes().decode([0xC3, 0x61]) == "�a"
    assert list(Characters("ab", reserved=1).stream([1, 0, 2])) == ["a", "", "b"]


@given(st.lists(st.integers(0, 289), max_size=20))
def test_whatever_a_model_writes_the_stream_is_the_text(numbers):
    assert "".join(VOCABULARY.stream(numbers)) == VOCABULARY.decode(numbers)


# ---------------------------------------------------------------- what a run remembers


def test_a_vocabulary_survives_json():
    for vocab in (VOCABULARY, Characters("hello", 3), BPE(reserved=3)):
        again = remembered(json.loads(json.dumps(vocab.to_json())), reserved=3)
        assert type(again) is type(vocab) and again.symbols == vocab.symbols and again.reserved == 3
        assert again.encode("hello").tolist() == vocab.encode("hello").tolist()


def test_the_kinds_that_recipes_offer():
    assert isinstance(vocabulary("characters", "abc", 512), Characters) and isinstance(
        vocabulary("bpe", "abc", 512, 2), BPE
    )
    assert (
        set(data.TOKENS) == {"characters", "bytes", "bpe"}
        and type(vocabulary("bytes", "abc", 512, 2)) is Bytes
    )


def test_bytes_survive_json_and_a_memory_of_no_characters_is_a_sentence():
    again = remembered(json.loads(json.dumps(Bytes(2).to_json())), reserved=2)
    assert type(again) is Bytes and again.encode("é").tolist() == Bytes(2).encode("é").tolist()
    for saved, words in (
        ("", "is empty"),
        ("ab\ud800", "half of a surrogate pair"),
        (3, "got int"),
        ({"kind": "bytes"}, "reserved"),
        ({"kind": "bytes", "reserved": 1}, "where 0 are needed"),
    ):
        with refuses(ValueError, words):
            remembered(saved)


@pytest.mark.parametrize(("saved", "words"), [
    ({}, "no vocabulary"), ({"merges": ["97 98"]}, "reserved"), ({"merges": [[97, 98]], "reserved": 0}, "no vocabulary"),
    ({"merges": ["a b"], "reserved": 0}, "no vocabulary"), ({"merges": ["97"], "reserved": 0}, "A merge is a pair"), ({"merges": ["97 256"], "reserved": 0}, "below 256"),
    ({"merges": ["-1 97"], "reserved": 0}, "(-1, 97)"), ({"merges": 3, "reserved": 0}, "no vocabulary"), ({"merges": [], "reserved": 10**30}, "0 to 65535"),
    ({"merges": ["97 98", "97 98"], "reserved": 0}, "twice"), ({"merges": [], "reserved": True}, "reserved"), ({"merges": ["9" * 5000 + " 1"], "reserved": 0}, "no vocabulary"),
    ({"merges": [f"{n} {n}" for n in [97, *range(256, 320)]], "reserved": 0}, "symbol of 512 bytes"),
])  # fmt: skip
def test_a_spoiled_memory_is_a_sentence(saved, words):
    with refuses(ValueError, words):
        BPE.from_json(saved)


def test_a_vocabulary_too_small_for_the_bytes_is_a_sentence():
    with refuses(ValueError, "255", "256 bytes", "Choose 256"):
        BPE.train("abc", 255)
    with refuses(ValueError, "3 special tokens", "Choose 259"):
        BPE.train("abc", 258, reserved=3)


def test_the_manual_takes_seconds():
    start = time.perf_counter()
    vocab = BPE.train(manual(), 512)
    numbers = vocab.encode(manual())
    assert time.perf_counter() - start < 20  # about one, on a machine with nothing else to do
    assert len(vocab) == 512 and vocab.decode(numbers) == manual() and len(numbers) < 0.6 * len(manual())


# ---------------------------------------------------------------- the recipe text


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A file of text with characters of one to four bytes."""
    path = tmp_path_factory.mktemp("book") / "book.txt"
    lines = ["the cät sat on the mat. 😀\n", "the dog sat on the log. 日本\n", "the frog sat on the bog.\n"]
    path.write_text(
        "".join(lines[i] for i in np.random.default_rng(0).integers(3, size=300)), encoding="utf-8"
    )
    return str(path)


SMALL = [
    "--layers",
    "1",
    "--d-model",
    "16",
    "--d-ff",
    "16",
    "--heads",
    "2",
    "--batch-size",
    "8",
    "--context",
    "8",
    "--steps",
    "20",
    "--lr",
    "1e-2",
]


def text_recipe(book, **settings):
    return Text(dict(text=book, context=8, d_model=16, d_ff=16, layers=1, heads=2, **settings))


def test_bits_per_character_count_characters_whatever_a_token_is(book):
    """A model that guesses all tokens alike pays log2(V) bits a token; a character costs as much as the tokens it is made of."""
    for settings in (
        {"tokens": "bpe", "vocab_size": 270},
        {"tokens": "bpe", "vocab_size": 256},
        {"tokens": "characters"},
    ):
        one = text_recipe(book, **settings)
        validation = one.split()[1]
        net = one.model().eval()
        for p in net.parameters():
            p.data[...] = 0  # all logits are equal
        counted = validation[1 : 1 + (len(validation) - 1) // 8 * 8]
        characters = len(one.vocabulary.decode(counted)) - one.vocabulary.decode(counted).count("�")
        figures = one.evaluate(net, final=True)
        assert abs(figures["validation loss"] - np.log(len(one.vocabulary))) < 1e-5
        assert (
            abs(figures["bits per character"] - len(counted) * np.log2(len(one.vocabulary)) / characters)
            < 0.02
        )


def test_bpe_learns_its_symbols_from_the_training_text_only_and_both_parts_are_the_text(book):
    one = text_recipe(book, tokens="bpe", vocab_size=280)
    text = Path(book).read_text(encoding="utf-8")
    training, validation = (one.vocabulary.decode(part) for part in one.split())
    assert training + validation == text and len(training) == len(text) * 9 // 10
    assert one.vocabulary.merges == bpe.learn(training, 280 - 256) and len(one.vocabulary) == 280


def test_a_run_with_bpe_writes_on_without_its_text_in_whole_characters(book, tmp_path, capsys):
    folder, copy = tmp_path / "run", tmp_path / "copy.txt"
    copy.write_bytes(Path(book).read_bytes())
    assert (
        train.main(
            [
                "text",
                "--text",
                str(copy),
                *SMALL,
                "--set",
                "tokens=bpe",
                "--set",
                "vocab_size=270",
                "--out",
                str(folder),
            ]
        )
        == 0
    )
    assert "bits per character on held-out data" in capsys.readouterr().out
    copy.unlink()
    for more in (["--seed", "1"], ["--beam", "2"], ["--temperature", "0"]):
        assert generate.main([str(folder), "the 日", "--max-new", "12", *more]) == 0
        assert capsys.readouterr().out.startswith("the 日")
    one, _ = load_run(folder)
    assert len(one.vocabulary) == 270
    tokens = [*one.vocabulary.encode("日😀")]
    assert len(tokens) > 2 and [piece for piece in one.vocabulary.stream(tokens) if piece] == ["日", "😀"]


@pytest.mark.parametrize(("more", "words"), [
    (["--set", "tokens=words"], "tokens can be characters, bpe"), (["--tokens", "bpe", "--vocab-size", "100"], "too small: the 256 bytes"),
    (["--tokens", "bpe", "--context", "3000"], "tokens, must be longer than the context of 3000"), (["--set", "vocab_size=many"], "vocab_size"),
])  # fmt: skip
def test_settings_of_tokens_that_cannot_be_are_sentences(book, tmp_path, capsys, more, words):
    assert train.main(["text", "--text", book, *SMALL, "--out", str(tmp_path / "run"), *more]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_the_prompt_of_a_bpe_run_knows_every_character(book):
    one = text_recipe(book, tokens="bpe")
    assert one.vocabulary.decode(one.vocabulary.encode("Ω never seen")) == "Ω never seen"
    with refuses(ValueError, "half of a surrogate pair"):
        list(one.stream(one.model().eval(), "a\ud83d"))
