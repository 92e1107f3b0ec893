"""Every information state of a game, policies over them, and exact values of decisions.

The game tree is walked once: each information state is listed as the conversation a rollout would
produce. The walk needs no policy, so a run walks once and evaluates any number of policies.

Exact evaluation never samples: it reads a policy's probability of each legal action at every
information state of the game. An ``ActionScorer`` gives these probabilities: a language model, a
solver's table, the uniform policy. The mathematics is in ``ops/game_tree.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from sparring.config.plugins.guard import PluginCall
from sparring.core.errors import GameError, SparringError, TooLargeError
from sparring.core.records import FloatArray, IntArray, Observation
from sparring.core.rng import Stream
from sparring.environments.base import Decision, Environment, GameRules, Node, teams_of
from sparring.environments.foreign import environment_call, reason_not_searchable
from sparring.environments.history_tree import tree_of
from sparring.ops.game_tree import ExactValues, GameTree, policy_values

MASS_TOLERANCE = 1e-3
"""Largest excess of the legal actions' total probability over 1; float32 is not exact."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """One information state as a conversation: what a seat has seen and done when it must act.

    Example:
        Query(game="kuhn_poker", seat=0, key="0pb", observations=("kuhn first J", "bet"),
              actions=("pass",), legal_actions=("pass", "bet"))
    """

    game: str
    seat: int
    key: str  # Observation.key
    observations: tuple[str, ...]  # texts of the seat's turns so far; the last is this turn's
    actions: tuple[str, ...]  # the seat's earlier actions: one less than observations
    legal_actions: tuple[str, ...]
    # the observations with these texts, for policies that read their other fields; may be empty
    seen: tuple[Observation, ...] = field(default=(), compare=False)
    # the team of each seat, for policies that depend on it; may be empty if each seat is a team
    teams: tuple[int, ...] = field(default=(), compare=False)


@runtime_checkable
class ActionScorer(Protocol):
    """A policy that reports the probabilities of its replies."""

    def action_logprobs(self, queries: Sequence[Query]) -> list[FloatArray]:
        """Return, for each query, ln P(the reply is this action) of all legal actions.

        The probabilities are not renormalised: 1 minus their sum is the policy's illegal mass.
        """


class UniformScorer:
    """The policy that plays every legal action with the same probability."""

    def action_logprobs(self, queries: Sequence[Query]) -> list[FloatArray]:
        """Return -ln(number of legal actions) for every legal action."""
        return [np.full(len(q.legal_actions), -np.log(len(q.legal_actions))) for q in queries]


class TabularScorer:
    """A policy written as a table: (seat, information-state key) -> action string -> probability.

    Actions that are left out have probability 0; probabilities may sum to less than 1 (the rest is
    illegal mass).
    """

    def __init__(self, table: Mapping[tuple[int, str], Mapping[str, float]]) -> None:
        self._table = table

    def action_logprobs(self, queries: Sequence[Query]) -> list[FloatArray]:
        """Return the logarithms of the table's entries.

        Raises:
            GameError: the table lacks an information state.
        """
        return [self._row(query) for query in queries]

    def _row(self, query: Query) -> FloatArray:
        row = self._table.get((query.seat, query.key))
        if row is None:
            raise GameError(
                f"The tabular policy has no row for seat {query.seat} of {query.game} in "
                f"information state {query.key!r}. Write a row for every information state: "
                f"{{({query.seat}, {query.key!r}): {{{query.legal_actions[0]!r}: 1.0}}}}."
            )
        with np.errstate(divide="ignore"):
            logprobs: FloatArray = np.log(
                np.array([row.get(action, 0.0) for action in query.legal_actions])
            )
        return logprobs


def renormalise(logprobs: FloatArray) -> tuple[FloatArray, float]:
    """Return the policy over legal actions and the mass outside them.

    policy_a = exp(l_a) / sum_b exp(l_b);  illegal mass = 1 - sum_b exp(l_b)

    Args:
        logprobs: natural log-probabilities of the legal actions, [num_legal]; -inf is allowed.

    Returns:
        The policy, [num_legal], which sums to 1 (uniform if every entry is -inf), and the illegal
        mass in [0, 1].

    Raises:
        SparringError: an entry is NaN or +inf, or the probabilities sum to more than 1.
    """
    logprobs = np.asarray(logprobs, dtype=np.float64)
    max_logprob = logprobs.max()
    if np.isnan(logprobs).any() or max_logprob == np.inf:
        raise SparringError(
            "Log-probabilities of legal actions must be numbers below infinity, "
            f"got {logprobs.tolist()}."
        )
    mass = float(np.exp(logprobs).sum()) if max_logprob < 1.0 else np.inf
    if mass > 1.0 + MASS_TOLERANCE:
        raise SparringError(
            f"The probabilities of the legal actions sum to {mass:.6g}, more than 1: "
            f"log-probabilities {logprobs.tolist()}. An ActionScorer returns natural logarithms "
            "of probabilities, not scores."
        )
    if max_logprob == -np.inf:
        return np.full(len(logprobs), 1.0 / len(logprobs)), 1.0
    weights = np.exp(logprobs - max_logprob)
    return weights / weights.sum(), max(0.0, 1.0 - mass)


DEFAULT_LIMIT = 50_000  # information states; liars_dice(1, 6) has 24,576, tic_tac_toe 294,778
HISTORIES_PER_INFO_STATE = 10  # the walk also stops at 10 * limit histories
_PROBES = 32  # number of random plays of an estimate
_MAX_ESTIMATE = 1e30  # a random play stops once it represents this many histories
# an estimate that exceeds the bound by this factor replaces the walk; by Markov's inequality it is
# wrong with a probability below 1/100
_TRUSTED_RATIO = 100.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, weakref_slot=True)
class InfoStates:
    """All information states of a game, in the order of a depth-first walk; I of them."""

    game: str
    rules: str  # Game.rules_key
    queries: tuple[Query, ...]  # [I]
    # [I] action ids, parallel to Query.legal_actions
    legal_ids: tuple[tuple[int, ...], ...]
    node_keys: tuple[str, ...]  # [I] Node.information_state_string
    tree: GameTree

    def __len__(self) -> int:
        """Return the number of information states."""
        return len(self.queries)

    @property
    def seats(self) -> IntArray:
        """The seat that acts in each information state, [I]."""
        return np.array([query.seat for query in self.queries], dtype=np.int64)

    @property
    def widths(self) -> IntArray:
        """The number of legal actions in each information state, [I]."""
        return np.array([len(query.legal_actions) for query in self.queries], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Memory:
    """What one seat has seen and done on one path; ``since``: number of plies that it has seen."""

    observations: tuple[str, ...] = ()
    seen: tuple[Observation, ...] = ()
    actions: tuple[str, ...] = ()
    since: int = 0


@dataclass(kw_only=True, slots=True)
class _GameWalk:
    game: GameRules
    limit: int
    teams: tuple[int, ...]
    index: dict[tuple[int, str], int] = field(default_factory=dict)
    queries: list[Query] = field(default_factory=list)
    legal_ids: list[tuple[int, ...]] = field(default_factory=list)
    node_keys: list[str] = field(default_factory=list)
    edges: list[tuple[int, int, int, float]] = field(default_factory=list)
    terminal: list[int] = field(default_factory=list)
    returns: list[list[float]] = field(default_factory=list)

    def run(self) -> None:
        """Visit every history once, depth first, without recursion."""
        with environment_call(self.game) as call:
            self._visit(call)

    def _visit(self, call: PluginCall) -> None:
        """Visit every history; each has the full time limit of a call."""
        history = self.game.first_node()
        memories = (_Memory(),) * self.game.num_seats
        stack: list[tuple[Node, tuple[int, int, int, float], tuple[_Memory, ...]]] = [
            (history, (-1, -1, -1, 1.0), memories)
        ]
        while stack:
            call.now = history, edge, memories = stack.pop()
            history_index = len(self.edges)
            self.edges.append(edge)
            if history_index >= self.limit * HISTORIES_PER_INFO_STATE:
                raise too_large_error(
                    self.game, self.limit, f"the walk was stopped after {history_index:,} histories"
                )
            if history.is_terminal():
                self.terminal.append(history_index)
                self.returns.append(list(history.returns()))
            elif history.is_chance_node():
                stack += reversed(
                    [
                        (history.child(action), (history_index, -1, -1, chance), memories)
                        for action, chance in history.chance_outcomes()
                        if chance > 0
                    ]
                )
            else:
                stack += reversed(list(self._moves(history, history_index, memories)))

    def _moves(
        self, history: Node, history_index: int, memories: tuple[_Memory, ...]
    ) -> Iterator[tuple[Node, tuple[int, int, int, float], tuple[_Memory, ...]]]:
        state = self.game.state_of(history)
        seat = state.seat
        memory = memories[seat]
        observation = state.observe(seat, memory.since)
        observations = (*memory.observations, observation.text)
        seen = (*memory.seen, observation)
        actions = state.legal_actions()
        query = Query(
            game=self.game.name,
            seat=seat,
            key=observation.key,
            observations=observations,
            actions=memory.actions,
            legal_actions=tuple(actions),
            seen=seen,
            teams=self.teams,
        )
        state_index = self._register(query, state)
        for choice, (action, action_id) in enumerate(
            zip(actions, self.legal_ids[state_index], strict=True)
        ):
            next_memory = _Memory(
                observations=observations,
                seen=seen,
                actions=(*memory.actions, action),
                since=state.plies + 1,
            )
            yield (
                history.child(action_id),
                (history_index, state_index, choice, 1.0),
                (*memories[:seat], next_memory, *memories[seat + 1 :]),
            )

    def _register(self, query: Query, state: Decision) -> int:
        known_index = self.index.get((query.seat, query.key))
        if known_index is not None:
            if self.queries[known_index] != query:
                raise _recall_error(self.queries[known_index], query)
            return known_index
        new_index = len(self.queries)
        if new_index >= self.limit:
            stop_reason = (
                f"the walk was stopped after {new_index:,} information states in "
                f"{len(self.edges):,} histories"
            )
            raise too_large_error(self.game, self.limit, stop_reason)
        self.index[query.seat, query.key] = new_index
        self.queries.append(query)
        self.legal_ids.append(tuple(state.action_index(action) for action in query.legal_actions))
        self.node_keys.append(state.node.information_state_string(query.seat))
        return new_index

    def tree(self) -> GameTree:
        parent, info_state, choice, chance = zip(*self.edges, strict=True)
        return GameTree(
            parent=np.array(parent, dtype=np.int64),
            info_state=np.array(info_state, dtype=np.int64),
            choice=np.array(choice, dtype=np.int64),
            chance=np.array(chance, dtype=np.float64),
            terminal=np.array(self.terminal, dtype=np.int64),
            returns=np.array(self.returns, dtype=np.float64).reshape(-1, self.game.num_seats),
        )


def enumerate_info_states(game: Environment, *, limit: int = DEFAULT_LIMIT) -> InfoStates:
    """Return every information state of a game, with the tree of histories.

    A seat's first text is ``observe(seat, 0)``; each later one is ``observe(seat, plies at its
    previous turn + 1)``, which leaves out its own actions. These are exactly the texts of a rollout
    in which every reply is legal.

    Args:
        game: any sequential game whose OpenSpiel rules give information-state strings, or a
            user-defined environment with ``openings`` (``environments/history_tree.py``).
        limit: the largest number of information states to accept.

    Raises:
        TooLargeError: more than ``limit`` information states, or ``limit *
            HISTORIES_PER_INFO_STATE`` histories.
        GameError: OpenSpiel gives no information states for this game, or two paths to one
            information state have different texts (the wording breaks perfect recall).
    """
    tree = tree_of(game)
    if tree is None:
        raise GameError(
            f"{game.name}: no exact figures, as {reason_not_searchable(game)}, and it has no "
            "method openings; play matches instead (sparring evaluate RUN)."
        )
    teams = tuple(teams_of(game))
    if not tree.has_info_states:
        raise GameError(
            f"Exact evaluation of {tree.name!r} needs information-state strings and OpenSpiel has "
            "none for it. Measure win rates by matches against random, MCTS or another agent "
            "instead (sparring evaluate RUN)."
        )
    estimate = estimate_histories(tree)
    if estimate > _TRUSTED_RATIO * HISTORIES_PER_INFO_STATE * limit:
        raise too_large_error(
            tree, limit, f"{_PROBES} random plays estimate at least {estimate:.0e} histories"
        )
    walk = _GameWalk(game=tree, limit=limit, teams=teams)
    walk.run()
    return InfoStates(
        game=tree.name,
        rules=tree.rules_key,
        queries=tuple(walk.queries),
        legal_ids=tuple(walk.legal_ids),
        node_keys=tuple(walk.node_keys),
        tree=walk.tree(),
    )


def estimate_histories(game: GameRules, *, probes: int = _PROBES) -> float:
    """Return an unbiased estimate of the number of terminal histories from fixed random plays.

    An episode that meets branching factors b_1 .. b_n estimates b_1 * ... * b_n (Knuth, 1975,
    "Estimating the efficiency of backtrack programs"). The estimate is the mean over ``probes``
    plays, each stopped at ``_MAX_ESTIMATE``.
    """
    total = 0.0
    with environment_call(game) as call:
        for probe in range(probes):
            call.now = stream = Stream.from_seed(0).child("estimate").child(probe)
            node, branch_product, depth = game.first_node(), 1.0, 0
            while not node.is_terminal() and branch_product < _MAX_ESTIMATE:
                legal = node.legal_actions()
                node = node.child(legal[stream.integer(depth, len(legal))])
                branch_product *= len(legal)
                depth += 1
            total += branch_product / probes
    return total


def too_large_error(game: GameRules, limit: int, reason: str) -> TooLargeError:
    """Return the error for a game that is too large to walk, with what to use instead."""
    return TooLargeError(
        f"{game.name!r} is too large for exact evaluation: {reason}, and the limit is {limit:,} "
        "information states. Measure win rates by matches against random, MCTS or another agent "
        "instead (sparring evaluate RUN), or raise `limit` if the game is only a little larger."
    )


def _recall_error(first: Query, second: Query) -> GameError:
    return GameError(
        f"The wording of {first.game!r} breaks perfect recall: seat {first.seat} in information "
        f"state {first.key!r} reads {first.observations} after {first.actions} "
        f"with {first.legal_actions} on one path, and {second.observations} "
        f"after {second.actions} with {second.legal_actions} on another. Make State.observe "
        "depend only on what the seat may know."
    )


def exact_values(info_states: InfoStates, policy: Sequence[FloatArray]) -> ExactValues:
    """Return Q and V of every information state under a policy that plays every seat.

    Args:
        info_states: result of ``enumerate_info_states(game)``.
        policy: probabilities of the legal actions of each information state, I arrays [num_legal].
    """
    return policy_values(info_states.tree, info_states.seats, policy)
