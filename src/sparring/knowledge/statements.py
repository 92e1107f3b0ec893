"""What was said in plays, by kind of action, and where it was said in the abstracted game."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sparring.environments.abstracted import kind_of
from sparring.environments.own import Asking
from sparring.errors import GameError
from sparring.knowledge.base import replies
from sparring.rng import Stream
from sparring.rollout.replay import replayed
from sparring.types import Episode, Turn

Abstract = Callable[[str, str], str | None]
"""Kind and statement -> the sentence of its cluster; None where there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A decision that is a statement.

    Args:
        number: of its turn in the episode.
        kind: of action.
        said: by each reply to the prompt, in ``base.replies``' order; None where it was no action.
        several: whether there was more than one reply.
    """

    number: int
    kind: str
    said: tuple[str | None, ...]
    several: bool


def decisions(game: Any, episode: Episode) -> list[Decision]:
    """Return the decisions of a play that are statements, in order.

    The play is played again, as a record does not say of which kind an action is.

    Args:
        game: what it was played by.
        episode: its record.
    """
    found = []
    for number, (turn, play) in enumerate(_at(game, episode)):
        if turn.event == "memory" or not (kind := kind_of(game, play, turn.seat)):
            continue
        said = tuple(one.action if one.event == "ok" else None for one in replies(turn))
        found.append(Decision(number=number, kind=kind, said=said, several=bool(turn.candidates)))
    return found


def _at(game: Any, episode: Episode) -> Iterator[tuple[Turn, Any]]:
    """Yield each turn, with the play as it stood before it."""
    yield from zip(episode.turns, replayed(game, episode), strict=False)


def abstract_keys(
    game: Any, episode: Episode, found: list[Decision], abstract: Abstract
) -> dict[int, str]:
    """Return where each decision stands in the abstracted game: its turn -> information state.

    The play is played once more, with the sentence of its cluster in place of each statement. What
    comes after a statement that has no cluster, or in whose place the rules allow no other, is left
    out.

    Args:
        game: what it was played by.
        episode: its record.
        found: its decisions that are statements.
        abstract: gives the sentence of a statement.
    """
    keys: dict[int, str] = {}
    kinds = {one.number: one.kind for one in found}
    settled: dict[int, str] = {}
    with Asking(game):
        play = game.reset(Stream(episode.seed))
        for number, turn in enumerate(episode.turns):
            if turn.seat not in play.due():
                break
            if number in kinds:
                keys[number] = f"{turn.seat} {play.observe(turn.seat).key}"
            if turn.action is None:
                continue
            said = abstract(kinds[number], turn.action) if number in kinds else turn.action
            if said is None:
                break
            settled[turn.seat] = said
            if len(settled) == len(play.due()):
                try:
                    play.step(settled)
                except GameError:
                    break
                settled = {}
    return keys
