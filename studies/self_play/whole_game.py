"""Runs that solve for their mixture in the full game instead of the members' payoff table."""

from __future__ import annotations

from typing import Any

from sparring.league.meta_game import MetaStrategy
from studies.self_play.frame import Run
from studies.self_play.tree_world import TablePlan, TreeWorld
from studies.self_play.worlds import Against


class TreeRun(Run[TablePlan]):
    """A run in a game whose tree can be walked."""

    world: TreeWorld


class Anytime(TreeRun):
    """Anytime PSRO: each side's mixture is the one that loses least to a best response in the game.

    It is solved for by a linear program, where the paper minimises regret against a live best
    response. As members only come, the mixtures' exploitability never rises.

    Reference: McAleer et al., 2022 (arXiv 2201.07700).
    """

    def strategy(self) -> MetaStrategy:
        """Return the safest mixtures."""
        distributions = [self.world.safest(s, members) for s, members in enumerate(self.members)]
        return MetaStrategy(sides=(distributions[0], distributions[self.of(1)]))


class Xdo(TreeRun):
    """Extensive-form double oracle: members say which actions may be used at every state.

    The game with these actions alone is solved, here by linear programming, and its equilibrium is
    answered and handed in. The paper solves it by CFR.

    Reference: McAleer et al., 2021 (arXiv 2103.06426).
    """

    def train(self) -> None:
        """Answer the equilibrium; an answer that earns more brings its actions."""
        profile = self.answer()
        result: list[tuple[int, TablePlan]] = []
        for side in range(self.learners):
            against: Against[Any] = [((profile[1 - side],), 1.0)]
            policy = self.respond(side, against, self.live[side])
            old_value, new = (
                self.earned(side, candidate, against) for candidate in (profile[side], policy)
            )
            if new > old_value + (self.recipe.schedule.gain or 0.0):
                result.append((side, policy))
        self.settled = not result
        for side, policy in result:
            self.join(side, policy)

    def answer(self) -> list[TablePlan]:
        """Return the equilibrium of the game with the members' actions."""
        return self.world.restricted([self.members[self.of(side)] for side in (0, 1)])
