"""Pictures of stored positions, made in a process of its own: see ``aside``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparring.errors import RolloutError
from sparring.rollout.pictures import picture
from sparring.rollout.store import EpisodeStore


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the position before a turn as SVG and in words.

    Args:
        question: folder of the run, step, episode, turn, seat (or null) and theme.

    Raises:
        SparringError: it cannot be drawn.
    """
    store = EpisodeStore(Path(question["folder"]) / "episodes")
    episode = store.one(question["step"], question["episode"])
    if episode is None:
        raise RolloutError(f"Step {question['step']} has no episode {question['episode']}.")
    drawn = picture(episode, question["turn"], question["seat"], question["theme"])
    return {"svg": drawn.svg, "said": drawn.said}
