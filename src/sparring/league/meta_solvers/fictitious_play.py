"""Fictitious play between the members: each round adds a best response to the mean so far."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, strategy_of
from sparring.ops.normal_form import choice_payoffs

PRESETS = {"fxp": {"rounds": 1000}}


def fictitious_play(game: MetaGame, *, rounds: Annotated[int, Field(ge=1)] = 1000) -> MetaStrategy:
    """Give each side the mean of its best responses to the others' means.

    What: the first round is uniform play. In every later round all sides at once
    add their best member against the means of the others; of equal members, the oldest.
    When to use: to reproduce the code of FXP's authors, or as a solver without a linear program.
    ``nash`` is exact, and faster.
    Mathematics: with u_s(i) the payoff of member i of side s against the means of the others,

        a_s = the first i with the largest u_s(i)
        sigma_s <- (t sigma_s + e(a_s)) / (t + 1)     t = 1, ..., rounds - 1

    Pitfalls: it converges slowly to an equilibrium of two opposed sides: after 1000 rounds a side
    may still lose about 0.02 of a range of 2. With more sides, or payoffs whose sum is not
    constant, it may cycle. The first of equal members has more weight, so copies of a member
    differ.
    Reference: Brown, 1951; Robinson, 1951 (convergence for two opposed sides); FXP, arXiv
    2310.03354, whose code has 1000 rounds (preset ``fxp``).
    Verified by: tests/league/meta_solvers/test_fictitious_play.py.

    Args:
        rounds: number of rounds, the uniform one included, at least 1. Default 1000.
    """
    sides = [np.full(size, 1.0 / size) for size in game.shape]
    for num_rounds in range(1, rounds):
        values = [choice_payoffs(table, sides, s) for s, table in enumerate(game.payoffs)]
        best_responses = [np.eye(len(row))[int(row.argmax())] for row in values]
        sides = [
            side * num_rounds / (num_rounds + 1) + response / (num_rounds + 1)
            for side, response in zip(sides, best_responses, strict=True)
        ]
        if game.symmetric:
            sides[1] = sides[0]
    return strategy_of(game, sides)
