"""What a policy gets in each attempt of a trial, exactly: by its probabilities, without plays.

Let d_1, d_2, ... be the learner's decisions on the way to an end e of attempt n, a_1, a_2, ... its
actions there, and w_k(e) the probability that chance and opponent k lead to e, given these actions,
through all attempts. Then

    u_n(k) = sum over e of  prod over i of pi(a_i | d_i)  *  w_k(e) * return of e

divided by the probability that attempt n begins, which is 1 unless a win ends the trial. pi is the
policy over legal actions, renormalised; the mass that it puts on other replies stands beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparring.environments.base import teams_of
from sparring.environments.own import Asking
from sparring.environments.trial import Trial
from sparring.environments.trial_play import TrialPlay
from sparring.errors import GameError, TooLargeError
from sparring.measure.attempt_tree import Branch, attempt_tree
from sparring.measure.info_states import DEFAULT_LIMIT
from sparring.measure.policies import ActionScorer, Query, renormalise
from sparring.rng import Stream
from sparring.types import FloatArray, Observation


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptReturns:
    """Expected results of a policy in each attempt; N attempts, K opponents.

    Args:
        returns: of each attempt that begins, in the environment's units, [N, K]; not a number where
            none begins.
        illegal: mean over the policy's decisions of the attempt of its mass on replies that are no
            legal action, [N, K].
        decisions: conversations in which the policy was asked.
    """

    returns: FloatArray
    illegal: FloatArray
    decisions: int


def attempt_returns(
    rules: Trial,
    scorer: ActionScorer,
    *,
    role: str,
    opponents: Mapping[str, Any],
    limit: int = DEFAULT_LIMIT,
) -> AttemptReturns:
    """Return what a policy gets in each attempt against each opponent.

    Args:
        rules: of the trial; two seats.
        scorer: the policy; it is asked in every conversation that some opponent allows.
        role: its seat, which remembers.
        opponents: agents by name, K of them, which say exactly how they play.
        limit: conversations at most.

    Raises:
        GameError: attempts share their chance, or there are notes; an opponent cannot be described
            exactly, or the environment cannot be enumerated.
        TooLargeError: over ``limit`` conversations, or too many histories.
    """
    if rules.redeal != "fresh":
        raise GameError("exact returns are of fresh deals in every attempt (redeal: fresh).")
    if rules.notes:
        raise GameError("exact returns are of attempts without notes, which may be any text.")
    seat = rules.roles.index(role)
    winners = rules.carried if rules.stop_on_win else ()
    tree = attempt_tree(rules.inner, seat, opponents, reveal=rules.reveal, winners=winners)
    walk = _Walk(rules, seat, tree.root, limit)
    with Asking(rules.inner):
        walk.run(len(opponents))
    rows = [renormalise(row) for row in scorer.action_logprobs(walk.queries)]
    return walk.results([policy for policy, _ in rows], np.array([lost for _, lost in rows]))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """What follows an action of the learner's, or the beginning of an attempt.

    Args:
        play: the trial; how its attempt stands is not looked at.
        branch: of the attempt's tree.
        belief: probability that chance and opponent led to this attempt, [K].
        seen: by the learner so far.
        actions: of the learner so far.
        edge: number of its last action in its last conversation; -1 before the first.
    """

    play: TrialPlay
    branch: Branch
    belief: FloatArray
    seen: tuple[Observation, ...] = ()
    actions: tuple[str, ...] = ()
    edge: int = -1


@dataclass(kw_only=True, slots=True)
class _Found:
    """Weights [K] of decisions or of ends, with the edge before each and its attempt."""

    edge: list[int] = field(default_factory=list)
    attempt: list[int] = field(default_factory=list)
    weight: list[FloatArray] = field(default_factory=list)

    def add(self, edge: int, attempt: int, weight: FloatArray) -> None:
        """Add one."""
        self.edge.append(edge)
        self.attempt.append(attempt)
        self.weight.append(weight)

    def summed(
        self, reached: FloatArray, attempts: int, share: FloatArray | float = 1.0
    ) -> FloatArray:
        """Return the sums by attempt, [N, K].

        Args:
            reached: the policy's probability of each edge, and 1 last.
            attempts: N.
            share: of each weight that counts.
        """
        weights = np.array(self.weight)
        found = np.zeros((attempts, weights.shape[1]))
        np.add.at(found, self.attempt, (reached[self.edge] * share)[:, None] * weights)
        return found


class _Walk:
    """Visits every conversation of the learner's; an edge is an action in one of them.

    Attributes:
        queries: the conversations, each after those that lead to it.
    """

    def __init__(self, rules: Trial, seat: int, root: Branch, limit: int) -> None:
        self.rules, self.seat, self.root, self.limit = rules, seat, root, limit
        self.teams = tuple(teams_of(rules))
        self.queries: list[Query] = []
        self.edges = 0
        self.decisions, self.ends, self.begun = _Found(), _Found(), _Found()

    def run(self, opponents: int) -> None:
        """Visit everything, depth first."""
        beginning = _Place(
            play=self.rules.reset(Stream.from_seed(0)),
            branch=self.root,
            belief=np.ones(opponents),
        )
        stack = [beginning]
        while stack:
            stack += self._visit(stack.pop())

    def _visit(self, place: _Place) -> Iterator[_Place]:
        """Note what a place has, and yield the places after it."""
        replied: dict[int, str] = {}
        if place.branch is not self.root:
            replied[self.seat] = place.actions[-1]
        else:
            self.begun.add(place.edge, place.play.attempt, place.belief)
        for end in place.branch.ends:
            self.ends.add(place.edge, place.play.attempt, place.belief * end.earned)
            then = place.play.after(replied, end.play)
            if not then.done:
                belief = place.belief * end.reach
                yield replace(place, play=then, branch=self.root, belief=belief)
        for decision in place.branch.decisions.values():
            here = place.play.after(replied, decision.play)
            seen = (*place.seen, here.observe(self.seat))
            self._ask(seen, place.actions, tuple(decision.after))
            self.decisions.add(place.edge, here.attempt, place.belief * decision.reach)
            for action, branch in decision.after.items():
                yield _Place(
                    play=here,
                    branch=branch,
                    belief=place.belief,
                    seen=seen,
                    actions=(*place.actions, action),
                    edge=self.edges,
                )
                self.edges += 1

    def _ask(
        self, seen: tuple[Observation, ...], actions: tuple[str, ...], legal: tuple[str, ...]
    ) -> None:
        """Add a conversation."""
        if len(self.queries) >= self.limit:
            raise TooLargeError(
                f"{self.rules.name}: over {self.limit:,} conversations, too many for exact returns."
            )
        query = Query(
            game=self.rules.name,
            seat=self.seat,
            key=seen[-1].key,
            observations=tuple(one.text for one in seen),
            actions=actions,
            legal_actions=legal,
            seen=seen,
            teams=self.teams,
        )
        self.queries.append(query)

    def results(self, policy: Sequence[FloatArray], illegal: FloatArray) -> AttemptReturns:
        """Return what a policy gets.

        Args:
            policy: of each conversation.
            illegal: the policy's mass on no legal action in each.
        """
        reached = np.ones(self.edges + 1)  # the policy's probability of each edge, and 1 last
        first = 0
        for edge, row in zip(self.decisions.edge, policy, strict=True):
            reached[first : first + len(row)] = reached[edge] * row
            first += len(row)
        count = self.rules.attempts
        with np.errstate(invalid="ignore"):
            begun = self.begun.summed(reached, count)
            earned = self.ends.summed(reached, count) / begun
            asked = self.decisions.summed(reached, count)
            lost = self.decisions.summed(reached, count, illegal) / asked
        return AttemptReturns(returns=earned, illegal=lost, decisions=len(self.queries))
