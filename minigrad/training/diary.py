"""What a run's report is made of, gathered while a model trains and when it has trained: gradients by layer, activations before
and after, what attention looked at before and after. Knows recipes and models by what they can do; not the page (report.py).
"""

from minigrad.training.figures import activation_scale, titles
from minigrad.training.health import NORMS, layer_norms
from minigrad.training.report import in_order, report
from minigrad.viz.pictures import charts

BEFORE, AFTER = "before training", "after training"


class Diary:
    """A listener of the training loop, made before it starts; `finish` writes the report and a picture of the layers.

    attended   models.attended.attended, or what does the same: (model, *inputs, names, writes) -> rows
    command    what repeats the run, as it is typed
    first      the weights before training, if the model has others by now: {name: array}
    """

    def __init__(self, recipe, model, attended, command, threads=1, times=60, first=None):
        self.recipe, self.model, self.attended, self.command = recipe, model, attended, command
        self.threads = threads
        self.every = max(1, recipe.settings["steps"] // times)
        self.first = first or {name: t.data.copy() for name, t in model.state_dict().items()}

    def __call__(self, row):
        """Put the gradients' lengths by layer into the row of some steps, before they are forgotten."""
        if row["step"] % interval(row["step"], self.every) == 0:
            row[NORMS] = layer_norms(self.model)

    def finish(self, folder, rows, figures):
        """Write the report; returns the names of the files."""
        recipe, model = self.recipe, self.model
        scales = {
            BEFORE: self._untrained(lambda: activation_scale(recipe, model)),
            AFTER: activation_scale(recipe, model),
        }
        self._report(folder, rows, figures, scales, self.looked())
        return [folder.report.name, *self.picture(folder, rows, scales)]

    def broken(self, folder, rows, reason):
        """Write the report of a training that broke off, without what needs a sound model."""
        self._report(
            folder,
            rows,
            {},
            {},
            "The training broke off, so there is no trained model to look at.",
            str(reason),
        )

    def stopped(self, folder, rows):
        """Write the report of a training that was stopped and may go on, at once."""
        self._report(
            folder, rows, {}, {}, "The training was stopped before its end, and nothing was looked at."
        )

    def _report(self, folder, rows, figures, scales, looked, reason=None):
        recipe = self.recipe
        run = {"name": folder.path.name, "help": recipe.help, "metric": recipe.metric, "share": recipe.share, "shown": recipe.shown, "command": self.command, "reason": reason, "titles": titles(self.model)}  # fmt: skip
        parameters = {name: p.numel() for name, p in self.model.named_parameters()}
        settings, path = recipe.settings, folder.report
        report(path, run, rows, figures, settings, parameters, scales, looked, self.threads)

    def looked(self):
        """[(name, rows)] of the recipe's example after and before training, the same tokens both times; or why there are none."""
        if not any(hasattr(module, "keep_weights") for module in self.model.modules()):
            return "This model has no attention, so there is nothing that it looks at."
        text = getattr(self.recipe, "example", None)
        if not text:
            return "The recipe has no example (an attribute `example`) whose attention could be shown; python -m minigrad.attend takes any text."
        try:
            inputs, labels = self.recipe.reading(self.model, text)
        except (NotImplementedError, ValueError) as problem:
            return str(problem)
        after = self.attended(self.model, *inputs, **labels)
        return [
            (f"{text}, {AFTER}", after),
            (f"{text}, {BEFORE}", self._untrained(lambda: self.attended(self.model, *inputs, **labels))),
        ]

    def _untrained(self, look):
        """What `look` gives while the model has its first weights."""
        trained = {name: t.data.copy() for name, t in self.model.state_dict().items()}
        self.model.load_state_dict(self.first)
        try:
            return look()
        finally:
            self.model.load_state_dict(trained)

    def picture(self, folder, rows, scales):
        """Draw gradients and activations by layer."""
        measured = {row["step"]: row[NORMS] for row in rows if NORMS in row}
        if not measured:
            return []
        layers = list(next(iter(measured.values())))
        called = titles(self.model)
        norms = {
            called.get(layer, layer): {step: norm[layer] for step, norm in measured.items() if layer in norm}
            for layer in layers
        }
        gradient = dict(
            title="gradients by layer, as the steps use them",
            xlabel="step",
            ylabel="length of the gradient",
            curves=norms,
            log=True,
        )
        names = list(scales[BEFORE])
        depth = {
            when: {names.index(layer) + 1: size for layer, size in scale.items() if layer in names}
            for when, scale in scales.items()
        }
        scale = dict(
            title="what the layers hand on, in the order they first ended",
            xlabel="layer",
            ylabel="root mean square",
            curves=depth,
            log=True,
        )
        charts([gradient, scale], folder.layers, in_order([called.get(name, name) for name in names]))
        return [folder.layers.name]


def interval(step, most):
    """How far apart the steps are that are measured: each of the first, then of every doubling as many, at last `most`; so a run
    that is stopped early has points too."""
    return min(most, 2 ** max(0, step.bit_length() - 4))
