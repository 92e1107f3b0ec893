"""The world of a team matrix game: a side is a team, and its members choose independently.

All that matters of a team's choices is what they count as (``environments/team_matrix.py``), so a
policy is known by its distribution over that, and payoffs and mixtures are linear in it. With pi_m
the policy of member m and Q(m, a) what its team gets where m plays a and the others play on, a step
of improvement, number t of a phase, is that of the code of FXP (arXiv 2310.03354):

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
from studies.self_play.worlds import Against, Oracle, Start

CLOSE = 1e-4  # squared distance of a member's policy from its answer, below which it has arrived
LEAST = 50  # steps of a phase against members of the population
TIE = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TeamPlan:
    """How a team plays: one of several policies, drawn once per play.

    Args:
        parts: each policy, [members, actions], with its probability.
        visits: probability of each outcome that the team's choices can count as, [K].
        steps: of improvement that the last phase of a single policy took.
    """

    parts: tuple[tuple[float, FloatArray], ...]
    visits: FloatArray
    steps: int = 0

    @property
    def rows(self) -> FloatArray:
        """The policy of each member, [members, actions], where there is one to draw."""
        ((_, rows),) = self.parts
        return rows


class TeamWorld:
    """A game of two teams that choose at once.

    Args:
        payoffs: its rules.
        name: of the game.
    """

    sides, symmetric = 2, True

    def __init__(self, payoffs: TeamPayoffs, name: str) -> None:
        self.name, self.members, self.actions = name, payoffs.members, len(payoffs.words)
        number: dict[object, int] = {}
        kinds = [
            number.setdefault(payoffs.summary_of(chosen), len(number))
            for chosen in itertools.product(range(self.actions), repeat=self.members)
        ]
        # what each joint choice counts as, [actions, ... (members times)]
        self.kind: IntArray = np.array(kinds).reshape((self.actions,) * self.members)
        self.meets: FloatArray = np.array(
            [[payoffs.payoff(mine, theirs) for theirs in number] for mine in number]
        )
        self.won: FloatArray = (1 + np.sign(self.meets)) / 2

    def of(self, rows: FloatArray, steps: int = 0) -> TeamPlan:
        """Return a policy from its members' probabilities, [members, actions]."""
        joint = rows[0]
        for row in rows[1:]:
            joint = np.multiply.outer(joint, row)
        visits: FloatArray = np.bincount(
            self.kind.ravel(), joint.ravel(), minlength=len(self.meets)
        ).astype(np.float64)
        return TeamPlan(parts=((1.0, rows),), visits=visits, steps=steps)

    def start(self, side: int, kind: Start, stream: Stream) -> TeamPlan:
        """Return a side's first policy; a random one is drawn uniformly and normalised."""
        rows = np.ones((self.members, self.actions))
        logits = stream.child(side).generator().random((self.members, self.actions))
        if kind == "random":
            rows = logits
        if kind in ("pure", "first"):
            first = logits.argmax(axis=1) if kind == "pure" else np.zeros(self.members, dtype=int)
            rows = np.eye(self.actions)[first]
        return self.of(rows / rows.sum(axis=1, keepdims=True))

    def payoffs(self, profile: Sequence[TeamPlan]) -> FloatArray:
        """Return the expected return of both teams, [2]."""
        value = float(profile[0].visits @ self.meets @ profile[1].visits)
        return np.array([value, -value])

    def wins(self, profile: Sequence[TeamPlan]) -> FloatArray:
        """Return the probability that each team wins, a draw counting half, [2]."""
        share = float(profile[0].visits @ self.won @ profile[1].visits)
        return np.array([share, 1.0 - share])

    def respond(
        self,
        side: int,
        against: Against[TeamPlan],
        oracle: Oracle,
        *,
        start: TeamPlan,
        self_share: float = 0.0,
    ) -> TeamPlan:
        """Return a best joint plan, or what steps of improvement lead to; see ``World``.

        A phase of one step goes on with the number of the step before.
        """
        others = sum(
            (weight * plan.visits for (plan,), weight in against), np.zeros(len(self.meets))
        )
        if oracle.kind == "exact":
            best = _first_best((self.meets @ others)[self.kind].ravel())
            return self.of(np.eye(self.actions)[list(np.unravel_index(best, self.kind.shape))])
        least = LEAST if self_share < 1 else 0
        first = start.steps if oracle.steps == 1 else 0
        return self.improved(start, others, oracle, self_share=self_share, least=least, first=first)

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
        """Return what a phase of improvement leads to.

        It ends early where the policy has been its own answer for a tenth of the phase, and for 5
        steps.

        Args:
            start: where it begins.
            others: what the other team shows, [K].
            oracle: its steps and its rate.
            self_share: share of the plays against the policy itself as it is now.
            least: steps before which it does not end.
            first: number of the first step.
        """
        plan, arrived = start, 0
        for step in range(first, first + oracle.steps):
            opponents = (
                (1 - self_share) * others + self_share * plan.visits if self_share else others
            )
            answer = np.eye(self.actions)[_first_best(self.values(plan.rows, opponents))]
            rate = oracle.rate * (1 + (np.arange(self.members) == step % self.members))[:, None]
            plan = self.of((1 - rate) * plan.rows + rate * answer, steps=step + 1)
            near = ((plan.rows - answer) ** 2).sum(axis=1).max() < CLOSE
            arrived = arrived + 1 if near else 0
            if arrived >= max(5, 0.1 * step) and step >= least:
                break
        return plan

    def values(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        """Return what a team gets where one member plays an action, [members, actions].

        Args:
            rows: the members' policies.
            others: what the other team shows, [K].
        """
        worth = (self.meets @ others)[self.kind]
        result = np.empty_like(rows)
        for member in range(self.members):
            tensor = worth
            for other in reversed(range(self.members)):
                if other != member:
                    tensor = np.tensordot(tensor, rows[other], axes=(other, 0))
            result[member] = tensor
        return result

    def mix(self, side: int, policies: Sequence[TeamPlan], weights: FloatArray) -> TeamPlan:
        """Return the policy that is one of these, drawn once per play."""
        chosen = [(float(w), plan) for plan, w in zip(policies, weights, strict=True) if w > 0]
        if len(chosen) == 1:
            return chosen[0][1]
        parts = tuple((w * share, rows) for w, plan in chosen for share, rows in plan.parts)
        visits: FloatArray = np.sum([w * plan.visits for w, plan in chosen], axis=0)
        return TeamPlan(parts=parts, visits=visits)

    def gap(self, profile: Sequence[TeamPlan]) -> float:
        """Return what the teams would gain, together, by a best joint plan each."""
        best = [float((self.meets @ other.visits).max()) for other in profile[::-1]]
        return max(sum(best), 0.0)  # the payoffs themselves sum to 0

    def one_seat_gap(self, profile: Sequence[TeamPlan]) -> float:
        """Return what the teams would gain, together, by the best plan of one seat each.

        A seat knows which policy its team has drawn.
        """
        best = []
        for plan, other in zip(profile, profile[::-1], strict=True):
            alone = sum(w * self.values(rows, other.visits).max(axis=1) for w, rows in plan.parts)
            best.append(float(np.max(alone)))
        return max(sum(best), 0.0)


def _first_best(values: FloatArray) -> IntArray:
    """Return the first of the largest values of the last axis; rounding breaks no tie."""
    near = values.max(axis=-1, keepdims=True) - values <= TIE
    first: IntArray = near.argmax(axis=-1)
    return first
