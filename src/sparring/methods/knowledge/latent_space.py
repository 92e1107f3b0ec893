"""Knowledge: a latent space of statements, scored by an equilibrium of the abstracted game (LSPO).

If an abstracted game is too large to enumerate, Monte-Carlo counterfactual regret minimisation
solves it. In step t each seat in turn is the learning seat. The solver samples an episode, with the
current strategies of all other seats. At each decision of the learning seat it tries all actions,
while the other seats' actions stay the same. Each try continues by the current strategies: with
all actions at the seat's next ``depth`` - 1 decisions, and one sampled action at later decisions.
With u(a) the payoff of action a,

    R(I, a) <- R(I, a) + t (u(a) - sum over b of sigma(I, b) u(b))
    sigma(I, a) = max(R(I, a), 0) / sum over b of max(R(I, b), 0),   uniform where none is above 0

In the episode itself, the learning seat draws its action from (1 - EXPLORE) sigma + EXPLORE
uniform. The result is
the mean of sigma over the other seats' visits, weighted by t (external sampling: Lanctot et al.,
2009; linear weights: Brown and Sandholm, 2019).

An anchor lambda above 0 replaces regret matching by a penalty of lambda KL(sigma || q), where q is
the policy's empirical distribution in a state. With T(I) the sum of t over the visits of I,

    sigma(I, a) in proportion to q(a) exp(R(I, a) / (lambda T(I)))

which maximises (mean payoff of the actions so far) - lambda KL(sigma || q). A fixed point is
a logit equilibrium with base q (McKelvey and Palfrey, 1995; with search anchored at human play:
Jacob et al., 2022).

A small depth does not bias u(a), because the current strategies play the rest of the episode.
Rarely reached states are learnt slowly, because regrets are not divided by the probability that
the seat reaches the state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from sparring.config.parts import PluginConfig
from sparring.core.errors import ConfigError, GameError
from sparring.core.records import FloatArray
from sparring.core.rng import Stream
from sparring.environments.abstracted import AbstractedEnvironment, AbstractedPlay, kind_of
from sparring.environments.base import Environment, HasPlayerNames
from sparring.environments.foreign import environment_call
from sparring.methods.knowledge.base import Knowledge, KnowledgeRequest
from sparring.methods.knowledge.decision_nodes import (
    DecisionNode,
    EmpiricalPolicy,
    ScoreKind,
    empirical_policy,
    map_decisions,
    map_replies,
    score_replies,
)
from sparring.methods.knowledge.space import (
    LatentSpace,
    StatementClusters,
    abstract_game,
    cluster_statements,
    solve_exactly,
)
from sparring.methods.knowledge.statements import (
    AbstractState,
    JudgedDecision,
    abstract_state_of,
    judged_decisions,
    pattern,
)
from sparring.ops.normal_form import shares_above_zero, softmax

EXPLORE = 0.4
NO_COUNTS = EmpiricalPolicy()


@dataclass(kw_only=True, slots=True)
class _StateRow:
    """Regrets and strategies of a state, with one entry per label."""

    labels: tuple[str, ...]
    regrets: FloatArray
    strategy_sums: FloatArray  # weighted sums of the strategies, whose mean is the result
    log_empirical: FloatArray  # log q
    is_in_result: bool  # whether the solver returns this state's strategy
    weight: float = 0.0  # weight of the regrets: T
    current_strategy: _MixedStrategy | None = None  # computed on demand

    def strategy(self, anchor: float) -> _MixedStrategy:
        if self.current_strategy is None:
            shares = (
                softmax(self.log_empirical + self.regrets / (max(self.weight, 1.0) * anchor))
                if anchor
                else shares_above_zero(self.regrets)
            )
            self.current_strategy = _with_cumulative_sums(shares)
        return self.current_strategy

    def add_regrets(self, step: int, values: FloatArray, probabilities: FloatArray) -> None:
        self.regrets += step * (values - probabilities @ values)
        self.weight += step
        self.current_strategy = None


class _MixedStrategy(NamedTuple):
    """A distribution over the labels of a state, with cumulative sums."""

    probabilities: FloatArray
    cumulative_sums: list[float]


def _with_cumulative_sums(probabilities: FloatArray) -> _MixedStrategy:
    return _MixedStrategy(probabilities, list(accumulate(probabilities.tolist())))


class _SampledNode(NamedTuple):
    """A decision with its state's row and current strategy."""

    state: AbstractState
    row: _StateRow
    strategy: _MixedStrategy

    def draw_action(self, strategy: _MixedStrategy, generator: np.random.Generator) -> str:
        index = bisect_right(strategy.cumulative_sums, generator.random())
        return self.action_with_label(
            self.row.labels[min(index, len(self.row.labels) - 1)], generator
        )

    def action_with_label(self, label: str, generator: np.random.Generator) -> str:
        pairs = zip(self.state.legal, self.state.labels, strict=True)
        actions = [action for action, action_label in pairs if action_label == label]
        return actions[int(generator.integers(len(actions)))] if len(actions) > 1 else actions[0]


class MonteCarloSolver:
    """Solver of an abstracted game by sampled episodes.

    Args:
        game: the abstracted game; it need not have the method ``openings``.
        stream: stream of all random draws.
        depth: number of consecutive decisions of the learning seat at which it tries all actions.
        actions: whether the result includes states in which the due action is not a statement.
        gists: see ``statements.abstract_state_of``.
        empirical: the empirical policy q.
        anchor: weight of the KL penalty to q; 0 means regret matching.
    """

    def __init__(
        self,
        game: AbstractedEnvironment,
        stream: Stream,
        *,
        depth: int,
        actions: bool,
        gists: bool,
        empirical: EmpiricalPolicy = NO_COUNTS,
        anchor: float = 0.0,
    ) -> None:
        self.game, self.stream, self.depth, self.actions = game, stream, depth, actions
        self.gists, self.empirical, self.anchor = gists, empirical, anchor
        self.rows: dict[str, _StateRow] = {}

    def solve(self, steps: int) -> dict[str, list[float]]:
        """Return the mean strategy of each state that the other seats visited.

        Args:
            steps: number of solver steps.

        Returns:
            Probabilities by state, in the order of ``AbstractState.distinct_labels``.
        """
        with environment_call(self.game.inner) as call:
            for step in range(1, steps + 1):
                for seat in range(self.game.num_seats):
                    call.now = f"sampled play {step} of seat {seat}"
                    self._learn(seat, step)
        return {
            key: [float(share) for share in row.strategy_sums / row.strategy_sums.sum()]
            for key, row in self.rows.items()
            if row.is_in_result and row.strategy_sums.any()
        }

    def _learn(self, seat: int, step: int) -> None:
        stream = self.stream.child(step).child(seat)
        generator = stream.child("draws").generator()
        play = AbstractedPlay(self.game, self.game.inner.reset(stream.child("play")))
        while not play.done:
            due_seats = play.due()
            actions = {
                other_seat: self._sample_action(play, other_seat, generator, step)
                for other_seat in due_seats
                if other_seat != seat
            }
            if seat in due_seats:
                node = self._node(play, seat)
                values = self._action_values(play, seat, actions, node, generator, self.depth - 1)
                probabilities = node.strategy.probabilities
                node.row.add_regrets(step, values, probabilities)
                actions[seat] = node.draw_action(
                    _with_cumulative_sums(
                        (1 - EXPLORE) * probabilities + EXPLORE / len(probabilities)
                    ),
                    generator,
                )
            play.step(actions)

    def _node(self, play: AbstractedPlay, seat: int) -> _SampledNode:
        state = abstract_state_of(play, seat, gists=self.gists)
        row = self._row(state, play, seat)
        return _SampledNode(state, row, row.strategy(self.anchor))

    def _sample_action(
        self, play: AbstractedPlay, seat: int, generator: np.random.Generator, weight: float = 0.0
    ) -> str:
        node = self._node(play, seat)
        if weight:
            node.row.strategy_sums += weight * node.strategy.probabilities
        return node.draw_action(node.strategy, generator)

    def _action_values(
        self,
        play: AbstractedPlay,
        seat: int,
        actions: Mapping[int, str],
        node: _SampledNode,
        generator: np.random.Generator,
        depth: int,
    ) -> FloatArray:
        values = np.zeros(len(node.row.labels))
        for index, label in enumerate(node.row.labels):
            next_play = play.clone()
            next_play.step({**actions, seat: node.action_with_label(label, generator)})
            values[index] = self._rollout_value(next_play, seat, generator, depth)
        return values

    def _rollout_value(
        self, play: AbstractedPlay, seat: int, generator: np.random.Generator, depth: int
    ) -> float:
        while not play.done:
            due_seats = play.due()
            actions = {
                other_seat: self._sample_action(play, other_seat, generator)
                for other_seat in due_seats
                if other_seat != seat or not depth
            }
            if seat in due_seats and depth:
                node = self._node(play, seat)
                values = self._action_values(play, seat, actions, node, generator, depth - 1)
                return float(node.strategy.probabilities @ values)
            play.step(actions)
        return float(play.returns[seat])

    def _row(self, state: AbstractState, play: AbstractedPlay, seat: int) -> _StateRow:
        row = self.rows.get(state.key)
        if row is None:
            if not state.legal:
                raise GameError(
                    f"knowledge 'latent_space': {self.game.roles[seat]} may say any text in "
                    f"{self.game.name}, and the step has no statement of that kind, so that no "
                    "episode can be sampled; take more episodes per step, or an environment that "
                    "lists its actions (werewolf without deduce)."
                )
            labels = state.distinct_labels
            kind = kind_of(self.game.inner, play.inner, seat)
            row = self.rows[state.key] = _StateRow(
                labels=labels,
                regrets=np.zeros(len(labels)),
                strategy_sums=np.zeros(len(labels)),
                log_empirical=np.log(self.empirical.shares(kind, state.key, labels)),
                is_in_result=self.actions or kind in self.game.statements,
            )
        return row


EMBEDDING = "embedding"  # the option that names an embedding
EMBEDDINGS = "knowledge.embeddings"
Solver = Literal["whole", "sampled"]


def latent_space(
    request: KnowledgeRequest,
    state: Mapping[str, Any],
    *,
    clusters: Annotated[int, Field(ge=1, le=64)] = 3,
    growth: Annotated[int, Field(ge=0, le=16)] = 1,
    kinds: Mapping[str, int] | None = None,
    every: Annotated[int, Field(ge=1)] = 20,
    iterations: Annotated[int, Field(ge=1)] = 3,
    prefer: ScoreKind = "ratio",
    floor: Annotated[float, Field(gt=0, le=0.5)] = 0.01,
    actions: bool = False,
    solver: Solver = "whole",
    cfr_steps: Annotated[int, Field(ge=1, le=1_000_000)] = 1000,
    depth: Annotated[int, Field(ge=1, le=16)] = 1,
    gists: bool = True,
    anchor: Annotated[float, Field(ge=0)] = 0.0,
    embedding: str | dict[str, Any] = "ngrams",
) -> Knowledge:
    """Score statements by an equilibrium of a game with few legal statements.

    What: latent space policy optimisation. An iteration has ``every`` steps.
        - Its first step clusters the statements, by kind of action.
        - A solver then solves the abstracted game, which has one legal sentence per cluster.
        - Until the next iteration a reply's score is how often the solution plays its cluster.
        - The next iteration has ``growth`` more clusters.
    When to use: games whose actions are texts, too many for a solver to list. Use it with
    ``rollout.candidates`` (``commit: random``), ``credit: candidate_value`` and the loss
    ``turn_dpo`` with preset ``lspo``.
    Mathematics: s is the information state in the abstracted game, and c(a) is the cluster of reply
    a, one of k clusters. sigma is the average strategy of CFR in s, and q the share of the step's
    replies in a cluster. The score of a reply is

        prefer "ratio":        log(sigma'(c(a) | s) / q(c(a) | s))
        prefer "probability":  sigma'(c(a) | s)

        sigma' = (1 - floor) sigma + floor / k
        q(c | s) = (n(s, c) + k q(c)) / (n(s) + k)

    n(s, c) is the number of replies of cluster c in s, and q(c) the cluster's share of all replies
    of the kind. If actions have no kind, q(c) is the share in all decisions with the same list of
    actions. Illegal replies form one more cluster, with sigma' = floor / k.
    With "ratio", unchanged credit and soft labels, the minimum of the loss gives every cluster the
    probability sigma', and statements within a cluster keep their shares.
    The sign: a reply scores higher if the equilibrium plays its cluster more. The paper's text
    prefers the lower regret, but its update R(a) <- R(a) + u(a) - u(strategy) plays the larger
    regret more. See docs/lspo.md.
    Pitfalls:
        - "probability", the paper's order, gives all clusters the same score if the equilibrium is
          uniform. Nothing is learnt in such states.
        - With "probability" every update makes the preferred clusters more probable.
        - The default embedding compares letters and words; it may separate paraphrases.
        - ``solver: whole`` refuses chance after the initial state, and trees of more than 500,000
          histories.
        - With ``gists`` a strategy depends on the summary only. A player who remembers the whole
          episode can exploit it.
    Shapes: a score per reply.
    Metrics: iteration (from 1), clusters (number over all kinds), apart (mean over states of the
    total variation distance of sigma' and q), even (share of judged prompts whose solution is
    uniform; a high share means that too few episodes were sampled).
    Reference: Xu et al., 2025, "Learning strategic language agents in the Werewolf game with
    iterative latent space policy optimization", arXiv:2502.04686, whose regrets are of Deep CFR.
    Verified by: tests/methods/knowledge/test_latent_space.py,
    tests/methods/knowledge/test_sampled.py, tests/run/test_candidates_in_runs.py.

    Args:
        clusters: clusters of each kind in the first iteration, 1 to 64. Default 3.
        growth: additional clusters in each further iteration, 0 to 16. Default 1.
        kinds: number of clusters in the first iteration by kind of action, in place of
            ``clusters``.
        every: steps of an iteration, at least 1. Default 20.
        iterations: number of iterations; the last one stays. Default 3.
        prefer: score of a reply: "ratio" (default) or "probability", see above.
        floor: total probability that all clusters share evenly, above 0, at most 0.5. Default 0.01.
            So clusters that the solution never plays stay possible.
        actions: whether also to judge decisions that are not statements, with each action as one
            cluster. Default false, as in the paper: these decisions are not trained.
        solver: "whole" (default): CFR+ on the whole tree of the abstracted game. "sampled":
            sampled episodes, for games whose tree is too large or cannot be listed.
        cfr_steps: steps of the solver; with "sampled", one episode per seat and step. Default 1000.
        depth: with "sampled", number of consecutive decisions of a seat at which all actions are
            tried, 1 (default) to 16; later decisions are sampled.
        gists: with "sampled", whether a seat's state is a gist, a short summary of what the seat
            knows, if the environment defines one (werewolf does). Default true. With false a state
            is all that the seat knows.
        anchor: with "sampled", lambda above 0: weight of the KL penalty to the policy, in units of
            the payoff. Such games have many equilibria; the anchor selects one close to the
            current policy. Default 0: no penalty.
        embedding: plug-in that turns statements into vectors, with its options: "ngrams"
            (default), {name: hidden_states, model: smollm2-135m} or {name: endpoint, model: NAME}.
            Its input has "@" for names and "#" for numbers.

    Raises:
        GameError: the abstracted game cannot be solved.
        ConfigError: ``kinds`` names an unknown kind or too few clusters, or ``anchor`` is above 0
            without sampled episodes.
    """
    _validate_kinds(kinds or {})
    if anchor and solver != "sampled":
        raise ConfigError(
            f"knowledge 'latent_space': anchor={anchor:g} applies to sampled episodes only, and "
            f"solver={solver} walks the tree; write solver: sampled, or leave anchor out."
        )
    solver_options = SolverOptions(
        solver=solver, steps=cfr_steps, depth=depth, actions=actions, gists=gists, anchor=anchor
    )
    embed = PluginConfig.model_validate(embedding).bind(EMBEDDINGS)
    decisions = [
        judged_decisions(request.environments[episode.game], episode, actions=actions)
        for episode in request.episodes
    ]
    iteration = min(request.step // every, iterations - 1)
    state_iteration, space = LatentSpace.from_state(state, embed) if state else (-1, None)
    is_new_iteration = space is None or state_iteration < iteration
    if is_new_iteration:
        cluster_counts = {
            kind: num_clusters + growth * iteration
            for kind, num_clusters in _cluster_counts(decisions, clusters, kinds or {}).items()
        }
        masked_names, player_names = _player_names(request)
        empty_space = LatentSpace(embedding=embed, names=masked_names, player_names=player_names)
        space = _with_clusters(request, decisions, space, empty_space, cluster_counts)
    assert space is not None
    nodes = map_decisions(request, decisions, space, gists=solver_options.by_gists)
    if is_new_iteration:
        space = _with_strategies(request, nodes, space, solver_options)
        state = {"iteration": iteration, "space": space.to_json()}
        state_iteration, space = LatentSpace.from_state(state, embed)  # equal to a restored space
    prompts = map_replies(nodes, space)
    scores, metrics = score_replies(prompts, space, prefer, floor)
    scores_by_turn: list[dict[int, list[float | None]]] = [{} for _ in request.episodes]
    for prompt, prompt_scores in zip(prompts, scores, strict=True):
        scores_by_turn[prompt.episode][prompt.turn_index] = prompt_scores
    metrics["iteration"] = state_iteration + 1.0
    metrics["clusters"] = float(sum(len(kind.sentences) for kind in space.kinds.values()))
    return Knowledge(scores=scores_by_turn, state=dict(state), metrics=metrics)


@dataclass(frozen=True, kw_only=True, slots=True)
class SolverOptions:
    """Options of the solver; see the options of ``latent_space``."""

    solver: Solver
    steps: int
    depth: int
    actions: bool
    gists: bool
    anchor: float

    @property
    def by_gists(self) -> bool:
        """Whether a state is a gist, a summary of the seat's information."""
        return self.gists and self.solver == "sampled"

    def strategy(
        self,
        game: Environment,
        kinds: Mapping[str, StatementClusters],
        stream: Stream,
        empirical: EmpiricalPolicy,
    ) -> dict[str, list[float]]:
        """Solve the abstracted game, and return the probabilities of actions by state."""
        if self.solver == "whole":
            return solve_exactly(game, kinds, self.steps, actions=self.actions)
        abstracted_game = abstract_game(game, kinds)
        sampled_solver = MonteCarloSolver(
            abstracted_game,
            stream,
            depth=self.depth,
            actions=self.actions,
            gists=self.by_gists,
            empirical=empirical,
            anchor=self.anchor,
        )
        return sampled_solver.solve(self.steps)


def _validate_kinds(kinds: Mapping[str, int]) -> None:
    for kind, number in kinds.items():
        if number < 1:
            raise ConfigError(
                f"knowledge 'latent_space', option 'kinds': {kind}: {number} must be at least 1."
            )


def _cluster_counts(
    decisions: Sequence[Sequence[JudgedDecision]], clusters: int, kinds: Mapping[str, int]
) -> dict[str, int]:
    names = sorted({decision.kind for decision in chain(*decisions) if decision.kind})
    unknown_kinds = sorted(set(kinds) - set(names))
    if unknown_kinds and names:
        raise ConfigError(
            f"knowledge 'latent_space', option 'kinds': the step has no statements of the kind "
            f"{unknown_kinds[0]!r}; its kinds are {', '.join(map(repr, names))}."
        )
    return {kind: kinds.get(kind, clusters) for kind in names}


def _player_names(request: KnowledgeRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (player names and role names to mask, player names to replace in statements)."""
    player_names, masked_names = set[str](), set[str]()
    for game in request.environments.values():
        game_names = game.player_names if isinstance(game, HasPlayerNames) else None
        player_names |= set(game_names or ())
        masked_names |= set(game.roles if game_names is None else game_names)
    return tuple(sorted(masked_names)), tuple(sorted(player_names))


def _with_clusters(
    request: KnowledgeRequest,
    decisions: Sequence[Sequence[JudgedDecision]],
    earlier_space: LatentSpace | None,
    space: LatentSpace,
    cluster_counts: Mapping[str, int],
) -> LatentSpace:
    statements: dict[str, Counter[str]] = {}
    for decision in (decision for decision in chain(*decisions) if decision.kind):
        statements.setdefault(decision.kind, Counter()).update(
            pattern(text, space.player_names) for text in decision.actions if text is not None
        )
    stream = request.stream.child("clusters")
    old_kinds = earlier_space.kinds if earlier_space is not None else {}
    clusters = {
        kind: cluster_statements(
            counts, cluster_counts[kind], old_kinds.get(kind), space, stream.child(kind)
        )
        for kind, counts in sorted(statements.items())
        if counts or kind in old_kinds
    }
    return replace(space, kinds={**old_kinds, **clusters})


def _with_strategies(
    request: KnowledgeRequest,
    nodes: Sequence[Sequence[DecisionNode]],
    space: LatentSpace,
    solver_options: SolverOptions,
) -> LatentSpace:
    stream, strategies = request.stream.child("solver"), {}
    for name in sorted({episode.game for episode in request.episodes}):
        empirical = empirical_policy(node for node in chain(*nodes) if node.game == name)
        game = request.environments[name]
        strategies[name] = solver_options.strategy(game, space.kinds, stream.child(name), empirical)
    return replace(space, strategies=strategies)
