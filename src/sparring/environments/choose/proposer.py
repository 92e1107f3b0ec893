"""A frozen proposer: which actions it names, how likely, and in what order they are shown."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sparring.core.errors import GameError
from sparring.core.rng import Stream

__all__ = ["MOST", "Proposer", "listed", "numbers", "remembered"]

MOST = 20_000  # draws of a proposer that are gone through for exact figures


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposer:
    """Draws the candidates of a decision, none of them twice.

    Args:
        count: candidates, at most.
        weights: of the actions that are proposed; of none: every legal action alike.
        diverse: whether they are drawn until so many are different.
        shuffle: whether they are shown in an order of chance.
    """

    count: int
    weights: Mapping[str, float] = field(default_factory=dict)
    diverse: bool = True
    shuffle: bool = True

    def weights_of(self, legal: Sequence[str]) -> dict[str, float]:
        """Return the weights of the legal actions that are named, or of all alike if none is."""
        weights = {action: self.weights.get(action, 0.0) for action in legal}
        if any(weights.values()):
            return {action: weight for action, weight in weights.items() if weight}
        return dict.fromkeys(legal, 1.0)

    def draw(self, legal: Sequence[str], stream: Stream) -> tuple[str, ...]:
        """Return the candidates of a decision in the order in which they were drawn.

        Args:
            legal: actions.
            stream: of the decision.
        """
        weights, actions = self.weights_of(legal), list[str]()
        for number in range(self._num_draws(weights)):
            actions.append(_one(weights, stream.uniform(number)))
            if self.diverse:
                del weights[actions[-1]]
        return tuple(dict.fromkeys(actions))

    def in_order(
        self, legal: Sequence[str] | None, candidates: Iterable[str], stream: Stream
    ) -> tuple[str, ...]:
        """Return candidates in the order in which they are shown.

        Args:
            legal: actions; None: any text, and without ``shuffle`` the order is that of ``drawn``.
            drawn: the candidates.
            stream: of the decision.
        """
        ordered = list(candidates) if legal is None else sorted(candidates, key=list(legal).index)
        order = stream.child("order")
        for place in range(len(ordered) - 1, 0, -1) if self.shuffle else ():
            other = order.integer(place, place + 1)
            ordered[place], ordered[other] = ordered[other], ordered[place]
        return tuple(ordered)

    def offers(self, legal: Sequence[str]) -> tuple[tuple[float, tuple[str, ...]], ...]:
        """Return every list of candidates that may be shown, with its probability.

        Args:
            legal: actions of the decision.

        Raises:
            GameError: there are too many draws to go through.
        """
        weights = self.weights_of(legal)
        size = self._num_draws(weights)
        draws = math.perm(len(weights), size) if self.diverse else len(weights) ** size
        if draws > MOST:
            raise GameError(
                f"choose: no exact figures, as {size} candidates of {len(weights)} actions have "
                f"{draws:,} draws, and {MOST:,} are gone through at most; write a smaller count."
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
        """Return the probability that these actions are drawn one after the other."""
        remaining, share = dict(weights), 1.0
        for action in line:
            share *= remaining[action] / sum(remaining.values())
            if self.diverse:
                del remaining[action]
        return share


def numbers(count: int) -> tuple[str, ...]:
    """Return the numbers of so many candidates, from 1."""
    return tuple(str(number + 1) for number in range(count))


def remembered(candidates: Sequence[str]) -> str:
    """Return candidates as part of the key of what a seat knows."""
    return f"{listed(candidates)}|"


def listed(actions: Sequence[str]) -> str:
    """Return actions in a line that no others give, whatever signs are in a text."""
    plain = (action if action.replace(" ", "").isalnum() else repr(action) for action in actions)
    return "/".join(plain)


def _one(weights: Mapping[str, float], uniform: float) -> str:
    """Return an action by a uniform number, in proportion to the weights."""
    remainder = uniform * sum(weights.values())
    for action, weight in weights.items():
        remainder -= weight
        if remainder < 0:
            return action
    return action  # by rounding
