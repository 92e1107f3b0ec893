"""What a policy does in the states of an abstracted game, as far as its plays show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sparring.knowledge.base import Gathered
from sparring.knowledge.judged import stand_ins
from sparring.knowledge.space import Space, few
from sparring.knowledge.statements import Decision, placed
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


def habits_of(
    gathered: Gathered, found: Sequence[Sequence[Decision]], space: Space, *, gists: bool
) -> dict[str, Habits]:
    """Return the habits in each environment.

    Args:
        gathered: the plays of a step.
        found: the decisions of each.
        space: has the clusters.
        gists: see ``places.place_of``.
    """
    stands = stand_ins(found, space)
    there: dict[str, dict[str, Counter[str]]] = {}
    everywhere: dict[str, dict[str, Counter[str]]] = {}
    of_game = {name: few(game, space.kinds) for name, game in gathered.environments.items()}
    for episode, own in zip(gathered.episodes, found, strict=True):
        places = placed(
            of_game[episode.game], episode, own, lambda *one: stands.get(one), gists=gists
        )
        for one in own:
            place = places.get(one.number)
            if place is None:
                continue
            lines = [line for line in one.said if line is not None]
            said = [stands.get((one.kind, line)) if one.kind else line for line in lines]
            labels = [
                place.labels[place.legal.index(action)] for action in said if action in place.legal
            ]
            there.setdefault(episode.game, {}).setdefault(place.key, Counter()).update(labels)
            everywhere.setdefault(episode.game, {}).setdefault(one.kind, Counter()).update(labels)
    return {name: Habits(there=there[name], everywhere=everywhere[name]) for name in there}
