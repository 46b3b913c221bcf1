"""A run's config.toml: what is written is read back the same, repeats the run, and is answered with sentences where it is wrong."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import train
from minigrad.cli import configs
from minigrad.cli.options import names, parse
from minigrad.training import Recipe, progress
from minigrad.training.folder import RunFolder

SMALL = [
    "dates",
    "--steps",
    "2",
    "--layers",
    "1",
    "--d-model",
    "8",
    "--d-ff",
    "8",
    "--heads",
    "1",
    "--batch-size",
    "4",
    "--quiet",
]
scalars = st.text() | st.integers() | st.floats(allow_nan=False) | st.booleans()


@given(st.dictionaries(st.text(), scalars), st.dictionaries(st.text(), scalars))
def test_what_is_written_is_read_back_the_same(top, settings):
    top.pop("settings", None)
    table = {**top, "settings": settings}
    text = configs.toml({**table, "nothing": None} if "nothing" not in table else table)
    assert tomllib.loads(text.encode(errors="replace").decode()) == table
    assert {type(value) for value in tomllib.loads(text).values()} == {
        type(value) for value in table.values()
    }


@pytest.fixture
def no_test(monkeypatch):
    monkeypatch.setattr(progress, "finish", lambda *_: None)


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_every_run_writes_the_file_that_repeats_it(tmp_path, no_test):
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    assert train.main([*SMALL, "--seed", "3", "--norm", "pre", "--save-every", "2", "--out", str(first)]) == 0
    assert train.main(["--config", str(first / "config.toml"), "--quiet", "--out", str(again)]) == 0
    assert config_of(first) == config_of(again) and losses(first) == losses(again)
    assert (
        train.main(
            [
                "--config",
                str(first / "config.toml"),
                "--quiet",
                "--out",
                str(other),
                "--seed",
                "4",
                "--set",
                "norm=post",
            ]
        )
        == 0
    )
    changed = config_of(other)
    assert changed["seed"] == 4 and changed["settings"] == {**config_of(first)["settings"], "norm": "post"}


def test_the_file_holds_every_option_that_the_table_says_it_does(tmp_path):
    config = {
        "recipe": "dates",
        "seed": 0,
        "threads": 2,
        "share": "batch",
        "tensorboard": False,
        "settings": {},
    }
    found = set()
    for every in (None, 5):
        when = {"every": every, "minutes": 1.0, "keep": 2}
        configs.write(RunFolder(tmp_path), Recipe, {**config, "saving": when})
        found |= configs.read(RunFolder(tmp_path).repeat).keys()
    assert found - {"settings"} == set(names("file"))


def test_settings_without_an_option_and_texts_with_quotes_are_repeated_too(tmp_path, no_test):
    text = tmp_path / 'my "own" = text.txt'
    text.write_text("to be or not to be, that is the question. " * 40)
    words = ["text", *SMALL[1:], "--text", str(text), "--context", "8", "--set", "checkpoint=true"]
    assert train.main([*words, "--out", str(tmp_path / "first")]) == 0
    # found in the text, not chosen
    assert "vocabulary" not in (tmp_path / "first" / "config.toml").read_text()
    assert (
        train.main(
            ["--config", str(tmp_path / "first" / "config.toml"), "--quiet", "--out", str(tmp_path / "again")]
        )
        == 0
    )
    assert (
        config_of(tmp_path / "first") == config_of(tmp_path / "again")
        and config_of(tmp_path / "again")["settings"]["checkpoint"] is True
    )


def test_the_command_line_wins_whatever_stands_in_the_file(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('recipe = "text"\nseed = 5\nsave-every = 7\n[settings]\nlr = 0.01\nd_model = 32\n')
    plan = parse(["--config", str(path), "--lr", "0.02"])
    assert (plan.recipe, plan.seed, plan.saving.save_every) == ("text", 5, 7)
    assert plan.settings == {"lr": 0.02, "d_model": 32}
    assert parse(["sort", "--config", str(path), "--seed", "6"]).recipe == "sort"
    path.write_bytes(b'\xef\xbb\xbfrecipe = "sort"')  # as Windows' editor saves it
    assert parse(["--config", str(path)]).recipe == "sort"
    path.write_text("")
    assert parse(["--config", str(path)]).recipe == "dates"


@pytest.mark.parametrize(("text", "said"), [
    ("sed = 3", "no key 'sed' outside of [settings] (did you mean seed?)"), ("lr = 0.1", "lr is a setting of a recipe and belongs below [settings]"),
    ("[settings]\nseed = 1", "seed is not a setting of a recipe and belongs above [settings]"), ("[settings]\nlayrs = 1", "(did you mean layers?)"),
    ("[settings]\nlayers = [1]", "layers must be a string, a number, true or false; got [1]"), ("settings = 3", "settings must be a table"),
    ("recipe = 3", "recipe must be a string"), ('[settings]\nlr = "much"', "my.toml: --lr: needs a number above 0 to 10, got 'much'"), ('recipe = "dats"', "did you mean dates?"),
    ("tensorboard = 1", "tensorboard must be true or false; got 1"), ('[settings]\ntext = "\\u0000"', "text holds the character \\u0000, which is not allowed"),
    ("[settings]\nd_model = 32\nd-model = 64", "d-model and d_model are the same setting"), ("[settings]\nlayers = 99999999999", "layers can be at most 1,000"),
    ("x = ", "is not readable TOML"), ("[settings]\nlayers = 1.5", "needs a whole number from 1"), ("a = " + "[" * 5000, "is not readable TOML"),
])  # fmt: skip
def test_a_mistake_in_the_file_is_a_sentence(text, said, tmp_path, capsys):
    path = tmp_path / "my.toml"
    path.write_text(text)
    try:
        status = train.main(["--config", str(path), "--out", str(tmp_path / "run")])
    except SystemExit as ending:
        status = ending.code
    assert status == 2 and said in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_files_that_are_none(tmp_path, capsys):
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for path, said in (
        (tmp_path / "none.toml", "There is no file"),
        (tmp_path, "is a folder"),
        (tmp_path / "bytes.toml", "is not readable TOML"),
    ):
        assert train.main(["--config", str(path)]) == 2 and said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        train.main(["--resume", "x", "--config", "y"])
    assert "leave out --config" in capsys.readouterr().err
