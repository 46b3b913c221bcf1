"""The recipe recall: its questions, that the models do not touch each other, its figures and pictures; the claim itself is slow."""

import json
import re

import numpy as np
import pytest
from oracle import near

import minigrad as mg
from minigrad import functional as F
from minigrad import generate, train
from models.recipes import recall

SMALL = ["recall", "--steps", "4", "--batch-size", "8", "--d-model", "8", "--distance", "6"]


def small(**settings):
    mg.manual_seed(0)
    return recall.Recall({"d_model": 8, "batch_size": 8, "distance": 6, **settings})


# ---------------------------------------------------------------- the questions


@pytest.mark.parametrize("asked", range(recall.PAIRS))
@pytest.mark.parametrize("distance", (2, 3, 20))
def test_the_pair_asked_for_stands_where_it_should_and_only_there(distance, asked):
    tokens, values = recall.questions(np.random.default_rng(0), 200, distance, asked)
    for row, value in zip(tokens, values, strict=True):
        words = [recall.TOKENS[t] for t in row]
        key = words[-1].removesuffix("?")
        places = [i for i, word in enumerate(words[:-1]) if word.startswith(key)]
        assert places == [len(words) - 1 - distance] == [asked]
        assert words[places[0]] == key + recall.VALUES[value]
        assert not set("".join(words[recall.PAIRS : -1])) - set(recall.NOISE)


def test_nothing_before_the_question_tells_which_pair_it_will_be():
    first, second = (
        recall.questions(np.random.default_rng(0), 50, 8, asked)[0][:, :-1] for asked in range(2)
    )
    # the same pairs in the same places, whichever is asked for
    assert np.array_equal(first[:, :2], second[:, :2])


def test_batches_depend_on_seed_and_step_and_are_not_what_is_tested():
    recipe = small()
    assert np.array_equal(recipe.batch(3)[0], recipe.batch(3)[0])
    assert not np.array_equal(recipe.batch(3)[0][:, :2], recipe.batch(4)[0][:, :2])
    distances = {len(recipe.batch(step)[0][0]) for step in range(100)}
    assert distances == set(range(3, 9))  # one pair before, or none, then distances 2 to 6, then the question


# ---------------------------------------------------------------- side by side


def test_no_model_touches_another():
    recipe, alone = small(), {}
    together = recipe.model()
    batch = recipe.batch(0)
    recipe.loss(together, batch).backward()
    norm = recipe.clip(together, 0.01)
    for name, one in together.items():
        alone[name] = [p.grad.data for p in one.parameters()]
        one.zero_grad()
        F.cross_entropy(one(batch[0]), batch[1]).backward()
        own = mg.nn.utils.clip_grad_norm_(one.parameters(), 0.01)
        assert own <= norm
        for p, g in zip(one.parameters(), alone[name], strict=True):
            near(p.grad, g, 1e-6)


def test_the_signal_of_an_untrained_rnn_fades_with_the_distance_and_attentions_does_not():
    recipe = small(d_model=32, distance=32)
    model = recipe.model()
    near_by, far = recipe.gradient(model, 2), recipe.gradient(model, 32)
    assert far["rnn"] < 1e-6 * near_by["rnn"]
    assert far["rnn"] < far["gru"] < far["lstm"] < far["transformer"]
    assert far["transformer"] > 0.03 * near_by["transformer"]


# ---------------------------------------------------------------- runs


def test_samples_name_the_models_and_the_answer_is_said_once():
    recipe = small()
    tokens, values, _ = next(recipe.held_out(2, recall.PAIRS))
    right = recall.VALUES[values[0]]
    wrong = recall.VALUES[(values[0] + 1) % len(recall.VALUES)]
    recipe.answers = lambda model, tokens: [(right, wrong, right, right)]
    assert recipe.samples(None)[0][1:] == (
        f"rnn {right}, lstm {wrong}, gru {right}, transformer {right}",
        right,
    )
    recipe.answers = lambda model, tokens: [(right,) * 4]
    _, said, target = recipe.samples(None)[0]
    assert said == target == f"rnn {right}, lstm {right}, gru {right}, transformer {right}"


def test_a_run_draws_the_two_panels_and_saves_the_table(tmp_path, capsys):
    assert train.main([*SMALL, "--out", str(tmp_path)]) == 0
    assert {"recall.png", "loss.png", "result.json"} <= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "recall.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "result.json").read_text())
    for table in (recall.ACCURACY, recall.GRADIENT, recall.UNTRAINED):
        assert {name: list(row) for name, row in result[table].items()} == dict.fromkeys(
            ("rnn", "lstm", "gru", "transformer"), ["2", "4", "6"]
        )
    said = capsys.readouterr().out
    assert f"{recall.ACCURACY}:\n" in said and "recall.png" in said
    assert (
        "accuracy of the transformer at distance 6 on held-out data" in said
        and "accuracy of the rnn at distance 6:" in said
    )
    assert generate.main([str(tmp_path), "c7 a3 . c?", "z9"]) == 2
    said = capsys.readouterr()
    assert (
        re.fullmatch(r"c7 a3 . c\? -> rnn \d, lstm \d, gru \d, transformer \d\n", said.out)
        and "'z9'" in said.err
    )


def test_one_model_alone(tmp_path):
    assert train.main([*SMALL, "--model", "gru", "--quiet", "--out", str(tmp_path)]) == 0
    assert list(json.loads((tmp_path / "result.json").read_text())[recall.ACCURACY]) == ["gru"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "mamba"], "can be all, rnn, lstm, gru, transformer"),
        (["--distance", "1"], "at least 2"),
        (["--heads", "3"], "cannot be divided equally"),
    ],
)
def test_mistakes_get_a_sentence_and_status_2(options, words, tmp_path, capsys):
    assert train.main(["recall", *options, "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("seed", (0, 1))
def test_the_transformer_holds_where_the_plain_rnn_is_at_chance(seed, tmp_path):
    train.main(["recall", "--quiet", "--seed", str(seed), "--out", str(tmp_path)])
    accuracy = json.loads((tmp_path / "result.json").read_text())[recall.ACCURACY]
    assert accuracy["transformer"]["64"] >= 0.99
    assert accuracy["rnn"]["64"] < 1 / len(recall.VALUES) + 0.05
    assert min(accuracy[name]["64"] for name in ("lstm", "gru")) > 0.9
