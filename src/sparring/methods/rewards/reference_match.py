"""Process reward: similarity of actions to those of a reference solution."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import Episode, FloatArray
from sparring.environments.base import Environment
from sparring.environments.situation import close_copies
from sparring.methods.oracles.solvers import has_reference, reference_of
from sparring.ops.matching import (
    calls_of,
    exact_matching,
    greedy_matching,
    similarities,
    transport_plan,
)
from sparring.play.replay import replay

NEEDS = {"game", "reference"}
PRESETS = {"as_released": {"matching": "greedy"}}

Matching = Literal["km", "greedy", "optimal_transport"]


def reference_match(
    episode: Episode,
    game: Environment,
    *,
    matching: Matching = "km",
    regularisation: Annotated[float, Field(ge=0.01)] = 0.1,
) -> tuple[float | None, ...]:
    """Pay each turn the similarity to its match in a reference solution (MatchTIR's turn reward).

    What: actions are parsed as calls, a name with parameters, and matched one to one with the calls
    of a solution from the initial state.
    When to use: with a known solution whose steps have no fixed order, as in sudoku and zebra. The
    published method also has credit ``match_tir``.
    Mathematics:
        s(a, b) = [1 + |P_a & P_b| / |P_a | P_b| + number of equal values] / (2 + |P_b|)
    for a call a of an action and a call b of the reference, with parameters P_a and P_b; 0 where
    the names differ. m is the matching with the largest sum over i of
        s(a_i, b_m(i))
    Only pairs with a positive s are matched. r_t is the mean of s(a_i, b_m(i)) over the calls of
    turn t; calls without a match count 0. With ``matching`` "optimal_transport" a call is worth
        r = sum_j T_ij s_ij
    with T by Sinkhorn for equal weights, 1 / calls and 1 / references, and ``regularisation``.
    Shapes: one number per turn, in [0, 1]; None where the game has no reference.
    Pitfalls:
        - The order of actions does not count, so a plan (sokoban) is only a multiset of moves. The
          move up pays once for every up of the plan, in any state. Use ``best_action`` there.
        - The reference is only one of several solutions. In sokoban it is the shortest plan, the
          first in the order of the moves' names. Other plans of equal length pay less.
        - In sudoku and zebra a name is a cell or a house, and a wrong value gets 2/3. So the reward
          is that of ``best_action``, scaled to 2/3 to 1.
        - With "optimal_transport" the rewards of an episode sum to at most 1, so each turn gets
          less in a long episode.
        - ops/matching.py has the parser of actions.
        - An illegal reply has no match and gets 0 (metric ``legal_rate`` counts illegal replies).
        - The paper's reward of the answering turn, token F1, is not included: games have no such
          turn, and pay their outcome.
        - The reward is shaping: set ``reorder_outcomes`` for the unscaled reward.
    Reference: MatchTIR (arXiv 2601.10712); code of quchangle1/MatchTIR, tool.py.
    Verified by: tests/methods/rewards/test_reference_match.py, tests/ops/test_matching.py.

    Args:
        matching: algorithm. "km" (default) is exact, and breaks ties in favour of earlier turns.
            "greedy" takes the most similar pair first and can miss the largest sum (preset
            ``as_released``: the authors' code calls this Hungarian). "optimal_transport" spreads
            each call over the reference.
        regularisation: weight of the entropy of T, at least 0.01; only for "optimal_transport". A
            larger value spreads more evenly.
    """
    turns = episode.turns
    if not turns or not has_reference(game):
        return (None,) * len(turns)
    copies = replay(game, episode)
    reference = reference_of(copies[0])
    close_copies(copies)
    if reference is None:
        return (None,) * len(turns)
    reference_calls = [call for action in reference for call in calls_of(action)]
    played_calls = [
        (index, call)
        for index, turn in enumerate(turns)
        if turn.event == "ok"
        for call in calls_of(turn.action or "")
    ]
    similarity = similarities([call for _, call in played_calls], reference_calls)
    turn_of_call = np.array([index for index, _ in played_calls], dtype=np.int64)
    totals = np.bincount(turn_of_call, _rewards(similarity, matching, regularisation), len(turns))
    counts = np.bincount(turn_of_call, minlength=len(turns))
    return tuple((totals / np.maximum(counts, 1)).tolist())


def _rewards(similarity: FloatArray, matching: Matching, regularisation: float) -> FloatArray:
    if not similarity.size:
        return np.zeros(len(similarity))
    if matching == "optimal_transport":
        return np.asarray(
            (transport_plan(similarity, regularisation) * similarity).sum(1), dtype=np.float64
        )
    reference_index = (exact_matching if matching == "km" else greedy_matching)(similarity)
    matched_similarity = similarity[np.arange(len(similarity)), np.maximum(reference_index, 0)]
    return np.asarray(np.where(reference_index >= 0, matched_similarity, 0.0), dtype=np.float64)
