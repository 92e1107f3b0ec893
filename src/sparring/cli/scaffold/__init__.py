"""`sparring new`: writes a small package with a plug-in, its test and a recipe."""

from __future__ import annotations

import builtins
import importlib.util
import keyword
import os
import re
import tempfile
from importlib import resources
from pathlib import Path

from sparring.config.plugins.registry import built_in
from sparring.core.errors import ConfigError, UnknownNameError, quoted

KINDS = {  # kind -> slot
    "environment": "environments",
    "reward": "rewards",
    "estimator": "credit",
    "matchmaker": "league.matchmakers",
    "context": "context",
}
TEMPLATE_NAMES = (
    "replace",
    "np",
    "refs",
    "snapshot",
    "against",
    "self_play",
    "match_request",
    "newest",
)  # names that the templates define or import
_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
_RECIPE_HEAD = """extends: kuhn-tiny
name: NAME
summary: Kuhn's recipe of the tiny model, shortened, with ARTICLE of our own.
steps: 60
rollout: {games_per_step: 256}
"""


def write_package(kind: str, name: str, folder: Path | None = None) -> Path:
    """Write a package with a plug-in, its test, a recipe and README.md; return its folder.

    Args:
        kind: a key of ``KINDS``.
        name: name of the plug-in, its module and its function.
        folder: a missing or empty folder; None: ./NAME.

    Raises:
        UnknownNameError: there is no such kind.
        ConfigError: the name is not a module name or is in use, or the folder is not empty.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of plug-in", kind, KINDS)
    _check_name(kind, name)
    folder = Path(name) if folder is None else folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"{quoted(str(folder))} is not empty; name an empty folder, or one that does not "
            "exist, with --folder."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as temporary_folder:
        package = Path(temporary_folder) / name
        package.mkdir()
        for file in ("pyproject.toml", "README.md", f"{name}.py", f"test_{name}.py", "recipe.yaml"):
            (package / file).write_text(file_of(kind, name, file), encoding="utf-8")
        if folder.is_dir():
            for path in sorted(package.iterdir()):
                os.replace(path, folder / path.name)
        else:
            os.replace(package, folder)
    return folder


def file_of(kind: str, name: str, file: str) -> str:
    """Return the text of one file of the package.

    Args:
        kind: a key of ``KINDS``.
        name: name of the plug-in.
        file: pyproject.toml, README.md, NAME.py, test_NAME.py or recipe.yaml.
    """
    templates = {
        f"{name}.py": f"{kind}.py",
        f"test_{name}.py": f"{kind}.test",
        "recipe.yaml": f"{kind}.yaml",
    }
    text = (
        resources.files(__package__)
        .joinpath(f"{templates.get(file, file)}.txt")
        .read_text(encoding="utf-8")
    )
    text = _RECIPE_HEAD + text if file == "recipe.yaml" else text
    for word, value in {
        "sparring.SLOT": f"sparring.{KINDS[kind]}",
        "NAME": name,
        "ARTICLE": f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}",
        "KIND": kind,
    }.items():
        text = text.replace(word, value)
    return text


def _check_name(kind: str, name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(
            f"{quoted(name)} cannot name a plug-in; write small letters, digits and _, a letter "
            "first, e.g. short_replies."
        )
    if name in built_in(KINDS[kind]) or hasattr(builtins, name) or name in TEMPLATE_NAMES:
        raise ConfigError(
            f"{name!r} is a name in Sparring, in Python or in the files; take another name."
        )
    if importlib.util.find_spec(name) is not None:
        raise ConfigError(
            f"There is a module {name!r} already, which Python would import instead; take another "
            "name."
        )
