"""Replay: stored groups by the size of their advantages (prioritised experience replay)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
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


def prioritised_replay(
    request: ReplayRequest,
    *,
    share: Annotated[float, Field(ge=0, le=1)] = 0.25,
    alpha: Annotated[float, Field(ge=0)] = 0.6,
    beta: Annotated[float, Field(ge=0, le=1)] = 0.4,
    capacity: Annotated[int, Field(ge=1)] = 1024,
    max_age: Annotated[int, Field(ge=1)] = 10,
) -> ReplayPlan:
    """Add stored groups to every step, with a preference for large advantages.

    What: the buffer stores groups whose returns differ. Every step gets a share of additional
    episodes from the buffer.
    When to use: episodes are costly and the policy changes slowly.
    Mathematics:
        P(g) ~ p_g^alpha
    with p_g the mean |A| of the group's trajectories. Groups are drawn without replacement, up to
    share * (episodes per step) episodes. Metric ``replay_weight`` is the mean over drawn groups of
        (N P(g))^-beta
    divided by its largest value in the buffer of N groups.
    Shapes: episodes.
    Pitfalls:
        - The metric reports the weights that would correct the preference, but the loss does not
          apply them. So initial states with a wide range of returns count more.
        - Priorities are those of the step of the rollout.
        - Estimators with running baselines also update them with stored returns.
    Reference: Schaul et al., 2016 (arXiv 1511.05952), proportional variant, its alpha and beta.
    Verified by: tests/methods/selection/replay/test_rules.py,
    tests/methods/selection/replay/test_rule_properties.py.

    Args:
        share: replayed episodes, as a share of the configured episodes per step, in [0, 1]. A
            number or a schedule. 0: no replay.
        alpha: exponent of the priority, at least 0. 0 draws all groups with equal probability.
        beta: exponent of the importance weights in the metric ``replay_weight``, in [0, 1]. A
            number or a schedule, without effect on gradients.
        capacity: largest number of episodes in the buffer, at least 1. The oldest groups leave
            completely.
        max_age: steps that an episode stays in the buffer, at least 1.
    """
    entries = recent_entries(request.buffer, request.step, max_age)
    groups = group_entries(entries)
    weights = np.array([members[0].priority for members in groups]) ** alpha
    replay_groups = draw_groups(
        groups, weights.tolist(), round(share * request.num_episodes), request.stream
    )
    metrics = {}
    if replay_groups:
        importance_weights = (weights / weights.sum() * len(weights)) ** -beta
        replay_indices = [
            index
            for index, members in enumerate(groups)
            if any(members is group for group in replay_groups)
        ]
        mean_weight = importance_weights[replay_indices].mean()
        metrics["replay_weight"] = float(mean_weight / importance_weights.max())
    sizes = mean_advantage_sizes(request.fresh_episodes)
    buffer = add_fresh_groups(request, entries, sizes, capacity)
    return ReplayPlan(additions=group_additions(replay_groups), buffer=buffer, metrics=metrics)
