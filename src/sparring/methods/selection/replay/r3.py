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
    mean_advantage_sizes,
    recent_entries,
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
    equal returns gets ``number`` stored episodes: successes if the group fails, and failures if the
    group succeeds; they are drawn uniformly, each stored episode at most once per step.
    Shapes: episodes.
    Pitfalls:
        - Selection must not drop equal groups: use ``equal_groups`` with ``policy: keep``.
        - Without fixed initial states an arm is a game, and a stored episode had another deal.
        - In zero-sum self-play a group has both outcomes at once, and the rule has no use.
        - The paper scales the contribution of stored episodes by a factor. This rule does not; use
          a loss weight or a lower clip.
        - Without stored episodes the group stays unchanged.
        - The paper's reflection prompts and entropy ranking are not included.
    Reference: R^3 (replay, reflection and ranking rewards), replay part.
    Verified by: tests/methods/selection/replay/test_rules.py,
    tests/methods/selection/replay/test_rule_properties.py.

    Args:
        number: how many stored episodes join one group, at least 1; all of them if there are fewer.
        capacity: number of newest episodes in the buffer for each arm, trained seats and outcome
            (success or failure); at least 1.
        max_age: steps that an episode stays in the buffer, at least 1.
    """
    entries = recent_entries(request.buffer, request.step, max_age)
    entries_by_key: dict[tuple[object, ...], list[ReplayEntry]] = {}
    for entry in entries:
        key = (*_arm_key(entry.episode, entry.arm), succeeds(entry.episode))
        entries_by_key.setdefault(key, []).append(entry)
    additions: list[tuple[ReplayEntry, int]] = []
    groups = _episodes_by_group(request.fresh_episodes)
    for group, advantage_size in mean_advantage_sizes(request.fresh_episodes).items():
        first_episode, outcomes = groups[group][0], {succeeds(episode) for episode in groups[group]}
        if advantage_size > 0.0 or len(outcomes) > 1:
            continue
        arm_key = _arm_key(first_episode, request.arm_of[group])
        candidates = entries_by_key.get((*arm_key, not outcomes.pop()), [])
        for draw in range(min(number, len(candidates))):
            index = request.stream.child(group).integer(draw, len(candidates))
            additions.append((candidates.pop(index), group))
    return ReplayPlan(additions=tuple(additions), buffer=_next_buffer(request, entries, capacity))


def succeeds(episode: Episode) -> bool:
    """Return whether the rewards of the trained seats, with shaping, sum to more than 0."""
    return (
        sum(sum(turn.rewards.values()) for turn in episode.turns if episode.trained[turn.seat])
        > 0.0
    )


def _arm_key(episode: Episode, arm: str) -> tuple[object, ...]:
    return arm, episode.trained, episode.roles


def _episodes_by_group(episodes: Sequence[Episode]) -> dict[int, list[Episode]]:
    groups: dict[int, list[Episode]] = {}
    for episode in episodes:
        groups.setdefault(episode.group_id, []).append(episode)
    return groups


def _next_buffer(
    request: ReplayRequest, entries: Sequence[ReplayEntry], capacity: int
) -> tuple[ReplayEntry, ...]:
    fresh_entries = [
        ReplayEntry(
            episode, request.arm_of[episode.group_id], request.step, float(succeeds(episode))
        )
        for episode in request.fresh_episodes
        if episode.turns
    ]
    counts: dict[tuple[object, ...], int] = {}
    newest_entries = []
    for entry in reversed([*entries, *fresh_entries]):
        key = (*_arm_key(entry.episode, entry.arm), entry.priority)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= capacity:
            newest_entries.append(entry)
    return tuple(reversed(newest_entries))
