"""Replay: the selective sample buffer (Skywork R1V2)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.methods.selection.replay.base import (
    ReplayPlan,
    ReplayRequest,
    add_fresh_groups,
    draw_groups,
    group_additions,
    group_entries,
    mean_advantage_sizes,
    recent_entries,
)


def ssb(
    request: ReplayRequest,
    *,
    fill: Annotated[float, Field(ge=0, le=1)] = 1.0,
    capacity: Annotated[int, Field(ge=1)] = 1024,
    max_age: Annotated[int, Field(ge=1)] = 10,
) -> ReplayPlan:
    """Replace fresh episodes without advantage by stored episodes with advantage.

    What: the buffer stores groups whose returns differ. One stored episode joins for each fresh
    episode that has no advantage or that selection has dropped.
    When to use: when more and more groups have equal returns, so that fewer episodes have an
    advantage.
    Mathematics:
        missing = episodes per step - fresh episodes of groups with some A != 0
    Groups of at least fill * missing episodes are drawn without replacement with probability
    proportional to their sum of |A|, with A the return minus the mean of its group.
    Shapes: episodes.
    Pitfalls:
        - The paper stores single samples with their advantages. Here credit is recomputed, which
          requires complete groups.
        - Estimators with running baselines (rae, mars) also update them with stored returns.
        - The last drawn group may exceed the missing number.
    Reference: Skywork R1V2, 2025 (arXiv 2504.16656), selective sample buffer.
    Verified by: tests/methods/selection/replay/test_rules.py,
    tests/methods/selection/replay/test_rule_properties.py.

    Args:
        fill: share of the missing episodes that is filled from the buffer, in [0, 1]. A number or a
            schedule. Default 1.
        capacity: largest number of episodes in the buffer, at least 1. The oldest groups leave
            completely.
        max_age: steps that an episode stays in the buffer, at least 1.
    """
    sizes = mean_advantage_sizes(request.fresh_episodes)
    entries = recent_entries(request.buffer, request.step, max_age)
    num_missing = request.num_episodes - sum(
        sizes.get(episode.group_id, 0.0) > 0.0 for episode in request.fresh_episodes
    )
    groups = group_entries(entries)
    weights = [members[0].priority * len(members) for members in groups]
    replay_groups = draw_groups(groups, weights, round(fill * max(num_missing, 0)), request.stream)
    return ReplayPlan(
        additions=group_additions(replay_groups),
        buffer=add_fresh_groups(request, entries, sizes, capacity),
    )
