"""Write a run's rows for TensorBoard, with tensorboardX (the extra [log]): tensorboard --logdir runs"""

import contextlib
import time

from minigrad.training.health import WARNINGS
from minigrad.training.recipe import is_number

BESIDE = ("step", "seconds", "samples", WARNINGS)  # keys of a row that are not figures


class NotInstalled(ValueError):
    """tensorboardX is not installed."""


def check_installed():
    try:
        import tensorboardX  # noqa: F401
    except ImportError as error:
        raise NotInstalled(
            f"--tensorboard needs tensorboardX, which could not be loaded ({error}). To install it: pip "
            'install -e ".[log]"'
        ) from None


class Events:
    """A listener of the training loop that writes events. Event files of an earlier process, which may go
    beyond the checkpoint that the run resumed from, are deleted and written again from `rows`, so that no
    step appears twice.

    seconds   earlier training time of the run, so that the times continue too
    """

    def __init__(self, folder, rows=(), seconds=0.0):
        check_installed()
        from tensorboardX import SummaryWriter

        for old in folder.glob("events.out.tfevents.*"):
            with contextlib.suppress(OSError):
                old.unlink()
        self._writer, self._began = SummaryWriter(str(folder)), time.time() - seconds
        for row in rows:
            self(row)

    def __call__(self, row):
        step, when = row["step"], self._began + row["seconds"]
        for name, value in figures({name: value for name, value in row.items() if name not in BESIDE}):
            self._writer.add_scalar(name, value, step, when)
        for number, (source, answer, target) in enumerate(row.get("samples", ())):
            self._writer.add_text(
                f"samples/{number}",
                f"    {source} -> {answer}" if target is None else f"    {source} -> {answer} ({target})",
                step,
                when,
            )
        for warning in row.get(WARNINGS, ()):
            self._writer.add_text(WARNINGS, warning, step, when)
        if "samples" in row:
            self._writer.flush()

    def close(self):
        self._writer.close()


def figures(values, inside=""):
    """Yield (name, number) of nested dicts, with TensorBoard's names: gradient_norm_by_layer/encoder.0."""
    for name, value in values.items():
        path = inside + str(name).replace(" ", "_")
        if isinstance(value, dict):
            yield from figures(value, f"{path}/")
        elif isinstance(value, (tuple, list)):
            yield from figures(dict(enumerate(value)), f"{path}/")
        elif is_number(value):
            yield path, float(value)
