"""What a policy does in the states of an abstracted game, as far as its plays show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sparring.knowledge.standing import Standing
from sparring.types import FloatArray

PULL = 3  # replies as which the habits of all states of a kind count
SELDOM = 0.1  # replies as which an action counts that was not met


@dataclass(frozen=True, kw_only=True, slots=True)
class Habits:
    """How often each action was taken, by its label.

    Args:
        there: by state.
        everywhere: by kind of action, "" of what is no statement.
    """

    there: Mapping[str, Counter[str]] = field(default_factory=dict)
    everywhere: Mapping[str, Counter[str]] = field(default_factory=dict)

    def shares(self, kind: str, key: str, called: Sequence[str]) -> FloatArray:
        """Return the share of each action of a state: counted there, and drawn to the kind's.

            q(c | s) = (n(s, c) + 3 q(c)) / (n(s) + 3),   q(c) in proportion to n(c) + 0.1

        Args:
            kind: of the action.
            key: of the state.
            called: the labels of its actions.
        """
        here, in_all = self.there.get(key, Counter()), self.everywhere.get(kind, Counter())
        whole = np.array([in_all[label] + SELDOM for label in called])
        found: FloatArray = np.array([here[label] for label in called]) + PULL * whole / whole.sum()
        found /= found.sum()
        return found


def habits_of(stood: Iterable[Standing]) -> Habits:
    """Return the habits that decisions of one environment show."""
    there, everywhere = dict[str, Counter[str]](), dict[str, Counter[str]]()
    for one in stood:
        place = one.place
        labels = [
            place.labels[place.legal.index(action)] for action in one.said if action in place.legal
        ]
        there.setdefault(place.key, Counter()).update(labels)
        everywhere.setdefault(one.decision.kind, Counter()).update(labels)
    return Habits(there=there, everywhere=everywhere)
