"""Did you mean: mistyped options, settings, recipes and their choices."""

import pytest

from minigrad import generate, train
from minigrad.pytorch.words import did_you_mean


@pytest.mark.parametrize(("word", "known", "said"), [
    ("layrs", ("lr", "layers", "heads"), " (did you mean layers?)"), ("zzz", ("layers",), ""), ("", ("layers",), ""), (3, ("33",), " (did you mean 33?)"),
])  # fmt: skip
def test_what_is_near_is_offered_and_what_is_not_is_left_out(word, known, said):
    assert did_you_mean(word, known) == said


@pytest.mark.parametrize(("door", "argv", "said"), [
    (train, ["--stepz", "3"], "--stepz (did you mean --steps?)"), (train, ["--nrom=pre"], "--nrom=pre (did you mean --norm?)"),
    (train, ["dats"], "'dats' (did you mean dates?)"), (train, ["--set", "layrs=2"], "'layrs=2' (did you mean layers?)"),
    (train, ["--model", "lstn"], "'lstn' (did you mean lstm?)"), (generate, ["run", "--temprature", "1"], "(did you mean --temperature?)"),
])  # fmt: skip
def test_a_mistyped_word_is_a_sentence_with_what_was_meant(door, argv, said, capsys):
    try:
        status = door.main(argv)
    except SystemExit as ending:
        status = ending.code
    assert status == 2 and said in capsys.readouterr().err
