"""Recipe and settings of a run as TOML: every run writes the file that repeats it, and --config reads one.
The values are checked later, by the command line and the recipe.

    recipe = "dates"
    seed = 3

    [settings]
    layers = 1
"""

import numbers
import tomllib

from minigrad import saving
from minigrad.pytorch.words import did_you_mean
from minigrad.training.recipe import GENERAL, UsageError

# ---------------------------------------------------------------- writing


def write(folder, recipe, config):
    """Write the file that repeats a run. Settings that are None, which TOML lacks, take their defaults."""
    known, when = {**GENERAL, **recipe.defaults}, config["saving"]
    table = {
        **{name: config[name] for name in ("recipe", "seed", "threads", "share")},
        "save_every": when["every"],
        "save_minutes": None if when["every"] else when["minutes"],
        "keep": when["keep"],
        "tensorboard": config["tensorboard"],
        "settings": {name: value for name, value in config["settings"].items() if name in known},
    }
    command = f"python -m minigrad.train --config {folder.repeat.name}"
    text = f"# To repeat this run: {command}; other options on the command line override it.\n{toml(table)}"
    saving.write_bytes(folder.repeat, text.encode(errors="replace"))


def toml(table):
    """Format a dict of strings, numbers, booleans and, at its end, dicts as TOML. None is left out."""
    own = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"{_key(key)} = {_value(value)}\n" for key, value in own.items() if value is not None]
    return "".join(lines) + "".join(
        f"\n[{_key(key)}]\n{toml(inner)}" for key, inner in table.items() if key not in own
    )


def _key(key):
    return key if key.isascii() and key.replace("_", "a").replace("-", "a").isalnum() else _text(key)


def _value(value):
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, numbers.Integral) else repr(float(value))


def _text(text):
    """Quote a string as TOML's basic string: quotes, backslashes and control characters are escaped."""
    escaped = (
        f"\\u{ord(c):04X}" if ord(c) < 32 or ord(c) == 127 else f"\\{c}" if c in '"\\' else c for c in text
    )
    return f'"{"".join(escaped)}"'


# ---------------------------------------------------------------- reading


def read(path):
    """Read a TOML file. Raises FileProblem if it is missing or not TOML."""
    try:
        # U+FEFF: the byte order mark of some editors
        return tomllib.loads(saving.load_text(path).removeprefix("\ufeff"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, saving.FileProblem):
            raise
        raise saving.FileProblem(f"{path} is not readable TOML: {error}.") from None


def arguments(path, top, options):
    """Convert a file to (recipe or None, words of an equivalent command line).

    top   keys allowed outside of [settings]        options   settings that have an option of their own
    """
    config = read(path)
    settings = config.pop("settings", {})
    if not isinstance(settings, dict):
        raise UsageError(
            f"{path}: settings must be a table, [settings], with one setting per line; got {settings!r}."
        )
    for key in config:
        if key.replace("-", "_") not in top:
            hint = (
                f"; {key} is a setting of a recipe and belongs below [settings]"
                if key.replace("-", "_") in {*options, *GENERAL}
                else did_you_mean(key, [*top, "settings"])
            )
            raise UsageError(
                f"{path}: there is no key {key!r} outside of [settings]{hint}. The keys are {', '.join(top)}."
            )
    if misplaced := [key for key in settings if key in top]:
        raise UsageError(
            f"{path}: {', '.join(misplaced)} is not a setting of a recipe and belongs above [settings]."
        )
    recipe = config.pop("recipe", None)
    if not isinstance(recipe, str | None):
        raise UsageError(
            f"{path}: recipe must be a string, the name of a recipe or a file of your own; got {recipe!r}."
        )
    if twice := [
        key for key in (*config, *settings) if "-" in key and key.replace("-", "_") in {**config, **settings}
    ]:
        raise UsageError(
            f"{path}: {twice[0]} and {twice[0].replace('-', '_')} are the same setting; leave out one."
        )
    given = [(key.replace("-", "_"), value) for key, value in (*config.items(), *settings.items())]
    return recipe, [
        word for key, value in given for word in _words(path, key, value, key in (*top, *options))
    ]


def _words(path, key, value, has_option):
    """Convert one setting to words of a command line. Raises UsageError unless the value is a string, number
    or boolean; the type that the setting needs is checked later."""
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"{path}: {key} must be a string, a number, true or false; got {value!r}.")
    if isinstance(value, str) and "\0" in value:
        raise UsageError(
            f"{path}: {key} holds the character \\u0000, which is not allowed in settings and file names."
        )
    if key == "tensorboard":
        if not isinstance(value, bool):
            raise UsageError(f"{path}: tensorboard must be true or false; got {value!r}.")
        return ["--tensorboard"] if value is True else []
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return [f"--{key.replace('_', '-')}={text}"] if has_option else [f"--set={key}={text}"]
