"""A play as a record: its turns with what they earned, and who sat where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparring.environments.spec import spec_of
from sparring.rollout.draft import Draft
from sparring.types import Episode, Turn

if TYPE_CHECKING:
    from sparring.rollout.spec import EpisodeSpec


def earned(
    drafts: Sequence[Draft], names: Sequence[str], returns: tuple[float, ...]
) -> tuple[Turn, ...]:
    """Return the turns of a finished play, with the other replies to their prompts.

    A turn's game reward is what its seat earned up to its next turn.
    """
    upcoming = list(returns)
    turns: list[Turn] = []
    for draft in reversed(drafts):
        seat = draft.seat
        rewards = {"game": upcoming[seat] - draft.returns[seat]}
        if draft.penalty:
            rewards |= draft.fine
        upcoming[seat] = draft.returns[seat]
        turn = draft.turn(names[seat], rewards)
        if draft.others:
            others = tuple(other.turn(names[seat], other.fine) for other in draft.others)
            turn = turn._replace(candidates=others)
        turns.append(turn)
    return tuple(reversed(turns))


def recorded(
    spec: EpisodeSpec,
    names: tuple[str, ...],
    turns: Sequence[Turn],
    returns: tuple[float, ...],
    *,
    offender: int | None = None,
    cut: bool = False,
) -> Episode:
    """Return the record of a play that was asked for by ``spec``."""
    return Episode(
        episode_id=spec.episode_id,
        group_id=spec.group_id,
        game=spec.game.name,
        seed=spec.deal.key,
        roles=spec.game.roles,
        agents=names,
        players=spec.players,
        trained=spec.trained,
        turns=tuple(turns),
        returns=returns,
        forfeited_by=offender,
        cut=cut,
        has_outgrown_context=cut and any(turn.event == "unsent" for turn in turns),
        environment=spec_of(spec.game),
    )
