"""Process reward: how well the action matches one of a reference solution's."""

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
    likenesses,
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
    """Match what an episode did with a reference solution (MatchTIR's reward of turns).

    Each turn is paid how alike its match is.

    What: actions are read as calls, a name with parameters, and matched one to one with those of a
    solution from the start of the game.
    When to use: where a solution is known and the order of its steps is free, as in sudoku and
    zebra. With credit ``match_tir`` it is the published method.
    Mathematics:
        s(a, b) = [1 + |P_a & P_b| / |P_a | P_b| + number of equal values] / (2 + |P_b|)
    for an action's call a and the reference's b with parameters P; 0 where the names differ. m is a
    matching of the largest sum over i of
        s(a_i, b_m(i))
    in which only positive s are matched. r_t is the mean of s(a_i, b_m(i)) over the calls of turn
    t; calls without a match count 0. With ``matching`` "optimal_transport" a call is worth
        r = sum_j T_ij s_ij
    with T by Sinkhorn for equal weights, 1 / calls and 1 / references, and ``regularisation``.
    Shapes: one number per turn, in [0, 1]; None where the game has no reference.
    Pitfalls: the order of actions does not count, so a plan (sokoban) is only a multiset of moves:
    up pays once for every up of the plan, wherever the agent stands. Use ``best_action`` there.
    Only one of several solutions is the reference; in sokoban it is a shortest plan, the first in
    the order of the moves' names. Another plan that is as good is paid less. In sudoku and zebra a
    name is a cell or a house. A wrong value in it gets 2/3, so the reward is that of
    ``best_action``, squeezed into 2/3 to 1. With "optimal_transport" the turns of a game share 1
    among them, so each gets less in a long game. The rule that reads actions is in ops/matching.py.
    A reply that is no legal action is matched with nothing and gets 0 (metric ``legal_rate`` counts
    them). The paper's reward of the turn that gives the answer, token F1, is not here: games have
    no such turn, and pay their outcome themselves. It is shaping: set ``reorder_outcomes`` to have
    it whole.
    Reference: MatchTIR (arXiv 2601.10712); code of quchangle1/MatchTIR, tool.py.
    Verified by: tests/methods/rewards/test_reference_match.py, tests/ops/test_matching.py.

    Args:
        matching: how calls are matched. "km" (default) is exact; of equally good matchings it takes
            the one that pays earlier turns more. "greedy" takes the most alike pair first and can
            miss the largest sum (preset ``as_released``: the released code calls it Hungarian).
            "optimal_transport" spreads each call over the reference.
        regularisation: weight of the entropy of T in "optimal_transport", at least 0.01. A larger
            value spreads more evenly. The other matchings do not read it.
    """
    turns = episode.turns
    if not turns or not has_reference(game):
        return (None,) * len(turns)
    copies = replay(game, episode)
    reference = reference_of(copies[0])
    close_copies(copies)
    if reference is None:
        return (None,) * len(turns)
    wanted = [call for action in reference for call in calls_of(action)]
    made = [
        (number, call)
        for number, turn in enumerate(turns)
        if turn.event == "ok"
        for call in calls_of(turn.action or "")
    ]
    paid = _paid(likenesses([call for _, call in made], wanted), matching, regularisation)
    owners = np.array([number for number, _ in made], dtype=np.int64)
    total, calls = np.bincount(owners, paid, len(turns)), np.bincount(owners, minlength=len(turns))
    return tuple((total / np.maximum(calls, 1)).tolist())


def _paid(similarity: FloatArray, matching: Matching, regularisation: float) -> FloatArray:
    """Return what each call gets, [calls]."""
    if not similarity.size:
        return np.zeros(len(similarity))
    if matching == "optimal_transport":
        return np.asarray(
            (transport_plan(similarity, regularisation) * similarity).sum(1), dtype=np.float64
        )
    column = (exact_matching if matching == "km" else greedy_matching)(similarity)
    found = similarity[np.arange(len(similarity)), np.maximum(column, 0)]
    return np.asarray(np.where(column >= 0, found, 0.0), dtype=np.float64)
