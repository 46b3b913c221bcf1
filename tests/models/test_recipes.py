"""The recipes that train runs: what they ask, what must not leak, what they learn in a few steps, what they say when asked wrongly."""

import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from oracle import refuses, same

import minigrad as mg
from minigrad import generate, train
from minigrad.data import Characters
from minigrad.training.loop import fit
from minigrad.training.progress import sample_lines
from models.bert import IGNORED
from models.recipes import MODULES, find, load_run
from models.recipes.mlm import MASK, MaskedText
from models.recipes.sequences import Sequences, held_out
from models.recipes.text import Text, manual

SMALL = [
    "--steps",
    "4",
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
    "--quiet",
]
tasks = pytest.mark.parametrize("name", ("reverse", "sort", "copy", "add"))
ANSWERS = {
    "reverse": ("abc", "cba"),
    "sort": ("cabca", "aabcc"),
    "copy": ("abc", "abc"),
    "add": ("017+995", "2101"),
}


def recipe(name, **settings):
    return find(name)({"d_model": 16, "layers": 1, "heads": 2, "d_ff": 32, **settings})


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A file of text, easily learned."""
    path = tmp_path_factory.mktemp("book") / "book.txt"
    lines = ["the cat sat on the mat.\n", "the dog sat on the log.\n", "the frog sat on the bog.\n"]
    path.write_text(
        "".join(lines[i] for i in np.random.default_rng(0).integers(3, size=150)), encoding="utf-8"
    )
    return str(path)


# ---------------------------------------------------------------- every recipe


@pytest.mark.parametrize("name", MODULES)
def test_every_recipe_has_what_train_asks_of_it(name):
    kind = find(name)
    assert kind.name == name and kind.help and {"steps", "batch_size", "lr"} <= set(kind.defaults)
    assert all(kind.defaults[setting] in names for setting, names in kind.choices.items())


@pytest.mark.parametrize("name", ("text", "mlm", "reverse", "sort", "copy", "add"))
def test_a_batch_depends_on_seed_and_step_alone_and_the_loss_is_a_number(name):
    mg.manual_seed(3)
    one = recipe(name)
    first, again, other = one.batch(7), recipe(name).batch(7), one.batch(8)
    for a, b in zip(first, again, strict=True):
        same(a, b)
    assert any((a != b).any() for a, b in zip(first, other, strict=True))
    loss = one.loss(one.model(), first)
    assert loss.dtype == np.float32 and abs(loss.item() - math.log(len(one.vocabulary))) < 1.0


# ---------------------------------------------------------------- tasks: reverse, sort, copy, add


@tasks
def test_the_right_answers_and_only_they_are_asked_for(name):
    one = recipe(name)
    question, answer = ANSWERS[name]
    assert one.solve(question) == answer
    tokens, asked = one.rows([question])
    shown = one.vocabulary.decode(tokens[0])
    width = one.longest()[0]
    assert shown == (question.ljust(width) if name == "copy" else question.rjust(width)) + "=" + answer
    wanted = asked[0][asked[0] != IGNORED]
    assert one.vocabulary.decode(wanted) == answer and wanted[-1] == 1  # and then the end
    for _ in range(2):
        same(tokens[:, 1:][asked[:, :-1] != IGNORED], asked[:, :-1][asked[:, :-1] != IGNORED])


@tasks
def test_no_question_that_is_tested_was_ever_trained_on(name):
    one = recipe(name)
    rng = np.random.default_rng(0)
    training, test = one.draw(rng, 2000, test=False), one.draw(rng, 500, test=True)
    assert not set(training) & set(test) and all(map(held_out, test)) and not any(map(held_out, training))
    trained = {
        one.vocabulary.decode(row).split("=")[0].strip() for step in range(20) for row in one.batch(step)[0]
    }
    assert not any(map(held_out, trained))


@pytest.mark.parametrize("model", ("gpt", "llama"))
def test_a_task_is_learned_in_a_few_steps(model):
    mg.manual_seed(0)
    one = recipe("copy", model=model, length=3, steps=250, batch_size=64, lr=1e-2, d_model=32)
    net = one.model()
    fit(one, net, evaluate_every=1000)
    assert one.evaluate(net)["exact match"] > 0.6


def test_answers_of_a_batch_are_those_of_each_question_alone():
    one = recipe("sort")
    net = one.model().eval()
    questions = ["a", "abcdefghij", "zx"]
    assert one.answer(net, questions) == [one.answer(net, [q])[0] for q in questions]


def test_questions_a_model_cannot_know_get_a_sentence():
    words, sums = recipe("reverse"), recipe("add")
    for question in ("", "elevenchars", "Abc", "a b"):
        with refuses(ValueError, "1 to 10 lowercase letters", repr(question)):
            words.answer(words.model(), [question])
    for question in ("12", "1+2+3", "1000+1", "a+b", "+", "-1+2"):
        with refuses(ValueError, "two numbers", repr(question)):
            list(sums.stream(sums.model(), question))
    for settings in ({"length": 0}, {"digits": 0}):
        with refuses(ValueError, "0"):
            recipe("reverse" if "length" in settings else "add", **settings)


def test_a_sum_is_asked_and_answered_as_people_write_it():
    one = recipe("add")
    one.answer = lambda model, prompts: ["2010"] if prompts == ["007+095"] else ["0000"]
    assert list(one.stream(None, " 7 + 95")) == ["102"] and list(one.stream(None, "0+0")) == ["0"]


def test_samples_and_picture_of_a_sum_are_read_from_the_highest_digit_though_it_is_written_from_the_units():
    one = recipe("add", digits=3)
    one.answer = lambda model, questions: [one.solve(q) for q in questions]
    for question, answer, right in one.samples(None):
        a, b = map(int, question.split("+"))
        assert answer == right == f"{a + b:04}"
    written, weights = one.attention(one.model(), "123+989")
    assert (
        written == list("1112")
        and weights.shape == (2, 4, 7)
        and one.attention_title.startswith("Attention of layer 1 of 1")
    )


def test_a_row_of_weights_stays_with_its_digit():
    one = recipe("add", digits=3)
    model = one.model().eval()
    (backwards, seen), (written, turned) = (
        Sequences.attention(one, model, "123+989"),
        one.attention(model, "123+989"),
    )
    assert [*written, "end"] == [*backwards[-2::-1], "end"]
    same(turned[:, -1], seen[:, 0])  # the units


def test_adds_help_says_how_many_digits_it_learns():
    assert "of 12 digits" in recipe("add", digits=12).help and "of 3 digits" in recipe("add").help


# ---------------------------------------------------------------- text


def test_the_vocabulary_goes_there_and_back_and_names_what_it_does_not_know():
    v = Characters("hello, wörld", reserved=2)
    assert v.decode(v.encode("well, hö")) == "well, hö" and v.encode("h").dtype == np.int64
    assert len(v) == len(set("hello, wörld")) + 2 and min(v.encode("hello")) >= 2 and v.decode([0, 1]) == ""
    with refuses(ValueError, "'X'", "'Y'"):
        v.encode("YX")


def test_without_a_file_it_is_pythons_manual_and_validation_is_not_trained_on():
    assert len(manual()) > 300_000 and "statement" in manual()
    one = Text({})
    training, validation = one.split()
    assert one.vocabulary.decode(np.concatenate([training, validation])) == manual()
    assert abs(len(training) / len(manual()) - 0.9) < 1e-4
    tokens, following = one.batch(3)
    assert tokens.shape == following.shape == (12, 64) and (tokens[:, 1:] == following[:, :-1]).all()


def test_the_loss_of_a_new_model_is_that_of_guessing_and_bits_are_nats_over_log_2(book):
    one = recipe("text", text=book, context=16)
    figures = one.evaluate(one.model().eval())
    assert abs(figures["validation loss"] - math.log(len(one.vocabulary))) < 0.1
    assert math.isclose(figures["bits per character"] * math.log(2), figures["validation loss"])


def test_the_whole_validation_text_counts_at_the_end_as_one_window_after_another(book):
    one = recipe("text", text=book, context=16)
    model, (_, validation) = one.model().eval(), one.split()
    losses = [
        one.loss(model, (validation[None, i : i + 16], validation[None, i + 1 : i + 17])).item()
        for i in range(0, len(validation) - 16, 16)
    ]
    assert math.isclose(one.evaluate(model, final=True)["validation loss"], np.mean(losses), rel_tol=1e-5)


def test_a_text_is_learned_and_goes_on_with_a_prompt(book, tmp_path, capsys):
    folder = str(tmp_path / "run")
    learn = [
        "--steps",
        "150",
        "--d-model",
        "32",
        "--heads",
        "2",
        "--layers",
        "1",
        "--d-ff",
        "64",
        "--context",
        "24",
        "--lr",
        "1e-2",
    ]
    assert train.main(["text", "--text", book, *learn, "--out", folder]) == 0
    out = capsys.readouterr().out
    assert "bits per character on held-out data" in out and "validation loss:" in out and "      | " in out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["validation loss"] < 0.6
    assert generate.main([folder, "the cat ", "--temperature", "0", "--max-new", "9"]) == 0
    answer = capsys.readouterr()
    assert answer.out == "the cat sat on th\n"[:9] + answer.out[9:] and len(answer.out) == 18
    assert "sat on" in answer.out and re.search(r"\[9 tokens, [\d,]+ a second\]", answer.err)


def test_a_run_writes_on_without_its_text_and_the_options_of_generate(book, tmp_path, capsys, monkeypatch):
    copy = tmp_path / "copy.txt"
    copy.write_bytes(Path(book).read_bytes())
    folder = str(tmp_path / "run")
    assert train.main(["text", "--text", str(copy), *SMALL, "--context", "8", "--out", folder]) == 0
    copy.unlink()
    capsys.readouterr()

    def written(*options):
        assert generate.main([folder, "the ", "--max-new", "20", *options]) == 0
        return capsys.readouterr().out

    assert written("--seed", "1") == written("--seed", "1") != written("--seed", "2")
    assert written("--beam", "1") == written("--temperature", "0") == written("--top-k", "1")
    assert (
        len(written("--top-k", "5", "--top-p", "0.9", "--repetition-penalty", "1.2", "--temperature", "0.7"))
        == 25
    )
    assert generate.main([folder, "the cat sat on the mat", "--max-new", "2"]) == 0
    assert "longer than the context; the model sees the last 8" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO("the \ndog \n"))
    assert generate.main([folder, "--max-new", "3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("the ") and "\ndog " in out


def test_an_answer_is_printed_piece_by_piece_before_the_next_piece_is_known(capsys):
    shown = []

    class Slow:
        generating = ("max_new",)

        def stream(self, model, prompt):
            for piece in "cat":
                yield piece
                shown.append(capsys.readouterr().out)

    generate.write(Slow(), None, "the ", {}, False)
    assert shown == ["the c", "a", "t"] and "[3 tokens, " in capsys.readouterr().err


def test_options_that_do_not_fit_get_a_sentence(book, tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert train.main(["text", "--text", book, *SMALL, "--context", "8", "--out", folder]) == 0
    capsys.readouterr()
    for options, words in (
        (["--beam", "0"], "whole number from 1"), (["--max-new", "0"], "whole number from 1"), (["--seed", "-1"], "whole number from 0"),
        (["--beam", "2", "--temperature", "1"], "leave out --temperature"), (["--top-p", "2"], "top_p"), (["--temperature", "-1"], "temperature"),
        (["--top-k", "0"], "top_k"), (["--repetition-penalty", "-1"], "repetition_penalty"),
    ):  # fmt: skip
        assert generate.main([folder, "the ", *options]) == 2
        assert words in capsys.readouterr().err
    assert generate.main([folder, "THE"]) == 2 and "'E' 'H' 'T'" in capsys.readouterr().err
    assert train.main(["sort", *SMALL, "--out", str(tmp_path / "sort")]) == 0
    capsys.readouterr()
    assert generate.main([str(tmp_path / "sort"), "abc", "--temperature", "1"]) == 2
    assert "does not use --temperature" in capsys.readouterr().err


def test_every_window_of_the_training_text_is_learned_from_once_before_any_is_again(book):
    one = recipe("text", text=book, context=16, batch_size=5)
    count = (len(one.split()[0]) - 16) // 16
    starts = np.concatenate([one.starts(step) for step in range(2 * count // 5 + 1)])
    for epoch in (starts[:count], starts[count : 2 * count]):
        assert (
            len(set(epoch)) == count and len(set(epoch % 16)) == 1 and epoch.max() + 16 < len(one.split()[0])
        )
    assert (starts[:count] != starts[count : 2 * count]).any()
    same(one.starts(3), recipe("text", text=book, context=16, batch_size=5).starts(3))


@pytest.mark.parametrize(
    "content, words", [(None, "could not be read"), (b"\xff\xfe\x00", "UTF-8"), (b"short", "too short")]
)
def test_a_text_that_cannot_be_learned_from_is_said_before_a_run_is_made(
    content, words, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "t.txt").write_bytes(content)
    assert train.main(["text", "--text", "t.txt", *SMALL]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "runs").exists()


# ---------------------------------------------------------------- mlm


def test_hidden_characters_are_asked_for_and_shown_as_holes(book):
    one = recipe("mlm", text=book, context=24)
    seen, asked = one.batch(0)
    assert 0.05 < (asked != IGNORED).mean() < 0.3 and (seen == MASK).any()
    same(seen[asked == IGNORED], one.vocabulary.encode(one.vocabulary.decode(seen[asked == IGNORED])))
    samples = one.samples(one.model().eval())
    lines = [line.removeprefix("      | ") for line in sample_lines(samples)[1:]]
    assert [line[:9] for line in lines] == ["source   ", "truth    ", "guess   »"]
    shown, text, filled = (line[9:] for line in lines)
    assert "_" in shown and len(shown) == len(filled) == len(text) == 24
    assert all(a in ("_", b) for a, b in zip(shown, text, strict=True))
    assert re.match(r"(the|cat|dog|frog|sat|on|mat|log|bog)\b", text)  # a whole word


def test_the_mark_of_a_hole_is_one_that_the_text_does_not_hold_and_a_run_remembers_it(book, tmp_path, capsys):
    path = tmp_path / "underscores.txt"
    path.write_text(Path(book).read_text(encoding="utf-8").replace("mat", "m_t"), encoding="utf-8")
    folder = str(tmp_path / "run")
    assert train.main(["mlm", "--text", str(path), *SMALL[:-1], "--context", "24", "--out", folder]) == 0
    said = capsys.readouterr().out
    assert "hidden character is written □" in said and re.search(r'generate \S+ ".*□.*"', said)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["settings"]["hole"] == "□"
    assert generate.main([folder, "the c□t sat on the m_t"]) == 0
    answer = capsys.readouterr().out
    assert answer[:5] == "the c" and answer[6:] == "t sat on the m_t\n"
    assert generate.main([folder, "the c_t"]) == 2 and "with □ for each hidden one" in capsys.readouterr().err
    path.write_text(path.read_text(encoding="utf-8") + "_□■○●", encoding="utf-8")
    with refuses(ValueError, "The text contains all of _ □ ■ ○ ●"):
        recipe("mlm", text=str(path), context=24)


def test_holes_are_filled_and_the_rest_is_left(book):
    mg.manual_seed(0)
    one = MaskedText(
        dict(text=book, context=24, d_model=32, d_ff=64, layers=2, heads=4, steps=700, batch_size=16, lr=1e-2)
    )
    model = one.model()
    fit(one, model, evaluate_every=1000)
    assert one.evaluate(model)["hidden characters found"] > 0.6
    answer = one.answer(model, ["the c_t sat on _he mat."])[0]
    assert len(answer) == 23 and answer[:5] == "the c" and answer[6:15] == "t sat on "
    for prompt in ("no holes", "_" * 25):
        with refuses(ValueError, "up to 24 characters", "_"):
            one.answer(model, [prompt])


# ---------------------------------------------------------------- targets, stated; minutes


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, share", [("reverse", 0.995), ("sort", 0.995), ("copy", 0.995), ("add", 0.99), ("mlm", 0.5)]
)
def test_a_recipe_reaches_its_target(name, share, tmp_path):
    assert train.main([name, "--quiet", "--out", str(tmp_path / "run")]) == 0
    one, _ = load_run(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "result.json").read_text())[one.metric] >= share
