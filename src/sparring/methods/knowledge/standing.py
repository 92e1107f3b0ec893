"""Where the decisions of recorded plays stand in the abstracted game, and what is known of them.

What a policy does in these states, as far as its plays show it, and what a solution says of each
reply.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from sparring.core.records import FloatArray
from sparring.methods.knowledge.base import Gathered
from sparring.methods.knowledge.space import Space, few
from sparring.methods.knowledge.statements import Decision, Place, placed


class Standing(NamedTuple):
    """A decision whose place in the abstracted game is known."""

    game: str  # the environment's name
    decision: Decision
    place: Place
    said: tuple[str | None, ...]  # for each reply what stands for it there; None: nothing


def standings(
    gathered: Gathered, found: Sequence[Sequence[Decision]], space: Space, *, gists: bool
) -> list[list[Standing]]:
    """Return of each play the decisions whose place in the abstracted game is known.

    Args:
        gathered: the plays of a step.
        found: the decisions of each.
        space: has the clusters.
        gists: see ``places.place_of``.
    """
    stands = _stand_ins(found, space)
    of_game = {name: few(game, space.kinds) for name, game in gathered.environments.items()}
    made = []
    for episode, own in zip(gathered.episodes, found, strict=True):
        few_words = of_game[episode.game]
        places = placed(few_words, episode, own, lambda *one: stands.get(one), gists=gists)
        stood = []
        for one in own:
            place = places.get(one.number)
            if place is None:
                continue
            said = tuple(
                stands.get((one.kind, line)) if one.kind and line is not None else line
                for line in one.said
            )
            stood.append(Standing(episode.game, one, place, said))
        made.append(stood)
    return made


def _stand_ins(
    found: Sequence[Sequence[Decision]], space: Space
) -> dict[tuple[str, str], str | None]:
    lines = {
        (one.kind, line)
        for own in found
        for one in own
        for line in one.said
        if line is not None and one.kind in space.kinds
    }
    stands: dict[tuple[str, str], str | None] = {}
    for kind in sorted(space.kinds):
        own_lines = sorted(line for of, line in lines if of == kind)
        pairs = zip(own_lines, space.stand_ins(kind, own_lines), strict=True)
        stands |= {(kind, line): sentence for line, sentence in pairs}
    return stands


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


Prefer = Literal["ratio", "probability"]
EVEN = 1e-9
ILLEGAL = -1  # the cluster of what was no action


class Placed(NamedTuple):
    """A prompt with several replies, in the abstracted game."""

    episode: int  # its place among those gathered
    number: int  # of the turn
    state: tuple[str, str, str]  # environment, kind and list of actions, information state
    of: tuple[int, ...]  # action of each reply there


def placed_replies(stood: Sequence[Sequence[Standing]], space: Space) -> list[Placed]:
    """Return the prompts with several replies whose place in the abstracted game is known.

    Args:
        stood: of each play, of ``standing.standings``.
        space: has the strategies.
    """
    made = []
    for number, own in enumerate(stood):
        for game, one, place, said in own:
            known = space.strategies.get(game, {}).get(place.key)
            if not one.several or known is None or len(known) != len(place.called):
                continue
            if any(
                line is not None and action not in place.legal
                for line, action in zip(one.said, said, strict=True)
            ):
                continue  # the sentences in place of what was said leave other actions
            of = tuple(ILLEGAL if action is None else place.number(action) for action in said)
            pool = "/".join((one.kind, *place.called))
            made.append(Placed(number, one.number, (game, pool, place.key), of))
    return made


def scores_of(
    said: Sequence[Placed], space: Space, prefer: Prefer, floor: float
) -> tuple[list[list[float | None]], dict[str, float]]:
    """Return the scores of the replies to each prompt, and figures of them."""
    there: dict[tuple[str, str, str], Counter[int]] = {}
    everywhere: dict[str, Counter[int]] = {}
    for one in said:
        there.setdefault(one.state, Counter()).update(one.of)
        everywhere.setdefault(one.state[1], Counter()).update(one.of)
    values: dict[tuple[str, str, str], dict[int, float]] = {}
    apart = []
    for state, counts in there.items():
        game, kind, key = state
        target = _floored(space.strategies[game][key], floor)
        k, in_all = len(target) - 1, everywhere[kind]
        share = {
            number: (counts[number] + k * in_all[number] / in_all.total()) / (counts.total() + k)
            for number in target
        }
        apart.append(sum(abs(target[number] - share[number]) for number in target) / 2)
        values[state] = {
            number: math.log(target[number] / share[number])
            if prefer == "ratio"
            else target[number]
            for number in counts
        }
    scores: list[list[float | None]] = [
        [values[one.state][number] for number in one.of] for one in said
    ]
    if not said:
        return scores, {}
    even = sum(_even(space.strategies[one.state[0]][one.state[2]]) for one in said)
    return scores, {"apart": sum(apart) / len(apart), "even": even / len(said)}


def _even(strategy: Sequence[float]) -> bool:
    """Return whether a solution prefers nothing, as one of a state that few plays came to."""
    return len(strategy) > 1 and max(strategy) - min(strategy) < EVEN


def _floored(strategy: Sequence[float], floor: float) -> dict[int, float]:
    k = len(strategy)
    target = {number: (1 - floor) * p + floor / k for number, p in enumerate(strategy)}
    return {**target, ILLEGAL: floor / k}
