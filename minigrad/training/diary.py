"""The diary of a run collects what its report shows: gradients by layer while the model trains, and
activations and attention weights before and after training. report.py writes the page.
"""

from minigrad.training.figures import activation_scale, titles
from minigrad.training.health import NORMS, layer_norms
from minigrad.training.report import in_order, report
from minigrad.viz.pictures import charts

BEFORE, AFTER = "before training", "after training"


class Diary:
    """A listener of the training loop, created before training; `finish` writes report and layers.png.

    attended   models.attended.attended, or a function like it: (model, *inputs, names, writes) -> rows
    command    the command line that repeats the run
    first      the weights before training, {name: array}; None if the model still has them
    """

    def __init__(self, recipe, model, attended, command, threads=1, times=60, first=None):
        self.recipe, self.model, self.attended, self.command = recipe, model, attended, command
        self.threads = threads
        self.every = max(1, recipe.settings["steps"] // times)
        self.first = first or {name: t.data.copy() for name, t in model.state_dict().items()}

    def __call__(self, row):
        """Add the gradient norm of each layer to the rows of some steps."""
        if row["step"] % interval(row["step"], self.every) == 0:
            row[NORMS] = layer_norms(self.model)

    def finish(self, folder, rows, figures):
        """Write the report and the picture of the layers; returns the names of the files."""
        recipe, model = self.recipe, self.model
        scales = {
            BEFORE: self._untrained(lambda: activation_scale(recipe, model)),
            AFTER: activation_scale(recipe, model),
        }
        self._report(folder, rows, figures, scales, self.attention())
        return [folder.report.name, *self.picture(folder, rows, scales)]

    def report_failure(self, folder, rows, reason):
        """Write the report of a training that failed, without the parts that need a trained model."""
        why = "The training failed, so there is no trained model whose attention could be shown."
        self._report(folder, rows, {}, {}, why, str(reason))

    def report_stop(self, folder, rows):
        """Write the report of a training that was stopped and may be resumed, without running the model."""
        why = "The training was stopped before its end, so no attention was recorded."
        self._report(folder, rows, {}, {}, why)

    def _report(self, folder, rows, figures, scales, attention, reason=None):
        recipe = self.recipe
        run = dict(
            name=folder.path.name,
            help=recipe.help,
            metric=recipe.metric,
            share=recipe.share,
            shown=recipe.shown,
            command=self.command,
            reason=reason,
            titles=titles(self.model),
        )
        parameters = {name: p.numel() for name, p in self.model.named_parameters()}
        settings, path = recipe.settings, folder.report
        report(path, run, rows, figures, settings, parameters, scales, attention, self.threads)

    def attention(self):
        """Return [(name, rows)] for the recipe's example after and before training, on the same tokens; or,
        as a string, the reason why there are none."""
        if not any(hasattr(module, "keep_weights") for module in self.model.modules()):
            return "This model has no attention to show."
        text = getattr(self.recipe, "example", None)
        if not text:
            return (
                "The recipe has no attribute `example`, so there is no attention to show; python -m "
                "minigrad.attend takes any text."
            )
        try:
            inputs, labels = self.recipe.reading(self.model, text)
        except (NotImplementedError, ValueError) as problem:
            return str(problem)
        after = self.attended(self.model, *inputs, **labels)
        return [
            (f"{text}, {AFTER}", after),
            (f"{text}, {BEFORE}", self._untrained(lambda: self.attended(self.model, *inputs, **labels))),
        ]

    def _untrained(self, measure):
        """Call `measure` while the model has its initial weights; returns its result."""
        trained = {name: t.data.copy() for name, t in self.model.state_dict().items()}
        self.model.load_state_dict(self.first)
        try:
            return measure()
        finally:
            self.model.load_state_dict(trained)

    def picture(self, folder, rows, scales):
        """Draw the gradients and activations of each layer; returns the name of the file, in a list."""
        measured = {row["step"]: row[NORMS] for row in rows if NORMS in row}
        if not measured:
            return []
        layers = list(next(iter(measured.values())))
        title = titles(self.model)
        norms = {
            title.get(layer, layer): {step: norm[layer] for step, norm in measured.items() if layer in norm}
            for layer in layers
        }
        gradient = dict(
            title="gradient norm of each layer, after clipping",
            xlabel="step",
            ylabel="gradient norm",
            curves=norms,
            log=True,
        )
        names = list(scales[BEFORE])
        depth = {
            when: {names.index(layer) + 1: size for layer, size in scale.items() if layer in names}
            for when, scale in scales.items()
        }
        scale = dict(
            title="output of each layer, in the order they first finished",
            xlabel="layer",
            ylabel="root mean square",
            curves=depth,
            log=True,
        )
        charts([gradient, scale], folder.layers, in_order([title.get(name, name) for name in names]))
        return [folder.layers.name]


def interval(step, most):
    """Distance between measured steps: 1 for the first 15 steps, doubled at every doubling of the step, at
    most `most`. So a run that is stopped early has points too."""
    return min(most, 2 ** max(0, step.bit_length() - 4))
