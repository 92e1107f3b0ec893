"""Fictitious cross-play, FXP: a main policy, and counters that answer it and that it answers.

Reference: Xu et al., 2023 (arXiv 2310.03354), by the released code: the matrix games' form and the
gridworld's, which is another algorithm.
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
    """The form of the matrix games: the main goes on, a counter begins afresh.

    A round: the main is trained against itself by the row's ``self_share`` and else against the
    solver's mixture of all members; then a counter is trained against the mains, weighed by their
    side of the solver's answer to mains against counters, for as many steps as the main took. A
    population holds the first counter, then mains and counters in turn. The answer is the mixture
    over all members, or the last main.

    Options of the recipe: ``reset``, whether a counter begins afresh (default), or goes on from
    the last one.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.live = [self.fresh(side, "main") for side in range(self.learners)]

    def train(self) -> None:
        """Train a main of every population, and then a counter."""
        strategy, learners = self.strategy(), range(self.learners)
        self.live = [
            self.respond(side, self.against(side, strategy.sides[1 - side]), self.live[side])
            for side in learners
        ]
        for side, main in enumerate(self.live):
            self.join(side, main)
        for side, counter in [(side, self.counter(side)) for side in learners]:
            self.join(side, counter)

    def counter(self, side: int) -> P:
        """Return a side's new counter of the other side's mains."""
        oracle = self.recipe.oracle
        oracle = replace(oracle, steps=getattr(self.live[side], "steps", oracle.steps))
        self.passes += oracle.steps
        weights = self.mains_answer(1 - side)
        against = self.against(side, np.column_stack([0 * weights, weights]).ravel())
        reset = self.recipe.options.get("reset", True)
        start = self.fresh(side, f"counter {self.round}") if reset else self.members[side][-2]
        return self.world.respond(side, against, oracle, start=start)

    def mains_answer(self, side: int) -> FloatArray:
        """Return the solver's distribution over a side's mains, against the counters they met."""
        payoffs = self.game().payoffs[side]
        against = (payoffs.T if side == 1 and not self.shared else payoffs)[1::2, 0::2]
        return self.solve(MetaGame(payoffs=(against, -against))).sides[0]

    def answer(self) -> list[P]:
        """Return the mixture over all members, or the last main."""
        return self.profile(self.live) if self.recipe.answer == "last" else super().answer()


class GridworldCrossPlay(Run[P]):
    """The gridworld's form: main and counter at once, with fixed shares and no payoff table.

    A round: the main is trained against itself by the row's ``self_share``, and else against mains
    and counters of the population, half of it each; the counter against mains. Both join then. The
    first policy counts as a main and as a counter. Two sides share one population.

    Options of the recipe: ``reset``, whether a counter begins afresh or goes on.
    """

    def train(self) -> None:
        """Train the main and the counter."""
        mains, counters = self.mains(), self.members[0][0::2]
        opponents = [
            (opponent, 0.5 / len(population))
            for population in (mains, counters)
            for opponent in population
        ]
        self.live = [self.respond(0, [((opponent,), w) for opponent, w in opponents], self.live[0])]
        start = (
            self.fresh(0, f"counter {self.round}")
            if self.recipe.options["reset"]
            else opponents[-1][0]
        )
        against = [((opponent,), 1 / len(mains)) for opponent in mains]
        counter = self.world.respond(0, against, self.recipe.oracle, start=start)
        self.passes += self.recipe.oracle.steps
        self.join(0, self.live[0])
        self.join(0, counter)

    def mains(self) -> list[P]:
        """Return the mains of the population, the first policy included."""
        return [self.members[0][0], *self.members[0][1::2]]

    def answer(self) -> list[P]:
        """Return the last main, the uniform mixture of mains, or the mixture over all members."""
        if self.recipe.answer == "last":
            return self.profile(self.live)
        if self.recipe.answer == "mixture":
            return super().answer()
        mains = self.mains()
        return self.profile([self.world.mix(0, mains, np.full(len(mains), 1 / len(mains)))])
