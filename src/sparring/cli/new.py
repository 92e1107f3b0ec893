"""sparring new"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparring.cli.scaffold import write_package
from sparring.cli.text import say


def new(
    kind: Annotated[
        str, typer.Argument(help="environment, reward, estimator, matchmaker or context.")
    ],
    name: Annotated[
        str,
        typer.Argument(
            help="Name of the plug-in and its module: small letters, digits and _, e.g. "
            "short_replies."
        ),
    ],
    folder: Annotated[
        Path | None, typer.Option(help="Folder of the package; default a new folder NAME here.")
    ] = None,
) -> None:
    """Write a small package with your own plug-in, its test and a recipe."""
    package = write_package(kind, name, folder)
    say(
        f"Written to {package}: {name}.py is the {kind}, test_{name}.py its test, recipe.yaml "
        "trains with it."
    )
    say(f"Next: cd {package}; pip install -e . ; python -m pytest ; sparring train recipe.yaml")
