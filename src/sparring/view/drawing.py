"""Pictures of stored positions, made in a process of its own: see ``aside``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sparring.core.errors import RolloutError
from sparring.core.records import Episode
from sparring.play.episode_pictures import picture
from sparring.play.store import EpisodeStore
from sparring.view.plain_files import Signature, signature

KEPT = 8  # episodes, of which a page asks for one picture after the other


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the position before a turn as SVG and in words.

    Args:
        question: folder of the run, step, episode, turn, seat (or null) and theme.

    Raises:
        SparringError: it cannot be drawn.
    """
    folder = Path(question["folder"]) / "episodes"
    changed = signature(EpisodeStore(folder).path(question["step"]))
    episode = _read(folder, question["step"], question["episode"], changed)
    if episode is None:
        raise RolloutError(f"Step {question['step']} has no episode {question['episode']}.")
    drawn = picture(episode, question["turn"], question["seat"], question["theme"])
    return {"svg": drawn.svg, "said": drawn.said}


@lru_cache(maxsize=KEPT)
def _read(folder: Path, step: int, number: int, changed: Signature | None) -> Episode | None:
    """Return an episode; its part is read once, as long as it does not change."""
    return EpisodeStore(folder).one(step, number)
