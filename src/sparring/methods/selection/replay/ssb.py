"""Replay: the selective sample buffer (Skywork R1V2)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.methods.selection.replay.base import (
    ReplayPlan,
    ReplayRequest,
    admitted,
    by_group,
    draw_groups,
    group_sizes,
    joining_groups,
    recent,
)


def ssb(
    request: ReplayRequest,
    *,
    fill: Annotated[float, Field(ge=0, le=1)] = 1.0,
    capacity: Annotated[int, Field(ge=1)] = 1024,
    max_age: Annotated[int, Field(ge=1)] = 10,
) -> ReplayPlan:
    """Put stored games with an advantage in the place of fresh ones without.

    What: groups whose returns differ are stored. As many stored games join the step as fresh ones
    have no advantage or were dropped by selection.
    When to use: when more and more groups have equal returns, so that the batch with an advantage
    shrinks.
    Mathematics:
        missing = wanted games - fresh games of groups with some A != 0
    Groups of at least fill * missing games are drawn without replacement with probability
    proportional to their sum of |A|, with A the return minus the mean of its group.
    Shapes: games.
    Pitfalls: the paper stores single samples with their advantages. Here credit is computed anew,
    which needs the whole group, so groups are stored and drawn whole. Estimators with running
    baselines (rae, mars) use stored returns for them too. The last group drawn may bring more games
    than are missing.
    Reference: Skywork R1V2, 2025 (arXiv 2504.16656), selective sample buffer.
    Verified by: tests/methods/selection/replay/test_rules.py,
    tests/methods/selection/replay/test_rule_properties.py.

    Args:
        fill: share of the missing games that is filled from the buffer, in [0, 1]. A number or a
            schedule. 1 (default) fills all.
        capacity: most games in the buffer, at least 1. The oldest groups leave it whole.
        max_age: steps that a game stays in the buffer, at least 1.
    """
    sizes = group_sizes(request.fresh)
    held = recent(request.buffer, request.step, max_age)
    missing = request.wanted - sum(
        sizes.get(episode.group_id, 0.0) > 0.0 for episode in request.fresh
    )
    groups = by_group(held)
    weights = [members[0].priority * len(members) for members in groups]
    drawn = draw_groups(groups, weights, round(fill * max(missing, 0)), request.stream)
    return ReplayPlan(
        joining=joining_groups(drawn), buffer=admitted(request, held, sizes, capacity)
    )
