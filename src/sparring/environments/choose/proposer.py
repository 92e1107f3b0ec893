"""The proposer of ``choose``: draws, probabilities and order of candidates."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sparring.core.errors import GameError
from sparring.core.rng import Stream

__all__ = ["MAX_DRAWS", "Proposer", "candidates_key", "join_actions", "numerals"]

MAX_DRAWS = 20_000  # largest number of draws of a proposer that exact figures enumerate


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposer:
    """A fixed distribution that draws the candidates of a decision, all different.

    Args:
        count: largest number of candidates.
        weights: weight of each action to propose; {}: all legal actions have equal weights.
        diverse: whether to draw without replacement.
        shuffle: whether to show candidates in random order.
    """

    count: int
    weights: Mapping[str, float] = field(default_factory=dict)
    diverse: bool = True
    shuffle: bool = True

    def weights_of(self, legal: Sequence[str]) -> dict[str, float]:
        """Return the positive weights of legal actions; equal weights if no weight is positive."""
        weights = {action: self.weights.get(action, 0.0) for action in legal}
        if any(weights.values()):
            return {action: weight for action, weight in weights.items() if weight}
        return dict.fromkeys(legal, 1.0)

    def draw(self, legal: Sequence[str], stream: Stream) -> tuple[str, ...]:
        """Return the candidates of a decision in the order of the draws.

        Args:
            legal: the legal actions.
            stream: source of random numbers for this decision.
        """
        weights, actions = self.weights_of(legal), list[str]()
        for number in range(self._num_draws(weights)):
            actions.append(_pick_action(weights, stream.uniform(number)))
            if self.diverse:
                del weights[actions[-1]]
        return tuple(dict.fromkeys(actions))

    def order_candidates(
        self, legal: Sequence[str] | None, candidates: Iterable[str], stream: Stream
    ) -> tuple[str, ...]:
        """Return candidates in the order of their numbers.

        Args:
            legal: the legal actions, which give the order without ``shuffle``; None: any text is
                legal, and without ``shuffle`` the order of the draws stays.
            candidates: the candidates in the order of the draws.
            stream: source of random numbers for this decision.
        """
        sequence = list(candidates) if legal is None else sorted(candidates, key=list(legal).index)
        order_stream = stream.child("order")
        for last in range(len(sequence) - 1, 0, -1) if self.shuffle else ():
            index = order_stream.integer(last, last + 1)
            sequence[last], sequence[index] = sequence[index], sequence[last]
        return tuple(sequence)

    def possible_lists(self, legal: Sequence[str]) -> tuple[tuple[float, tuple[str, ...]], ...]:
        """Return every possible list of candidates with its probability, as (probability, list).

        Args:
            legal: the legal actions of the decision.

        Raises:
            GameError: there are too many draws to enumerate.
        """
        weights = self.weights_of(legal)
        num_draws = self._num_draws(weights)
        num_actions = len(weights)
        num_lists = math.perm(num_actions, num_draws) if self.diverse else num_actions**num_draws
        if num_lists > MAX_DRAWS:
            raise GameError(
                f"choose: no exact figures, as {num_draws} candidates of {num_actions} actions "
                f"have {num_lists:,} draws, more than the limit of {MAX_DRAWS:,}; write a smaller "
                "count."
            )
        chances: dict[tuple[str, ...], float] = defaultdict(float)
        draws = itertools.product(weights, repeat=num_draws)
        for draw in itertools.permutations(weights, num_draws) if self.diverse else draws:
            chances[tuple(sorted({*draw}, key=list(legal).index))] += self._chance_of(weights, draw)
        if not self.shuffle:
            return tuple((chance, candidates) for candidates, chance in chances.items())
        return tuple(
            (chance / math.factorial(len(candidates)), permutation)
            for candidates, chance in chances.items()
            for permutation in itertools.permutations(candidates)
        )

    def _num_draws(self, weights: Mapping[str, float]) -> int:
        return min(self.count, len(weights)) if self.diverse else self.count

    def _chance_of(self, weights: Mapping[str, float], draw: Sequence[str]) -> float:
        weights_left, probability = dict(weights), 1.0
        for action in draw:
            probability *= weights_left[action] / sum(weights_left.values())
            if self.diverse:
                del weights_left[action]
        return probability


def numerals(count: int) -> tuple[str, ...]:
    """Return the numbers of ``count`` candidates as words, from "1"."""
    return tuple(str(number + 1) for number in range(count))


def candidates_key(candidates: Sequence[str]) -> str:
    """Return candidates as text for the key of a seat's information state."""
    return f"{join_actions(candidates)}|"


def join_actions(actions: Sequence[str]) -> str:
    """Return actions as one line; different actions give different lines."""
    texts = (action if action.replace(" ", "").isalnum() else repr(action) for action in actions)
    return "/".join(texts)


def _pick_action(weights: Mapping[str, float], uniform: float) -> str:
    """Return the action that a uniform number in [0, 1) draws in proportion to the weights."""
    remainder = uniform * sum(weights.values())
    for action, weight in weights.items():
        remainder -= weight
        if remainder < 0:
            return action
    return action  # a rounding error left a small remainder
