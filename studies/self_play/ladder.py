"""Policies on levels that are trained at once, each against the mixture of the levels below."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparring.league.meta_game import MetaGame
from studies.self_play.frame import Run, newest, targets
from studies.self_play.worlds import Opponents, P

TINY = 1e-12


class Ladder(Run[P]):
    """Live policies on levels; a level is trained against the mixture of all members below it.

    Without freezing the number of levels is fixed: deep cognitive hierarchies, or one policy per
    row as in NeuPL. With freezing (pipeline PSRO), the lowest live policy of a side is frozen when
    a round gains less than ``plateau``, or after ``timer`` rounds, and a new one starts on top.

    Options of the recipe: ``levels``, number of live policies of each side; ``plateau``, a share
    of the largest payoff; ``timer``, a number of rounds. Without both nothing is frozen.

    Reference: Lanctot et al., 2017 (arXiv 1711.00832), DCH; McAleer et al., 2020 (arXiv
    2006.08555), pipeline PSRO; Liu et al., 2022 (arXiv 2202.07415), NeuPL.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.levels: int = self.recipe.options["levels"]
        self.plateau: float | None = self.recipe.options.get("plateau")
        self.timer: int | None = self.recipe.options.get("timer")
        self.frozen = 1  # number of frozen members: the initial policy is frozen
        self.age = 0  # rounds since a policy was last frozen
        for _ in range(self.levels):
            self._climb()

    def _climb(self) -> None:
        """Add a level on top of every population; it begins as the first policy."""
        for side in range(self.num_populations):
            self.join(side, self.members[side][0])

    def train(self) -> None:
        """Train every live policy, and freeze the lowest one if it is due."""
        game = self.table.game(self.profile(self.members), moved=self.frozen)
        members, gains = [list(side_members) for side_members in self.members], []
        for number in range(self.frozen, self.frozen + self.levels):
            strategy = self.solve(first(game, number))
            for side in range(self.num_populations):
                ((_, weights),) = targets(strategy, side)
                opponents: Opponents[P] = self.opponents(side, weights)
                old_policy = self.members[side][number]
                new_policy = members[side][number] = self.respond(side, opponents, old_policy)
                if number == self.frozen:
                    payoffs = [
                        self.payoff_against(side, policy, opponents)
                        for policy in (old_policy, new_policy)
                    ]
                    gains.append(payoffs[1] - payoffs[0])
        self.members, self.live = members, newest(members)
        self.age += 1
        if self._done(max(gains) / max(float(np.abs(game.payoffs[0]).max()), TINY)):
            self.frozen, self.age = self.frozen + 1, 0
            self._climb()

    def game(self, *, payoffs: bool = True) -> MetaGame:
        """Return the meta-game of all present members."""
        return self.table.game(self.profile(self.members), moved=self.frozen)

    def _done(self, gain: float) -> bool:
        """Return whether the lowest live policy must be frozen.

        Args:
            gain: gain of the last round, as a share of the largest payoff.
        """
        if self.plateau is not None:
            return gain < self.plateau
        return self.timer is not None and self.age >= self.timer


def first(game: MetaGame, count: int) -> MetaGame:
    """Return the meta-game of the first members of every side."""
    first_members = (slice(0, count),) * game.num_sides
    return MetaGame(
        payoffs=tuple(table[first_members] for table in game.payoffs),
        symmetric=game.symmetric,
        win_rates=None if game.win_rates is None else game.win_rates[first_members],
    )
