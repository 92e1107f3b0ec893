"""Who chooses among candidates, as a policy of the game beneath.

Of a game of the combinator ``choose`` exact figures are those of the game beneath it, in which
every action may be a best response. What a chooser plays there is, after what a seat knows, h,

    P(a | h) = sum over c of  P(c | h) * P(number of a in c | h, c)

where c are the lists of candidates that the seat has been shown up to now, this decision's last.
Those of decisions before weigh as much as they lead to the seat's own actions in h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sparring.environments.choose.proposer import numbers, remembered
from sparring.environments.choose.rules import Choose
from sparring.errors import GameError
from sparring.measure.policies import ActionScorer, Query, renormalise
from sparring.types import FloatArray, Observation

MOST = 200_000  # conversations that are gone through
# share, what was told, replies and candidates before: a conversation that goes on
_Start = tuple[float, tuple[Observation, ...], tuple[str, ...], str]


def beneath(game: Any) -> Any:
    """Return the game in which exact figures of a game are taken: the one beneath a choice.

    Where a seat proposes it is the game itself, of which there are none.
    """
    return game.inner if type(game) is Choose else game


def as_beneath(game: Any, policy: Any) -> Any:
    """Return a policy as one of the game in which exact figures are taken."""
    return ChosenScorer(game, policy) if type(game) is Choose else policy


class _Line(NamedTuple):
    """A conversation of the chooser that may lie beneath an information state."""

    share: float  # probability of its candidates, and of the seat's choices before
    seen: tuple[Observation, ...]
    replies: tuple[str, ...]
    before: str
    shown: tuple[str, ...]


class ChosenScorer:
    """A chooser's policy over the actions of the game beneath.

    Args:
        game: with the candidates.
        policy: which chooses; asked for numbers.
    """

    def __init__(self, game: Choose, policy: ActionScorer) -> None:
        self.game, self.policy = game, policy

    def action_logprobs(self, queries: Sequence[Query]) -> list[FloatArray]:
        """Return the logarithms of the probabilities of the game's actions.

        They miss 1 by the mass of replies that are no number of a candidate. Of seats that do not
        choose they are the policy's own. Where the seat's own actions before have probability 0 all
        legal actions have the same.

        Args:
            queries: with every decision of a seat all those of the same seat before it.

        Raises:
            GameError: there are too many conversations, or a decision before is not among them.
        """
        lines: dict[tuple[int, str], list[tuple[_Line, FloatArray]]] = {}
        choosing = [query for query in queries if query.seat in self.game.choosers]
        others = [
            replace(query, game=self.game.name)
            for query in queries
            if query.seat not in self.game.choosers
        ]
        said_alone = self.policy.action_logprobs(others) if others else []
        rows: dict[tuple[int, str], FloatArray] = {
            (query.seat, query.key): row for query, row in zip(others, said_alone, strict=True)
        }
        for depth in sorted({len(query.actions) for query in choosing}):
            level = [query for query in choosing if len(query.actions) == depth]
            found = [self._lines(query, lines) for query in level]
            asked = [
                self._asked(query, line)
                for query, own in zip(level, found, strict=True)
                for line in own
            ]
            said = iter(self.policy.action_logprobs(asked))
            for query, own in zip(level, found, strict=True):
                place = (query.seat, query.key)
                lines[place], rows[place] = _mixed(query, [(line, next(said)) for line in own])
        return [rows[query.seat, query.key] for query in queries]

    def _lines(
        self, query: Query, known: dict[tuple[int, str], list[tuple[_Line, FloatArray]]]
    ) -> list[_Line]:
        """Return the conversations that end at an information state."""
        offers = self.game.proposer.offers(query.legal_actions)
        starts: list[_Start] = [(1.0, (), (), "")]
        if query.actions:
            parent = known.get((query.seat, query.seen[-2].key))
            if parent is None:
                raise GameError(
                    f"{self.game.name}: what seat {query.seat} decided before {query.key!r} is "
                    "not among the information states; ask for all of them at once."
                )
            starts = [_chosen(line, chances, query.actions[-1]) for line, chances in parent]
        starts = [start for start in starts if start[0] > 0]
        if len(starts) * len(offers) > MOST:
            raise GameError(
                f"{self.game.name}: no exact figures, as {len(starts) * len(offers):,} lists of "
                f"candidates lead to one information state; {MOST:,} are gone through at most."
            )
        return [
            _Line(
                share * chance,
                (*seen, self.game.offered(query.seen[-1], shown, before)),
                replies,
                before,
                shown,
            )
            for share, seen, replies, before in starts
            for chance, shown in offers
        ]

    def _asked(self, query: Query, line: _Line) -> Query:
        """Return what the chooser is asked at the end of a conversation."""
        return Query(
            game=self.game.name,
            seat=query.seat,
            key=line.seen[-1].key,
            observations=tuple(seen.text for seen in line.seen),
            actions=line.replies,
            legal_actions=numbers(len(line.shown)),
            seen=line.seen,
            teams=query.teams,
        )


def _chosen(line: _Line, chances: FloatArray, action: str) -> _Start:
    """Return how a conversation goes on after an action; share 0 where it cannot."""
    if action not in line.shown:
        return 0.0, (), (), ""
    place = line.shown.index(action)
    replies = (*line.replies, numbers(len(line.shown))[place])
    before = f"{line.before}{remembered(line.shown)}"
    return line.share * float(chances[place]), line.seen, replies, before


def _mixed(
    query: Query, said: Sequence[tuple[_Line, FloatArray]]
) -> tuple[list[tuple[_Line, FloatArray]], FloatArray]:
    """Return the choices of every conversation, and the logarithms of their mean over actions."""
    width, total = len(query.legal_actions), sum(line.share for line, _ in said)
    if not total:
        return [], np.full(width, -np.log(width))
    mean, illegal, kept = np.zeros(width), 0.0, []
    for line, logprobs in said:
        chances, lost = renormalise(logprobs)
        kept.append((line, chances))
        illegal += line.share / total * lost
        for action, chance in zip(line.shown, chances, strict=True):
            mean[query.legal_actions.index(action)] += line.share / total * chance
    with np.errstate(divide="ignore"):
        return kept, np.log(mean * (1.0 - illegal))
