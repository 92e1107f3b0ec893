"""Pictures of positions, drawn in a separate process because an environment may crash."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sparring.core.errors import RolloutError
from sparring.core.records import Episode
from sparring.play.episode_pictures import picture
from sparring.play.store import EpisodeStore
from sparring.view.http_requests import RequestError
from sparring.view.run_files import Signature, signature
from sparring.view.viewed_run import ViewedRun
from sparring.view.worker_process import WorkerProcess

MAX_PICTURES = 200  # largest number of pictures in an exported replay
Picture = Mapping[
    str, str | None
]  # svg; said: the position in words; why: reason if there is no picture


class PositionPictures:
    """Draws positions; thread-safe."""

    def __init__(self) -> None:
        self._process = WorkerProcess("sparring.view.position_pictures")

    def draw(
        self, run: ViewedRun, step: int, number: int, turn: int, seat: int | None, theme: str
    ) -> Picture:
        """Return a picture of the position before a turn, or in ``why`` why there is none.

        Args:
            run: run of the episode.
            step: step of the episode.
            number: number of the episode in its step.
            turn: number of the turn, from 0; the number of turns means the last position.
            seat: seat of the viewer; None hides nothing.
            theme: light or dark.
        """
        question = {"folder": str(run.path), "step": step, "episode": number, "turn": turn}
        try:
            drawing = self._process.ask({**question, "seat": seat, "theme": theme})
        except RequestError as error:
            return {"svg": None, "said": None, "why": str(error)}
        return {"svg": drawing["svg"], "said": drawing["said"], "why": None}

    def all(
        self, run: ViewedRun, step: int, episode: Episode, seat: int | None
    ) -> dict[int, Picture]:
        """Return the pictures of an episode's turns and end, up to the first failure."""
        drawings: dict[int, Picture] = {}
        for turn in range(min(len(episode.turns) + 1, MAX_PICTURES)):
            drawing = self.draw(run, step, episode.episode_id, turn, seat, "light")
            if drawing["svg"] is None:
                break
            drawings[turn] = drawing
        return drawings

    def close(self) -> None:
        """End the drawing process."""
        self._process.close()


def has_pictures(episode: Episode) -> bool:
    """Return whether the episode names its environment, so that positions can be drawn."""
    return episode.environment is not None


CACHE_SIZE = 8  # number of episodes; a page requests the pictures of an episode one by one


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the position before a turn as SVG and in words.

    Args:
        question: folder of the run, step, episode, turn, seat (or null) and theme.

    Raises:
        SparringError: the position cannot be drawn.
    """
    folder = Path(question["folder"]) / "episodes"
    file_signature = signature(EpisodeStore(folder).path(question["step"]))
    episode = _read(folder, question["step"], question["episode"], file_signature)
    if episode is None:
        raise RolloutError(f"Step {question['step']} has no episode {question['episode']}.")
    drawing = picture(episode, question["turn"], question["seat"], question["theme"])
    return {"svg": drawing.svg, "said": drawing.description}


@lru_cache(maxsize=CACHE_SIZE)
def _read(folder: Path, step: int, number: int, file_signature: Signature | None) -> Episode | None:
    return EpisodeStore(folder).episode(step, number)
