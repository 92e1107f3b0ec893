"""Replay: stored groups by the size of their advantages (prioritised experience replay)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
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


def prioritised_replay(
    request: ReplayRequest,
    *,
    share: Annotated[float, Field(ge=0, le=1)] = 0.25,
    alpha: Annotated[float, Field(ge=0)] = 0.6,
    beta: Annotated[float, Field(ge=0, le=1)] = 0.4,
    capacity: Annotated[int, Field(ge=1)] = 1024,
    max_age: Annotated[int, Field(ge=1)] = 10,
) -> ReplayPlan:
    """Add stored groups to every step, those with large advantages more often.

    What: groups whose returns differ are stored. A share of a step's games is added to it from the
    buffer.
    When to use: games are costly to play and the policy moves slowly.
    Mathematics:
        P(g) ~ p_g^alpha
    with p_g the mean |A| of the group's trajectories. Groups are drawn without replacement until
    share * wanted games are there. Metric ``replay_weight`` is the mean, over the groups drawn, of
        (N P(g))^-beta
    over its largest value in the buffer of N groups.
    Shapes: games.
    Pitfalls: the weights that would undo the preference are reported and not applied, so starts
    with wide returns count more. Priorities are those of the step the games were played in.
    Estimators with running baselines use stored returns for them too.
    Reference: Schaul et al., 2016 (arXiv 1511.05952); alpha and beta as there (proportional
    variant).
    Verified by: tests/methods/selection/replay/test_rules.py,
    tests/methods/selection/replay/test_rule_properties.py.

    Args:
        share: replayed games, as a share of the games a step is to have, in [0, 1]. A number or a
            schedule. 0 replays none.
        alpha: exponent of the priority, at least 0. 0 draws all groups with equal probability.
        beta: exponent of the importance weights in the metric ``replay_weight``, in [0, 1]. A
            number or a schedule. It changes no gradient.
        capacity: most games in the buffer, at least 1. The oldest groups leave it whole.
        max_age: steps that a game stays in the buffer, at least 1.
    """
    held = recent(request.buffer, request.step, max_age)
    groups = by_group(held)
    weights = np.array([members[0].priority for members in groups]) ** alpha
    drawn = draw_groups(groups, weights.tolist(), round(share * request.wanted), request.stream)
    metrics = {}
    if drawn:
        importance = (weights / weights.sum() * len(weights)) ** -beta
        own = [
            number
            for number, members in enumerate(groups)
            if any(members is found for found in drawn)
        ]
        metrics["replay_weight"] = float(importance[own].mean() / importance.max())
    buffer = admitted(request, held, group_sizes(request.fresh), capacity)
    return ReplayPlan(joining=joining_groups(drawn), buffer=buffer, metrics=metrics)
