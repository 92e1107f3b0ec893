"""The beginning of a play, taken over from another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparring.errors import GameError
from sparring.rollout.draft import said
from sparring.types import Turn

if TYPE_CHECKING:
    from sparring.rollout.episode import EpisodeInPlay


def take_over(episode: EpisodeInPlay, prefix: Sequence[Turn]) -> None:
    """Play the turns of another play of this deal again, as they were.

    Replies to the same prompts that were not played are left behind.

    Raises:
        GameError: the turns are of another play, or end between those of one moment.
    """
    spec, place = episode.spec, 0
    anew = spec.redealt and hasattr(episode.play, "redeal")
    if anew and not prefix:
        episode.play.redeal(spec.stream.child("chance"))
    while place < len(prefix):
        asked = [] if episode.done else episode.ask()
        turns = prefix[place : place + len(asked)]
        place += len(asked)
        if not asked or [turn.seat for turn in turns] != [one.seat for one in episode.asked]:
            raise GameError(
                f"{spec.game.name}: the turns taken over end between those of one moment, "
                "or are of another play; take whole moments."
            )
        if anew and place == len(prefix):
            episode.play.redeal(spec.stream.child("chance"))
        for draft, turn in zip(episode.asked, turns, strict=True):
            draft.verdict, draft.candidate, draft.score = turn.verdict, turn.candidate, turn.score
        episode.answer([said(turn) for turn in turns], instead=[turn.action for turn in turns])
