"""The world of a team matrix game: a side is a team, and its members choose independently.

Payoffs depend only on a summary of a team's choices (``environments/team_matrix.py``). So a policy
is described by its distribution over summaries, and payoffs and mixtures are linear in it. Let
pi_m be the policy of member m, and Q(m, a) the team's payoff if m plays a and the other members
keep their policies. Step t of a phase of improvement is that of FXP's code (arXiv 2310.03354):

    pi_m  <-  (1 - r_m) pi_m + r_m e(argmax over a of Q(m, a))
    r_m = rate, and twice that for m = t mod members
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparring.core.records import FloatArray, IntArray
from sparring.core.rng import Stream
from sparring.environments.team_matrix import TeamPayoffs
from studies.self_play.worlds import Opponents, Oracle, Start

MAX_DISTANCE = 1e-4  # squared distance below which a member's policy counts as its best response
MIN_STEPS = 50  # smallest number of steps of a phase against members of the population
TIE = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TeamPlan:
    """The policy of a team: one of several policies, drawn once per episode.

    Args:
        parts: probability and policy, [members, actions], of each.
        visits: probability of each summary of the team's choices, [K].
        steps: number of steps in the last phase of improvement, for a single policy.
    """

    parts: tuple[tuple[float, FloatArray], ...]
    visits: FloatArray
    steps: int = 0

    @property
    def rows(self) -> FloatArray:
        """The policy of each member, [members, actions], if there is only one part."""
        ((_, rows),) = self.parts
        return rows


class TeamWorld:
    """A game of two teams that choose simultaneously.

    Args:
        payoffs: rules of the game.
        name: name of the game.
    """

    sides, symmetric = 2, True

    def __init__(self, payoffs: TeamPayoffs, name: str) -> None:
        self.name, self.members, self.actions = name, payoffs.members, len(payoffs.words)
        index_of_summary: dict[object, int] = {}
        kinds = [
            index_of_summary.setdefault(payoffs.summary_of(chosen), len(index_of_summary))
            for chosen in itertools.product(range(self.actions), repeat=self.members)
        ]
        # index of the summary of each joint choice, [actions, ... (members times)]
        self.summaries: IntArray = np.array(kinds).reshape((self.actions,) * self.members)
        self.payoff_matrix: FloatArray = np.array(
            [
                [payoffs.payoff(mine, theirs) for theirs in index_of_summary]
                for mine in index_of_summary
            ]
        )
        self.win_matrix: FloatArray = (1 + np.sign(self.payoff_matrix)) / 2

    def team_plan(self, rows: FloatArray, steps: int = 0) -> TeamPlan:
        """Return a policy from its members' probabilities, [members, actions]."""
        joint = rows[0]
        for row in rows[1:]:
            joint = np.multiply.outer(joint, row)
        visits: FloatArray = np.bincount(
            self.summaries.ravel(), joint.ravel(), minlength=len(self.payoff_matrix)
        ).astype(np.float64)
        return TeamPlan(parts=((1.0, rows),), visits=visits, steps=steps)

    def start(self, side: int, kind: Start, stream: Stream) -> TeamPlan:
        """Return a side's initial policy; a random one is drawn uniformly and normalised."""
        rows = np.ones((self.members, self.actions))
        draws = stream.child(side).generator().random((self.members, self.actions))
        if kind == "random":
            rows = draws
        if kind in ("pure", "first"):
            first = draws.argmax(axis=1) if kind == "pure" else np.zeros(self.members, dtype=int)
            rows = np.eye(self.actions)[first]
        return self.team_plan(rows / rows.sum(axis=1, keepdims=True))

    def payoffs(self, profile: Sequence[TeamPlan]) -> FloatArray:
        """Return the expected return of both teams, [2]."""
        value = float(profile[0].visits @ self.payoff_matrix @ profile[1].visits)
        return np.array([value, -value])

    def wins(self, profile: Sequence[TeamPlan]) -> FloatArray:
        """Return the probability that each team wins, a draw counting half, [2]."""
        share = float(profile[0].visits @ self.win_matrix @ profile[1].visits)
        return np.array([share, 1.0 - share])

    def respond(
        self,
        side: int,
        opponents: Opponents[TeamPlan],
        oracle: Oracle,
        *,
        start: TeamPlan,
        self_share: float = 0.0,
    ) -> TeamPlan:
        """Return a best joint plan, or a policy after steps of improvement; see ``World``.

        A phase of one step continues the numbering of the previous phase.
        """
        others = sum(
            (weight * plan.visits for (plan,), weight in opponents),
            np.zeros(len(self.payoff_matrix)),
        )
        if oracle.kind == "exact":
            best = _first_best((self.payoff_matrix @ others)[self.summaries].ravel())
            return self.team_plan(
                np.eye(self.actions)[list(np.unravel_index(best, self.summaries.shape))]
            )
        min_steps = MIN_STEPS if self_share < 1 else 0
        first_step = start.steps if oracle.steps == 1 else 0
        return self.improved(
            start, others, oracle, self_share=self_share, least=min_steps, first=first_step
        )

    def improved(
        self,
        start: TeamPlan,
        others: FloatArray,
        oracle: Oracle,
        *,
        self_share: float = 0.0,
        least: int = 0,
        first: int = 0,
    ) -> TeamPlan:
        """Return the policy after a phase of improvement.

        The phase ends early if the policy has been a best response for a tenth of the phase, and
        for at least 5 steps.

        Args:
            start: initial policy.
            others: distribution of the other team over summaries, [K].
            oracle: number and length of the steps.
            self_share: share of the episodes against the present policy itself.
            least: smallest number of steps.
            first: number of the first step.
        """
        plan, steps_as_best_response = start, 0
        for step in range(first, first + oracle.steps):
            opponent_visits = (
                (1 - self_share) * others + self_share * plan.visits if self_share else others
            )
            best_response = np.eye(self.actions)[
                _first_best(self.values(plan.rows, opponent_visits))
            ]
            rate = oracle.rate * (1 + (np.arange(self.members) == step % self.members))[:, None]
            plan = self.team_plan((1 - rate) * plan.rows + rate * best_response, steps=step + 1)
            is_best_response = ((plan.rows - best_response) ** 2).sum(axis=1).max() < MAX_DISTANCE
            steps_as_best_response = steps_as_best_response + 1 if is_best_response else 0
            if steps_as_best_response >= max(5, 0.1 * step) and step >= least:
                break
        return plan

    def values(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        """Return the team's payoff if one member plays an action, [members, actions].

        Args:
            rows: policies of the members.
            others: distribution of the other team over summaries, [K].
        """
        payoffs_by_choice = (self.payoff_matrix @ others)[self.summaries]
        result = np.empty_like(rows)
        for member in range(self.members):
            tensor = payoffs_by_choice
            for other in reversed(range(self.members)):
                if other != member:
                    tensor = np.tensordot(tensor, rows[other], axes=(other, 0))
            result[member] = tensor
        return result

    def mix(self, side: int, policies: Sequence[TeamPlan], weights: FloatArray) -> TeamPlan:
        """Return the mixture of policies, of which one is drawn per episode."""
        chosen = [
            (float(weight), plan)
            for plan, weight in zip(policies, weights, strict=True)
            if weight > 0
        ]
        if len(chosen) == 1:
            return chosen[0][1]
        parts = tuple(
            (weight * share, rows) for weight, plan in chosen for share, rows in plan.parts
        )
        visits: FloatArray = np.sum([weight * plan.visits for weight, plan in chosen], axis=0)
        return TeamPlan(parts=parts, visits=visits)

    def gap(self, profile: Sequence[TeamPlan]) -> float:
        """Return the sum over teams of the gain of a best joint plan."""
        best = [float((self.payoff_matrix @ other.visits).max()) for other in profile[::-1]]
        return max(sum(best), 0.0)  # the payoffs themselves sum to 0

    def one_seat_gap(self, profile: Sequence[TeamPlan]) -> float:
        """Return the sum over teams of the gain of the best plan of one seat.

        A seat knows which policy its team has drawn.
        """
        best = []
        for plan, other in zip(profile, profile[::-1], strict=True):
            values_of_seats = sum(
                weight * self.values(rows, other.visits).max(axis=1) for weight, rows in plan.parts
            )
            best.append(float(np.max(values_of_seats)))
        return max(sum(best), 0.0)


def _first_best(values: FloatArray) -> IntArray:
    """Return the first of the largest values of the last axis; rounding breaks no tie."""
    near = values.max(axis=-1, keepdims=True) - values <= TIE
    first: IntArray = near.argmax(axis=-1)
    return first
