"""The command line: train, generate and their sentences, run as a user runs them but smaller."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from helpers import ROOT

import minigrad as mg
from minigrad import generate, saving, train
from minigrad.training import Recipe, progress
from minigrad.training.folder import RunFolder
from minigrad.training.loop import TrainingError, fit
from models import recipes
from models.recipes import dates, load_run
from models.recipes.encoder_decoder import EOS

SMALL = [
    "--steps",
    "6",
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
]


def run_train(tmp_path, *more):
    folder = tmp_path / "run"
    return train.main([*SMALL, "--out", str(folder), *more]), folder


# ---------------------------------------------------------------- the data


def test_there_are_at_least_ten_formats_and_each_has_at_least_five_percent_of_the_data():
    assert len(dates.FORMATS) >= 10
    assert 1 / len(dates.FORMATS) >= 0.05


def test_training_and_held_out_days_are_disjoint_and_cover_a_century():
    training, validation, test = dates.split(0)
    assert (
        len({*training, *validation, *test})
        == len(training) + len(validation) + len(test)
        == dates.DAYS
        == 36525
    )


@pytest.mark.parametrize("form", dates.FORMATS)
def test_every_format_can_be_read_back_by_a_person(form):
    day = dates.datetime.date(2003, 2, 1)
    text = dates.neat(day, form)
    assert "{" not in text and ("2003" in text or "03" in text)
    numeric = not any(c.isalpha() for c in text)
    if numeric:  # day first
        first, second = text.replace("/", " ").replace(".", " ").replace("-", " ").split()[:2]
        assert (int(first), int(second)) == (1, 2)


@pytest.mark.parametrize(("n", "ending"), [(1, "st"), (2, "nd"), (3, "rd"), (4, "th"), (11, "th"), (12, "th"), (13, "th"), (21, "st"), (22, "nd"), (23, "rd"), (30, "th")])  # fmt: skip
def test_ordinals(n, ending):
    assert dates.ordinal(n) == ending


def test_what_is_written_fits_the_model():
    rng = np.random.default_rng(0)
    for day in dates.split(0)[0][:500]:
        for form in dates.FORMATS:
            assert dates.decode([*dates.encode(dates.write(day, form, rng)), EOS]).strip()


def test_a_batch_depends_on_seed_and_step_only():
    mg.manual_seed(3)
    recipe = dates.Dates({})
    first = recipe.batch(7)
    recipe.batch(8)
    again = recipe.batch(7)
    assert np.array_equal(first[0], again[0]) and np.array_equal(first[1], again[1])
    assert not np.array_equal(recipe.batch(8)[1], first[1])


# ---------------------------------------------------------------- a run


def test_a_run_leaves_weights_figures_and_pictures_and_answers(tmp_path, capsys):
    status, folder = run_train(tmp_path)
    assert status == 0
    assert {p.name for p in folder.iterdir()} == {"config.json", "config.toml", "metrics.jsonl", "model.safetensors", "result.json", "loss.png", "attention.png", "layers.png", "report.html", "checkpoints"}  # fmt: skip
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6] and "exact match" in rows[-1]
    for picture in ("loss.png", "attention.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert "exact match on held-out data" in out and "python -m minigrad.generate" in out
    assert generate.main([str(folder), "29 november 2026"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize("model", ("transformer", "lstm"))
def test_dates_are_answered_by_beam_search_too(tmp_path, capsys, model):
    _, folder = run_train(tmp_path, "--quiet", "--model", model)
    capsys.readouterr()
    recipe, trained = load_run(folder)
    assert generate.main([str(folder), "29 nov 2026", "--beam", "4"]) == 0
    assert capsys.readouterr().out == recipe.answer(trained, ["29 nov 2026"], beam=4)[0] + "\n"
    assert (
        generate.main([str(folder), "29 nov 2026", "--top-k", "2"]) == 2
        and "it takes --beam" in capsys.readouterr().err
    )


def test_the_same_seed_gives_the_same_run_and_numpys_own_state_is_left_alone(tmp_path):
    before = np.random.get_state()[1].copy()
    losses = []
    for name in ("a", "b"):
        train.main([*SMALL, "--seed", "5", "--dropout", "0.1", "--quiet", "--out", str(tmp_path / name)])
        losses.append(
            [
                json.loads(line)["loss"]
                for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()
            ]
        )
    assert losses[0] == losses[1]
    assert np.array_equal(before, np.random.get_state()[1])


def test_quiet_prints_the_result_only(tmp_path, capsys):
    run_train(tmp_path, "--quiet")
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_control_c_keeps_what_was_learned(tmp_path, capsys, monkeypatch):
    batch = dates.Dates.batch

    def interrupted(self, step):
        if step == 3:
            signal.raise_signal(signal.SIGINT)
        return batch(self, step)

    monkeypatch.setattr(dates.Dates, "batch", interrupted)
    status, folder = run_train(tmp_path)
    assert status == 130
    assert "Stopped after 4 steps" in capsys.readouterr().out
    assert saving.load_tensors(folder / "model.safetensors")
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_both_norm_orders_train(tmp_path, norm):
    status, folder = run_train(tmp_path, "--norm", norm, "--quiet", "--label-smoothing", "0.1")
    assert status == 0 and json.loads((folder / "config.json").read_text())["settings"]["norm"] == norm


def test_the_list_names_every_recipe(capsys):
    assert train.main(["--list"]) == 0 and "dates" in capsys.readouterr().out


def test_long_samples_take_three_lines_and_short_ones_one():
    assert progress.sample_lines([("29 Nov", "2026-11-29", "2026-11-29"), ("1 May 99", "1998", "1999")]) == [
        f"      {'29 Nov':32s} -> 2026-11-29   right", f"      {'1 May 99':32s} -> 1998         should be 1999"]  # fmt: skip
    long, target = "It was a long sentence, " * 3, "Es war ein langer Satz, " * 3
    assert progress.sample_lines([(long, target, target), ("No.", "Ja.", "Nein.")]) == [
        f"      {long}", f"        -> {target}", "        right", "      No.", "        -> Ja.", "        should be Nein."]  # fmt: skip


def test_a_text_shows_where_the_model_takes_over():
    assert progress.sample_lines([("The first ", "and\nthe last", None)])[1:] == [
        "      | The first »and",
        "      | the last",
    ]


def test_shares_are_in_percent_and_other_figures_are_not(capsys):
    class Shown(Recipe):
        metric = "exact match"

    class Score(Recipe):
        metric, share, shown = "chrF", False, lambda self, figure: f"{figure:.1f}"

    table = {"accuracy by distance": {"rnn": {2: 0.25}}, "gradient by distance": {"rnn": {2: 0.25}}}
    progress.report(
        {"exact match": 0.5, "accuracy of the gru": 0.125, "validation loss": 0.25, **table},
        Shown({}),
        1.0,
        print,
    )
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == ["exact match on held-out data: 50.0% after 1.0 s of training", "accuracy of the gru: 12.5%", "validation loss: 0.25",
                     "accuracy by distance:", "2", "rnn 25.0%", "gradient by distance:", "2", "rnn 0.25"]  # fmt: skip
    progress.report({"chrF": 88.31, "BLEU": 62.674, "exact match": 0.3933}, Score({}), 1.0, print)
    assert capsys.readouterr().out.splitlines()[0].startswith("chrF on held-out data: 88.3 after")
    progress.report({"BLEU": 62.674, "exact match": 0.3933}, Score({}), 1.0, print)
    assert capsys.readouterr().out.splitlines() == ["BLEU: 62.7", "exact match: 39.3%"]


def test_what_next_is_aligned_however_long_the_folders_name(capsys):
    for folder in ("r", "runs/" + "x" * 60):
        progress.farewell(dates.Dates, folder, print)
        lines = capsys.readouterr().out.splitlines()[2:]
        comments = ("ask the model", "change the model", "check that")
        assert len({line.index(comment) for line, comment in zip(lines, comments, strict=True)}) == 1


def test_the_list_says_what_generate_takes_for_each(capsys):
    train.main(["--list"])
    listed = re.split(r"\n(?=\w)", capsys.readouterr().out)
    takes = {entry.split()[0]: entry.strip().splitlines()[-1] for entry in listed}
    assert all(name in takes and "minigrad.generate takes" in takes[name] for name in recipes.NAMES)
    assert "--temperature" in takes["text"] and takes["sort"].endswith("takes no options")
    with pytest.raises(SystemExit):
        generate.main(["--help"])
    assert "depend on its recipe" in capsys.readouterr().out


MY_RECIPE = '''
import numpy as np
import minigrad.nn.functional as F
from minigrad import nn, random
from minigrad.training import Recipe

class Line(Recipe):
    """y = 2x + 1."""
    name = "line"
    metric = "share within 0.1"
    defaults = dict(steps=200, batch_size=16, lr=0.1)

    def model(self):
        return nn.Linear(1, 1)

    def batch(self, step):
        x = random.fresh("data", step).standard_normal((self.settings["batch_size"], 1)).astype(np.float32)
        return x, 2 * x + 1

    def loss(self, model, batch):
        return F.mse_loss(model(batch[0]), batch[1])

    def evaluate(self, model, final=False):
        x = np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
        return {self.metric: float((abs(model(x).data - (2 * x + 1)) < 0.1).mean())}
'''


def test_a_learners_own_recipe_file_runs_the_same_way(tmp_path, capsys):
    (tmp_path / "my_recipe.py").write_text(MY_RECIPE)
    status = train.main([str(tmp_path / "my_recipe.py"), "--out", str(tmp_path / "run"), "--quiet"])
    assert status == 0 and "100.0%" in capsys.readouterr().out


ODD = """
import numpy as np
import minigrad as mg
class Odd(Line):
    def evaluate(self, model, final=False):
        return {self.metric: np.float32(0.5), "verdict": "good <b>", "confusion": np.eye(30), "nothing": None, "tensor": mg.tensor(2.0),
                "by two": {"a": {"x": 1, 2: 0.5}, "b": {"y": "some text", "x": np.arange(40)}, 3: 7.0, "d": {}}, "empty": {},
                "counts": {"cats": 12, "dogs": "none", 3: mg.tensor([1.0, 2.0])}, "set": {1}}
"""


def test_figures_of_any_kind_are_printed_shown_and_kept(tmp_path, capsys):
    (tmp_path / "odd.py").write_text(MY_RECIPE + ODD)
    assert train.main([str(tmp_path / "odd.py"), "--steps", "2", "--out", str(tmp_path / "run")]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    at = lines.index("by two:")
    assert lines[at + 1 : at + 6] == ["x 2 y", "a 1 0.5", "b array([ 0, 1, 2, 3, 4, … some text", "3 7", "d"]
    assert {
        "verdict: good <b>",
        "nothing:",
        "tensor: 2",
        "cats 12",
        "dogs none",
        "3 tensor([1., 2.])",
        "set: {1}",
    } <= set(lines)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert (
        "<dt>verdict</dt><dd>good &lt;b&gt;</dd>" in page
        and '<th scope="row">a</th><td>1</td><td>0.5</td><td></td>' in page
    )
    kept = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (
        kept["confusion"] == np.eye(30).tolist()
        and kept["by two"]["b"] == {"y": "some text", "x": list(range(40))}
        and kept["counts"]["3"] == [1, 2]
    )


def test_a_metric_that_is_text_is_shown_as_it_is(tmp_path, capsys):
    (tmp_path / "odd.py").write_text(
        MY_RECIPE.replace("float((abs(model(x).data - (2 * x + 1)) < 0.1).mean())", '"splendid"')
    )
    assert (
        train.main([str(tmp_path / "odd.py"), "--steps", "2", "--quiet", "--out", str(tmp_path / "run")]) == 0
    )
    assert "on held-out data: splendid after" in capsys.readouterr().out
    assert "<strong>splendid</strong>" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_default_run_reads_99_of_100_dates_it_has_never_seen(tmp_path, seed):
    train.main(["--seed", str(seed), "--quiet", "--out", str(tmp_path / "run")])
    assert json.loads((tmp_path / "run" / "result.json").read_text())["exact match"] >= 0.99


def test_a_short_run_learns_to_write_plausible_dates():
    """A smaller model in a few seconds: four of five characters of held-out answers right, from one in ten by chance."""
    mg.manual_seed(0)
    recipe = dates.Dates(dict(steps=250, layers=1, d_model=48, lr=5e-3, batch_size=48))
    model = recipe.model()
    fit(recipe, model, evaluate_every=1000)
    rows = recipe.samples(model, 200)
    assert (
        np.mean([a == b for _, answer, iso in rows for a, b in zip(answer.ljust(10), iso, strict=False)])
        > 0.8
    )


# ---------------------------------------------------------------- sentences


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["datse"], ["no recipe 'datse'", "dates"]),
        (["missing.py"], ["no file missing.py"]),
        (["--heads", "3"], ["d_model = 64", "3 heads", "1, 2, 4"]),
    ],
)
def test_what_cannot_be_run_gets_a_sentence_and_status_2(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert train.main(arguments) == 2
    err = capsys.readouterr().err
    assert all(word in err for word in words) and "Traceback" not in err
    assert not list(tmp_path.iterdir())  # no empty run is left behind


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--steps", "0"], "whole number from 1"),
        (["--steps", "many"], "whole number from 1, got 'many'"),
        (["--batch-size", "0"], "whole number from 1"),
        (["--lr", "-1"], "above 0"),
        (["--lr", "nan"], "above 0"),
        (["--dropout", "1"], "from 0 to below 1"),
        (["--seed", "-3"], "whole number from 0"),
        (["--norm", "none"], "invalid choice"),
    ],
)
def test_bad_values_get_a_sentence_and_status_2(capsys, arguments, words):
    with pytest.raises(SystemExit) as stop:
        train.main(arguments)
    assert stop.value.code == 2 and words in capsys.readouterr().err


@pytest.mark.parametrize(("door", "arguments", "sentence"), [
    ("train", ["--steps", "0"], "--steps: needs a whole number from 1, got '0'."),
    ("generate", [], "the following arguments are required: run."),
    ("trace", ["--depth", "0"], "--depth: needs a whole number from 1, or all; got '0'."),
    ("gradcheck.__main__", ["nixda"], "no sample matches nixda; run without a name to see all names."),
])  # fmt: skip
def test_every_door_says_a_mistake_in_two_lines(door, arguments, sentence, capsys):
    with pytest.raises(SystemExit) as stop:
        import_module(f"minigrad.{door}").main(arguments)
    name = f"minigrad.{door.removesuffix('.__main__')}"
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"{name}: {sentence}\nTo see all options: python -m {name} --help\n"


def test_a_run_is_never_written_over(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    status, _ = run_train(tmp_path)
    assert status == 2 and "not empty" in capsys.readouterr().err


def test_new_run_folders_count_up(tmp_path):
    names = [RunFolder.new("dates", tmp_path).path.name for _ in range(3)]
    assert names == ["dates-0001", "dates-0002", "dates-0003"]


class Broken(Recipe):
    name, defaults = "broken", dict(steps=3, batch_size=2, lr=1e-3)

    def __init__(self, batch, value):
        super().__init__({})
        self._batch, self.value = batch, value

    def model(self):
        return mg.nn.Linear(1, 1)

    def batch(self, step):
        return self._batch

    def loss(self, model, batch):
        return model(mg.ones(1, 1)).sum() * self.value


def test_a_loss_that_is_not_a_number_names_the_step_and_what_to_try():
    recipe = Broken([1], math.nan)
    with pytest.raises(TrainingError, match="nan at step 1.*--lr"):
        fit(recipe, recipe.model())


def test_an_empty_batch_is_named():
    recipe = Broken([], 1.0)
    with pytest.raises(TrainingError, match="batch of step 1 is empty"):
        fit(recipe, recipe.model())


def test_a_recipe_file_without_a_recipe(tmp_path, capsys):
    (tmp_path / "empty.py").write_text("x = 1\n")
    assert train.main([str(tmp_path / "empty.py")]) == 2
    assert "extends minigrad.training.Recipe" in capsys.readouterr().err


def test_generate_says_what_is_wrong(tmp_path, capsys):
    assert generate.main([str(tmp_path / "nowhere"), "x"]) == 2
    assert "no run" in capsys.readouterr().err
    _, folder = run_train(tmp_path, "--quiet")
    capsys.readouterr()
    for prompt, words in (("29 növ", "'ö'"), ("1" * 60, "60 characters"), (" ", "empty")):
        assert generate.main([str(folder), prompt]) == 2
        assert words in capsys.readouterr().err
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
    assert generate.main([str(folder), "x"]) == 2
    assert "not a whole safetensors file" in capsys.readouterr().err
    (folder / "config.json").write_text("{")
    assert generate.main([str(folder), "x"]) == 2
    assert "not readable JSON" in capsys.readouterr().err


# ---------------------------------------------------------------- files


def test_transposed_and_shared_arrays_survive_a_file(tmp_path):
    x = np.arange(6.0).reshape(2, 3)
    saving.save_tensors(tmp_path / "t.safetensors", {"x": x.T, "y": mg.tensor(x).T})
    back = saving.load_tensors(tmp_path / "t.safetensors")
    assert np.array_equal(back["x"], x.T) and np.array_equal(back["y"], x.T)


def test_a_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    saving.save_json(tmp_path / "c.json", {"a": 1})
    monkeypatch.setattr(
        saving.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(saving.FileProblem, match="No space left"):
        saving.save_json(tmp_path / "c.json", {"a": 2})
    assert saving.load_json(tmp_path / "c.json") == {"a": 1} and len(list(tmp_path.iterdir())) == 1


# ---------------------------------------------------------------- a recipe of one's own, as the README shows it


EXAMPLE = str(ROOT / "tutorials" / "my_recipe.py")


def test_the_example_recipe_learns_takes_settings_and_answers(tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert train.main([EXAMPLE, "--set", "hidden=48", "--quiet", "--out", folder]) == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["accuracy"] >= 0.98
    assert json.loads((tmp_path / "run" / "config.json").read_text())["settings"]["hidden"] == 48
    capsys.readouterr()
    assert generate.main([folder, "110000", "111000"]) == 0
    assert capsys.readouterr().out == "110000 -> even\n111000 -> odd\n"
    for prompt in ("abc", "11100", "1110002", "11100²"):
        assert generate.main([folder, prompt]) == 2
        assert f"Ask with 6 bits, such as 111111; got {prompt!r}" in capsys.readouterr().err


def test_the_example_recipe_says_how_to_ask_it_with_as_many_bits_as_it_learned(tmp_path, capsys):
    folder = tmp_path / "run"
    assert train.main([EXAMPLE, "--steps", "2", "--set", "bits=4", "--out", str(folder)]) == 0
    assert f'python -m minigrad.generate {folder} "1111"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = (", ["line 1", "SyntaxError"]),
        ("import os\n1 / 0\n", ["line 2", "ZeroDivisionError"]),
        ("import not_there\n", ["line 1", "not_there"]),
        (
            MY_RECIPE.replace("share within 0.1", "share").replace("{self.metric:", '{"shear":'),
            ["metric is 'share'", "shear"],
        ),
        (MY_RECIPE.replace("def model(self)", "def modell(self)"), ["must define model()"]),
        (
            MY_RECIPE + "    def samples(self, model, count=3):\n        return [(1, 2)]\n",
            ["(source, prediction, target)", "(1, 2)"],
        ),
    ],
)
def test_mistakes_in_a_recipe_file_are_sentences(tmp_path, capsys, code, words):
    (tmp_path / "mine.py").write_text(code)
    assert train.main([str(tmp_path / "mine.py"), "--steps", "2", "--out", str(tmp_path / "run")]) == 2
    err = capsys.readouterr().err
    assert all(word in err for word in words), err


@pytest.mark.parametrize(
    ("setting", "words"),
    [("hiden=3", "hidden"), ("hidden", "NAME=VALUE"), ("hidden=many", "like its default 64")],
)
def test_settings_that_are_not_there_or_not_numbers_are_sentences(tmp_path, capsys, setting, words):
    assert train.main([EXAMPLE, "--set", setting, "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err


def test_control_c_during_the_test_keeps_the_weights(tmp_path, capsys, monkeypatch):
    evaluate = dates.Dates.evaluate

    def interrupted(self, model, final=False):
        if final:
            raise KeyboardInterrupt
        return evaluate(self, model)

    monkeypatch.setattr(dates.Dates, "evaluate", interrupted)
    status, folder = run_train(tmp_path)
    assert status == 130 and "the weights are in" in capsys.readouterr().out
    assert saving.load_tensors(folder / "model.safetensors")


def test_a_models_folder_in_the_way_is_said_or_does_no_harm(tmp_path):
    """(After pip install -e the right package is found all the same.)"""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text("")
    for arguments in (["minigrad.train", "--list"], ["minigrad.gradcheck", "tanh"]):
        done = subprocess.run([sys.executable, "-m", *arguments], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"})  # fmt: skip
        assert done.returncode == 0 or (
            done.returncode == 2 and "with that name is found first" in done.stderr
        )
        assert "Traceback" not in done.stderr


class Wrong(Recipe):
    """One mistake at a time."""

    name, metric, defaults, mistake = "wrong", "error", dict(steps=2, batch_size=2, lr=1e-3), ""

    def model(self):
        return mg.nn.Linear(2, 1)

    def batch(self, step):
        return None if self.mistake == "batch" else np.ones((2, 2), np.float32)

    def loss(self, model, batch):
        loss = (model(batch) ** 2).mean()
        return {"number": loss.item(), "history": loss.detach()}.get(self.mistake, loss)

    def evaluate(self, model, final=False):
        return {"none": None, "taken": {"error": 1.0, "loss": 2.0}}.get(self.mistake, {"error": 1.0})


@pytest.mark.parametrize(("mistake", "said"), [
    ("batch", "must return arrays, or a tuple of them, and returned None at step 1"), ("number", "must return a Tensor, computed from the model's output"),
    ("history", "has no history, so there is no gradient"), ("none", "must return a dict of figures by name, got None"),
    ("taken", "a figure named 'loss', which the row of each step uses already"),
])  # fmt: skip
def test_a_recipes_mistake_is_a_sentence(mistake, said):
    recipe = type("It", (Wrong,), {"mistake": mistake})({})
    with pytest.raises(TrainingError) as error:
        fit(recipe, recipe.model())
    assert said in str(error.value)
