"""What was said in plays, by kind of action, and where it was said in the abstracted game."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparring.environments.abstracted import kind_of
from sparring.environments.own import Asking
from sparring.errors import GameError
from sparring.knowledge.base import replies
from sparring.rng import Stream
from sparring.rollout.replay import replayed
from sparring.types import Episode

Abstract = Callable[[str, str], str | None]
"""Kind and statement -> the sentence of its cluster; None where there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A decision that is judged.

    Args:
        number: of its turn in the episode.
        kind: of action; "" where it is no statement, but an action of a list.
        said: by each reply to the prompt, in ``base.replies``' order; None where it was no action.
        legal: the list, where there is one.
        several: whether there was more than one reply.
    """

    number: int
    kind: str
    said: tuple[str | None, ...]
    legal: tuple[str, ...]
    several: bool


def decisions(game: Any, episode: Episode, *, actions: bool = False) -> list[Decision]:
    """Return the decisions of a play that are statements, in order.

    The play is played again, as a record does not say of which kind an action is.

    Args:
        game: what it was played by.
        episode: its record.
        actions: return decisions that are no statements too.
    """
    found = []
    stood = zip(episode.turns, replayed(game, episode), strict=False)
    for number, (turn, play) in enumerate(stood):
        if turn.event == "memory" or turn.seat not in play.due():
            continue
        kind = kind_of(game, play, turn.seat)
        if not kind and not actions:
            continue
        said = tuple(one.action if one.event == "ok" else None for one in replies(turn))
        found.append(
            Decision(
                number=number,
                kind=kind,
                said=said,
                legal=turn.legal_actions,
                several=bool(turn.candidates),
            )
        )
    return found


def abstract_keys(
    game: Any, episode: Episode, found: Sequence[Decision], abstract: Abstract
) -> dict[int, str]:
    """Return where each decision stands in the abstracted game: its turn -> information state.

    The play is played once more, with the sentence of its cluster in place of each statement. What
    comes after a statement that has no cluster, or in whose place the rules allow no other, is left
    out.

    Args:
        game: what it was played by.
        episode: its record.
        found: its decisions, all statements among them.
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
            said = abstract(kind, turn.action) if (kind := kinds.get(number)) else turn.action
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
