"""The loop of self-play: compute opponents, train a new policy, and add it to a population.

Pi are the populations, one per side (or one that both sides share), U the payoffs of members, and
sigma the mixture that the meta-solver computes from them:

    sigma <- solver(U),    new policy of side s <- oracle(sigma of the others),    Pi <- Pi + new

In a round, all sides use the populations from the start of the round. A mixture is drawn once per
episode. A ``Recipe`` describes an algorithm: its row, oracle, schedule and answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

import numpy as np

from sparring.config.plugins.registry import bind
from sparring.core.records import FloatArray
from sparring.core.rng import Stream
from sparring.league.meta_game import MetaGame, MetaStrategy
from studies.self_play.both_seats import BothSeats
from studies.self_play.payoff_table import PayoffTable
from studies.self_play.worlds import Opponents, Oracle, P, Start, World

SLOT = "league.meta_solvers"
MASS = 1e-6  # a joint distribution is not answered for members with a smaller probability

STATIC = ("uniform", "last", "delta_uniform")
"""Meta-solvers that do not use payoffs; for these no payoff table is computed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The opponents that a new policy is trained against.

    Args:
        solver: name of the meta-solver that computes the distribution of opponents.
        options: options of the solver.
        self_share: share of the episodes against the other side's present policy; in a shared
            population this is the learner itself.
        by_member: whether a joint distribution is answered separately for each recommended member
            (CE).
    """

    solver: str = "last"
    options: Mapping[str, Any] = field(default_factory=dict)
    self_share: float = 0.0
    by_member: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """When a policy joins the population.

    Args:
        gate: a policy joins if it wins more than this share against the newest member; otherwise
            its training continues. None: a policy joins after every round.
        gain: a policy joins if it earns more than the best member of its side plus this number;
            None: always.
        keep: number of newest members to keep; None: all.
    """

    gate: float | None = None
    gain: float | None = None
    keep: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """An algorithm of self-play.

    Args:
        start: kind of the first policy of every population.
        shared: whether the sides of a symmetric world share one population.
        both_seats: whether a member has a policy for each side if the sides differ, so that there
            is one population.
        row: the opponents of a new policy.
        oracle: how a new policy is trained.
        schedule: when a new policy joins its population.
        answer: the final policy: the newest member, the uniform mixture of all policies that ever
            joined, or the row's mixture of members.
        kind: class of the run, for an algorithm with its own methods; None: ``Run``.
        options: options of this class.
        policies_per_round: number of policies of a side that are trained in one round.
    """

    start: Start = "random"
    shared: bool = True
    both_seats: bool = False
    row: Row = field(default_factory=Row)
    oracle: Oracle = field(default_factory=Oracle)
    schedule: Schedule = field(default_factory=Schedule)
    answer: Literal["last", "average", "mixture"] = "mixture"
    kind: type[Run[Any]] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    policies_per_round: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """The state of a run at one point of its curve.

    Args:
        answers: largest number of answers of a side.
        round: number of finished rounds.
        passes: number of best responses and steps of improvement, in all populations.
        cells: number of computed entries of the payoff table.
        members: number of members in all populations.
        gap: NashConv of the final policy, in the environment's units.
    """

    answers: int
    round: int
    passes: int
    cells: int
    members: int
    gap: float


class Run(Generic[P]):
    """A run of an algorithm.

    Attributes:
        members: members of each population, oldest first.
        live: the policy of each population that is trained.
        average: for each population, the uniform mixture of all policies that ever joined.
        has_converged: whether further rounds would change nothing.

    Args:
        recipe: the algorithm.
        world: the game.
        stream: stream of all random draws.
    """

    def __init__(self, recipe: Recipe, world: World[P], stream: Stream) -> None:
        self.recipe, self.world, self.stream = recipe, world, stream
        self.shared = recipe.shared and world.symmetric
        self.num_populations = 1 if self.shared else world.sides
        self.live = [
            self.first_policy(side, "first policy") for side in range(self.num_populations)
        ]
        self.members: list[list[P]] = [[policy] for policy in self.live]
        self.average, self.num_joined = list(self.live), [1] * self.num_populations
        self.table = PayoffTable(world, self.shared)
        self._solver = bind(SLOT, recipe.row.solver, recipe.row.options)
        self.round = self.passes = 0
        self.has_converged = False

    def first_policy(self, side: int, name: str | int) -> P:
        """Return an initial policy of a side; the name selects the random draws."""
        return self.world.start(side, self.recipe.start, self.stream.child("start").child(name))

    def population_of(self, side: int) -> int:
        """Return the index of a side's population."""
        return 0 if self.shared else side

    def game(self, *, payoffs: bool = True) -> MetaGame:
        """Return the members' meta-game; without ``payoffs``, all its entries are 0."""
        if payoffs:
            return self.table.game(self.profile(self.members))
        shape = tuple(map(len, self.profile(self.members)))
        return MetaGame(payoffs=tuple(np.zeros((self.world.sides, *shape))), symmetric=self.shared)

    def strategy(self) -> MetaStrategy:
        """Return the distribution of opponents."""
        return self.solve(self.game(payoffs=self.recipe.row.solver not in STATIC))

    def solve(self, game: MetaGame) -> MetaStrategy:
        """Return the solution of a meta-game by the row's meta-solver."""
        strategy: MetaStrategy = self._solver(game)
        return strategy

    def opponents(self, side: int, weights: FloatArray) -> Opponents[P]:
        """Return the opponents of a side: members of the other sides, with weights.

        Args:
            side: the side that is trained.
            weights: weight of each cell; one axis for each other side.
        """
        others = [self.population_of(other) for other in range(self.world.sides) if other != side]
        return [
            (
                tuple(self.members[o][n] for o, n in zip(others, cell, strict=True)),
                float(weights[tuple(cell)]),
            )
            for cell in np.argwhere(weights > 0)
        ]

    def profile(self, policies: Sequence[Any]) -> list[Any]:
        """Return the entry of each side's population, in the order of sides."""
        return [policies[self.population_of(side)] for side in range(self.world.sides)]

    def mixed(self, strategy: MetaStrategy) -> list[P]:
        """Return the profile in which every side draws a member once per episode."""
        return [
            self.world.mix(side, self.members[self.population_of(side)], weights)
            for side, weights in enumerate(strategy.sides)
        ]

    def answer(self) -> list[P]:
        """Return the final policy of each side."""
        answer_kind = self.recipe.answer
        if answer_kind == "mixture":
            return self.mixed(self.strategy())
        return self.profile(self.average if answer_kind == "average" else newest(self.members))

    def respond(self, side: int, opponents: Opponents[P], start: P) -> P:
        """Return a side's response by the recipe's oracle, and count its passes."""
        oracle, share = self.recipe.oracle, self.recipe.row.self_share
        self.passes += oracle.steps if oracle.kind == "improve" else 1
        if share and not self.shared:
            others = tuple(policy for other, policy in enumerate(self.live) if other != side)
            opponents = [
                *((policies, (1 - share) * weight) for policies, weight in opponents),
                (others, share),
            ]
            share = 0.0
        return self.world.respond(side, opponents, oracle, start=start, self_share=share)

    def join(self, side: int, policy: P) -> None:
        """Add a policy to a side's population; remove the oldest if there are too many."""
        self.num_joined[side] += 1
        weights = np.array([1 - 1 / self.num_joined[side], 1 / self.num_joined[side]])
        self.average[side] = self.world.mix(side, [self.average[side], policy], weights)
        self.members[side].append(policy)
        if self.recipe.schedule.keep is not None:
            del self.members[side][: -self.recipe.schedule.keep]

    def step(self) -> None:
        """Run one round."""
        self.round += 1
        self.train()

    def train(self) -> None:
        """Train the responses of each side to the row, and let them join."""
        strategy = self.strategy()
        answers_by_side = [
            list(self.answers(strategy, side)) for side in range(self.num_populations)
        ]
        joining_by_side = [
            [policy for policy, opponents in answers if self.earns_enough(side, policy, opponents)]
            for side, answers in enumerate(answers_by_side)
        ]
        self.live = [answers[-1][0] for answers in answers_by_side]
        self.has_converged = not any(joining_by_side)
        gate = self.recipe.schedule.gate
        if gate is None or self.wins(self.live, newest(self.members)) > gate:
            for side, policies in enumerate(joining_by_side):
                for policy in policies:
                    self.join(side, policy)

    def answers(self, strategy: MetaStrategy, side: int) -> Iterator[tuple[P, Opponents[P]]]:
        """Yield a side's new policies, each with its opponents."""
        for number, weights in targets(strategy, side, by_member=self.recipe.row.by_member):
            opponents = self.opponents(side, weights)
            if self.recipe.oracle.warm:
                start = self.live[side] if number is None else self.members[side][number]
            else:
                start = self.first_policy(side, f"{self.round} {number}")
            yield self.respond(side, opponents, start), opponents

    def earns_enough(self, side: int, policy: P, opponents: Opponents[P]) -> bool:
        """Return whether a policy earns enough more than the best member to join."""
        gain = self.recipe.schedule.gain
        if gain is None:
            return True
        best = max(self.payoff_against(side, member, opponents) for member in self.members[side])
        return self.payoff_against(side, policy, opponents) > best + gain

    def payoff_against(self, side: int, policy: P, opponents: Opponents[P]) -> float:
        """Return the expected payoff of a side's policy against weighted opponents."""
        return sum(
            weight * float(self.world.payoffs([*policies[:side], policy, *policies[side:]])[side])
            for policies, weight in opponents
        )

    def wins(self, policies: Sequence[P], other: Sequence[P]) -> float:
        """Return the win rate of policies against others, as the mean over sides."""
        shares = []
        for side in range(self.world.sides):
            profile = self.profile(other)
            profile[side] = policies[self.population_of(side)]
            shares.append(float(self.world.wins(profile)[side]))
        return sum(shares) / len(shares)


def newest(members: Sequence[Sequence[P]]) -> list[P]:
    """Return the newest member of every population."""
    return [side_members[-1] for side_members in members]


def targets(
    strategy: MetaStrategy, side: int, *, by_member: bool = False
) -> Iterator[tuple[int | None, FloatArray]]:
    """Yield the member that a distribution of opponents is for, and the weights of the opponents.

    The member is None if one distribution is for all members.

    Args:
        strategy: solution of a meta-solver.
        side: the side that is trained.
        by_member: whether a joint distribution is answered separately for each member.
    """
    if strategy.rows is not None:
        yield from ((n, row) for n, row in enumerate(strategy.rows[side]) if row.any())
    elif strategy.joint is not None:
        cells = np.moveaxis(strategy.joint, side, 0)
        if not by_member:
            yield None, cells.sum(axis=0)
            return
        for index, mass in enumerate(cells.reshape(len(cells), -1).sum(axis=1)):
            if mass > MASS:
                yield index, cells[index] / mass
    else:
        weights = np.ones(())
        for other, side_weights in enumerate(strategy.sides):
            if other != side:
                weights = np.multiply.outer(weights, side_weights)
        yield None, weights


def begin(recipe: Recipe, world: World[P], stream: Stream) -> Run[Any]:
    """Return a new run of an algorithm.

    Args:
        recipe: the algorithm.
        world: the game.
        stream: stream of all random draws.
    """
    kind: type[Run[Any]] = recipe.kind or Run
    if recipe.both_seats and not world.symmetric:
        return kind(recipe, BothSeats(world), stream)
    return kind(recipe, world, stream)


def curve(run: Run[P], answer_counts: Sequence[int], *, steps: int) -> list[Point]:
    """Return the state of a run after these numbers of answers of each side.

    A round that would exceed a number is run later. Its cost is estimated by the cost of the
    previous round.

    Args:
        run: a new run.
        at: numbers of answers, ascending; 0 is the start.
        steps: number of steps of improvement that count as one answer, as a best response does.
    """
    unit = run.num_populations * (steps if run.recipe.oracle.kind == "improve" else 1)
    cost = run.num_populations * run.recipe.policies_per_round * max(run.recipe.oracle.steps, 1)
    points: list[Point] = []
    measured_round, gap = -1, 0.0
    for answers in answer_counts:
        while run.passes + cost <= answers * unit and not run.has_converged:
            passes_before = run.passes
            run.step()
            cost = run.passes - passes_before
        if measured_round != run.round:
            measured_round, gap = run.round, run.world.gap(run.answer())
        points.append(
            Point(
                answers=answers,
                round=run.round,
                passes=run.passes,
                cells=run.table.cells,
                members=sum(map(len, run.members)),
                gap=gap,
            )
        )
    return points
