"""AlphaStar's league, draw by draw: a main, a main exploiter and two league exploiters.

An agent has a policy per side (one where the sides share), and its rate of wins is over all sides.
Rates are exact, where the published code keeps decayed counts. A round draws one opponent per step
of improvement. Follows the pseudo-code published with Vinyals et al., 2019 (Nature 575).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal

from sparring.experiments.self_play.frame import Run
from sparring.experiments.self_play.worlds import P
from sparring.league.matchmakers.base import drawn
from sparring.league.weighting import AS_PUBLISHED, weights
from sparring.rng import Stream

Kind = Literal["main", "main exploiter", "league exploiter"]
AGENTS: tuple[Kind, ...] = ("main", "main exploiter", "league exploiter", "league exploiter")
BEATEN = 0.7  # a checkpoint is due once the lowest rate of wins is above this
RESET = {"main": 0.0, "main exploiter": 1.0, "league exploiter": 0.25}  # probability, by kind


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint(Generic[P]):
    """A frozen agent: of which kind, and its policies."""

    kind: Kind
    policies: Sequence[P]


@dataclass(slots=True)
class Agent(Generic[P]):
    """A live agent: its policies, and the rounds since its last checkpoint."""

    kind: Kind
    policies: Sequence[P]
    age: int = 0


class League(Run[P]):
    """A league of live agents and their checkpoints; the main is handed in.

    Options of the recipe: ``least`` and ``most``, rounds after which a checkpoint may and must be
    made (2e9 and 4e9 steps in the paper), and ``reset``, whether exploiters begin afresh.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.checkpoints: list[Checkpoint[P]] = [Checkpoint("main", tuple(self.live))]
        self.agents: list[Agent[P]] = [Agent(kind, tuple(self.live)) for kind in AGENTS]

    def train(self) -> None:
        """Train every agent against its draws; make the checkpoints that are due."""
        trained = [self._trained(number, agent) for number, agent in enumerate(self.agents)]
        for agent, policies in zip(self.agents, trained, strict=True):
            agent.policies, agent.age = policies, agent.age + 1
        for number, agent in enumerate(self.agents):
            if self._due(agent):
                self._keep(number, agent)
        self.live = list(self.agents[0].policies)

    def answer(self) -> list[P]:
        """Return the live main."""
        return self.profile(self.live)

    def _trained(self, number: int, agent: Agent[P]) -> list[P]:
        """Return an agent's policies after a round against its draws."""
        stream = self.stream.child("draws").child(self.round).child(number)
        steps = self.recipe.oracle.steps
        draws = [self._opponent(agent, stream.child(step)) for step in range(steps)]
        found = []
        for side in range(self.learners):
            others = [self.of(other) for other in range(self.world.sides) if other != side]
            against = [(tuple(drawn[o] for o in others), 1 / steps) for drawn in draws]
            found.append(self.respond(side, against, agent.policies[side]))
        return found

    def _opponent(self, agent: Agent[P], stream: Stream) -> Sequence[P]:
        """Return the opponent of an agent's next play."""
        main, frozen = self.agents[0], self.checkpoints
        mains = [one for one in frozen if one.kind == "main"]
        if agent.kind == "league exploiter":
            return self._drawn(agent, frozen, "linear_capped", stream)
        if agent.kind == "main exploiter":
            if self._rate(agent, main.policies) > 0.1:
                return main.policies
            return self._drawn(agent, mains, "variance", stream)
        coin = stream.uniform(0)
        if coin < 0.5:
            return self._drawn(agent, frozen, "squared", stream)
        if coin < 0.65:
            checked = self._verified(agent, mains, stream)
            if checked is not None:
                return checked
        return main.policies  # with one main, its rate of wins against itself is 1/2: above 0.3

    def _verified(
        self, agent: Agent[P], mains: list[Checkpoint[P]], stream: Stream
    ) -> Sequence[P] | None:
        """Return a checkpoint that the main has unlearnt to beat, or None."""
        exploiters = [one for one in self.checkpoints if one.kind == "main exploiter"]
        if exploiters and min(self._rates(agent, exploiters)) < 0.3:
            return self._drawn(agent, exploiters, "squared", stream)
        kept = without_monotonic_suffix(self._rates(agent, mains))
        if kept and min(self._rates(agent, mains[:kept])) < BEATEN:
            return self._drawn(agent, mains[:kept], "squared", stream)
        return None

    def _drawn(
        self, agent: Agent[P], among: Sequence[Checkpoint[P]], weighting: str, stream: Stream
    ) -> Sequence[P]:
        """Return a checkpoint drawn by how hard it is for an agent."""
        hard = weights(self._rates(agent, among), *AS_PUBLISHED[weighting])
        return drawn(among, hard, stream.uniform(1)).policies

    def _rates(self, agent: Agent[P], among: Sequence[Checkpoint[P]]) -> list[float]:
        """Return an agent's rates of wins against checkpoints."""
        return [self._rate(agent, one.policies) for one in among]

    def _rate(self, agent: Agent[P], other: Sequence[P]) -> float:
        """Return an agent's rate of wins against another's policies."""
        return self.wins(agent.policies, other)

    def _due(self, agent: Agent[P]) -> bool:
        """Return whether an agent's checkpoint is to be made now."""
        least, most = self.recipe.options["least"], self.recipe.options["most"]
        if agent.age < least:
            return False
        among = [self.agents[0]] if agent.kind == "main exploiter" else self.checkpoints
        rates = [self._rate(agent, one.policies) for one in among]
        return min(rates) > BEATEN or agent.age >= most

    def _keep(self, number: int, agent: Agent[P]) -> None:
        """Make an agent's checkpoint; an exploiter may begin afresh."""
        self.checkpoints.append(Checkpoint(agent.kind, tuple(agent.policies)))
        for side, policy in enumerate(agent.policies):
            self.join(side, policy)
        agent.age = 0
        coin = self.stream.child("reset").child(self.round).uniform(number)
        if self.recipe.options["reset"] and coin < RESET[agent.kind]:
            agent.policies = self.checkpoints[0].policies


def without_monotonic_suffix(rates: Sequence[float]) -> int:
    """Return how many checkpoints are left without the newest ones, over which rates only fall.

    Args:
        rates: of wins, against the oldest checkpoint first.
    """
    for last in range(len(rates) - 1, 0, -1):
        if rates[last - 1] < rates[last]:
            return last + 1
    return 0
