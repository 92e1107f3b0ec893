"""One attempt at an environment as the learner sees it, with a pool of opponents in one tree.

A branch is the beginning, or what follows one action of the learner's. From there on chance and the
opponent, one of K, lead to the learner's next decision or to an end. What is kept of a history is
the probability [K] that they lead there, so that the tree has the learner's own decisions alone.

What a policy gets in each attempt of a trial, exactly: by its probabilities, without plays.

Let d_1, d_2, ... be the learner's decisions on the way to an end e of attempt n, a_1, a_2, ... its
actions there, and w_k(e) the probability that chance and opponent k lead to e, given these actions,
through all attempts. Then

    u_n(k) = sum over e of  prod over i of pi(a_i | d_i)  *  w_k(e) * return of e

divided by the probability that attempt n begins, which is 1 unless a win ends the trial. pi is the
policy over legal actions, renormalised; the mass that it puts on other replies stands beside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from sparring.core.errors import GameError, TooLargeError
from sparring.core.records import FloatArray, Observation
from sparring.core.rng import Stream
from sparring.environments.base import (
    CloneablePlay,
    Environment,
    is_searchable,
    is_searchable_play,
    teams_of,
)
from sparring.environments.foreign import environment_call
from sparring.environments.repeated import result_text
from sparring.environments.trial import Trial, TrialPlay
from sparring.measure.info_states import DEFAULT_LIMIT
from sparring.measure.policies import ActionScorer, Query, renormalise
from sparring.play.players.described import chances_of

MOST_HISTORIES = 100_000


@dataclass(kw_only=True, slots=True)
class End:
    """Ends of an attempt that are told alike.

    Args:
        play: one of them.
        reach: probability that chance and opponent lead here, [K].
        earned: the same times the learner's return, [K].
    """

    play: CloneablePlay
    reach: FloatArray
    earned: FloatArray


@dataclass(kw_only=True, slots=True)
class Decision:
    """An information state of the learner's.

    Args:
        play: one that stands there.
        reach: probability that chance and opponent lead here, [K].
        after: the branch of each legal action.
    """

    play: CloneablePlay
    reach: FloatArray
    after: dict[str, Branch]


@dataclass(kw_only=True, slots=True)
class Branch:
    """What follows an action of the learner's.

    Args:
        told: ends by what the learner is told there, and whether a win ends the trial.
        decisions: the learner's next, by information state.
    """

    told: dict[tuple[str, bool], End] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)

    @property
    def ends(self) -> Iterator[End]:
        """The ends."""
        return iter(self.told.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """The whole tree of an attempt.

    Args:
        root: before the learner's first decision.
        histories: how many positions of the environment were visited.
    """

    root: Branch
    histories: int


def attempt_tree(
    environment: Environment,
    seat: int,
    opponents: Mapping[str, Any],
    *,
    reveal: bool,
    winners: Collection[int] = (),
) -> Attempt:
    """Return the tree of a seat's decisions against a pool of opponents.

    Args:
        environment: what is played; two seats.
        seat: the learner's.
        opponents: agents by name, K of them.
        reveal: whether a seat is told at the end what the environment reveals.
        winners: seats whose win ends the trial, which parts ends that are told alike.

    Raises:
        GameError: an opponent cannot be described exactly, or the environment cannot be enumerated.
        TooLargeError: more than ``MOST_HISTORIES`` histories.
    """
    if environment.num_seats != 2:
        raise GameError(
            f"{environment.name}: the exact ceiling is of two seats, and it has "
            f"{environment.num_seats}."
        )
    walk = _Walk(environment, seat, opponents, reveal, winners)
    root = Branch()
    with environment_call(environment):
        for share, play in _beginnings(environment):
            walk.visit(play, share * np.ones(len(opponents)), root)
    return Attempt(root=root, histories=walk.count)


def _beginnings(environment: Environment) -> list[tuple[float, Any]]:
    """Return the plays that chance can begin with, and their probabilities.

    Raises:
        GameError: the environment does not say them.
    """
    if is_searchable(environment):
        if not environment.has_info_states:
            raise GameError(
                f"{environment.name}: OpenSpiel has no information states for it, so that nobody "
                "can say what a seat knows."
            )
        return [(1.0, environment.state_of(environment.first_node()))]
    if not hasattr(environment, "openings"):
        raise GameError(
            f"{environment.name}: it has no method openings, so that its plays cannot be "
            "enumerated."
        )
    return [(float(share), play) for share, play in environment.openings()]


class _Walk:
    """Visits every history that some opponent allows."""

    def __init__(
        self,
        environment: Environment,
        seat: int,
        opponents: Mapping[str, Any],
        reveal: bool,
        winners: Collection[int],
    ) -> None:
        self.environment, self.seat, self.opponents = environment, seat, opponents
        self.reveal, self.winners, self.count = reveal, winners, 0
        self._silent = {"": np.ones(len(opponents))}  # where the opponent is not due

    def visit(self, play: CloneablePlay, reach: FloatArray, branch: Branch) -> None:
        """Add a play and all that can follow it.

        Args:
            play: where it stands; it is not changed.
            reach: probability that chance and each opponent lead there, [K].
            branch: after the learner's last action.
        """
        self.count += 1
        if self.count > MOST_HISTORIES:
            raise TooLargeError(
                f"{self.environment.name} has over {MOST_HISTORIES:,} histories against these "
                "opponents, too many for an exact ceiling."
            )
        if is_searchable_play(play) and play.seat < 0 and not play.done:
            for outcome, share in play.node.chance_outcomes():
                after = play.clone()
                after.apply_index(outcome)
                self.visit(after, share * reach, branch)
        elif not play.due():
            self._end(play, reach, branch)
        else:
            self._moves(play, reach, branch)

    def _end(self, play: CloneablePlay, reach: FloatArray, branch: Branch) -> None:
        """Add an end, to those that are told alike."""
        got = play.returns[self.seat]
        told = result_text(play, self.seat, got, self.environment.brief, self.reveal)
        won = any(play.returns[one] > 0 for one in self.winners)
        end = branch.told.setdefault(
            (told, won), End(play=play, reach=np.zeros(len(reach)), earned=np.zeros(len(reach)))
        )
        end.reach += reach
        end.earned += got * reach

    def _moves(self, play: CloneablePlay, reach: FloatArray, branch: Branch) -> None:
        """Add what follows all replies that are due."""
        due = play.due()
        own = self._decision(play, reach, branch) if self.seat in due else {"": branch}
        theirs = self._replies(play, 1 - self.seat) if 1 - self.seat in due else self._silent
        for (action, after), (reply, shares) in product(own.items(), theirs.items()):
            weight = reach * shares
            if weight.any():
                said = {self.seat: action, 1 - self.seat: reply}
                then = play.clone()
                then.step({one: said[one] for one in due})
                self.visit(then, weight, after)

    def _decision(
        self, play: CloneablePlay, reach: FloatArray, branch: Branch
    ) -> dict[str, Branch]:
        """Return the branches of a decision of the learner's, by action."""
        seen, legal = play.observe(self.seat), play.legal(self.seat)
        if legal is None:
            raise GameError(
                f"{self.environment.name}: no exact ceiling, as the learner may reply with any "
                "text."
            )
        key = seen.key or seen.text
        if key not in branch.decisions:
            branch.decisions[key] = Decision(
                play=play,
                reach=np.zeros(len(reach)),
                after={action: Branch() for action in legal},
            )
        found = branch.decisions[key]
        found.reach += reach
        return found.after

    def _replies(self, play: CloneablePlay, seat: int) -> dict[str, FloatArray]:
        """Return the probabilities [K] of each reply of the opponents'."""
        rows = [chances_of(name, one, play, seat) for name, one in self.opponents.items()]
        return {action: np.array([row[action] for row in rows]) for action in rows[0]}


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
    walk = _ReturnWalk(rules, seat, tree.root, limit)
    with environment_call(rules.inner):
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


class _ReturnWalk:
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
