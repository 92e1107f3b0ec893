"""sparring explain"""

from __future__ import annotations

from typing import Annotated

import typer

from sparring.cli.text import say
from sparring.report.explanations import explanation


def explain(
    name: Annotated[str, typer.Argument(help="A plug-in, game, recipe or metric.")],
) -> None:
    """Explain a method, game, recipe or metric: what it does, its options and their defaults."""
    say(explanation(name))
