"""The files of a run. Only this file spells out their names; tests/training/test_folder.py checks that."""

import re
from pathlib import Path

from minigrad import saving

CONFIG_VERSION = 1  # of config.json; increased when an older minigrad would misread it


class RunFolder:
    """The folder of a run, with the path of each of its files. It may be passed wherever a path may."""

    def __init__(self, path):
        self.path = path = Path(path)
        self.config = (
            path / "config.json"
        )  # everything needed to generate with the run, repeat it and resume it
        self.repeat = path / "config.toml"  # for --config
        self.log = path / "metrics.jsonl"  # one line per step
        self.weights = path / "model.safetensors"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.broken = path / "broken.txt"  # why the training failed, if it did
        self.result = path / "result.json"  # written last: a run with all steps and this file is finished
        self.report = path / "report.html"
        self.loss = path / "loss.png"
        self.layers = path / "layers.png"
        self.attention = path / "attention.png"
        self.attention_page = path / "attention.html"  # of minigrad.attend

    def __fspath__(self):
        return str(self.path)

    __str__ = __fspath__

    @classmethod
    def new(cls, name, root="runs"):
        """Create root/name-0001, or the next free number. mkdir decides, so two runs never share a folder."""
        for number in range(1, 10_000):
            folder = Path(root) / f"{name}-{number:04d}"
            try:
                folder.mkdir(parents=True)
                return cls(folder)
            except FileExistsError:
                continue
            except OSError as error:
                raise saving.FileProblem(
                    f"The folder {folder} could not be created: {error.strerror}. Choose another with --out."
                ) from None
        raise saving.FileProblem(
            f"{root} holds ten thousand runs of {name}; remove some, or choose a folder with --out."
        )

    def is_run(self):
        """Return True if the folder is, or was, a run: one of these files is enough."""
        signs = self.config, self.log, self.weights, self.result, self.checkpoints
        return any(path.exists() for path in signs)

    def write_config(self, config):
        saving.save_json(self.config, config)

    def read_config(self):
        """Read config.json: {"recipe", "seed", "settings" ...}. Raises FileProblem if it is not readable."""
        if not self.path.is_dir():
            raise saving.FileProblem(
                f"there is no run {self}. Train one with `python -m minigrad.train`; runs are under runs/."
            )
        config = saving.load_json(self.config)
        kinds = {"recipe": str, "seed": int, "settings": dict}
        if not isinstance(config, dict) or not all(
            isinstance(config.get(key), kind) for key, kind in kinds.items()
        ):
            raise saving.FileProblem(
                f"{self.config} is not a run's configuration: it must hold recipe, seed and settings."
            )
        version = config.get("version", 1)
        if not isinstance(version, int) or version > CONFIG_VERSION:
            raise saving.FileProblem(
                f"{self.config} was written by a newer minigrad (version {version!r:.20}; this one reads up "
                f"to {CONFIG_VERSION}); update this one."
            )
        return config

    def checkpoint(self, step):
        """Path of the checkpoint of a step, whether or not it exists."""
        return self.checkpoints / f"step-{step:06d}.safetensors"

    def found_checkpoints(self):
        """List all existing checkpoints as [(step, path)], the newest first, without reading them."""
        names = (
            (re.fullmatch(r"step-(\d{6,12})\.safetensors", path.name), path)
            for path in self.checkpoints.glob("step-*")
        )
        return sorted(((int(match[1]), path) for match, path in names if match), reverse=True)
