"""Hand a run of `text` over to PyTorch, and take it back. Knows run folders, and files that both sides read; no PyTorch.

    python -m tutorials.outgrowing.handover out RUN FOLDER --steps 200
    python -m tutorials.outgrowing.handover back FOLDER RUN --out NEW_RUN

FOLDER then holds all that the next steps depend on: the model as transformers opens it (config.json, model.safetensors), what the
optimizer remembers (optimizer.safetensors), the tokens (training.npy, validation.npy), where the windows of each batch to come begin
(starts.npy) and those of the validation (places.npy), and the settings and learning rates of the steps (job.json). ddp.py takes
these steps; what it leaves in FOLDER/after becomes a run again, with which --resume goes on.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from minigrad import saving
from minigrad.cli.doors import Parser, open_door, report_errors
from minigrad.machine import blas_threads
from minigrad.training.checkpoints import read, write
from minigrad.training.folder import RunFolder
from minigrad.training.loop import Training, fingerprint
from minigrad.training.run import surroundings
from models import recipes
from models.pretrained.publishing import publish
from models.recipes.text import Text
from models.torch_states import from_torch, memory_of, named_as_in_torch, remember

DOOR = "tutorials.outgrowing.handover"
OPTIMIZER, JOB = "optimizer.safetensors", "job.json"


def main(argv=None):
    parser = Parser(
        DOOR,
        description=__doc__.split("\n\n")[0],
        epilog=__doc__.split("\n\n", 1)[1],
        usage=argparse.SUPPRESS,
    )
    parser.add_argument("way", choices=("out", "back"))
    parser.add_argument("first", type=Path), parser.add_argument("second", type=Path)
    parser.add_argument("--steps", type=int, default=200, help="out: how many steps PyTorch shall take")
    parser.add_argument("--out", type=Path, help="back: the new run's folder")
    options = parser.parse_args(argv)
    with (
        report_errors(DOOR, saving.FileProblem, ValueError, RuntimeError, OSError) as outcome,
        blas_threads(1),
    ):
        if options.way == "out":
            return hand_over(RunFolder(options.first), options.second, options.steps)
        return take_back(options.first, RunFolder(options.second), options.out)
    return outcome.status


def training_of(run, steps, at=None):
    """The Training of a run at its newest checkpoint, or at that of step `at`, with so many steps before it, as --resume RUN --steps
    would go on."""
    checkpoints = [(step, path) for step, path in run.found_checkpoints() if at in (None, step)]
    if not checkpoints:
        raise saving.FileProblem(
            f"{run} has no checkpoint {'to go on from' if at is None else f'of step {at}, where it was handed over'}."
        )
    config, state = run.read_config(), read(checkpoints[0][1]).state
    config["settings"]["steps"] = max(config["settings"]["steps"], state["step"] + steps)
    recipe, model = recipes.untrained(config, run)
    if not isinstance(recipe, Text) or recipe.name != "text":
        raise ValueError(f"{run} is a run of {recipe.name}; handed over are those of text.")
    training = Training(recipe, model)
    training.load(state)
    return training, config


# ---------------------------------------------------------------- out


def hand_over(run, folder, steps):
    if steps < 1:
        raise ValueError(f"--steps needs a whole number from 1, got {steps}.")
    training, _ = training_of(run, steps)
    publish(training.model, folder)
    memory = {
        key: named_as_in_torch(state) for key, state in memory_of(training.optimizer, training.model).items()
    }
    saving.save_tensors(
        folder / OPTIMIZER,
        {f"{key}/{name}": array for key, state in memory.items() for name, array in state.items()},
    )
    saving.save_json(folder / JOB, job_of(training, steps, list(memory)))
    for name, array in data_of(training, steps).items():
        np.save(folder / f"{name}.npy", array)
    print(f"{run}, after {training.done} steps: validation loss {validation_loss(training):.4f} -> {folder}")
    return 0


def job_of(training, steps, memory):
    """What the steps to come are made with; their learning rates come from the schedule, which is at its end afterwards."""
    group, rates = training.optimizer.param_groups[0], []
    for _ in range(steps):
        rates += training.schedule.get_last_lr()[:1]
        training.schedule.step()
    settings = {name: group[name] for name in ("betas", "eps", "weight_decay")}
    sizes = {
        "context": training.recipe.settings["context"],
        "batch_size": training.recipe.settings["batch_size"] * training.times,
    }
    return {
        "done": training.done,
        "memory": memory,
        "settings": settings,
        "clip": training.clip,
        **sizes,
        "lr": rates,
    }


def data_of(training, steps):
    """The tokens, and where the windows of each batch and of the validation begin."""
    recipe = training.recipe
    tokens, validation = (
        np.asarray(part[:]).astype(np.min_scalar_type(len(recipe.vocabulary))) for part in recipe.split()
    )
    recipe.settings["batch_size"] *= training.times
    starts = np.array([recipe.starts(training.done + step) for step in range(steps)])
    recipe.settings["batch_size"] //= training.times
    return {
        "training": tokens,
        "validation": validation,
        "starts": starts,
        "places": recipe.places(final=True),
    }


def validation_loss(training):
    with training.model.evaluating():
        return training.recipe.evaluate(training.model, final=True)["validation loss"]


# ---------------------------------------------------------------- back


def take_back(folder, run, out):
    """Write a run that is further by the steps that were taken in PyTorch; it can be asked, and gone on with."""
    if out is not None and out.exists():
        raise saving.FileProblem(
            f"{out} is there already; a run is never overwritten. Choose another folder with --out."
        )
    after = RunFolder(folder / "after")
    job, rows = saving.load_json(folder / JOB), rows_of(after.log)
    training, config = training_of(run, len(rows), job["done"])
    training.model.load_state_dict(from_torch(saving.load_tensors(after.weights)))
    arrays = saving.load_tensors(after.path / OPTIMIZER)
    of = lambda key: {
        name.removeprefix(f"{key}/"): array for name, array in arrays.items() if name.startswith(f"{key}/")
    }
    memory = {key: from_torch(of(key)) for key in job["memory"]}
    remember(training.optimizer, training.model, memory, training.done + len(rows))
    for _ in rows:
        training.schedule.step()
    training.done += len(rows)
    new = RunFolder(out) if out else RunFolder.new("text")
    keep(
        training,
        config,
        rows_of(run.log)[: job["done"]] + [{**row, "seconds": training.seconds} for row in rows],
        new,
    )
    print(f"{new}, after {training.done} steps: validation loss {validation_loss(training):.4f}")
    print(f'To ask it: python -m minigrad.generate {new} "The "')
    print(f"To go on here: python -m minigrad.train --resume {new} --steps {training.done + len(rows)}")
    return 0


def keep(training, config, rows, new):
    """The folder of a run at this step."""
    new.checkpoints.mkdir(parents=True, exist_ok=True)
    state = training.state() | {"last batch": fingerprint(training.batch(training.done - 1))}
    write(
        new.checkpoint(training.done), {**state, "best": None, "environment": surroundings(config["threads"])}
    )
    saving.save_tensors(new.weights, training.model.state_dict())
    new.write_config(config)
    saving.write_bytes(new.log, "".join(json.dumps(row) + "\n" for row in rows).encode())


def rows_of(path):
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise saving.FileProblem(f"{path} cannot be read ({error}).") from None


if __name__ == "__main__":
    open_door(DOOR, main)
