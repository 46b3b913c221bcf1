"""Events for TensorBoard: the figures of every row, each step once, also after a resume; a sentence where tensorboardX is missing."""

import json
import struct
import sys

import pytest

from minigrad import train
from minigrad.training import progress
from minigrad.training.loop import Training
from minigrad.training.tensorboard import figures

SMALL = [
    "dates",
    "--steps",
    "4",
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
    "--save-every",
    "2",
]


@pytest.fixture(autouse=True)
def no_test(monkeypatch):
    monkeypatch.setattr(progress, "finish", lambda *_: None)


def events(folder):
    """{name: [(step, value)]} of all event files: records of a length, its checksum, the event, its checksum."""
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in (folder / "tensorboard").iterdir():
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event = Event.FromString(data[12 : 12 + length])
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
            data = data[16 + length :]
    return found


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_every_step_stands_there_once_also_after_a_resume(tmp_path, monkeypatch, capsys):
    pytest.importorskip("tensorboardX")
    folder, step = tmp_path / "run", Training.step
    with monkeypatch.context() as patch:
        # step 3 is logged, and no checkpoint has it
        patch.setattr(Training, "step", lambda self: step(self) if self.done < 3 else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train.main([*SMALL, "--quiet", "--tensorboard", "--out", str(folder)])
    assert [s for s, _ in events(folder)["loss"]] == [1, 2, 3]
    assert train.main(["--resume", str(folder), "--quiet"]) == 0
    found = events(folder)
    assert [s for s, _ in found["loss"]] == [1, 2, 3, 4] and [v for _, v in found["loss"]] == pytest.approx(
        [row["loss"] for row in rows(folder)]
    )
    assert {
        "lr",
        "gradient_norm",
        "exact_match",
        "gradient_norm_by_layer/embedding",
        "samples/0/text_summary",
    } <= set(found)


def test_a_resume_may_begin_it(tmp_path):
    pytest.importorskip("tensorboardX")
    folder = tmp_path / "run"
    assert (
        train.main([*SMALL, "--quiet", "--out", str(folder)]) == 0 and not (folder / "tensorboard").exists()
    )
    assert train.main(["--resume", str(folder), "--steps", "6", "--tensorboard", "--quiet"]) == 0
    assert [s for s, _ in events(folder)["loss"]] == [1, 2, 3, 4, 5, 6]


def test_without_tensorboardx_it_is_said_before_anything_starts_and_a_resume_goes_on(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert train.main([*SMALL, "--tensorboard", "--out", str(tmp_path / "run")]) == 2
    assert 'pip install -e ".[log]"' in capsys.readouterr().err and not (tmp_path / "run").exists()
    assert train.main([*SMALL, "--quiet", "--out", str(tmp_path / "run")]) == 0
    assert train.main(["--resume", str(tmp_path / "run"), "--steps", "5", "--tensorboard", "--quiet"]) == 0
    assert (
        "The run continues without TensorBoard." in capsys.readouterr().err
        and len(rows(tmp_path / "run")) == 5
    )


def test_names_and_numbers():
    row = {
        "gradient norm by layer": {"a b": 1},
        "dead units": {"mlp": (3, 4)},
        "text": "x",
        "yes": True,
        "none": None,
    }
    assert [*figures(row)] == [
        ("gradient_norm_by_layer/a_b", 1.0),
        ("dead_units/mlp/0", 3.0),
        ("dead_units/mlp/1", 4.0),
    ]
