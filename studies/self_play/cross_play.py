"""Fictitious cross-play (FXP): a main policy and counters, which train against each other.

Reference: Xu et al., 2023 (arXiv 2310.03354). The released code has two algorithms: one for matrix
games and one for the gridworld.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sparring.core.records import FloatArray
from sparring.league.meta_game import MetaGame
from studies.self_play.frame import Run
from studies.self_play.worlds import P


class CrossPlay(Run[P]):
    """The algorithm for matrix games: the main continues, and each counter starts fresh.

    In a round the main is trained against itself with the share ``self_share`` of the row, and
    otherwise against the solver's mixture of all members. Then a counter is trained for the same
    number of steps against a mixture of the mains: their side of the solution of mains against
    counters. A population has the first counter, then mains and counters alternately. The answer
    is the mixture over all members, or the last main.

    Options of the recipe: ``reset``, whether a counter starts fresh (default) or continues from the
    last counter.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.live = [self.first_policy(side, "main") for side in range(self.num_populations)]

    def train(self) -> None:
        """Train the main of each population, and then a counter."""
        strategy, learners = self.strategy(), range(self.num_populations)
        self.live = [
            self.respond(side, self.opponents(side, strategy.sides[1 - side]), self.live[side])
            for side in learners
        ]
        for side, main in enumerate(self.live):
            self.join(side, main)
        for side, counter in [(side, self.counter(side)) for side in learners]:
            self.join(side, counter)

    def counter(self, side: int) -> P:
        """Return a side's new counter, trained against the other side's mains."""
        oracle = self.recipe.oracle
        oracle = replace(oracle, steps=getattr(self.live[side], "steps", oracle.steps))
        self.passes += oracle.steps
        weights = self.mains_answer(1 - side)
        opponents = self.opponents(side, np.column_stack([0 * weights, weights]).ravel())
        reset = self.recipe.options.get("reset", True)
        start = (
            self.first_policy(side, f"counter {self.round}") if reset else self.members[side][-2]
        )
        return self.world.respond(side, opponents, oracle, start=start)

    def mains_answer(self, side: int) -> FloatArray:
        """Return a side's distribution over mains in the solution of mains against counters."""
        payoffs = self.game().payoffs[side]
        payoffs_against_counters = (payoffs.T if side == 1 and not self.shared else payoffs)[
            1::2, 0::2
        ]
        return self.solve(
            MetaGame(payoffs=(payoffs_against_counters, -payoffs_against_counters))
        ).sides[0]

    def answer(self) -> list[P]:
        """Return the mixture over all members, or the last main."""
        return self.profile(self.live) if self.recipe.answer == "last" else super().answer()


class GridworldCrossPlay(Run[P]):
    """The algorithm for the gridworld: main and counter train at once, without a payoff table.

    In a round the main is trained against itself with the share ``self_share`` of the row; the
    mains and the counters of the population have half of the rest each. The counter is trained
    against the mains. Then both join. The initial policy counts as a main and as a counter. The two
    sides share one population.

    Options of the recipe: ``reset``, whether a counter starts fresh or continues.
    """

    def train(self) -> None:
        """Train the main and the counter."""
        mains, counters = self.mains(), self.members[0][0::2]
        members_with_weights = [
            (opponent, 0.5 / len(population))
            for population in (mains, counters)
            for opponent in population
        ]
        self.live = [
            self.respond(
                0,
                [((opponent,), weight) for opponent, weight in members_with_weights],
                self.live[0],
            )
        ]
        start = (
            self.first_policy(0, f"counter {self.round}")
            if self.recipe.options["reset"]
            else members_with_weights[-1][0]
        )
        opponents = [((opponent,), 1 / len(mains)) for opponent in mains]
        counter = self.world.respond(0, opponents, self.recipe.oracle, start=start)
        self.passes += self.recipe.oracle.steps
        self.join(0, self.live[0])
        self.join(0, counter)

    def mains(self) -> list[P]:
        """Return the mains of the population, including the initial policy."""
        return [self.members[0][0], *self.members[0][1::2]]

    def answer(self) -> list[P]:
        """Return the last main, the uniform mixture of mains, or the mixture over all members."""
        if self.recipe.answer == "last":
            return self.profile(self.live)
        if self.recipe.answer == "mixture":
            return super().answer()
        mains = self.mains()
        return self.profile([self.world.mix(0, mains, np.full(len(mains), 1 / len(mains)))])
