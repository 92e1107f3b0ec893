"""Policies trained at once, each against the mixture of those below it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparring.league.meta_game import MetaGame
from studies.self_play.frame import Run, newest, targets
from studies.self_play.worlds import Against, P

TINY = 1e-12


class Ladder(Run[P]):
    """Live policies on levels; a level is trained against the row of all members below it.

    Without freezing the number of levels is fixed: deep cognitive hierarchies, or one policy per
    row as in NeuPL. With it, the lowest live policy of a side is frozen when a round brings it less
    than ``plateau``, or after ``timer`` rounds, and a fresh one starts on top: pipeline PSRO.

    Options of the recipe: ``levels``, live policies of each side; ``plateau``, in shares of what
    the largest payoff is, and ``timer``, in rounds, None for neither.

    Reference: Lanctot et al., 2017 (arXiv 1711.00832), DCH; McAleer et al., 2020 (arXiv
    2006.08555), pipeline PSRO; Liu et al., 2022 (arXiv 2202.07415), NeuPL.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.levels: int = self.recipe.options["levels"]
        self.plateau: float | None = self.recipe.options.get("plateau")
        self.timer: int | None = self.recipe.options.get("timer")
        self.frozen = 1  # the start is
        self.age = 0  # rounds since the last one was frozen
        for _ in range(self.levels):
            self._climb()

    def _climb(self) -> None:
        """Add a level on top of every population; it begins as the first policy."""
        for side in range(self.learners):
            self.join(side, self.members[side][0])

    def train(self) -> None:
        """Train every live policy, and freeze the lowest where it is time."""
        game = self.table.game(self.profile(self.members), moved=self.frozen)
        moved, gains = [list(side_members) for side_members in self.members], []
        for number in range(self.frozen, self.frozen + self.levels):
            strategy = self.solve(first(game, number))
            for side in range(self.learners):
                ((_, weights),) = targets(strategy, side)
                against: Against[P] = self.against(side, weights)
                before = self.members[side][number]
                after = moved[side][number] = self.respond(side, against, before)
                if number == self.frozen:
                    earned = [self.earned(side, policy, against) for policy in (before, after)]
                    gains.append(earned[1] - earned[0])
        self.members, self.live = moved, newest(moved)
        self.age += 1
        if self._done(max(gains) / max(float(np.abs(game.payoffs[0]).max()), TINY)):
            self.frozen, self.age = self.frozen + 1, 0
            self._climb()

    def game(self, *, payoffs: bool = True) -> MetaGame:
        """Return the meta-game of all members as they are now."""
        return self.table.game(self.profile(self.members), moved=self.frozen)

    def _done(self, gain: float) -> bool:
        """Return whether the lowest live policy is to be frozen.

        Args:
            gain: of the last round, in shares of the largest payoff.
        """
        if self.plateau is not None:
            return gain < self.plateau
        return self.timer is not None and self.age >= self.timer


def first(game: MetaGame, count: int) -> MetaGame:
    """Return the meta-game of the first members of every side."""
    cut = (slice(0, count),) * game.num_sides
    return MetaGame(
        payoffs=tuple(table[cut] for table in game.payoffs),
        symmetric=game.symmetric,
        wins=None if game.wins is None else game.wins[cut],
    )
