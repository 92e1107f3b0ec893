"""Plan: a tree of fixed shape (SPO)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.play.plans.base import FRESH, Origin, PlannedGame


def tree(
    num_left: int,
    games: Sequence[PlannedGame],
    stream: Stream,
    *,
    branching: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] = (2, 2, 2),
    turns_per_segment: Annotated[int, Field(ge=1)] = 1,
) -> list[Origin]:
    """Branch every game of a group at the same turns, into a tree whose leaves are the games.

    What: some games begin at the initial state. After every segment of a few trained turns each
    line of play is continued several times.
    When to use: with credit ``spo_tree``, which credits a turn with the change of value between the
    nodes of the tree.
    Mathematics: boundary k = 0, 1, ... lies before trained turn k * turns_per_segment of a line of
    play, counted over all trained seats. There it is continued ``branching[k]`` times, each time
    with other streams.
        leaves = product of branching
    and that is ``rollout.group_size``.
    Pitfalls: a line that ends before a boundary cannot branch there. The remaining games begin at
    the initial state and do not branch, so short lines count for less than their share: compare
    ``branches`` with the group size less ``branching[0]``. A turn before the last boundary is
    shared by several games, and baselines over all games of the group contain its own returns: see
    ``branch_grpo`` and ``spo_tree`` for how much of the gradient is left. Segments are turns here;
    SPO's are 66 tokens, or end at tokens with high entropy.
    Reference: Segment Policy Optimization (arXiv 2505.23564), tree version: branching 6-6-6.
    Verified by: tests/play/plans/test_plans.py, tests/play/plans/test_credit_on_trees.py.

    Args:
        num_left: games of the group that have not begun.
        games: the finished games.
        stream: unused.
        branching: number of continuations at each boundary, the initial state first; each at least
            1. Their product must be ``rollout.group_size``: 8 for the default (2, 2, 2).
        turns_per_segment: trained turns between two boundaries, at least 1.

    Raises:
        ConfigError: the leaves are not as many as the games of a group.
    """
    size, leaves = num_left + len(games), math.prod(branching)
    if leaves != size:
        shape = " * ".join(map(str, branching))
        raise ConfigError(
            f"rollout.plan 'tree': branching={list(branching)} gives {shape} = {leaves} games, "
            f"and rollout.group_size is {size}; write rollout.group_size={leaves}, or a branching "
            f"whose product is {size}."
        )
    if not games:
        return [FRESH] * branching[0]
    known_origins = {game.origin for game in games}
    origins: list[Origin] = []
    for number, game in enumerate(games):
        places = game.decisions
        first = places.index(game.origin.turn) // turns_per_segment if game.origin != FRESH else 0
        for boundary in range(first + 1, len(branching)):
            if boundary * turns_per_segment < len(places):
                origin = Origin(number, places[boundary * turns_per_segment])
                origins += [origin] * (branching[boundary] - 1) * (origin not in known_origins)
    return origins
