"""python -m minigrad.runs: the state of every run, figures, what differs from the defaults; whatever lies in the folders."""

import json
import shutil

import pytest

from minigrad import runs, saving, train
from minigrad.training import progress
from minigrad.training.folder import RunFolder

SMALL = [
    "dates",
    "--steps",
    "3",
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


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A run that is finished but for its test."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "finish", lambda *_: None)
        assert train.main([*SMALL, "--seed", "3", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def many(one, tmp_path):
    """stopped, finished, broken off and broken runs, and what is none."""
    folder = tmp_path / "runs"
    for name in ("finished", "stopped", "off", "broken", "newer"):
        shutil.copytree(one, folder / name)
    saving.save_json(folder / "finished" / "result.json", {"steps": 3, "exact match": 0.25})
    rows = (folder / "stopped" / "metrics.jsonl").read_text().splitlines(keepends=True)
    # killed while it wrote
    (folder / "stopped" / "metrics.jsonl").write_text("".join(rows[:2]) + rows[2][:20])
    RunFolder(folder / "off").broken.write_text("The loss became nan at step 4.\n")
    (folder / "broken" / "config.json").write_text('{"recipe": "dates", "seed": ')
    saving.save_json(
        folder / "newer" / "config.json", {**json.loads((one / "config.json").read_text()), "version": 99}
    )
    (folder / "empty").mkdir()
    (folder / "a file").write_text("")
    return folder


def listed(capsys, *words):
    assert runs.main([*map(str, words), "--json"]) == 0
    return {run["run"]: run for run in json.loads(capsys.readouterr().out)}


def test_states_and_figures(many, capsys):
    found = listed(capsys, many)
    assert {name: run["state"] for name, run in found.items()} == {
        "finished": "finished",
        "stopped": "stopped at step 2",
        "off": "failed at step 3",
        "broken": "broken",
        "newer": "broken",
    }
    done = found["finished"]
    assert (
        (done["steps"], done["of"], done["metric"], done["value"]) == (3, 3, "exact match", 0.25)
        and done["loss"] > 0
        and done["seconds"] > 0
    )
    assert done["settings"] == {
        "steps": 3,
        "batch_size": 4,
        "d_model": 8,
        "layers": 1,
        "heads": 1,
        "d_ff": 8,
        "seed": 3,
    }
    assert (
        found["off"]["problem"] == "The loss became nan at step 4."
        and "newer minigrad" in found["newer"]["problem"]
    )
    assert found["stopped"]["value"] is None  # it was not yet measured


def test_a_run_that_is_written_is_running(many, capsys):
    pytest.importorskip("fcntl")
    log = saving.Lines(many / "stopped" / "metrics.jsonl")
    try:
        assert listed(capsys, many / "stopped")["stopped"]["state"] == "running"
    finally:
        log.close()
    assert listed(capsys, many / "stopped")["stopped"]["state"] == "stopped at step 2"


def test_the_table_and_its_order(many, capsys):
    assert runs.main([str(many)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["run", "recipe", "state", "steps"] and len(lines) == 6
    assert "exact match 25.0%" in lines[2] and "layers=1" in lines[2] and "3/3" in lines[2]
    saving.save_json(many / "off" / "result.json", {"steps": 3, "exact match": 0.75})
    for key in runs.KEYS:
        assert runs.main([str(many), "--sort", key]) == 0
        names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
        assert sorted(names) == ["broken", "finished", "newer", "off", "stopped"]
        assert key != "metric" or names.index("off") < names.index("finished") < names.index("stopped")


def test_no_folder_no_runs_and_a_wrong_key(tmp_path, capsys):
    assert runs.main([str(tmp_path / "nowhere")]) == 2 and "there is no folder" in capsys.readouterr().err
    assert runs.main([str(tmp_path)]) == 0 and "There are no runs in" in capsys.readouterr().out
    assert runs.main([str(tmp_path), "--json"]) == 0 and capsys.readouterr().out == "[]\n"


@pytest.mark.parametrize(("name", "text"), [
    ("config.json", '{"recipe": "dates", "seed": 0, "settings": {"steps": "\\u001b[2J"}}'), ("config.json", "[" * 100_000), ("config.json", '{"recipe": "no.py", "seed": 0, "settings": {}}'),
    ("config.json", '{"recipe": "my.py", "seed": 0, "settings": {}, "command": "python -m x my.py --layers \'"}'), ("config.json", '{"recipe": "dates", "seed": 0, "settings": {}, "metric": []}'),
    ("metrics.jsonl", "\x00" * 1000), ("metrics.jsonl", '{"step": "9", "loss": []}\n'), ("metrics.jsonl", '{"step": 9, "loss": NaN, "seconds": "x"}\n'), ("metrics.jsonl", ""),
    ("result.json", "[]"), ("result.json", "{"), ("broken.txt", "\x1b[31m\udcff"),
])  # fmt: skip
def test_whatever_lies_there_is_listed_in_a_line(one, tmp_path, capsys, name, text):
    shutil.copytree(one, tmp_path / "runs" / "bad")
    shutil.copytree(one, tmp_path / "runs" / "good")
    (tmp_path / "runs" / "bad" / name).write_bytes(text.encode(errors="surrogateescape"))
    assert runs.main([str(tmp_path / "runs")]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 3 and "\x1b" not in out and out.splitlines()[2].startswith("good  dates")
    json.dumps(listed(capsys, tmp_path / "runs"))


def test_a_recipe_of_ones_own_is_not_run_to_be_listed(one, tmp_path, capsys):
    shutil.copytree(one, tmp_path / "mine")
    (tmp_path / "my.py").write_text("raise SystemExit('run')")
    config = json.loads((one / "config.json").read_text())
    config |= {
        "recipe": str(tmp_path / "my.py"),
        "command": "python -m minigrad.train my.py --layers 1 --set depth=3 --seed 3",
        "metric": "loss on new data",
    }
    saving.save_json(tmp_path / "mine" / "config.json", config)
    run = listed(capsys, tmp_path / "mine")["mine"]
    assert (run["recipe"], run["settings"], run["metric"]) == (
        "my",
        {"layers": "1", "depth": "3", "seed": 3},
        "loss on new data",
    )


def test_why_a_training_broke_off_is_kept_until_it_goes_on(one, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress, "finish", lambda *_: None)
    with monkeypatch.context() as patch:
        patch.setattr(progress, "check_samples", lambda samples: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train.main([*SMALL, "--out", str(tmp_path / "run")])
    assert listed(capsys, tmp_path / "run")["run"]["problem"] == "division by zero"
    assert train.main(["--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert not RunFolder(tmp_path / "run").broken.exists()


def test_a_recipe_whose_metric_depends_on_its_settings_is_listed_with_it(one, tmp_path, capsys):
    shutil.copytree(one, tmp_path / "runs" / "t")
    config = saving.load_json(one / "config.json")
    saving.save_json(
        tmp_path / "runs" / "t" / "config.json", {**config, "recipe": "translate", "metric": "chrF"}
    )
    shutil.copytree(one, tmp_path / "runs" / "d")
    assert runs.main([str(tmp_path / "runs"), "--sort", "metric"]) == 0
    capsys.readouterr()
    assert listed(capsys, tmp_path / "runs")["t"]["metric"] == "chrF"
