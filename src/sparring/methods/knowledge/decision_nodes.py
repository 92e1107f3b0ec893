"""Decision nodes: decisions of recorded episodes, mapped to states of the abstracted game.

The module also estimates the policy in these states, and scores replies by a solution.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    place: AbstractState
    actions: tuple[str | None, ...]  # abstract action of each reply, or None


def map_decisions(
    request: KnowledgeRequest,
    decisions: Sequence[Sequence[JudgedDecision]],
    space: LatentSpace,
    *,
    gists: bool,
) -> list[list[DecisionNode]]:
    """Return, per episode, the decisions whose state in the abstracted game is known.

    Args:
        request: the episodes of a step.
        decisions: the decisions of each episode.
        space: the latent space with its clusters.
        gists: see ``statements.abstract_state_of``.
    """
    stands = _stand_ins(decisions, space)
    games = {name: abstract_game(game, space.kinds) for name, game in request.environments.items()}
    nodes = []
    for episode, of_episode in zip(request.episodes, decisions, strict=True):
        game = games[episode.game]
        places = locate_decisions(
            game, episode, of_episode, lambda *pair: stands.get(pair), gists=gists
        )
        mapped = []
        for decision in of_episode:
            place = places.get(decision.number)
            if place is None:
                continue
            actions = tuple(
                stands.get((decision.kind, line)) if decision.kind and line is not None else line
                for line in decision.actions
            )
            mapped.append(DecisionNode(episode.game, decision, place, actions))
        nodes.append(mapped)
    return nodes


def _stand_ins(
    decisions: Sequence[Sequence[JudgedDecision]], space: LatentSpace
) -> dict[tuple[str, str], str | None]:
    lines = {
        (decision.kind, line)
        for of_episode in decisions
        for decision in of_episode
        for line in decision.actions
        if line is not None and decision.kind in space.kinds
    }
    stands: dict[tuple[str, str], str | None] = {}
    for kind in sorted(space.kinds):
        lines_of_kind = sorted(line for of, line in lines if of == kind)
        pairs = zip(lines_of_kind, space.stand_ins(kind, lines_of_kind), strict=True)
        stands |= {(kind, line): sentence for line, sentence in pairs}
    return stands


PRIOR_REPLIES = 3  # weight, in replies, of the shares over all states of a kind
UNSEEN_REPLIES = 0.1  # weight, in replies, of an action without replies


@dataclass(frozen=True, kw_only=True, slots=True)
class EmpiricalPolicy:
    """Counts of the actions that a policy took, by label.

    Args:
        there: counts by state.
        everywhere: counts by kind of action; "" for actions that are not statements.
    """

    there: Mapping[str, Counter[str]] = field(default_factory=dict)
    everywhere: Mapping[str, Counter[str]] = field(default_factory=dict)

    def shares(self, kind: str, key: str, called: Sequence[str]) -> FloatArray:
        """Return the share of each action in a state, shrunk to the shares of its kind.

            q(c | s) = (n(s, c) + 3 q(c)) / (n(s) + 3),   q(c) in proportion to n(c) + 0.1

        Args:
            kind: kind of the action.
            key: key of the state.
            called: labels of the state's actions.
        """
        in_state, in_kind = self.there.get(key, Counter()), self.everywhere.get(kind, Counter())
        prior = np.array([in_kind[label] + UNSEEN_REPLIES for label in called])
        shares: FloatArray = np.array([in_state[label] for label in called], dtype=np.float64)
        shares += PRIOR_REPLIES * prior / prior.sum()
        shares /= shares.sum()
        return shares


def empirical_policy(nodes: Iterable[DecisionNode]) -> EmpiricalPolicy:
    """Return the empirical policy of decisions of one environment."""
    counts_by_node, counts_by_kind = dict[str, Counter[str]](), dict[str, Counter[str]]()
    for node in nodes:
        place = node.place
        labels = [
            place.labels[place.legal.index(action)]
            for action in node.actions
            if action in place.legal
        ]
        counts_by_node.setdefault(place.key, Counter()).update(labels)
        counts_by_kind.setdefault(node.decision.kind, Counter()).update(labels)
    return EmpiricalPolicy(there=counts_by_node, everywhere=counts_by_kind)


Prefer = Literal["ratio", "probability"]
EVEN = 1e-9
ILLEGAL = -1  # the cluster of illegal replies


class MappedPrompt(NamedTuple):
    """A prompt with several replies, mapped to actions of the abstracted game."""

    episode: int  # index in the request's episodes
    number: int  # number of the turn
    state: tuple[str, str, str]  # environment, kind and list of actions, information state
    actions: tuple[int, ...]  # abstract action of each reply


def map_replies(nodes: Sequence[Sequence[DecisionNode]], space: LatentSpace) -> list[MappedPrompt]:
    """Return the prompts with several replies whose state in the abstracted game is known.

    Args:
        nodes: nodes of each episode.
        space: the latent space with its strategies.
    """
    prompts = []
    for number, of_episode in enumerate(nodes):
        for game, decision, place, actions in of_episode:
            strategy = space.strategies.get(game, {}).get(place.key)
            if not decision.several or strategy is None or len(strategy) != len(place.called):
                continue
            if any(
                line is not None and action not in place.legal
                for line, action in zip(decision.actions, actions, strict=True)
            ):
                continue  # the sentences in place of the statements change the legal actions
            of = tuple(ILLEGAL if action is None else place.number(action) for action in actions)
            pool = "/".join((decision.kind, *place.called))
            prompts.append(MappedPrompt(number, decision.number, (game, pool, place.key), of))
    return prompts


def score_replies(
    prompts: Sequence[MappedPrompt], space: LatentSpace, prefer: Prefer, floor: float
) -> tuple[list[list[float | None]], dict[str, float]]:
    """Return (scores of the replies to each prompt, metrics)."""
    by_state: dict[tuple[str, str, str], Counter[int]] = {}
    by_pool: dict[str, Counter[int]] = {}
    for prompt in prompts:
        by_state.setdefault(prompt.state, Counter()).update(prompt.actions)
        by_pool.setdefault(prompt.state[1], Counter()).update(prompt.actions)
    values: dict[tuple[str, str, str], dict[int, float]] = {}
    distances = []
    for state, counts in by_state.items():
        game, kind, key = state
        target = _floored(space.strategies[game][key], floor)
        k, in_pool = len(target) - 1, by_pool[kind]
        share = {
            number: (counts[number] + k * in_pool[number] / in_pool.total()) / (counts.total() + k)
            for number in target
        }
        distances.append(sum(abs(target[number] - share[number]) for number in target) / 2)
        values[state] = {
            number: math.log(target[number] / share[number])
            if prefer == "ratio"
            else target[number]
            for number in counts
        }
    scores: list[list[float | None]] = [
        [values[prompt.state][number] for number in prompt.actions] for prompt in prompts
    ]
    if not prompts:
        return scores, {}
    even = sum(
        _is_uniform(space.strategies[prompt.state[0]][prompt.state[2]]) for prompt in prompts
    )
    return scores, {"apart": sum(distances) / len(distances), "even": even / len(prompts)}


def _is_uniform(strategy: Sequence[float]) -> bool:
    return len(strategy) > 1 and max(strategy) - min(strategy) < EVEN


def _floored(strategy: Sequence[float], floor: float) -> dict[int, float]:
    k = len(strategy)
    target = {number: (1 - floor) * p + floor / k for number, p in enumerate(strategy)}
    return {**target, ILLEGAL: floor / k}
