"""Credit: tournament ranks within a group (ArenaRL, SPO-minimax)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import BoolArray, Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.blocks import (
    average_over_ties,
    differs_from_previous,
    distinct_rows,
    rows_by_size,
)
from sparring.ops.groups import centre, standardise
from sparring.ops.tournaments import Scheme, tournament_ranks

GROUP_RELATIVE = True
PRESETS = {"minimax_preference": {"scheme": "round_robin", "divide_by_std": False}}


def arena_rl(
    turns: TurnTable,
    *,
    scheme: Scheme = "single_elimination",
    divide_by_std: bool = True,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Replace returns by ranks from a tournament within the group.

    What: The members of a group play a tournament. The larger return wins a match, and equal
    returns tie. Only the order of returns counts, not their differences.
    When to use: rewards whose size means little (judges, scores of different tasks). Preset
    "minimax_preference" gives each trajectory its share of wins over the others minus 1/2; its
    gradient is exactly that of the probability to beat an equal player.
    Mathematics: the scheme gives rank_i; 0 is the best, and ties share the mean of their ranks.
        x_i = 1 - rank_i / (n - 1)
        A_i = (x_i - mean_g x) / (std_g x + epsilon)
    or the same without the division.
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls:
        - Comparisons of returns never contradict each other. So all schemes except "swiss" give the
          same ranks, and "swiss" gives coarser ranks. Schemes differ only for a judge that
          contradicts itself (ops/tournaments.py takes any matrix of scores).
        - Members of equal return share the mean of their ranks; the authors' code orders them by
          index.
        - Groups with the same pattern of ties share one tournament. Many patterns are slow.
        - A group of one trajectory, or of equal returns, gives 0.
    Reference: ArenaRL; code of Alibaba-NLP/qqr. Swamy et al., 2024 (arXiv 2401.04056) for the
    preset.
    Verified by: tests/methods/credit/test_group_rewards.py, tests/ops/test_tournaments.py,
    tests/methods/credit/test_group_bias.py.

    Args:
        scheme: the tournament. "single_elimination" (default) and "double_elimination" are seeded
            by anchor matches; "anchor" plays all against one member, "round_robin" all against all.
            "swiss" plays ceil(log2 n) rounds and breaks ties by the opponents' points (Buchholz).
        divide_by_std: true (default) divides by the group's sample deviation of x. False only
            subtracts the mean.
        epsilon: added to the deviation of x, which has no unit; at least 0. Unused without
            ``divide_by_std``.
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    scores = _tournament_scores(returns, ids, num_groups, scheme)
    advantages = centre(scores, ids, num_groups)
    if divide_by_std:
        advantages = standardise(scores, ids, num_groups, epsilon=epsilon)
    return Credit(advantages=broadcast_to_turns(advantages, turns))


def _tournament_scores(
    returns: FloatArray, ids: IntArray, num_groups: int, scheme: Scheme
) -> FloatArray:
    """Return 1 - rank / (n - 1) of every trajectory, 0 in a group of one."""
    scores = np.zeros(len(returns))
    for rows in rows_by_size(ids, num_groups):
        if rows.shape[1] < 2:
            continue
        members = np.take_along_axis(rows, np.argsort(-returns[rows], axis=1), axis=1)
        is_worse = differs_from_previous(returns[members])
        example_rows, pattern_of_group = distinct_rows(is_worse)
        pattern_scores = np.stack(
            [_scores_of_pattern(is_worse[row], scheme) for row in example_rows.tolist()]
        )
        scores[members] = pattern_scores[pattern_of_group]
    return scores


def _scores_of_pattern(is_worse: BoolArray, scheme: Scheme) -> FloatArray:
    """Return 1 - rank / (n - 1) of members in order of returns, best first, [n]."""
    levels = -np.append(0, np.cumsum(is_worse)).astype(np.float64)
    ranks = tournament_ranks(scheme, np.repeat(levels[:, None], len(levels), axis=1))
    scores: FloatArray = 1.0 - average_over_ties(is_worse[None], ranks)[0] / (len(levels) - 1)
    return scores
