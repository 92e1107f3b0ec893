"""The loop of self-play: solve for a row, answer it, let the answer join, hand in an answer.

Pi are the populations, one per side (or one that both sides share), U the members' payoffs, sigma
what the meta-solver makes of them:

    sigma <- solver(U),    new policy of side s <- oracle(sigma of the others),    Pi <- Pi + new

All sides answer the populations as they were when the round began. Mixtures are drawn once per
play. What an algorithm is, a ``Recipe`` says: its row, oracle, schedule and answer.
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
from studies.self_play.worlds import Against, Oracle, P, Start, World

SLOT = "league.meta_solvers"
MASS = 1e-6  # members with less are not answered by themselves

STATIC = ("uniform", "last", "delta_uniform")
"""Meta-solvers that do not look at payoffs, so that no table of them is filled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """With whom a new policy is trained.

    Args:
        solver: a meta-solver, by name; its distribution over members is answered.
        options: of the solver.
        self_share: share of the plays against the other side's newest policy of its own time; in a
            shared population that is the learner itself.
        each: answers every member that a joint distribution recommends by itself (CE).
    """

    solver: str = "last"
    options: Mapping[str, Any] = field(default_factory=dict)
    self_share: float = 0.0
    each: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """When a policy joins the population.

    Args:
        gate: it joins if it wins more than this share of its plays with the newest member, and
            else is trained on; None: after every round.
        gain: it joins if it earns more than every member of its side, by this; None: always.
        keep: members kept, the newest; None: all.
    """

    gate: float | None = None
    gain: float | None = None
    keep: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """An algorithm of self-play.

    Args:
        start: the first policy of every population.
        shared: whether the sides of a symmetric world share one population.
        both_seats: whether a member has a policy for each side where the sides differ, so that
            there is one population.
        row: with whom a new policy is trained.
        oracle: how it is trained.
        schedule: when it joins.
        answer: what is handed in at the end: the newest member, the uniform mixture of all policies
            that ever joined, or the row's mixture of members.
        kind: the run, where a method of it is the algorithm's own; None: ``Run``.
        options: of this kind of run.
        at_once: policies of a side that are trained in one round.
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
    at_once: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """How a run stands.

    Args:
        answers: of each side, at most.
        round: rounds done.
        passes: best responses and steps of improvement, of all populations.
        cells: payoffs of members against each other that were evaluated.
        members: of all populations.
        gap: NashConv of the answer, in the environment's units.
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
        members: of each population, the oldest first.
        live: of each population, the policy that is trained.
        average: of each population, the uniform mixture of all policies that ever joined.
        settled: whether further rounds would change nothing.

    Args:
        recipe: the algorithm.
        world: the game.
        stream: of all draws.
    """

    def __init__(self, recipe: Recipe, world: World[P], stream: Stream) -> None:
        self.recipe, self.world, self.stream = recipe, world, stream
        self.shared = recipe.shared and world.symmetric
        self.learners = 1 if self.shared else world.sides
        self.live = [self.fresh(side, "first policy") for side in range(self.learners)]
        self.members: list[list[P]] = [[policy] for policy in self.live]
        self.average, self.joined = list(self.live), [1] * self.learners
        self.table = PayoffTable(world, self.shared)
        self._solver = bind(SLOT, recipe.row.solver, recipe.row.options)
        self.round = self.passes = 0
        self.settled = False

    def fresh(self, side: int, name: str | int) -> P:
        """Return a first policy for a side, drawn by this name."""
        return self.world.start(side, self.recipe.start, self.stream.child("start").child(name))

    def of(self, side: int) -> int:
        """Return the population that a side draws from."""
        return 0 if self.shared else side

    def game(self, *, payoffs: bool = True) -> MetaGame:
        """Return the members' meta-game; without payoffs, of its size and with zeros in it."""
        if payoffs:
            return self.table.game(self.profile(self.members))
        shape = tuple(map(len, self.profile(self.members)))
        return MetaGame(payoffs=tuple(np.zeros((self.world.sides, *shape))), symmetric=self.shared)

    def strategy(self) -> MetaStrategy:
        """Return whom to answer."""
        return self.solve(self.game(payoffs=self.recipe.row.solver not in STATIC))

    def solve(self, game: MetaGame) -> MetaStrategy:
        """Return what the row's meta-solver makes of a meta-game."""
        strategy: MetaStrategy = self._solver(game)
        return strategy

    def against(self, side: int, weights: FloatArray) -> Against[P]:
        """Return members of the other sides with their weights, for a side that answers them.

        Args:
            side: who answers.
            weights: a weight per cell, with an axis for each other side.
        """
        others = [self.of(other) for other in range(self.world.sides) if other != side]
        return [
            (
                tuple(self.members[o][n] for o, n in zip(others, cell, strict=True)),
                float(weights[tuple(cell)]),
            )
            for cell in np.argwhere(weights > 0)
        ]

    def profile(self, policies: Sequence[Any]) -> list[Any]:
        """Return for every side what belongs to its population."""
        return [policies[self.of(side)] for side in range(self.world.sides)]

    def mixed(self, strategy: MetaStrategy) -> list[P]:
        """Return the profile in which every side draws a member once per play."""
        return [
            self.world.mix(side, self.members[self.of(side)], weights)
            for side, weights in enumerate(strategy.sides)
        ]

    def answer(self) -> list[P]:
        """Return the profile that the algorithm hands in."""
        kind = self.recipe.answer
        if kind == "mixture":
            return self.mixed(self.strategy())
        return self.profile(self.average if kind == "average" else newest(self.members))

    def respond(self, side: int, against: Against[P], start: P) -> P:
        """Return a side's answer by the recipe's oracle, and count what it took."""
        oracle, share = self.recipe.oracle, self.recipe.row.self_share
        self.passes += oracle.steps if oracle.kind == "improve" else 1
        if share and not self.shared:
            others = tuple(policy for other, policy in enumerate(self.live) if other != side)
            against = [*((who, (1 - share) * w) for who, w in against), (others, share)]
            share = 0.0
        return self.world.respond(side, against, oracle, start=start, self_share=share)

    def join(self, side: int, policy: P) -> None:
        """Let a policy join a side's population; the oldest goes where too many are there."""
        self.joined[side] += 1
        weights = np.array([1 - 1 / self.joined[side], 1 / self.joined[side]])
        self.average[side] = self.world.mix(side, [self.average[side], policy], weights)
        self.members[side].append(policy)
        if self.recipe.schedule.keep is not None:
            del self.members[side][: -self.recipe.schedule.keep]

    def step(self) -> None:
        """Do a round."""
        self.round += 1
        self.train()

    def train(self) -> None:
        """Answer the row once per side, or once per member that the row is split into."""
        strategy = self.strategy()
        answers_by_side = [list(self.answers(strategy, side)) for side in range(self.learners)]
        joining = [
            [policy for policy, against in answers if self.gains(side, policy, against)]
            for side, answers in enumerate(answers_by_side)
        ]
        self.live = [answers[-1][0] for answers in answers_by_side]
        self.settled = not any(joining)
        gate = self.recipe.schedule.gate
        if gate is None or self.wins(self.live, newest(self.members)) > gate:
            for side, policies in enumerate(joining):
                for policy in policies:
                    self.join(side, policy)

    def answers(self, strategy: MetaStrategy, side: int) -> Iterator[tuple[P, Against[P]]]:
        """Yield a side's new policies, each with those that it answers."""
        for number, weights in targets(strategy, side, each=self.recipe.row.each):
            against = self.against(side, weights)
            if self.recipe.oracle.warm:
                start = self.live[side] if number is None else self.members[side][number]
            else:
                start = self.fresh(side, f"{self.round} {number}")
            yield self.respond(side, against, start), against

    def gains(self, side: int, policy: P, against: Against[P]) -> bool:
        """Return whether a policy earns so much more than every member that it may join."""
        gain = self.recipe.schedule.gain
        if gain is None:
            return True
        best = max(self.earned(side, member, against) for member in self.members[side])
        return self.earned(side, policy, against) > best + gain

    def earned(self, side: int, policy: P, against: Against[P]) -> float:
        """Return what a side's policy earns against others with their weights."""
        return sum(
            weight * float(self.world.payoffs([*who[:side], policy, *who[side:]])[side])
            for who, weight in against
        )

    def wins(self, policies: Sequence[P], other: Sequence[P]) -> float:
        """Return how often one policy per population wins against others, on every side in turn."""
        shares = []
        for side in range(self.world.sides):
            profile = self.profile(other)
            profile[side] = policies[self.of(side)]
            shares.append(float(self.world.wins(profile)[side]))
        return sum(shares) / len(shares)


def newest(members: Sequence[Sequence[P]]) -> list[P]:
    """Return the newest member of every population."""
    return [side_members[-1] for side_members in members]


def targets(
    strategy: MetaStrategy, side: int, *, each: bool = False
) -> Iterator[tuple[int | None, FloatArray]]:
    """Yield what a side answers: the member whose row it is, and a weight per cell of the others.

    Args:
        strategy: of a meta-solver.
        side: who answers.
        each: whether a joint distribution is answered member by member.
    """
    if strategy.rows is not None:
        yield from ((n, row) for n, row in enumerate(strategy.rows[side]) if row.any())
    elif strategy.joint is not None:
        cells = np.moveaxis(strategy.joint, side, 0)
        if not each:
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
    """Return a run of an algorithm at its start.

    Args:
        recipe: the algorithm.
        world: the game.
        stream: of all draws.
    """
    kind: type[Run[Any]] = recipe.kind or Run
    if recipe.both_seats and not world.symmetric:
        return kind(recipe, BothSeats(world), stream)
    return kind(recipe, world, stream)


def curve(run: Run[P], at: Sequence[int], *, steps: int) -> list[Point]:
    """Return how a run stands after these numbers of answers of each side.

    A round that would go beyond a number is left for the next one; what it takes is taken to be
    what the round before took.

    Args:
        run: a fresh one.
        at: numbers of answers, ascending; 0 is the start.
        steps: of improvement that count as an answer; a best response is one.
    """
    unit = run.learners * (steps if run.recipe.oracle.kind == "improve" else 1)
    cost = run.learners * run.recipe.at_once * max(run.recipe.oracle.steps, 1)
    points: list[Point] = []
    seen, gap = -1, 0.0
    for answers in at:
        while run.passes + cost <= answers * unit and not run.settled:
            before = run.passes
            run.step()
            cost = run.passes - before
        if seen != run.round:
            seen, gap = run.round, run.world.gap(run.answer())
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
