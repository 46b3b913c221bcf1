"""The report of a run: what it shows is what was trained, the command in it repeats the run, and a browser finds nothing wrong."""

import html
import json
import re
import shlex
import signal

import numpy as np
import pytest
from browser import opened

import minigrad as mg
from minigrad import nn, saving, train, viz
from minigrad.training import Recipe
from minigrad.training.diary import AFTER, BEFORE, Diary, interval
from minigrad.training.figures import activation_scale, shared_modules, titles
from minigrad.training.folder import RunFolder
from minigrad.training.health import NORMS, layer_norms, layer_of
from minigrad.training.loop import fit
from minigrad.viz import svg
from models import recipes
from models.attended import attended

SMALL = [
    "--steps",
    "6",
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


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "run"
    assert train.main([*SMALL, "--seed", "5", "--norm", "pre", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def page(run):
    return (run / "report.html").read_text(encoding="utf-8")


def rows_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def recipe_of(name, **settings):
    return recipes.find(name)(
        {**recipes.find(name).defaults, "layers": 1, "d_model": 16, "steps": 3, "batch_size": 4, **settings}
    )


class Plain(Recipe):
    """A learner's recipe with nothing but what must be there."""

    name, defaults, metric = "plain", dict(steps=3, batch_size=4, lr=1e-2), None

    def model(self):
        return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))

    def batch(self, step):
        return np.full((4, 2), 2.0, np.float32)

    def loss(self, model, batch):
        return (model(mg.tensor(batch)) ** 2).mean()


# ---------------------------------------------------------------- what is measured


@pytest.mark.parametrize(("path", "layer"), [
    ("encoder.0.linear1.weight", "encoder.0"), ("embedding.weight", "embedding"), ("transformer.layers.1.norm.bias", "transformer.layers.1"), ("2.bias", "2"),
])  # fmt: skip
def test_a_parameter_belongs_to_the_layer_that_its_name_says(path, layer):
    assert layer_of(path) == layer


def test_the_layers_gradients_together_are_the_whole_gradient():
    model = Plain({}).model()
    (model(mg.randn(4, 2)) ** 2).mean().backward()
    norms = layer_norms(model)
    whole = np.concatenate([p.grad.data.ravel() for p in model.parameters()])
    assert list(norms) == ["0", "1"] and np.isclose(sum(n * n for n in norms.values()), (whole**2).sum())


def test_the_scale_of_activations_is_the_root_mean_square_of_what_a_layer_gives():
    recipe = Plain({})
    model = recipe.model()
    hidden = model[0](mg.tensor(recipe.batch(0))).data
    scales = activation_scale(recipe, model)
    assert list(scales) == ["0", "1"] and np.isclose(scales["0"], np.sqrt((hidden**2).mean()), rtol=1e-5)


def test_layers_stand_in_forward_order_also_where_an_embedding_is_used_again():
    recipe = recipe_of("dates", layers=2, norm="pre", d_ff=16, heads=2)
    found = list(activation_scale(recipe, recipe.model()))
    assert found == [
        "embedding",
        "positions",
        "encoder.0",
        "encoder.1",
        "encoder_norm",
        "decoder.0",
        "decoder.1",
        "decoder_norm",
        "the model itself",
    ]


def test_an_activation_that_layers_share_counts_for_the_layer_that_runs():
    class Block(nn.Module):
        def __init__(self, activation, scale):
            self.activation, self.weight = activation, nn.Parameter(mg.tensor([scale]))

        def forward(self, x):
            return self.activation(x * self.weight) * 1.0

    class Encoder(nn.Module):
        def __init__(self):
            relu = nn.ReLU()
            self.layers = nn.ModuleList([Block(relu, 3.0), Block(relu, 5.0), Block(relu, 7.0)])

        def forward(self, x):
            x = x * 1.0
            for layer in self.layers:
                x = layer(x)
            return x * 0.5

    class Stacked(Plain):
        def model(self):
            return nn.ModuleDict({"encoder": Encoder(), "head": nn.Linear(2, 1)})

        def loss(self, model, batch):
            return model["head"](model["encoder"](mg.tensor(batch))).mean()

    recipe = Stacked({})
    scales = activation_scale(recipe, recipe.model())
    assert list(scales) == ["encoder.layers.0", "encoder.layers.1", "encoder.layers.2", "encoder", "head"]
    assert np.allclose(list(scales.values())[:4], [6, 30, 210, 105])


def test_a_layer_in_two_places_is_one_layer():
    block = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model = nn.ModuleList([nn.Tanh(), block, block])
    assert shared_modules(model) == set()


def test_layers_of_a_sequential_are_called_by_what_they_are(tmp_path):
    recipe = Plain({})
    model = nn.ModuleDict({"net": recipe.model()})
    assert titles(model) == {"net.0": "net.0 Linear", "net.1": "net.1 Linear"}
    diary = Diary(recipe, model["net"], attended, "")
    rows = fit(recipe, model["net"], diary)
    diary.finish(RunFolder(tmp_path), rows, {})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (
        "In the order they first finished: (1) 0 Linear, (2) 1 Linear" in page
        and '<th scope="row">0 Linear</th>' in page
        and "</svg>1 Linear</li>" in page
    )


def test_a_diary_changes_nothing_of_the_training():
    def losses(with_diary):
        mg.manual_seed(0)
        recipe = recipe_of("dates", dropout=0.1)
        model = recipe.model()
        return [
            row["loss"]
            for row in fit(recipe, model, Diary(recipe, model, attended, "") if with_diary else None)
        ]

    assert losses(True) == losses(False)


def test_before_and_after_read_the_same_tokens_and_the_model_stays_trained():
    recipe = recipe_of("reverse")
    model = recipe.model()
    diary = Diary(recipe, model, attended, "")
    fit(recipe, model, diary)
    trained = {name: t.data.copy() for name, t in model.state_dict().items()}
    (after, rows), (before, untrained) = diary.attention()
    assert after.endswith(AFTER) and before.endswith(BEFORE)
    assert [r.queries for r in rows] == [r.queries for r in untrained] and not np.array_equal(
        rows[0].weights, untrained[0].weights
    )
    assert all(np.array_equal(t.data, trained[name]) for name, t in model.state_dict().items())


def test_gradients_by_layer_are_measured_densely_at_first_and_seldom_later():
    def measured(last, steps):
        return [step for step in range(1, last + 1) if step % interval(step, max(1, steps // 60)) == 0]

    assert measured(20, 100_000) == [*range(1, 17), 18, 20]
    assert len(measured(909, 100_000)) >= 50 and len(measured(100_000, 100_000)) < 160
    recipe = Plain(dict(steps=600))
    rows = fit(recipe, model := recipe.model(), Diary(recipe, model, attended, ""))
    assert [row["step"] for row in rows if NORMS in row] == measured(600, 600)


def test_a_run_that_was_stopped_says_so_and_keeps_the_chart_of_its_metric(tmp_path, monkeypatch):
    batch = recipes.find("dates").batch

    def interrupted(self, step):
        if step == 101:
            signal.raise_signal(signal.SIGINT)
        return batch(self, step)

    monkeypatch.setattr(recipes.find("dates"), "batch", interrupted)
    assert train.main([*SMALL, "--steps", "100000", "--out", str(tmp_path / "run")]) == 130
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert (
        "The run was stopped at step 102 of 100,000." in page
        and "exact match, on data never trained on" in page
    )
    assert (
        "To repeat this run, which was stopped at step 102 of 100,000 (the command runs to the end):" in page
    )


@pytest.mark.parametrize(
    ("good", "said"),
    [(3, "The run failed after step 3 of 6."), (0, "The run failed before its first step was done.")],
)
def test_a_training_that_breaks_off_leaves_a_report_that_says_why(tmp_path, monkeypatch, capsys, good, said):
    loss, count = recipes.find("dates").loss, iter(range(100))
    monkeypatch.setattr(
        recipes.find("dates"),
        "loss",
        lambda self, *given: loss(self, *given) * (1.0 if next(count) < good else float("nan")),
    )
    assert train.main([*SMALL, "--out", str(tmp_path / "run")]) == 2
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    sentence = f"The loss became nan at step {good + 1}."
    assert (
        sentence in capsys.readouterr().err
        and sentence in page
        and said in page
        and "python -m minigrad.train dates" in page
    )
    assert page.count("<polyline") >= 3 or not good  # the rows so far are drawn


# ---------------------------------------------------------------- what it says


def test_the_command_repeats_the_run(run, page, tmp_path):
    command = html.unescape(re.search(r"<pre><code>(.*?)</code>", page)[1])
    assert command.startswith("python -m minigrad.train dates ") and "--norm pre" in command
    assert train.main([*shlex.split(command)[3:], "--quiet", "--out", str(tmp_path / "again")]) == 0
    assert [row["loss"] for row in rows_of(tmp_path / "again")] == [row["loss"] for row in rows_of(run)]


def test_a_setting_without_an_option_of_its_own_is_repeated_too_and_paths_are_not_told(tmp_path):
    text = tmp_path / "my own.txt"
    text.write_text("to be or not to be, that is the question. " * 40)
    folder = tmp_path / "run"
    assert (
        train.main(
            [
                "text",
                *SMALL,
                "--text",
                str(text),
                "--context",
                "8",
                "--set",
                "checkpoint=true",
                "--out",
                str(folder),
            ]
        )
        == 0
    )
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "--set checkpoint=True" in page and "&#x27;my own.txt&#x27;" in page and str(tmp_path) not in page


def test_it_shows_figures_samples_settings_and_environment(run, page):
    last = rows_of(run)[-1]
    for source, answer, target in last["samples"]:
        assert html.escape(source) in page and html.escape(answer) in page and target in page
    assert (
        "the figure at the top of the page is the final one, of all of them" in page
        and "was stopped" not in page
    )
    assert (
        "<dt>norm</dt><dd>pre</dd>" in page
        and f"<dt>NumPy</dt><dd>{np.__version__}</dd>" in page
        and "<dt>threads</dt><dd>1</dd>" in page
    )
    parameters = sum(t.size for t in saving.load_tensors(run / "model.safetensors").values())
    assert (
        f"{parameters:,} parameters" in page
        and f"{saving.load_json(run / 'result.json')['exact match']:.1%}" in page
    )
    figures = saving.load_json(run / "result.json")
    # in the unit that it has above
    assert f"<dt>exact match</dt><dd>{figures['exact match']:.1%}</dd>" in page
    assert len(re.findall(r"<td[^>]*>\d+\.\d%</td>", page)) >= len(figures["by format"])
    assert "answers in ISO</p>" in page and "(a minute)" not in page  # how long it took stands there
    assert str(run.parent) not in page and (run / "layers.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("file", "said"), [
    ("", "This model has no attention"),
    ("    def model(self):\n        self.settings['x'] = 1\n        return Looks()\n    example = 'a'\n", "does not define what its model reads; define reading(model, text)"),
    ("    def model(self):\n        return Looks()\n", "has no attribute `example`"),
])  # fmt: skip
def test_a_recipe_of_ones_own_gets_a_report_and_sentences_for_what_it_lacks(tmp_path, file, said):
    code = (
        "import minigrad as mg\nimport numpy as np\nfrom minigrad import nn\nfrom minigrad.training import Recipe\nfrom models.attention import MultiHeadAttention\n"
        "class Looks(nn.Module):\n    def __init__(self):\n        self.look = MultiHeadAttention(2, 1)\n    def forward(self, x):\n        return self.look(x.unsqueeze(0))\n"
        "class Mine(Recipe):\n    name, help = 'mine', 'nothing'\n    defaults = dict(steps=3, batch_size=4, lr=0.01)\n"
        "    def model(self):\n        return nn.Linear(2, 1)\n    def batch(self, step):\n        return np.ones((4, 2), np.float32)\n"
        "    def loss(self, model, batch):\n        return (model(mg.tensor(batch)) ** 2).mean()\n"
    )
    (tmp_path / "mine.py").write_text(code + file)
    assert train.main([str(tmp_path / "mine.py"), "--quiet", "--out", str(tmp_path / "run")]) == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert said in page and "python -m minigrad.train mine.py --seed 0" in page


# ---------------------------------------------------------------- charts


def test_a_charts_points_lie_where_the_numbers_say():
    drawing = svg.chart({"a": [(0, 0.0), (10, 5.0), (20, 10.0)]}, "c", "x", "y")
    (points,) = re.findall(r'points="(.*?)"', drawing)
    x, y = zip(*(map(float, point.split(",")) for point in points.split()), strict=True)
    assert x[1] == (x[0] + x[2]) / 2 and y[1] == (y[0] + y[2]) / 2 and y[0] > y[2] and x[0] < x[2]


def test_a_logarithmic_chart_leaves_out_what_has_no_logarithm_and_equal_numbers_do_no_harm():
    drawing = svg.chart({"a": [(1, 0.0), (2, float("nan")), (3, 1e-3), (4, 10.0)]}, "c", "x", "y", log=True)
    assert len(re.search(r'points="(.*?)"', drawing)[1].split()) == 2 and ">0.1</text>" in drawing
    assert "points" in svg.chart({"a": [(1, 2.0)]}, "c", "x", "y") and "points" in svg.chart(
        {"a": [(1, 2.0)]}, "c", "x", "y", log=True
    )
    assert "Nothing was measured" in svg.chart({"a": []}, "c", "x", "y")


@pytest.mark.parametrize(
    ("last", "ticks"), [(1, ["1"]), (3, ["1", "2", "3"]), (12, ["2", "4", "6", "8", "10", "12"])]
)
def test_an_axis_of_steps_has_whole_numbers(last, ticks):
    drawing = svg.chart({"a": [(step, 0.5) for step in range(1, last + 1)]}, "c", "step", "y")
    assert re.findall(rf'y="{svg.HEIGHT - svg.BOTTOM + 18}" text-anchor="middle">(.*?)<', drawing) == ticks


def test_many_points_are_thinned_to_means():
    points = [(i, float(i % 2)) for i in range(1, 2001)]
    thin = svg.thin(points)
    assert len(thin) <= svg.POINTS and thin[-1][0] == 2000 and {y for _, y in thin} <= {0.4, 0.6}


# ---------------------------------------------------------------- in a browser


def test_the_report_opens_without_a_complaint_its_numbers_are_the_runs_and_attention_can_be_compared(run):
    rows = rows_of(run)
    with opened(run / "report.html") as seen:
        tab = seen.page
        figure = tab.locator("figure", has_text="of each layer, after clipping")
        figure.locator("summary").click()
        cells = figure.locator("tbody tr").nth(2).locator("th, td").all_inner_texts()
        assert cells == ["3", *(f"{norm:.3g}" for norm in rows[2][NORMS].values())]
        tab.select_option("#record", "1")
        assert tab.locator("#text").inner_text().endswith(BEFORE)
        assert tab.locator("img").count() == 0 and seen.quiet()


def test_long_names_wrap_on_a_phone_and_one_text_has_no_menu(tmp_path):
    folder = tmp_path / "run"
    assert (
        train.main(
            ["recall", *SMALL[:2], "--d-model", "8", "--distance", "8", "--quiet", "--out", str(folder)]
        )
        == 0
    )
    with opened(folder / "report.html", width=360, height=700) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360 and seen.quiet()
    one = viz.attention(
        Diary(recipe := recipe_of("copy"), recipe.model(), attended, "").attention()[:1],
        tmp_path / "one.html",
    )
    for path, menu in ((one, False), (folder / "report.html", True)):
        with opened(path) as seen:
            assert seen.page.locator("#record").is_visible() == menu


@pytest.mark.parametrize("dark", [False, True])
def test_the_report_fits_a_phone_dark_and_light(run, dark):
    with opened(run / "report.html", width=360, height=700, dark=dark) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360 and seen.quiet()
