"""AlphaStar's league, draw by draw: a main, a main exploiter and two league exploiters.

An agent has a policy per side (one where the sides share), and its rate of wins is over all sides.
Rates are exact, where the published code keeps decayed counts. A round draws one opponent per step
of improvement. Follows the pseudo-code published with Vinyals et al., 2019 (Nature 575).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from sparring.core.rng import Stream
from sparring.league.matchmakers.alphastar import BEATEN_RATE, EXPLOITER, LEAGUE, MAIN, opponent
from studies.self_play.frame import Run
from studies.self_play.worlds import P

AGENTS = (MAIN, EXPLOITER, LEAGUE, LEAGUE)
RESET = {MAIN: 0.0, EXPLOITER: 1.0, LEAGUE: 0.25}  # probability, by kind


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint(Generic[P]):
    """A frozen agent: of which kind, and its policies."""

    kind: str
    policies: Sequence[P]


@dataclass(slots=True)
class Agent(Generic[P]):
    """A live agent: its policies, and the rounds since its last checkpoint."""

    kind: str
    policies: Sequence[P]
    age: int = 0


class League(Run[P]):
    """A league of live agents and their checkpoints; the main is handed in.

    Options of the recipe: ``least`` and ``most``, rounds after which a checkpoint may and must be
    made (2e9 and 4e9 steps in the paper), and ``reset``, whether exploiters begin afresh.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.checkpoints: list[Checkpoint[P]] = [Checkpoint(MAIN, tuple(self.live))]
        self.agents: list[Agent[P]] = [Agent(kind, tuple(self.live)) for kind in AGENTS]

    def train(self) -> None:
        """Train every agent against its draws; make the checkpoints that are due."""
        trained = [self._train_member(index, agent) for index, agent in enumerate(self.agents)]
        for agent, policies in zip(self.agents, trained, strict=True):
            agent.policies, agent.age = policies, agent.age + 1
        for index, agent in enumerate(self.agents):
            if self._due(agent):
                self._keep(index, agent)
        self.live = list(self.agents[0].policies)

    def answer(self) -> list[P]:
        """Return the live main."""
        return self.profile(self.live)

    def _train_member(self, number: int, agent: Agent[P]) -> list[P]:
        """Return an agent's policies after a round against its draws."""
        stream = self.stream.child("draws").child(self.round).child(number)
        steps = self.recipe.oracle.steps
        draws = [self._opponent(agent, stream.child(step)) for step in range(steps)]
        result = []
        for side in range(self.learners):
            others = [self.of(other) for other in range(self.world.sides) if other != side]
            against = [(tuple(opponents[o] for o in others), 1 / steps) for opponents in draws]
            result.append(self.respond(side, against, agent.policies[side]))
        return result

    def _opponent(self, agent: Agent[P], stream: Stream) -> Sequence[P]:
        """Return the opponent of an agent's next play."""
        main, frozen = self.agents[0], list[Agent[P] | Checkpoint[P]](self.checkpoints)
        agent_met = opponent(
            agent.kind,
            mains=[main],
            frozen=frozen,
            tag=lambda member: member.kind,
            past=lambda _: [member for member in frozen if member.kind == MAIN],
            rate=lambda member: self._rate(agent, member.policies),
            stream=stream,
        )
        return main.policies if agent_met is None else agent_met.policies

    def _rate(self, agent: Agent[P], other: Sequence[P]) -> float:
        """Return an agent's rate of wins against another's policies."""
        return self.wins(agent.policies, other)

    def _due(self, agent: Agent[P]) -> bool:
        """Return whether an agent's checkpoint is to be made now."""
        least, most = self.recipe.options["least"], self.recipe.options["most"]
        if agent.age < least:
            return False
        among = [self.agents[0]] if agent.kind == EXPLOITER else self.checkpoints
        rates = [self._rate(agent, other.policies) for other in among]
        return min(rates) > BEATEN_RATE or agent.age >= most

    def _keep(self, number: int, agent: Agent[P]) -> None:
        """Make an agent's checkpoint; an exploiter may begin afresh."""
        self.checkpoints.append(Checkpoint(agent.kind, tuple(agent.policies)))
        for side, policy in enumerate(agent.policies):
            self.join(side, policy)
        agent.age = 0
        coin = self.stream.child("reset").child(self.round).uniform(number)
        if self.recipe.options["reset"] and coin < RESET[agent.kind]:
            agent.policies = self.checkpoints[0].policies
