"""Exact returns of a policy in a trial against a pool of opponents, and the upper bound.

The tree of one attempt has branches and decisions of the learner. A branch is the beginning, or
follows an action of the learner. From there chance and one of K opponents lead to the learner's
next decision or to an end. Each decision and end stores the probabilities [K] of being reached
against each opponent, given the learner's actions.

Returns of a policy. Let d_1, d_2, ... be the learner's decisions before an end e of attempt n, and
a_1, a_2, ... its actions. Let w_k(e) be the probability that chance and opponent k lead to e, given
these actions, over all attempts. Then the return u_n(k) of attempt n against opponent k is

    u_n(k) = sum over e of  prod over i of pi(a_i | d_i)  *  w_k(e) * return of e

The sum is then divided by the probability that attempt n begins, 1 unless a win ends the trial. pi
is the policy, renormalised over legal actions; illegal replies are reported separately.

The ceiling is the best return that adaptation can reach. The opponent is drawn once with
probabilities q_k, is unknown to the learner, and plays every attempt by the same policy. Let u(pi,
k) be the learner's expected return of one attempt by policy pi against opponent k:

    best     = sum over k of q_k * max over pi of u(pi, k)
    fixed    = max over pi of sum over k of q_k * u(pi, k)
    headroom = best - fixed

The ceiling is between fixed and best. Let b be the unnormalised beliefs [K]: b_k is q_k times the
probability of all observations so far against opponent k. Let W_n(b) be the returns [n, K] of the
remaining n attempts, weighted by b. Let o be the observation of an attempt, w_o [K] its probability
against each opponent, and u_o its return:

    W_n(b) = sum over o that pi allows of (b w_o u_o, W_{n-1}(b w_o)),    W_0 = ()

for the policy pi that is best by the objective. Backward induction finds pi, over the decisions
within an attempt and over beliefs between attempts. Equal beliefs are solved once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from sparring.core.errors import GameError, TooLargeError, UnknownNameError, quoted
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
from sparring.measure.info_states import DEFAULT_LIMIT, ActionScorer, Query, renormalise
from sparring.play.players.chances import chances_of

MAX_HISTORIES = 100_000  # largest number of histories of an attempt tree
Observations = tuple[Observation, ...]


@dataclass(kw_only=True, slots=True)
class AttemptEnd:
    """Ends of an attempt that the learner cannot distinguish.

    Args:
        play: one of the ends.
        reach: probability that chance and each opponent lead here, [K].
        weighted_return: ``reach`` times the learner's return, [K].
    """

    play: CloneablePlay
    reach: FloatArray
    weighted_return: FloatArray


@dataclass(kw_only=True, slots=True)
class LearnerDecision:
    """An information state of the learner.

    Args:
        play: one play in this state.
        reach: probability that chance and opponent lead here, [K].
        branches: the branch of each legal action.
    """

    play: CloneablePlay
    reach: FloatArray
    branches: dict[str, Branch]


@dataclass(kw_only=True, slots=True)
class Branch:
    """The ends and decisions that can follow an action of the learner.

    Args:
        ends_by_text: ends by the text that the learner reads, and by whether a win ends the trial.
        decisions: the learner's next decisions, by information state.
    """

    ends_by_text: dict[tuple[str, bool], AttemptEnd] = field(default_factory=dict)
    decisions: dict[str, LearnerDecision] = field(default_factory=dict)

    @property
    def ends(self) -> Iterator[AttemptEnd]:
        """All ends of the branch."""
        return iter(self.ends_by_text.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptTree:
    """The tree of an attempt.

    Args:
        root: the branch before the learner's first decision.
        histories: number of positions of the environment that were visited.
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
) -> AttemptTree:
    """Return the tree of a seat's decisions against a pool of opponents.

    Args:
        environment: the environment of one attempt; two seats.
        seat: seat of the learner.
        opponents: agents by name, K of them.
        reveal: whether the learner reads at the end what the environment reveals.
        winners: seats whose win ends the trial; such ends are stored separately.

    Raises:
        GameError: an opponent cannot be described exactly, or the environment cannot be enumerated.
        TooLargeError: more than ``MAX_HISTORIES`` histories.
    """
    if environment.num_seats != 2:
        raise GameError(
            f"{environment.name}: the exact ceiling needs two seats, and this environment has "
            f"{environment.num_seats}."
        )
    walk = _AttemptWalk(environment, seat, opponents, reveal, winners)
    root = Branch()
    with environment_call(environment):
        for share, play in _initial_states(environment):
            walk.visit(play, share * np.ones(len(opponents)), root)
    return AttemptTree(root=root, histories=walk.num_histories)


def _initial_states(environment: Environment) -> list[tuple[float, Any]]:
    if is_searchable(environment):
        if not environment.has_info_states:
            raise GameError(
                f"{environment.name}: OpenSpiel has no information states for it, so the knowledge "
                "of a seat is undefined."
            )
        return [(1.0, environment.state_of(environment.first_node()))]
    if not hasattr(environment, "openings"):
        raise GameError(
            f"{environment.name}: it has no method openings, so its plays cannot be enumerated."
        )
    return [(float(share), play) for share, play in environment.openings()]


class _AttemptWalk:
    def __init__(
        self,
        environment: Environment,
        seat: int,
        opponents: Mapping[str, Any],
        reveal: bool,
        winners: Collection[int],
    ) -> None:
        self.environment, self.seat, self.opponents = environment, seat, opponents
        self.reveal, self.winners, self.num_histories = reveal, winners, 0
        self._no_reply = {"": np.ones(len(opponents))}  # stands for an opponent without a turn

    def visit(self, play: CloneablePlay, reach: FloatArray, branch: Branch) -> None:
        """Add a position and everything that can follow it.

        Args:
            play: the current position; it is not changed.
            reach: probability that chance and each opponent lead there, [K].
            branch: the branch after the learner's last action.
        """
        self.num_histories += 1
        if self.num_histories > MAX_HISTORIES:
            raise TooLargeError(
                f"{self.environment.name} has over {MAX_HISTORIES:,} histories against these "
                "opponents, too many for an exact ceiling."
            )
        if is_searchable_play(play) and play.seat < 0 and not play.done:
            for outcome, share in play.node.chance_outcomes():
                successor = play.clone()
                successor.apply_index(outcome)
                self.visit(successor, share * reach, branch)
        elif not play.due():
            self._add_end(play, reach, branch)
        else:
            self._visit_replies(play, reach, branch)

    def _add_end(self, play: CloneablePlay, reach: FloatArray, branch: Branch) -> None:
        payoff = play.returns[self.seat]
        text = result_text(play, self.seat, payoff, self.environment.brief, self.reveal)
        is_won = any(play.returns[winner] > 0 for winner in self.winners)
        end = branch.ends_by_text.setdefault(
            (text, is_won),
            AttemptEnd(play=play, reach=np.zeros(len(reach)), weighted_return=np.zeros(len(reach))),
        )
        end.reach += reach
        end.weighted_return += payoff * reach

    def _visit_replies(self, play: CloneablePlay, reach: FloatArray, branch: Branch) -> None:
        due = play.due()
        branches = self._branches(play, reach, branch) if self.seat in due else {"": branch}
        opponent_replies = (
            self._reply_chances(play, 1 - self.seat) if 1 - self.seat in due else self._no_reply
        )
        for (action, child), (reply, shares) in product(branches.items(), opponent_replies.items()):
            weight = reach * shares
            if weight.any():
                replies = {self.seat: action, 1 - self.seat: reply}
                successor = play.clone()
                successor.step({seat: replies[seat] for seat in due})
                self.visit(successor, weight, child)

    def _branches(
        self, play: CloneablePlay, reach: FloatArray, branch: Branch
    ) -> dict[str, Branch]:
        observation, legal = play.observe(self.seat), play.legal(self.seat)
        if legal is None:
            raise GameError(
                f"{self.environment.name}: no exact ceiling, because the learner may reply with "
                "any text."
            )
        key = observation.key or observation.text
        if key not in branch.decisions:
            branch.decisions[key] = LearnerDecision(
                play=play,
                reach=np.zeros(len(reach)),
                branches={action: Branch() for action in legal},
            )
        decision = branch.decisions[key]
        decision.reach += reach
        return decision.branches

    def _reply_chances(self, play: CloneablePlay, seat: int) -> dict[str, FloatArray]:
        """Return the probabilities [K] of each reply of the opponents."""
        rows = [chances_of(name, opponent, play, seat) for name, opponent in self.opponents.items()]
        return {action: np.array([row[action] for row in rows]) for action in rows[0]}


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptReturns:
    """Expected results of a policy in each attempt; N attempts, K opponents.

    Args:
        returns: mean return of each attempt that begins, in the environment's units, [N, K]; NaN if
            it never begins.
        illegal: probability of an illegal reply, mean over the decisions of the attempt, [N, K].
        decisions: number of conversations that the policy was evaluated on.
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
    """Return a policy's expected return in each attempt against each opponent.

    Args:
        rules: rules of the trial, which has two seats.
        scorer: the policy; it is evaluated on every conversation that some opponent allows.
        role: seat that remembers earlier attempts.
        opponents: agents by name, K of them, which report their exact policies.
        limit: largest number of conversations.

    Raises:
        GameError: attempts share their deal or have notes, an opponent cannot be described exactly,
            or the environment cannot be enumerated.
        TooLargeError: over ``limit`` conversations, or too many histories.
    """
    if rules.redeal != "fresh":
        raise GameError("exact returns need a new deal in every attempt; write redeal: fresh.")
    if rules.notes:
        raise GameError("exact returns need attempts without notes, as notes may be any text.")
    seat = rules.roles.index(role)
    winners = rules.carriers if rules.stop_on_win else ()
    tree = attempt_tree(rules.inner, seat, opponents, reveal=rules.reveal, winners=winners)
    walk = _ReturnWalk(rules, seat, tree.root, limit)
    with environment_call(rules.inner):
        walk.run(len(opponents))
    rows = [renormalise(row) for row in scorer.action_logprobs(walk.queries)]
    return walk.results([policy for policy, _ in rows], np.array([illegal for _, illegal in rows]))


@dataclass(frozen=True, kw_only=True, slots=True)
class _TrialPosition:
    """The beginning of an attempt, or the position after an action of the learner.

    Args:
        play: the trial; the state inside the current attempt is not used.
        branch: a branch of the attempt's tree.
        belief: probability that chance and opponent led to this attempt, [K].
        observations: observations of the learner so far.
        actions: actions of the learner so far.
        edge: number of the learner's last action, over all conversations; -1 before the first.
    """

    play: TrialPlay
    branch: Branch
    belief: FloatArray
    observations: Observations = ()
    actions: tuple[str, ...] = ()
    edge: int = -1


@dataclass(kw_only=True, slots=True)
class _WeightedEdges:
    """Weights [K] of decisions or ends, each with its preceding edge and its attempt."""

    edges: list[int] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    weights: list[FloatArray] = field(default_factory=list)

    def add(self, edge: int, attempt: int, weight: FloatArray) -> None:
        self.edges.append(edge)
        self.attempts.append(attempt)
        self.weights.append(weight)

    def sum_by_attempt(
        self, reach: FloatArray, num_attempts: int, share: FloatArray | float = 1.0
    ) -> FloatArray:
        """Return the sums by attempt, [N, K].

        Args:
            reach: the policy's probability of each edge; the last entry is 1.
            num_attempts: N.
            share: factor of each weight.
        """
        weights = np.array(self.weights)
        sums = np.zeros((num_attempts, weights.shape[1]))
        np.add.at(sums, self.attempts, (reach[self.edges] * share)[:, None] * weights)
        return sums


class _ReturnWalk:
    """Visits every conversation of the learner; an edge is an action in a conversation.

    Attributes:
        queries: the conversations, each after its prefixes.
    """

    def __init__(self, rules: Trial, seat: int, root: Branch, limit: int) -> None:
        self.rules, self.seat, self.root, self.limit = rules, seat, root, limit
        self.teams = tuple(teams_of(rules))
        self.queries: list[Query] = []
        self.num_edges = 0
        self.decisions, self.ends = _WeightedEdges(), _WeightedEdges()
        self.attempt_starts = _WeightedEdges()

    def run(self, num_opponents: int) -> None:
        """Visit every conversation, depth first."""
        beginning = _TrialPosition(
            play=self.rules.reset(Stream.from_seed(0)),
            branch=self.root,
            belief=np.ones(num_opponents),
        )
        stack = [beginning]
        while stack:
            stack += self._visit(stack.pop())

    def _visit(self, start: _TrialPosition) -> Iterator[_TrialPosition]:
        last_replies: dict[int, str] = {}
        if start.branch is not self.root:
            last_replies[self.seat] = start.actions[-1]
        else:
            self.attempt_starts.add(start.edge, start.play.attempt, start.belief)
        for end in start.branch.ends:
            self.ends.add(start.edge, start.play.attempt, start.belief * end.weighted_return)
            next_play = start.play.after(last_replies, end.play)
            if not next_play.done:
                belief = start.belief * end.reach
                yield replace(start, play=next_play, branch=self.root, belief=belief)
        for decision in start.branch.decisions.values():
            decision_play = start.play.after(last_replies, decision.play)
            observations = (*start.observations, decision_play.observe(self.seat))
            self._add_query(observations, start.actions, tuple(decision.branches))
            self.decisions.add(start.edge, decision_play.attempt, start.belief * decision.reach)
            for action, branch in decision.branches.items():
                yield _TrialPosition(
                    play=decision_play,
                    branch=branch,
                    belief=start.belief,
                    observations=observations,
                    actions=(*start.actions, action),
                    edge=self.num_edges,
                )
                self.num_edges += 1

    def _add_query(
        self, observations: Observations, actions: tuple[str, ...], legal_actions: tuple[str, ...]
    ) -> None:
        if len(self.queries) >= self.limit:
            raise TooLargeError(
                f"{self.rules.name}: over {self.limit:,} conversations, too many for exact returns."
            )
        query = Query(
            game=self.rules.name,
            seat=self.seat,
            key=observations[-1].key,
            observations=tuple(observation.text for observation in observations),
            actions=actions,
            legal_actions=legal_actions,
            seen=observations,
            teams=self.teams,
        )
        self.queries.append(query)

    def results(self, policy: Sequence[FloatArray], illegal: FloatArray) -> AttemptReturns:
        """Return a policy's results from its action and illegal probabilities per conversation."""
        reach = np.ones(self.num_edges + 1)  # the policy's probability of each edge, then 1
        first_edge = 0
        for edge, row in zip(self.decisions.edges, policy, strict=True):
            reach[first_edge : first_edge + len(row)] = reach[edge] * row
            first_edge += len(row)
        num_attempts = self.rules.attempts
        with np.errstate(invalid="ignore"):
            starts = self.attempt_starts.sum_by_attempt(reach, num_attempts)
            returns = self.ends.sum_by_attempt(reach, num_attempts) / starts
            decisions = self.decisions.sum_by_attempt(reach, num_attempts)
            illegal_shares = self.decisions.sum_by_attempt(reach, num_attempts, illegal) / decisions
        return AttemptReturns(returns=returns, illegal=illegal_shares, decisions=len(self.queries))


MAX_BELIEFS = 20_000  # largest number of different beliefs about the opponent
BELIEF_DIGITS = 12  # beliefs are equal if they agree in this many digits
TIE = 1e-11  # two returns count as equal if they differ by less


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceiling:
    """The best possible results against a pool, in the environment's units; N attempts.

    Args:
        environment: name of the environment of each attempt.
        role: role of the learner.
        reveal: whether hidden information is shown at the end of an attempt, as by a show-down.
        shares: probability of each opponent.
        best_by: expected return of the best response to each opponent.
        fixed_by: return of the best single policy against each opponent.
        most: the highest possible return of each attempt, [N]; each may need another policy.
        last: return of each attempt by the policy that is best in the last attempt, [N]; the sum
            breaks ties.
        last_by: ``last`` against each opponent.
        total: return of each attempt by the policy with the best sum of all attempts, [N]; the last
            attempt breaks ties.
        total_by: ``total`` against each opponent.
    """

    environment: str
    role: str
    reveal: bool
    shares: Mapping[str, float]
    best_by: Mapping[str, float]
    fixed_by: Mapping[str, float]
    most: tuple[float, ...]
    last: tuple[float, ...]
    last_by: Mapping[str, tuple[float, ...]]
    total: tuple[float, ...]
    total_by: Mapping[str, tuple[float, ...]]

    @property
    def best(self) -> float:
        """Expected return of a policy that knows the opponent from the start."""
        return sum(share * self.best_by[name] for name, share in self.shares.items())

    @property
    def fixed(self) -> float:
        """Expected return of the best single policy."""
        return sum(share * self.fixed_by[name] for name, share in self.shares.items())

    @property
    def headroom(self) -> float:
        """The value of knowing the opponent: best minus fixed."""
        return self.best - self.fixed

    def closed_share(self, mean_return: float) -> float | None:
        """Return (mean return - fixed) / headroom; None without headroom."""
        return (mean_return - self.fixed) / self.headroom if self.headroom > TIE else None


def adaptation_ceiling(
    environment: Environment,
    *,
    role: str,
    opponents: Mapping[str, Any],
    shares: Mapping[str, float] | None = None,
    attempts: int = 3,
    reveal: bool = False,
) -> Ceiling:
    """Return the best possible results of adaptation to one of several opponents.

    Every attempt has a new deal, and all attempts are played (``trial`` with its defaults).

    Args:
        environment: the environment of each attempt, such as ``trial.inner``; two seats.
        role: role of the learner; the opponent has the other seat.
        opponents: the opponents by name.
        shares: weight of each opponent; None: equal weights.
        attempts: number of attempts.
        reveal: whether the learner reads at the end what ``trial`` shows with ``reveal: true``.

    Raises:
        GameError: an opponent cannot be described exactly, or the environment cannot be enumerated.
        TooLargeError: there are too many histories or too many beliefs.
        UnknownNameError: the environment does not have this role.
    """
    weights = _shares_of(opponents, shares)
    if role not in environment.roles:
        raise UnknownNameError(f"role of {environment.name}", role, environment.roles)
    if attempts < 1:
        raise GameError(f"attempts={attempts} leaves no attempt to play; write attempts=3.")
    tree = attempt_tree(environment, environment.roles.index(role), opponents, reveal=reveal)
    prior = np.array([*weights.values()])
    solvers = {objective: _Solver(tree, objective) for objective in ("last", "sum")}
    highest_returns = [
        solvers["last"].returns(prior, number)[-1].sum() for number in range(1, attempts + 1)
    ]
    last, total = (solvers[objective].returns(prior, attempts) for objective in ("last", "sum"))
    fixed_returns = solvers["last"].returns(prior, 1)[0] / prior
    best_returns = [
        solvers["last"].returns(np.eye(len(weights))[number], 1)[0, number]
        for number in range(len(weights))
    ]
    return Ceiling(
        environment=environment.name,
        role=role,
        reveal=reveal,
        shares=weights,
        best_by=dict(zip(weights, map(float, best_returns), strict=True)),
        fixed_by=dict(zip(weights, fixed_returns.tolist(), strict=True)),
        most=tuple(map(float, highest_returns)),
        last=tuple(last.sum(axis=1).tolist()),
        last_by=_by_opponent(weights, last / prior),
        total=tuple(total.sum(axis=1).tolist()),
        total_by=_by_opponent(weights, total / prior),
    )


def ceiling_or_reason(environment: Environment, **options: Any) -> tuple[Ceiling | None, str]:
    """Return (ceiling, ""), or (None, reason) if there is no exact ceiling.

    Args:
        environment: the environment of each attempt.
        options: arguments of ``adaptation_ceiling``.

    Raises:
        UnknownNameError: the environment lacks the role, or an action that an opponent names.
        PluginError: the code of an opponent failed.
    """
    try:
        return adaptation_ceiling(environment, **options), ""
    except GameError as error:
        return None, f"no ceiling: {error}"


def _shares_of(
    opponents: Mapping[str, Any], shares: Mapping[str, float] | None
) -> dict[str, float]:
    weights = dict.fromkeys(opponents, 1.0) if shares is None else dict(shares)
    for name in weights:
        if name not in opponents:
            raise UnknownNameError("opponent", name, [*opponents])
    if set(weights) != set(opponents) or not all(0 < share < np.inf for share in weights.values()):
        raise GameError(
            f"shares={quoted(weights)} must give each of the opponents {', '.join(opponents)} a "
            "weight above 0."
        )
    if not weights:
        raise GameError("There are no opponents to adapt to; name at least one.")
    total = sum(weights.values())
    return {name: float(weights[name]) / total for name in opponents}


def _by_opponent(weights: Mapping[str, float], rows: FloatArray) -> dict[str, tuple[float, ...]]:
    return {name: tuple(rows[:, number].tolist()) for number, name in enumerate(weights)}


class _Solver:
    def __init__(self, tree: AttemptTree, objective: str) -> None:
        self.tree, self.objective = tree, objective
        self._cache: dict[tuple[float, ...], FloatArray] = {}

    def returns(self, belief: FloatArray, attempts: int) -> FloatArray:
        """Return the returns [n, K] of the remaining attempts, weighted by beliefs [K]."""
        total = float(belief.sum())
        if not attempts or total <= 0.0:
            return np.zeros((attempts, len(belief)))
        belief = belief / total
        key = (float(attempts), *np.round(belief, BELIEF_DIGITS).tolist())
        if key not in self._cache:
            if len(self._cache) >= MAX_BELIEFS:
                raise TooLargeError(
                    f"More than {MAX_BELIEFS:,} beliefs about the opponent can arise, too many "
                    "for an exact ceiling; use fewer attempts or opponents."
                )
            self._cache[key] = self._best(self.tree.root, belief, attempts)
        return total * self._cache[key]

    def _best(self, branch: Branch, belief: FloatArray, attempts: int) -> FloatArray:
        returns = np.zeros((attempts, len(belief)))
        for end in branch.ends:
            returns[0] += belief * end.weighted_return
            returns[1:] += self.returns(belief * end.reach, attempts - 1)
        for decision in branch.decisions.values():
            results = [self._best(child, belief, attempts) for child in decision.branches.values()]
            returns += self._best_option(results)
        return returns

    def _best_option(self, all_returns: list[FloatArray]) -> FloatArray:
        best_returns, best_key = all_returns[0], self._sort_key(all_returns[0])
        for returns in all_returns[1:]:
            key = self._sort_key(returns)
            difference = (
                key[0] - best_key[0] if abs(key[0] - best_key[0]) > TIE else key[1] - best_key[1]
            )
            if difference > TIE:
                best_returns, best_key = returns, key
        return best_returns

    def _sort_key(self, returns: FloatArray) -> tuple[float, float]:
        last, total = float(returns[-1].sum()), float(returns.sum())
        return (last, total) if self.objective == "last" else (total, last)
