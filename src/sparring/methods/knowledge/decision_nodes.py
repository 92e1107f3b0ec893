"""Decision nodes: decisions of recorded episodes, mapped to states of the abstracted game.

The module also estimates the policy in these states, and scores replies by the strategies of the
latent space.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from sparring.core.records import FloatArray
from sparring.methods.knowledge.base import KnowledgeRequest
from sparring.methods.knowledge.space import LatentSpace, abstract_game
from sparring.methods.knowledge.statements import AbstractState, JudgedDecision, locate_decisions


class DecisionNode(NamedTuple):
    """A decision with its state in the abstracted game."""

    game: str  # the environment's name
    decision: JudgedDecision
    state: AbstractState
    actions: tuple[str | None, ...]  # abstract action of each reply, or None


def map_decisions(
    request: KnowledgeRequest,
    decisions: Sequence[Sequence[JudgedDecision]],
    space: LatentSpace,
    *,
    gists: bool,
) -> list[list[DecisionNode]]:
    """Return for each episode the decisions whose state in the abstracted game can be found.

    Args:
        request: the episodes of a step.
        decisions: the decisions of each episode.
        space: the latent space with its clusters.
        gists: see ``statements.abstract_state_of``.
    """
    sentences = _nearest_sentences(decisions, space)
    games = {name: abstract_game(game, space.kinds) for name, game in request.environments.items()}
    nodes = []
    for episode, episode_decisions in zip(request.episodes, decisions, strict=True):
        game = games[episode.game]
        states = locate_decisions(
            game, episode, episode_decisions, lambda *pair: sentences.get(pair), gists=gists
        )
        episode_nodes = []
        for decision in episode_decisions:
            state = states.get(decision.turn_index)
            if state is None:
                continue
            actions = tuple(
                sentences.get((decision.kind, text)) if decision.kind and text is not None else text
                for text in decision.actions
            )
            episode_nodes.append(DecisionNode(episode.game, decision, state, actions))
        nodes.append(episode_nodes)
    return nodes


def _nearest_sentences(
    decisions: Sequence[Sequence[JudgedDecision]], space: LatentSpace
) -> dict[tuple[str, str], str | None]:
    statements_of_kind: dict[str, set[str]] = {kind: set() for kind in sorted(space.kinds)}
    for decision in chain.from_iterable(decisions):
        if decision.kind in space.kinds:
            statements = (text for text in decision.actions if text is not None)
            statements_of_kind[decision.kind].update(statements)
    sentences: dict[tuple[str, str], str | None] = {}
    for kind, kind_statements in statements_of_kind.items():
        texts = sorted(kind_statements)
        nearest = space.nearest_sentences(kind, texts)
        sentences |= {(kind, text): near for text, near in zip(texts, nearest, strict=True)}
    return sentences


PRIOR_REPLIES = 3  # weight, in replies, of the shares over all states of a kind
UNSEEN_REPLIES = 0.1  # weight, in replies, of an action without replies


@dataclass(frozen=True, kw_only=True, slots=True)
class EmpiricalPolicy:
    """Counts of the actions that a policy took, by label.

    Args:
        by_state: counts by key of the state.
        by_kind: counts by kind of action; "" for actions that are not statements.
    """

    by_state: Mapping[str, Counter[str]] = field(default_factory=dict)
    by_kind: Mapping[str, Counter[str]] = field(default_factory=dict)

    def shares(self, kind: str, key: str, labels: Sequence[str]) -> FloatArray:
        """Return the share of each action in a state, shrunk to the shares of its kind.

            q(c | s) = (n(s, c) + 3 q(c)) / (n(s) + 3),   q(c) in proportion to n(c) + 0.1

        Args:
            kind: kind of the action.
            key: key of the state.
            labels: labels of the state's actions.
        """
        state_counts = self.by_state.get(key, Counter())
        kind_counts = self.by_kind.get(kind, Counter())
        prior = np.array([kind_counts[label] + UNSEEN_REPLIES for label in labels])
        weights: FloatArray = np.array([state_counts[label] for label in labels], dtype=np.float64)
        weights += PRIOR_REPLIES * prior / prior.sum()
        weights /= weights.sum()
        return weights


def empirical_policy(nodes: Iterable[DecisionNode]) -> EmpiricalPolicy:
    """Return the empirical policy of decisions of one environment."""
    counts_by_state, counts_by_kind = dict[str, Counter[str]](), dict[str, Counter[str]]()
    for node in nodes:
        state = node.state
        labels = [state.label_of(action) for action in node.actions if action in state.legal]
        counts_by_state.setdefault(state.key, Counter()).update(labels)
        counts_by_kind.setdefault(node.decision.kind, Counter()).update(labels)
    return EmpiricalPolicy(by_state=counts_by_state, by_kind=counts_by_kind)


ScoreKind = Literal["ratio", "probability"]
UNIFORM_TOLERANCE = 1e-9  # largest difference of two probabilities in a uniform strategy
ILLEGAL = -1  # the cluster of illegal replies


class StateKey(NamedTuple):
    """A state of an abstracted game."""

    game: str  # the environment's name
    action_set: str  # kind and labels of the actions
    info_state: str


class MappedPrompt(NamedTuple):
    """A prompt with several replies, mapped to actions of the abstracted game."""

    episode: int  # index in the request's episodes
    turn_index: int  # index of the turn in the episode
    state: StateKey
    actions: tuple[int, ...]  # abstract action of each reply


def map_replies(nodes: Sequence[Sequence[DecisionNode]], space: LatentSpace) -> list[MappedPrompt]:
    """Return the prompts with several replies whose state has a strategy in the latent space.

    Args:
        nodes: nodes of each episode.
        space: the latent space with its strategies.
    """
    prompts = []
    for episode_index, episode_nodes in enumerate(nodes):
        for game, decision, state, actions in episode_nodes:
            strategy = space.strategies.get(game, {}).get(state.key)
            labels = state.distinct_labels
            if not decision.has_candidates or strategy is None or len(strategy) != len(labels):
                continue
            if any(
                text is not None and action not in state.legal
                for text, action in zip(decision.actions, actions, strict=True)
            ):
                continue  # with sentences in place of statements, other actions are legal here
            abstract_actions = tuple(
                ILLEGAL if action is None else state.index_of(action) for action in actions
            )
            key = StateKey(game, "/".join((decision.kind, *labels)), state.key)
            prompts.append(MappedPrompt(episode_index, decision.turn_index, key, abstract_actions))
    return prompts


def score_replies(
    prompts: Sequence[MappedPrompt], space: LatentSpace, prefer: ScoreKind, floor: float
) -> tuple[list[list[float | None]], dict[str, float]]:
    """Return (scores of the replies to each prompt, metrics).

    The options ``prefer`` and ``floor`` of the plug-in ``latent_space`` define the scores.
    """
    counts_by_state: dict[StateKey, Counter[int]] = {}
    counts_by_action_set: dict[str, Counter[int]] = {}
    for prompt in prompts:
        counts_by_state.setdefault(prompt.state, Counter()).update(prompt.actions)
        counts_by_action_set.setdefault(prompt.state.action_set, Counter()).update(prompt.actions)
    values: dict[StateKey, dict[int, float]] = {}
    distances = []
    for state, counts in counts_by_state.items():
        target = _with_floor(space.strategies[state.game][state.info_state], floor)
        k, set_counts = len(target) - 1, counts_by_action_set[state.action_set]
        shares = {
            action: (counts[action] + k * set_counts[action] / set_counts.total())
            / (counts.total() + k)
            for action in target
        }
        distances.append(sum(abs(target[action] - shares[action]) for action in target) / 2)
        values[state] = {
            action: math.log(target[action] / shares[action])
            if prefer == "ratio"
            else target[action]
            for action in counts
        }
    scores: list[list[float | None]] = [
        [values[prompt.state][action] for action in prompt.actions] for prompt in prompts
    ]
    if not prompts:
        return scores, {}
    num_uniform = sum(
        _is_uniform(space.strategies[prompt.state.game][prompt.state.info_state])
        for prompt in prompts
    )
    return scores, {"apart": sum(distances) / len(distances), "even": num_uniform / len(prompts)}


def _is_uniform(strategy: Sequence[float]) -> bool:
    return len(strategy) > 1 and max(strategy) - min(strategy) < UNIFORM_TOLERANCE


def _with_floor(strategy: Sequence[float], floor: float) -> dict[int, float]:
    k = len(strategy)
    target = {action: (1 - floor) * p + floor / k for action, p in enumerate(strategy)}
    return {**target, ILLEGAL: floor / k}
