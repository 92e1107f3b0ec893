"""Plan: a tree of fixed shape (SPO)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.play.plans.base import FRESH, Origin, PlannedEpisode


def tree(
    num_left: int,
    episodes: Sequence[PlannedEpisode],
    stream: Stream,
    *,
    branching: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] = (2, 2, 2),
    turns_per_segment: Annotated[int, Field(ge=1)] = 1,
) -> list[Origin]:
    """Branch the episodes of a group at the same turns, into a tree with one leaf per episode.

    What: some episodes begin at the initial state. After every segment of a few trained turns each
    line of play is continued several times.
    When to use: with credit ``spo_tree``, which credits a turn with the change of value between the
    nodes of the tree.
    Mathematics: boundary k = 0, 1, ... lies before trained turn k * turns_per_segment of a line of
    play, counted over all trained seats. There the line is continued ``branching[k]`` times, each
    time with other streams. The number of leaves must be ``rollout.group_size``:
        leaves = product of branching
    Pitfalls: a line that ends before a boundary cannot branch there. Replacement
    episodes begin at the initial state and do not branch, so short lines are under-represented. To
    see how often this happens, compare the metric ``branches`` with group size - branching[0].
    Several episodes share a turn before the last boundary, so a group baseline contains returns of
    the same turn, which shrinks the gradient; the pages of ``branch_grpo`` and ``spo_tree`` say by
    how much. Here a segment is a number of turns; in SPO it has 66 tokens, or ends at a token with
    high entropy.
    Reference: Segment Policy Optimization (arXiv 2505.23564), tree version: branching 6-6-6.
    Verified by: tests/play/plans/test_plans.py, tests/play/plans/test_credit_on_trees.py.

    Args:
        num_left: number of episodes of the group that have not begun.
        episodes: the finished episodes.
        stream: unused.
        branching: number of continuations at each boundary, the initial state first; each at least
            1. Their product must be ``rollout.group_size``: 8 for the default (2, 2, 2).
        turns_per_segment: trained turns between two boundaries, at least 1.

    Raises:
        ConfigError: the number of leaves is not the number of episodes of a group.
    """
    group_size, num_leaves = num_left + len(episodes), math.prod(branching)
    if num_leaves != group_size:
        shape = " * ".join(map(str, branching))
        raise ConfigError(
            f"rollout.plan 'tree': branching={list(branching)} gives {shape} = {num_leaves} "
            f"episodes, and rollout.group_size is {group_size}; write "
            f"rollout.group_size={num_leaves}, or a branching whose product is {group_size}."
        )
    if not episodes:
        return [FRESH] * branching[0]
    known_origins = {planned.origin for planned in episodes}
    origins: list[Origin] = []
    for index, planned in enumerate(episodes):
        turns, origin = planned.decisions, planned.origin
        segment_index = turns.index(origin.turn) // turns_per_segment if origin != FRESH else 0
        for boundary in range(segment_index + 1, len(branching)):
            if boundary * turns_per_segment < len(turns):
                new_origin = Origin(index, turns[boundary * turns_per_segment])
                if new_origin not in known_origins:
                    origins += [new_origin] * (branching[boundary] - 1)
    return origins
