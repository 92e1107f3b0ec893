"""Pictures of positions, drawn aside: the page goes on if an environment does not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sparring.core.errors import RolloutError
from sparring.core.records import Episode
from sparring.play.episode_pictures import picture
from sparring.play.store import EpisodeStore
from sparring.view.http_requests import Refused
from sparring.view.run_files import Signature, signature
from sparring.view.runs import Run
from sparring.view.worker_process import Aside

MOST = 200  # pictures of an exported replay
Picture = Mapping[str, str | None]  # svg; said, the same in words; why there is none


class Boards:
    """What draws positions; threads may share it."""

    def __init__(self) -> None:
        self._aside = Aside("sparring.view.position_pictures")

    def draw(
        self, run: Run, step: int, number: int, turn: int, seat: int | None, theme: str
    ) -> Picture:
        """Return the position before a turn of an episode.

        Where it cannot be drawn, ``svg`` and ``said`` are null, and ``why`` says the reason.

        Args:
            run: that played it.
            step: it was played in.
            number: of the episode.
            turn: number of the turn, from 0; the number of turns stands for the end.
            seat: whose view is drawn; None draws all.
            theme: light or dark.
        """
        asked = {"folder": str(run.path), "step": step, "episode": number, "turn": turn}
        try:
            found = self._aside.ask({**asked, "seat": seat, "theme": theme})
        except Refused as refused:
            return {"svg": None, "said": None, "why": str(refused)}
        return {"svg": found["svg"], "said": found["said"], "why": None}

    def all(self, run: Run, step: int, episode: Episode, seat: int | None) -> dict[int, Picture]:
        """Return the pictures of an episode's turns and of its end, as far as they can be drawn."""
        found: dict[int, Picture] = {}
        for turn in range(min(len(episode.turns) + 1, MOST)):
            drawn = self.draw(run, step, episode.episode_id, turn, seat, "light")
            if drawn["svg"] is None:
                break
            found[turn] = drawn
        return found

    def close(self) -> None:
        """End the process that draws."""
        self._aside.close()


def has_pictures(episode: Episode) -> bool:
    """Return whether positions of an episode may be drawn: its record names its environment."""
    return episode.environment is not None


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
    return {"svg": drawn.svg, "said": drawn.description}


@lru_cache(maxsize=KEPT)
def _read(folder: Path, step: int, number: int, changed: Signature | None) -> Episode | None:
    """Return an episode; its part is read once, as long as it does not change."""
    return EpisodeStore(folder).episode(step, number)
