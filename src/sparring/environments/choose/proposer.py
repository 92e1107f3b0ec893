"""A frozen proposer: its candidates, their probabilities and their order."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sparring.core.errors import GameError
from sparring.core.rng import Stream

__all__ = ["MOST", "Proposer", "candidates_key", "join_actions", "numbers"]

MOST = 20_000  # most draws of a proposer that exact figures enumerate


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposer:
    """The source of the candidates of a decision, all different.

    Args:
        count: most candidates.
        weights: weights of the proposed actions; {}: equal weights of all legal actions.
        diverse: whether to draw until ``count`` candidates are different.
        shuffle: whether to show candidates in random order.
    """

    count: int
    weights: Mapping[str, float] = field(default_factory=dict)
    diverse: bool = True
    shuffle: bool = True

    def weights_of(self, legal: Sequence[str]) -> dict[str, float]:
        """Return the positive weights of legal actions, or equal weights if there are none."""
        weights = {action: self.weights.get(action, 0.0) for action in legal}
        if any(weights.values()):
            return {action: weight for action, weight in weights.items() if weight}
        return dict.fromkeys(legal, 1.0)

    def draw(self, legal: Sequence[str], stream: Stream) -> tuple[str, ...]:
        """Return the candidates of a decision in the order of the draws.

        Args:
            legal: the legal actions.
            stream: of the decision.
        """
        weights, actions = self.weights_of(legal), list[str]()
        for number in range(self._num_draws(weights)):
            actions.append(_pick_action(weights, stream.uniform(number)))
            if self.diverse:
                del weights[actions[-1]]
        return tuple(dict.fromkeys(actions))

    def in_order(
        self, legal: Sequence[str] | None, candidates: Iterable[str], stream: Stream
    ) -> tuple[str, ...]:
        """Return candidates in the order of their numbers.

        Args:
            legal: the legal actions; None: any text, and without ``shuffle`` no change of order.
            candidates: the candidates in the order of the draws.
            stream: of the decision.
        """
        ordered = list(candidates) if legal is None else sorted(candidates, key=list(legal).index)
        order = stream.child("order")
        for place in range(len(ordered) - 1, 0, -1) if self.shuffle else ():
            other = order.integer(place, place + 1)
            ordered[place], ordered[other] = ordered[other], ordered[place]
        return tuple(ordered)

    def offers(self, legal: Sequence[str]) -> tuple[tuple[float, tuple[str, ...]], ...]:
        """Return every possible list of candidates as (probability, candidates).

        Args:
            legal: the legal actions of the decision.

        Raises:
            GameError: there are too many draws to enumerate.
        """
        weights = self.weights_of(legal)
        size = self._num_draws(weights)
        draws = math.perm(len(weights), size) if self.diverse else len(weights) ** size
        if draws > MOST:
            raise GameError(
                f"choose: no exact figures, as {size} candidates of {len(weights)} actions have "
                f"{draws:,} draws, more than the limit of {MOST:,}; write a smaller count."
            )
        chance: dict[tuple[str, ...], float] = defaultdict(float)
        draws = itertools.product(weights, repeat=size)
        for line in itertools.permutations(weights, size) if self.diverse else draws:
            chance[tuple(sorted({*line}, key=list(legal).index))] += self._share(weights, line)
        if not self.shuffle:
            return tuple((share, candidates) for candidates, share in chance.items())
        return tuple(
            (share / math.factorial(len(candidates)), ordered)
            for candidates, share in chance.items()
            for ordered in itertools.permutations(candidates)
        )

    def _num_draws(self, weights: Mapping[str, float]) -> int:
        return min(self.count, len(weights)) if self.diverse else self.count

    def _share(self, weights: Mapping[str, float], line: Sequence[str]) -> float:
        remaining, share = dict(weights), 1.0
        for action in line:
            share *= remaining[action] / sum(remaining.values())
            if self.diverse:
                del remaining[action]
        return share


def numbers(count: int) -> tuple[str, ...]:
    """Return the numbers of ``count`` candidates, from 1."""
    return tuple(str(number + 1) for number in range(count))


def candidates_key(candidates: Sequence[str]) -> str:
    """Return candidates as a part of a seat's key."""
    return f"{join_actions(candidates)}|"


def join_actions(actions: Sequence[str]) -> str:
    """Return actions as an unambiguous line."""
    plain = (action if action.replace(" ", "").isalnum() else repr(action) for action in actions)
    return "/".join(plain)


def _pick_action(weights: Mapping[str, float], uniform: float) -> str:
    """Return the action for a uniform number, in proportion to the weights."""
    remainder = uniform * sum(weights.values())
    for action, weight in weights.items():
        remainder -= weight
        if remainder < 0:
            return action
    return action  # by rounding
