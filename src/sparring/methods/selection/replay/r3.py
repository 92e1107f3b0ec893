"""Replay: stored successes for groups that all fail, failures for groups that all succeed (R^3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from sparring.core.records import Episode
from sparring.methods.selection.replay.base import (
    ReplayEntry,
    ReplayPlan,
    ReplayRequest,
    group_sizes,
    recent,
)


def r3(
    request: ReplayRequest,
    *,
    number: Annotated[int, Field(ge=1)] = 1,
    capacity: Annotated[int, Field(ge=1)] = 8,
    max_age: Annotated[int, Field(ge=1)] = 10,
) -> ReplayPlan:
    """Add stored episodes of opposite outcome to groups of equal returns.

    What: stored episodes of the same arm, with the same trained seats, join a fresh group whose
    returns are all equal.
    When to use: hard fixed initial states (``rollout.starts``) with rare successes, one trained
    seat, group-relative credit.
    Mathematics: an episode succeeds if its trained seats' mean return is above 0. A fresh group of
    equal returns that fails gets ``number`` stored successes, and one that succeeds gets stored
    failures, drawn uniformly, each stored episode once per step.
    Shapes: episodes.
    Pitfalls:
        - Selection must not drop equal groups: use ``equal_groups`` with ``policy: keep``.
        - Without fixed initial states an arm is a game, and a stored episode had another deal.
        - In zero-sum self-play a group has both outcomes at once, and the rule has no use.
        - The paper scales the contribution of stored episodes by a factor, which is not included;
          use a loss weight or a lower clip.
        - Without stored episodes the group stays unchanged.
        - The paper's reflection prompts and entropy ranking are not included.
    Reference: R^3 (replay, reflection and ranking rewards), replay part.
    Verified by: tests/methods/selection/replay/test_rules.py,
    tests/methods/selection/replay/test_rule_properties.py.

    Args:
        number: stored episodes that join one group, at least 1; fewer if fewer are stored.
        capacity: number of newest episodes in the buffer for each arm, trained seats and outcome
            (success or failure); at least 1.
        max_age: steps that an episode stays in the buffer, at least 1.
    """
    entries = recent(request.buffer, request.step, max_age)
    pool: dict[tuple[object, ...], list[ReplayEntry]] = {}
    for stored in entries:
        pool.setdefault((*_kind(stored.episode, stored.arm), succeeds(stored.episode)), []).append(
            stored
        )
    joining: list[tuple[ReplayEntry, int]] = []
    groups = _groups(request.fresh)
    for group, size in group_sizes(request.fresh).items():
        first, outcomes = groups[group][0], {succeeds(episode) for episode in groups[group]}
        if size > 0.0 or len(outcomes) > 1:
            continue
        rest = pool.get((*_kind(first, request.arm_of[group]), not outcomes.pop()), [])
        for draw in range(min(number, len(rest))):
            joining.append((rest.pop(request.stream.child(group).integer(draw, len(rest))), group))
    return ReplayPlan(joining=tuple(joining), buffer=_admitted(request, entries, capacity))


def succeeds(episode: Episode) -> bool:
    """Return whether the rewards of the trained seats, with shaping, sum to more than 0."""
    return (
        sum(sum(turn.rewards.values()) for turn in episode.turns if episode.trained[turn.seat])
        > 0.0
    )


def _kind(episode: Episode, arm: str) -> tuple[object, ...]:
    return arm, episode.trained, episode.roles


def _groups(fresh: Sequence[Episode]) -> dict[int, list[Episode]]:
    groups: dict[int, list[Episode]] = {}
    for episode in fresh:
        groups.setdefault(episode.group_id, []).append(episode)
    return groups


def _admitted(
    request: ReplayRequest, entries: Sequence[ReplayEntry], capacity: int
) -> tuple[ReplayEntry, ...]:
    fresh = [
        ReplayEntry(e, request.arm_of[e.group_id], request.step, float(succeeds(e)))
        for e in request.fresh
        if e.turns
    ]
    counts: dict[tuple[object, ...], int] = {}
    newest = []
    for stored in reversed([*entries, *fresh]):
        key = (*_kind(stored.episode, stored.arm), stored.priority)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= capacity:
            newest.append(stored)
    return tuple(reversed(newest))
