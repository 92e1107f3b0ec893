"""Attempts against a pool of opponents, exactly: one tree, a policy's payoffs, the ceiling.

A branch is the beginning, or what follows one action of the learner's. From there on chance and the
opponent, one of K, lead to the learner's next decision or to an end. What is kept of a history is
the probability [K] that they lead there, so that the tree has the learner's own decisions alone.

A policy's payoff. Let d_1, d_2, ... be the learner's decisions on the way to an end e of attempt n,
a_1, a_2, ... its actions there, and w_k(e) the probability that chance and opponent k lead to e,
given these actions, through all attempts. Then

    u_n(k) = sum over e of  prod over i of pi(a_i | d_i)  *  w_k(e) * return of e

divided by the probability that attempt n begins, which is 1 unless a win ends the trial. pi is the
policy over legal actions, renormalised; the mass that it puts on other replies stands beside.

The ceiling: what adapting can earn. The opponent is drawn once with probabilities q_k and never
told; it plays every attempt alike. With u(pi, k) the learner's expected return of one attempt by
policy pi against opponent k:

    best     = sum over k of q_k * max over pi of u(pi, k)
    fixed    = max over pi of sum over k of q_k * u(pi, k)
    headroom = best - fixed

The ceiling lies between the two. Let b be the beliefs [K], not normalised: b_k = q_k times the
probability under k of all that was told. W_n(b) are the returns [n, K] of the attempts that are
left, each weighted by b. With o what an attempt tells by its end, chance and opponent leading
there with probability w_o [K], and u_o the return:

    W_n(b) = sum over o that pi allows of (b w_o u_o, W_{n-1}(b w_o)),    W_0 = ()

for the policy pi that is best by the objective: backward induction over the learner's decisions
inside the attempt, and over beliefs between attempts. Beliefs that are equal are solved once.
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
    walk = _AttemptWalk(environment, seat, opponents, reveal, winners)
    root = Branch()
    with environment_call(environment):
        for share, play in _beginnings(environment):
            walk.visit(play, share * np.ones(len(opponents)), root)
    return Attempt(root=root, histories=walk.count)


def _beginnings(environment: Environment) -> list[tuple[float, Any]]:
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
        got = play.returns[self.seat]
        told = result_text(play, self.seat, got, self.environment.brief, self.reveal)
        won = any(play.returns[one] > 0 for one in self.winners)
        end = branch.told.setdefault(
            (told, won), End(play=play, reach=np.zeros(len(reach)), earned=np.zeros(len(reach)))
        )
        end.reach += reach
        end.earned += got * reach

    def _moves(self, play: CloneablePlay, reach: FloatArray, branch: Branch) -> None:
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
        seen, legal = play.observe(self.seat), play.legal(self.seat)
        if legal is None:
            raise GameError(
                f"{self.environment.name}: no exact ceiling, as the learner may reply with any "
                "text."
            )
        key = seen.key or seen.text
        if key not in branch.decisions:
            branch.decisions[key] = Decision(
                play=play, reach=np.zeros(len(reach)), after={action: Branch() for action in legal}
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
class _WeightedEdges:
    """Weights [K] of decisions or of ends, with the edge before each and its attempt."""

    edge: list[int] = field(default_factory=list)
    attempt: list[int] = field(default_factory=list)
    weight: list[FloatArray] = field(default_factory=list)

    def add(self, edge: int, attempt: int, weight: FloatArray) -> None:
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
        self.decisions, self.ends, self.begun = _WeightedEdges(), _WeightedEdges(), _WeightedEdges()

    def run(self, opponents: int) -> None:
        """Visit everything, depth first."""
        beginning = _Place(
            play=self.rules.reset(Stream.from_seed(0)), branch=self.root, belief=np.ones(opponents)
        )
        stack = [beginning]
        while stack:
            stack += self._visit(stack.pop())

    def _visit(self, place: _Place) -> Iterator[_Place]:
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
        """Return what a policy gets, given its rows and illegal mass by conversation."""
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


MOST_BELIEFS = 20_000
DIGITS = 12  # beliefs that agree in so many are one
TIE = 1e-11  # returns that differ by less are equal


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceiling:
    """What the best play can earn against a pool, in the environment's units; N attempts.

    Args:
        environment: name of what is played at each attempt.
        role: the learner's.
        reveal: whether what was hidden is told at the end of an attempt, as by a show-down.
        shares: probability of each opponent.
        best_by: by opponent: expected return of the best response to it, which knows who it is.
        fixed_by: by opponent: return of the best single policy that is not told who it is.
        most: the most that attempt 1, 2, ... can earn, each by a policy of its own, [N].
        last: return of every attempt under the policy that earns most in the last attempt, and of
            such policies most in all, [N].
        last_by: the same by opponent.
        total: return of every attempt under the policy that earns most in the sum of all, and of
            such policies most in the last, [N].
        total_by: the same by opponent.
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
        """Expected return of who knows the opponent from the start."""
        return sum(share * self.best_by[name] for name, share in self.shares.items())

    @property
    def fixed(self) -> float:
        """Expected return of the best single policy."""
        return sum(share * self.fixed_by[name] for name, share in self.shares.items())

    @property
    def headroom(self) -> float:
        """What knowing the opponent is worth."""
        return self.best - self.fixed

    def closed(self, earned: float) -> float | None:
        """Return the share of the headroom that a mean return closes; None where there is none."""
        return (earned - self.fixed) / self.headroom if self.headroom > TIE else None


def adaptation_ceiling(
    environment: Environment,
    *,
    role: str,
    opponents: Mapping[str, Any],
    shares: Mapping[str, float] | None = None,
    attempts: int = 3,
    reveal: bool = False,
) -> Ceiling:
    """Return what adapting to one of several opponents can earn.

    Every attempt has fresh chance, and all of them are played (``trial`` with its defaults).

    Args:
        environment: what is played at each attempt, such as ``trial.inner``; two seats.
        role: the learner's; the opponent sits in the other seat.
        opponents: agents by name.
        shares: weight of each opponent; None: all alike.
        attempts: how many.
        reveal: whether a seat is told at the end what ``trial`` tells with ``reveal: true``.

    Raises:
        GameError: an opponent cannot be described exactly, or the environment cannot be enumerated.
        TooLargeError: it has too many histories, or there are too many beliefs.
        UnknownNameError: the environment has no such role.
    """
    pool = _pool(opponents, shares)
    if role not in environment.roles:
        raise UnknownNameError(f"role of {environment.name}", role, environment.roles)
    if attempts < 1:
        raise GameError(f"attempts={attempts} leaves nothing to play; write attempts=3.")
    tree = attempt_tree(environment, environment.roles.index(role), opponents, reveal=reveal)
    prior = np.array([*pool.values()])
    solver = {objective: _Solver(tree, objective) for objective in ("last", "sum")}
    most = [solver["last"].returns(prior, number)[-1].sum() for number in range(1, attempts + 1)]
    last, total = (solver[one].returns(prior, attempts) for one in ("last", "sum"))
    fixed = solver["last"].returns(prior, 1)[0] / prior
    best = [
        solver["last"].returns(np.eye(len(pool))[number], 1)[0, number]
        for number in range(len(pool))
    ]
    return Ceiling(
        environment=environment.name,
        role=role,
        reveal=reveal,
        shares=pool,
        best_by=dict(zip(pool, map(float, best), strict=True)),
        fixed_by=dict(zip(pool, fixed.tolist(), strict=True)),
        most=tuple(map(float, most)),
        last=tuple(last.sum(axis=1).tolist()),
        last_by=_by_opponent(pool, last / prior),
        total=tuple(total.sum(axis=1).tolist()),
        total_by=_by_opponent(pool, total / prior),
    )


def ceiling_or_reason(environment: Environment, **options: Any) -> tuple[Ceiling | None, str]:
    """Return the ceiling and "", or None and why there is no exact one.

    Args:
        environment: what is played at each attempt.
        options: those of ``adaptation_ceiling``.

    Raises:
        UnknownNameError: the environment has no such role, or an opponent names an action that it
            has not.
        PluginError: the code of an opponent failed.
    """
    try:
        return adaptation_ceiling(environment, **options), ""
    except GameError as error:
        return None, f"no ceiling: {error}"


def _pool(opponents: Mapping[str, Any], shares: Mapping[str, float] | None) -> dict[str, float]:
    given = dict.fromkeys(opponents, 1.0) if shares is None else dict(shares)
    for name in given:
        if name not in opponents:
            raise UnknownNameError("opponent", name, [*opponents])
    if set(given) != set(opponents) or not all(0 < share < np.inf for share in given.values()):
        raise GameError(
            f"shares={quoted(given)} must give each of the opponents {', '.join(opponents)} a "
            "weight above 0."
        )
    if not given:
        raise GameError("There are no opponents to adapt to; name at least one.")
    total = sum(given.values())
    return {name: float(given[name]) / total for name in opponents}


def _by_opponent(pool: Mapping[str, float], rows: FloatArray) -> dict[str, tuple[float, ...]]:
    """Return returns [N, K] by the name of the opponent."""
    return {name: tuple(rows[:, number].tolist()) for number, name in enumerate(pool)}


class _Solver:
    def __init__(self, tree: Attempt, objective: str) -> None:
        self.tree, self.objective = tree, objective
        self._known: dict[tuple[float, ...], FloatArray] = {}

    def returns(self, belief: FloatArray, left: int) -> FloatArray:
        """Return the returns [n, K] of the attempts that are left, weighted by beliefs [K]."""
        total = float(belief.sum())
        if not left or total <= 0.0:
            return np.zeros((left, len(belief)))
        belief = belief / total
        key = (float(left), *np.round(belief, DIGITS).tolist())
        if key not in self._known:
            if len(self._known) >= MOST_BELIEFS:
                raise TooLargeError(
                    f"More than {MOST_BELIEFS:,} beliefs about the opponent can arise, too many "
                    "for an exact ceiling; fewer attempts or opponents have fewer."
                )
            self._known[key] = self._best(self.tree.root, belief, left)
        return total * self._known[key]

    def _best(self, branch: Branch, belief: FloatArray, left: int) -> FloatArray:
        """Return W_n [n, K] of what follows one action of the learner's, or the beginning."""
        found = np.zeros((left, len(belief)))
        for end in branch.ends:
            found[0] += belief * end.earned
            found[1:] += self.returns(belief * end.reach, left - 1)
        for decision in branch.decisions.values():
            options = [self._best(after, belief, left) for after in decision.after.values()]
            found += self._first(options)
        return found

    def _first(self, options: list[FloatArray]) -> FloatArray:
        """Return the best by the objective; of equally good ones the first."""
        best, mark = options[0], self._ranks(options[0])
        for one in options[1:]:
            rank = self._ranks(one)
            apart = rank[0] - mark[0] if abs(rank[0] - mark[0]) > TIE else rank[1] - mark[1]
            if apart > TIE:
                best, mark = one, rank
        return best

    def _ranks(self, found: FloatArray) -> tuple[float, float]:
        last, total = float(found[-1].sum()), float(found.sum())
        return (last, total) if self.objective == "last" else (total, last)
