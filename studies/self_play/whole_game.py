"""Runs that compute their mixture in the full game instead of the members' payoff table."""

from __future__ import annotations

from typing import Any

from sparring.league.meta_game import MetaStrategy
from studies.self_play.frame import Run
from studies.self_play.tree_world import TablePlan, TreeWorld
from studies.self_play.worlds import Opponents


class TreeRun(Run[TablePlan]):
    """A run in a game with a small tree."""

    world: TreeWorld


class Anytime(TreeRun):
    """Anytime PSRO: each side plays the mixture that a best response in the game exploits least.

    A linear program computes the mixture; the paper minimises regret against a live best response.
    Members are only added, so the exploitability of the mixtures never rises.

    Reference: McAleer et al., 2022 (arXiv 2201.07700).
    """

    def strategy(self) -> MetaStrategy:
        """Return the safest mixtures."""
        distributions = [self.world.safest(s, members) for s, members in enumerate(self.members)]
        return MetaStrategy(sides=(distributions[0], distributions[self.population_of(1)]))


class Xdo(TreeRun):
    """Extensive-form double oracle: only actions that members use are legal at each state.

    This restricted game is solved by linear programming (in the paper by CFR). New policies are
    trained against its equilibrium, which is also the answer.

    Reference: McAleer et al., 2021 (arXiv 2103.06426).
    """

    def train(self) -> None:
        """Train against the equilibrium; a response that earns more joins, with its actions."""
        profile = self.answer()
        result: list[tuple[int, TablePlan]] = []
        for side in range(self.num_populations):
            opponents: Opponents[Any] = [((profile[1 - side],), 1.0)]
            policy = self.respond(side, opponents, self.live[side])
            old_value, new = (
                self.payoff_against(side, candidate, opponents)
                for candidate in (profile[side], policy)
            )
            if new > old_value + (self.recipe.schedule.gain or 0.0):
                result.append((side, policy))
        self.has_converged = not result
        for side, policy in result:
            self.join(side, policy)

    def answer(self) -> list[TablePlan]:
        """Return the equilibrium of the game with the members' actions."""
        return self.world.restricted([self.members[self.population_of(side)] for side in (0, 1)])
