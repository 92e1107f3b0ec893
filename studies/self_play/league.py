"""AlphaStar's league: a main, a main exploiter and two league exploiters.

An agent has a policy per side, or one for all sides that share a population. Its win rate is the
mean over sides. Win rates are exact; the published code uses decayed counts. A round draws one
opponent per step of improvement. Reference: pseudo-code of Vinyals et al., 2019 (Nature 575).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from sparring.core.rng import Stream
from sparring.league.matchmakers.alphastar import (
    BEATEN_RATE,
    EXPLOITER,
    LEAGUE,
    MAIN,
    draw_opponent,
)
from studies.self_play.frame import Run
from studies.self_play.worlds import P

AGENTS = (MAIN, EXPLOITER, LEAGUE, LEAGUE)
RESET = {MAIN: 0.0, EXPLOITER: 1.0, LEAGUE: 0.25}  # probability, by kind


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint(Generic[P]):
    """A frozen agent: its kind and its policies."""

    kind: str
    policies: Sequence[P]


@dataclass(slots=True)
class Agent(Generic[P]):
    """A live agent: its policies, and the rounds since its last checkpoint."""

    kind: str
    policies: Sequence[P]
    age: int = 0


class League(Run[P]):
    """A league of live agents and their checkpoints; the main is the final policy.

    Options of the recipe: ``least`` and ``most``, numbers of rounds after which a checkpoint may
    and must be made (2e9 and 4e9 steps in the paper), and ``reset``, whether exploiters are reset.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.checkpoints: list[Checkpoint[P]] = [Checkpoint(MAIN, tuple(self.live))]
        self.agents: list[Agent[P]] = [Agent(kind, tuple(self.live)) for kind in AGENTS]

    def train(self) -> None:
        """Train every agent against its drawn opponents; make the checkpoints that are due."""
        new_policies = [self._train_member(index, agent) for index, agent in enumerate(self.agents)]
        for agent, policies in zip(self.agents, new_policies, strict=True):
            agent.policies, agent.age = policies, agent.age + 1
        for index, agent in enumerate(self.agents):
            if self._due(agent):
                self._keep(index, agent)
        self.live = list(self.agents[0].policies)

    def answer(self) -> list[P]:
        """Return the live main."""
        return self.profile(self.live)

    def _train_member(self, number: int, agent: Agent[P]) -> list[P]:
        """Return an agent's policies after a round against its drawn opponents."""
        stream = self.stream.child("draws").child(self.round).child(number)
        steps = self.recipe.oracle.steps
        draws = [self._opponent(agent, stream.child(step)) for step in range(steps)]
        result = []
        for side in range(self.num_populations):
            others = [
                self.population_of(other) for other in range(self.world.sides) if other != side
            ]
            opponent_mix = [(tuple(opponents[o] for o in others), 1 / steps) for opponents in draws]
            result.append(self.respond(side, opponent_mix, agent.policies[side]))
        return result

    def _opponent(self, agent: Agent[P], stream: Stream) -> Sequence[P]:
        """Return a drawn opponent of an agent."""
        main, frozen = self.agents[0], list[Agent[P] | Checkpoint[P]](self.checkpoints)
        drawn_opponent = draw_opponent(
            agent.kind,
            mains=[main],
            snapshots=frozen,
            tag_of=lambda member: member.kind,
            past_of=lambda _: [member for member in frozen if member.kind == MAIN],
            rate=lambda member: self._rate(agent, member.policies),
            stream=stream,
        )
        return main.policies if drawn_opponent is None else drawn_opponent.policies

    def _rate(self, agent: Agent[P], other: Sequence[P]) -> float:
        """Return an agent's win rate against other policies."""
        return self.wins(agent.policies, other)

    def _due(self, agent: Agent[P]) -> bool:
        """Return whether a checkpoint of an agent is due."""
        min_age, max_age = self.recipe.options["least"], self.recipe.options["most"]
        if agent.age < min_age:
            return False
        others = [self.agents[0]] if agent.kind == EXPLOITER else self.checkpoints
        rates = [self._rate(agent, other.policies) for other in others]
        return min(rates) > BEATEN_RATE or agent.age >= max_age

    def _keep(self, number: int, agent: Agent[P]) -> None:
        """Make a checkpoint of an agent; an exploiter may be reset afterwards."""
        self.checkpoints.append(Checkpoint(agent.kind, tuple(agent.policies)))
        for side, policy in enumerate(agent.policies):
            self.join(side, policy)
        agent.age = 0
        draw = self.stream.child("reset").child(self.round).uniform(number)
        if self.recipe.options["reset"] and draw < RESET[agent.kind]:
            agent.policies = self.checkpoints[0].policies
