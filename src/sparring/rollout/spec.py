"""A play that is to be played, as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sparring.environments.openspiel.base import Game
from sparring.refs import PlayerRef, refs
from sparring.rng import Stream
from sparring.types import Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeSpec:
    """One game to be played.

    The rules, who sits where, and the streams for the deal and for everything else.
    """

    game: Game
    episode_id: int
    group_id: int
    deal: Stream  # equal within a group: its members share their start
    stream: Stream  # differs within a group
    seats: Sequence[PlayerRef | str]  # [num_seats]; held as references
    trained: tuple[bool, ...]  # [num_seats]
    # all seats' turns after which the game is cut, if before its rules do
    max_turns: int | None = None
    arm: str = ""  # what the curriculum knows the start by
    prefix: tuple[Turn, ...] = ()  # turns of another play of this deal, taken over as they were
    # whether chance is drawn anew after the last turn of the prefix; if not, it goes on as dealt
    redealt: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "seats", refs(self.seats))

    @property
    def players(self) -> tuple[PlayerRef, ...]:
        """Who sits in each seat, [num_seats]."""
        return cast("tuple[PlayerRef, ...]", self.seats)
