"""Pictures of stored positions, made in a process of its own: see ``aside``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module, util
from pathlib import Path
from typing import Any

from sparring.rollout.store import EpisodeStore

PICTURES = "sparring.rollout.pictures"  # plays an episode again up to a turn, and draws it


def can_draw() -> bool:
    """Return whether positions can be drawn."""
    return util.find_spec(PICTURES) is not None


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the position before a turn as SVG and in words.

    Args:
        question: folder of the run, step, episode, turn, seat (or null) and theme.

    Raises:
        SparringError: it cannot be drawn.
    """
    store = EpisodeStore(Path(question["folder"]) / "episodes")
    episode = store.one(question["step"], question["episode"])
    drawn = import_module(PICTURES).picture(
        episode, question["turn"], question["seat"], question["theme"]
    )
    return {"svg": drawn.svg, "said": drawn.said}
