"""Replay: stored successes for groups that all fail, failures for those that all succeed.

The method is called R^3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from sparring.core.records import Episode
from sparring.methods.selection.replay.base import (
    ReplayPlan,
    ReplayRequest,
    Stored,
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
    """Give a group of equal returns the contrast it lacks, from the buffer.

    What: stored games of the same arm, with the same seats trained, join a fresh group whose
    returns are all equal.
    When to use: hard fixed starts (``rollout.starts``) with rare successes, one trained seat,
    group-relative credit.
    Mathematics: a game succeeds if its trained seats' mean return is above 0. A fresh group without
    differences that fails gets ``number`` stored successes, one that succeeds gets stored failures,
    drawn uniformly, each stored game once per step.
    Shapes: games.
    Pitfalls: if selection drops equal groups nothing is left for this rule: use ``equal_groups``
    with ``policy: keep``. Without fixed starts an arm is a game, and the stored game had another
    deal. In zero-sum self-play a group is both kinds at once and the rule does nothing useful. The
    paper scales the stored games' contribution by a factor; this is not here, use a loss weight or
    a lower clip. With nothing stored the group stays as it is. The paper's reflection prompts and
    entropy ranking are not part of it.
    Reference: R^3 (replay, reflection and ranking rewards), replay part.
    Verified by: tests/methods/selection/replay/test_rules.py,
    tests/methods/selection/replay/test_rule_properties.py.

    Args:
        number: stored games that join one group, at least 1; fewer where fewer are stored.
        capacity: how many games the buffer keeps, the newest, for each arm, trained seats and
            outcome (success or failure); at least 1.
        max_age: steps that a game stays in the buffer, at least 1.
    """
    held = recent(request.buffer, request.step, max_age)
    pool: dict[tuple[object, ...], list[Stored]] = {}
    for stored in held:
        pool.setdefault((*_kind(stored.episode, stored.arm), succeeds(stored.episode)), []).append(
            stored
        )
    joining: list[tuple[Stored, int]] = []
    groups = _groups(request.fresh)
    for group, size in group_sizes(request.fresh).items():
        first, outcomes = groups[group][0], {succeeds(episode) for episode in groups[group]}
        if size > 0.0 or len(outcomes) > 1:
            continue
        rest = pool.get((*_kind(first, request.arm_of[group]), not outcomes.pop()), [])
        for draw in range(min(number, len(rest))):
            joining.append((rest.pop(request.stream.child(group).integer(draw, len(rest))), group))
    return ReplayPlan(joining=tuple(joining), buffer=_admitted(request, held, capacity))


def succeeds(episode: Episode) -> bool:
    """Return whether the rewards of the trained seats of a game sum to more than 0.

    Shaping is included.
    """
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


def _admitted(request: ReplayRequest, held: Sequence[Stored], capacity: int) -> tuple[Stored, ...]:
    fresh = [
        Stored(e, request.arm_of[e.group_id], request.step, float(succeeds(e)))
        for e in request.fresh
        if e.turns
    ]
    counts: dict[tuple[object, ...], int] = {}
    kept = []
    for stored in reversed([*held, *fresh]):
        key = (*_kind(stored.episode, stored.arm), stored.priority)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= capacity:
            kept.append(stored)
    return tuple(reversed(kept))
