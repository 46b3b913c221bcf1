"""Tests of the attention explorer: weights recorded from any model, and its page, read in a browser."""

import json
import re

import numpy as np
import pytest
from browser import opened

import minigrad as mg
from minigrad import attend, nn, train, viz
from minigrad.viz.explorer import LONGEST, entropy, most
from models import recipes
from models.attended import Attended, attended
from models.attention import MultiHeadAttention, causal_mask
from models.transformer import Transformer

TEXTS = {
    "dates": "29/11/26",
    "reverse": "abc",
    "sort": "cab",
    "copy": "abc",
    "add": "12+7",
    "text": "The ",
    "mlm": "the _ow",
    "recall": "c7 a3 . , c?",
}
SMALL = [
    "--steps",
    "4",
    "--layers",
    "2",
    "--d-model",
    "16",
    "--d-ff",
    "16",
    "--heads",
    "2",
    "--batch-size",
    "4",
    "--quiet",
]


class Own(nn.Module):
    """A learner's model: our attention layer in a module of their own."""

    def __init__(self, causal=False):
        self.causal, self.embedding, self.look = causal, nn.Embedding(10, 8), MultiHeadAttention(8, 2)

    def forward(self, tokens):
        x = self.embedding(mg.tensor(tokens))
        return self.look(x, mask=causal_mask(tokens.shape[1]) if self.causal else None)


def row(weights, kind="encoder", writes=None):
    queries, keys = weights.shape[1:]
    return Attended(
        "look", kind, weights, [f"q{i}" for i in range(queries)], [f"k{i}" for i in range(keys)], writes
    )


# ---------------------------------------------------------------- recorded weights


@pytest.mark.parametrize(("causal", "kind"), [(False, "encoder"), (True, "decoder")])
def test_the_weights_of_a_learners_model_are_recorded(causal, kind):
    model, tokens = Own(causal), np.array([[3, 1, 4, 1, 5]])
    (found,) = attended(model, tokens)
    mask = causal_mask(5) if causal else None
    with mg.no_grad():
        _, weights = model.look(model.embedding(mg.tensor(tokens)), mask=mask, need_weights=True)
    assert np.array_equal(found.weights, weights.data[0])
    assert (found.path, found.kind, found.queries) == ("look", kind, ["3", "1", "4", "1", "5"])


def test_layers_are_restored_even_after_an_error():
    model = Own()
    with pytest.raises(IndexError, match="99"):
        attended(model, np.array([[99]]))
    assert not model.look.keep_weights and model.look.weights is None and model.training


def test_an_encoder_decoder_has_all_three_kinds_even_if_source_and_target_have_equal_lengths():
    model = Transformer(10, 8, 2, 1, 16)
    rows = attended(model, np.array([[1, 2, 3]]), np.array([[4, 5, 6]]), writes=["5", "6", "end"])
    assert [r.kind for r in rows] == ["encoder", "decoder", "cross"]
    assert [(r.queries[0], r.keys[0], r.writes) for r in rows] == [
        ("1", "1", None),
        ("4", "4", ["5", "6", "end"]),
        ("4", "1", ["5", "6", "end"]),
    ]


@pytest.mark.parametrize("name", TEXTS)
def test_every_recipe_labels_what_its_model_reads_and_writes(name):
    recipe = recipes.find(name)({**recipes.find(name).defaults, "d_model": 16, "layers": 1})
    model = recipe.model().eval()
    text = TEXTS[name].replace("_", getattr(recipe, "hole", "_"))
    inputs, labels = recipe.reading(model, text)
    rows = attended(model, *inputs, **labels)
    assert rows and all(np.allclose(r.weights.sum(-1), 1, atol=1e-5) for r in rows)
    for r in rows:
        assert r.weights.shape[1:] == (len(r.queries), len(r.keys)) and len(r.writes or r.queries) == len(
            r.queries
        )
    assert rows[-1].writes is not None and labels["writes"] == rows[-1].writes


def test_the_written_tokens_are_the_answer_and_each_is_the_next_query():
    recipe = recipes.find("dates")(
        {**recipes.find("dates").defaults, "model": "gru-attention", "layers": 1, "d_model": 16}
    )
    model = recipe.model().eval()
    inputs, labels = recipe.reading(model, "29/11/26")
    (found,) = attended(model, *inputs, **labels)
    assert "".join(found.writes).removesuffix("end") == recipe.answer(model, ["29/11/26"])[0]
    assert found.kind == "cross" and found.queries[1:] == found.writes[:-1] and found.keys == [*"29/11/26"]


# ---------------------------------------------------------------- the page's numbers and errors


def test_entropy_is_0_for_one_token_and_log2_n_for_uniform_weights():
    one, alike = np.eye(4)[None], np.full((1, 4, 8), 1 / 8)
    assert entropy(one) == 0 and entropy(alike) == 3 == most(alike.shape, "cross")
    back = np.tril(np.ones((1, 4, 4))) / np.arange(1, 5)[:, None]
    assert np.isclose(entropy(back)[0], most(back.shape, "decoder"))


def test_no_attention_or_too_much_raises(tmp_path):
    with pytest.raises(ValueError, match="has no attention to show"):
        viz.attention([("text", [])], tmp_path / "x.html")
    with pytest.raises(ValueError, match=f"{LONGEST + 1} tokens is too long .* up to {LONGEST}"):
        viz.attention([row(np.ones((1, LONGEST + 1, 2)))], tmp_path / "x.html")
    many = [row(np.broadcast_to(np.float32(0), (64, 128, 128)))]
    with pytest.raises(ValueError, match="fewer or shorter texts"):
        viz.attention(many, tmp_path / "x.html")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attend") / "run"
    assert train.main([*SMALL, "--out", str(folder)]) == 0
    return folder


def test_the_command_writes_a_page_of_the_given_texts(run, tmp_path, capsys):
    assert attend.main([str(run), "29/11/26", "3 May 1999", "--out", str(tmp_path / "two.html")]) == 0
    page = (tmp_path / "two.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert [record["name"].split(" → ")[0] for record in data["records"]] == ["29/11/26", "3 May 1999"]
    assert "encoder 2 x 2 heads, decoder 2 x 2 heads, cross 2 x 2 heads" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["naïve"], "contains 'ï'"),
        (["1/2/99", "--out", "no/such/folder/x.html"], "could not be written: No such file"),
    ],
)
def test_wrong_arguments_of_the_command_are_reported(run, capsys, more, message):
    assert attend.main([str(run), *more]) == 2
    assert message in capsys.readouterr().err


SENTENCES = "to be or not to be, that is the question. " * 40
PAIRED = "".join(f"{n} and {n + 1}\t{n + 1} after {n}\n" for n in range(300))


@pytest.mark.parametrize(
    ("name", "option", "given"),
    [
        ("text", "--text", SENTENCES),
        ("text", "--text", SENTENCES + "___"),
        ("mlm", "--text", SENTENCES),
        ("mlm", "--text", SENTENCES + "___" * 9),
        ("translate", "--pairs", PAIRED),
    ],
)
def test_without_a_text_the_command_takes_the_example_stored_in_the_run(
    tmp_path, capsys, name, option, given
):
    file, folder = tmp_path / "given", tmp_path / "run"
    file.write_text(given)
    assert train.main([name, *SMALL, option, str(file), "--context", "16", "--out", str(folder)]) == 0
    file.unlink()  # it is not needed any more
    assert attend.main([str(folder)]) == 0, capsys.readouterr().err
    recipe, _ = recipes.load_run(folder)
    page = (folder / "attention.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert recipe.example and data["records"][0]["name"].startswith(f"{recipe.example} → ")
    assert name != "mlm" or recipe.hole in recipe.example


def test_a_run_without_an_example_needs_a_text(tmp_path, capsys):
    file, folder = tmp_path / "given", tmp_path / "run"
    file.write_text(SENTENCES)
    assert train.main(["text", *SMALL, "--text", str(file), "--context", "8", "--out", str(folder)]) == 0
    config = json.loads((folder / "config.json").read_text())
    del config["settings"]["example"]
    (folder / "config.json").write_text(json.dumps(config))
    assert (
        attend.main([str(folder)]) == 2
        and "this run has no example, so give a text" in capsys.readouterr().err
    )


def test_a_model_without_attention_is_reported(tmp_path, capsys):
    assert train.main([*SMALL, "--model", "lstm", "--out", str(tmp_path / "lstm")]) == 0
    assert attend.main([str(tmp_path / "lstm")]) == 2
    assert "no attention to show" in capsys.readouterr().err


# ---------------------------------------------------------------- in a browser


def shown(page):
    """The weights below the keys, masked ones as 0."""
    texts = page.locator("#keys li small").all_inner_texts()
    return np.array([0.0 if text == "masked" else float(text) for text in texts])


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    """A page of two texts: (path, rows of each text)."""
    recipe, model = recipes.load_run(run)
    records = []
    for text in ("29/11/26", "3 May 1999"):
        inputs, labels = recipe.reading(model, text)
        records.append((text, attended(model, *inputs, **labels)))
    return viz.attention(records, tmp_path_factory.mktemp("page") / "page.html"), [
        rows for _, rows in records
    ]


def test_the_weights_of_every_layer_head_and_token_are_the_models(page):
    path, (rows, _) = page
    with opened(path) as seen:
        for kind in ("encoder", "decoder", "cross"):
            seen.page.click(f"#tab-{kind}")
            for layer, r in enumerate(r for r in rows if r.kind == kind):
                for head, weights in enumerate([*r.weights, r.weights.mean(0)]):
                    seen.page.click(f'#heads button[data-layer="{layer}"][data-head="{head}"]')
                    caption = seen.page.locator("#heads [aria-pressed=true]").inner_text()
                    assert f"{entropy(weights):.2f} of {most(r.weights.shape, kind):.2f} bits" in caption
                    for query in (0, len(weights) - 1):
                        seen.page.locator("#queries button").nth(query).click()
                        assert np.allclose(shown(seen.page), weights[query], atol=5.1e-4)
        assert seen.quiet()


def test_pointing_and_keys_choose_tabs_heads_tokens_and_texts(page):
    path, (rows, others) = page
    cross, other = (next(r for r in some if r.kind == "cross") for some in (rows, others))
    with opened(path) as seen:
        tab = seen.page
        tab.click('#heads button[data-layer="0"][data-head="0"]')
        tab.keyboard.press("ArrowRight")
        assert tab.locator("#chosen").inner_text() == "Layer 1, head 2"
        tab.locator("#queries button").nth(0).focus()
        tab.keyboard.press("ArrowRight")
        assert np.allclose(shown(tab), cross.weights[1, 1], atol=5.1e-4)
        tab.locator("#map").scroll_into_view_if_needed()
        box = tab.locator("#map").bounding_box()
        size, left, top = tab.evaluate("[drawMap.size, drawMap.left, drawMap.top]")
        tab.mouse.move(box["x"] + left + 2.5 * size, box["y"] + top + 3.5 * size)
        assert np.allclose(shown(tab), cross.weights[1, 3], atol=5.1e-4)
        assert tab.locator("#keys li.pointed").inner_text().startswith(cross.keys[2])
        tab.locator("#tab-cross").focus()
        tab.keyboard.press("ArrowLeft")
        assert tab.locator("#tabs [aria-selected=true]").inner_text() == "Decoder"
        tab.keyboard.press("End")
        tab.select_option("#record", "1")
        tab.click('#heads button[data-layer="0"][data-head="0"]')
        tab.locator("#queries button").nth(2).hover()
        assert np.allclose(shown(tab), other.weights[0, 2], atol=5.1e-4)
        assert seen.quiet()


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_a_phone_dark_and_light(page, dark):
    with opened(page[0], width=360, height=700, dark=dark) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360
        back = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", back))) < 200) == dark
        assert seen.quiet()


def test_labels_are_text_whatever_they_hold(tmp_path):
    strange = row(np.full((1, 2, 2), 0.5), "cross", ["</script><b>", "\n"])._replace(keys=["<i>x</i>", " "])
    with opened(viz.attention([("<b>a</b> & b", [strange])], tmp_path / "x.html")) as seen:
        assert seen.page.locator("#text").inner_text() == "<b>a</b> & b"
        assert seen.page.locator("#keys li").nth(0).inner_text().startswith("<i>x</i>")
        assert seen.page.locator("#keys li").nth(1).inner_text().startswith("␣") and seen.quiet()
