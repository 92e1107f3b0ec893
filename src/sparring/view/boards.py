"""Pictures of positions, drawn aside: the page goes on if an environment does not."""

from __future__ import annotations

from typing import NamedTuple

from sparring.types import Episode
from sparring.view.answers import Refused
from sparring.view.aside import Aside
from sparring.view.drawing import can_draw
from sparring.view.runs import Run

MOST = 200  # pictures of an exported replay


class Picture(NamedTuple):
    """A position.

    Attributes:
        svg: as it is drawn.
        said: in words.
    """

    svg: str
    said: str


class Boards:
    """What draws positions; threads may share it."""

    def __init__(self) -> None:
        self._aside = Aside("sparring.view.drawing")

    def draw(
        self, run: Run, step: int, number: int, turn: int, seat: int | None, theme: str
    ) -> Picture:
        """Return the position before a turn of an episode.

        Args:
            run: that played it.
            step: it was played in.
            number: of the episode.
            turn: number of the turn, from 0.
            seat: whose view is drawn; None draws all.
            theme: light or dark.

        Raises:
            Refused: it cannot be drawn.
        """
        if not can_draw():
            raise Refused(404, "no picture")
        asked = {"folder": str(run.path), "step": step, "episode": number, "turn": turn}
        found = self._aside.ask({**asked, "seat": seat, "theme": theme})
        return Picture(found["svg"], found["said"])

    def all(self, run: Run, step: int, episode: Episode, seat: int | None) -> dict[int, str]:
        """Return the pictures of the turns of an episode, as far as they can be drawn."""
        found = {}
        for turn in range(min(len(episode.turns), MOST)):
            try:
                found[turn] = self.draw(run, step, episode.episode_id, turn, seat, "light").svg
            except Refused:
                break
        return found

    def close(self) -> None:
        """End the process that draws."""
        self._aside.close()


def has_pictures(episode: Episode) -> bool:
    """Return whether positions of an episode may be drawn: its environment can be made again."""
    return episode.environment is not None and can_draw()
