"""Fictitious play between the members: each round adds the best answer to the mean so far."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.league.meta_solvers.base import MetaGame, MetaStrategy, answer
from sparring.ops.normal_form import choice_payoffs

PRESETS = {"fxp": {"rounds": 1000}}


def fictitious_play(game: MetaGame, *, rounds: Annotated[int, Field(ge=1)] = 1000) -> MetaStrategy:
    """Give each side the mean of its best answers to the others' means.

    What: the first round is uniform play. In every later round each side adds its best member
    against the means of the others, all at once; of equal ones the oldest.
    When to use: to repeat what FXP's authors released, or as a plain solver that needs no linear
    program. ``nash`` is exact, and quicker.
    Mathematics: with u_s(i) what member i of side s earns while the others play their means,

        a_s = the first i with the largest u_s(i)
        sigma_s <- (t sigma_s + e(a_s)) / (t + 1)     t = 1, ..., rounds - 1

    Pitfalls: it comes near an equilibrium of two opposed sides slowly: after 1000 rounds a side may
    still lose about 0.02 of a range of 2. With more sides, or payoffs of no constant sum, it may
    go in circles. What comes first among equals has more weight, so that copies are not alike.
    Reference: Brown, 1951; Robinson, 1951 (it converges for two opposed sides); FXP, arXiv
    2310.03354, whose code solves its tables so, with 1000 rounds (preset ``fxp``).
    Verified by: tests/league/meta_solvers/test_fictitious_play.py.

    Args:
        rounds: of play, the uniform one included, at least 1. Default 1000.
    """
    sides = [np.full(size, 1.0 / size) for size in game.shape]
    for done in range(1, rounds):
        values = [choice_payoffs(table, sides, s) for s, table in enumerate(game.payoffs)]
        best = [np.eye(len(earned))[int(earned.argmax())] for earned in values]
        sides = [
            side * done / (done + 1) + added / (done + 1)
            for side, added in zip(sides, best, strict=True)
        ]
        if game.symmetric:
            sides[1] = sides[0]
    return answer(game, sides)
