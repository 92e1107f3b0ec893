"""Statements of recorded episodes: their kinds, and their states in the abstracted game."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from sparring.core.errors import GameError
from sparring.core.records import Episode
from sparring.core.rng import Stream
from sparring.environments.abstracted import NAME, AbstractedEnvironment, AbstractedPlay, kind_of
from sparring.environments.base import Environment
from sparring.environments.foreign import environment_call
from sparring.methods.knowledge.base import replies
from sparring.ops.clusters import finder
from sparring.play.replay import replayed


class AbstractState(NamedTuple):
    """An information state of the abstracted game, with its actions.

    Args:
        key: key of the state.
        legal: the legal actions.
        labels: label of each action in the state's strategy; indistinguishable actions share one.
    """

    key: str
    legal: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def called(self) -> tuple[str, ...]:
        """The distinct labels, in the order of a strategy's probabilities."""
        distinct = dict.fromkeys(self.labels)
        return tuple(distinct if self.labels == self.legal else sorted(distinct))

    def number(self, action: str) -> int:
        """Return the index of an action in the strategy's probabilities."""
        return self.called.index(self.labels[self.legal.index(action)])


def abstract_state_of(play: AbstractedPlay, seat: int, *, gists: bool) -> AbstractState:
    """Return the information state of a seat that is due.

    Args:
        play: a play of the abstracted game.
        seat: a seat that is due.
        gists: whether the state is the play's ``gist``, where the play has one.
    """
    legal = play.legal(seat) or ()
    gist = play.gist(seat) if gists else None
    if gist is None:
        return AbstractState(f"{seat} {play.observe(seat).key}", legal, legal)
    words = legal if gist.means is None else tuple(map(gist.means, legal))
    return AbstractState(gist.key, legal, _renamed(words, tuple(gist.labels.items())))


@lru_cache(maxsize=65_536)
def _renamed(legal: tuple[str, ...], labels: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    of = dict(labels)
    names = finder(tuple(of))
    if names is None:
        return legal
    return tuple(names.sub(lambda match: of[match[0]], action) for action in legal)


StandIn = Callable[[str, str], str | None]
"""Kind and statement -> its sentence in the abstracted game, or None."""


OTHERS = "someone"  # replaces the players that a statement names after the first


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedDecision:
    """A decision whose replies knowledge may score.

    Args:
        number: number of its turn in the episode.
        kind: kind of action; "" for an action from a list.
        actions: action of each reply, in the order of ``base.replies``; None for an illegal reply.
        legal: the legal actions, where there is a list.
        several: whether the prompt had more than one reply.
    """

    number: int
    kind: str
    actions: tuple[str | None, ...]
    legal: tuple[str, ...]
    several: bool


def judged_decisions(
    game: Environment, episode: Episode, *, actions: bool = False
) -> list[JudgedDecision]:
    """Return the decisions of an episode that are statements, in order.

    This replays the episode, because a record does not hold the kinds of actions.

    Args:
        game: the episode's environment.
        episode: the record.
        actions: whether to include decisions that are not statements.
    """
    statements = []
    pairs = zip(episode.turns, replayed(game, episode), strict=False)
    for number, (turn, play) in enumerate(pairs):
        if not turn.is_decision or turn.seat not in play.due():
            continue
        kind = kind_of(game, play, turn.seat)
        if not kind and not actions:
            continue
        replied = tuple(reply.action if reply.event == "ok" else None for reply in replies(turn))
        statements.append(
            JudgedDecision(
                number=number,
                kind=kind,
                actions=replied,
                legal=turn.legal_actions,
                several=bool(turn.candidates),
            )
        )
    return statements


def pattern(line: str, called: tuple[str, ...]) -> str:
    """Return a statement with placeholders for the names of players.

    Args:
        line: the statement.
        called: names of players, in small letters; "@" replaces the first that the statement
            names, "someone" every other one.
    """
    names = finder(called, re.IGNORECASE)
    if names is None:
        return line
    first, text = first_player_named(line, called), line.replace(NAME, " at ")
    return names.sub(lambda match: NAME if match[0].lower() == first else OTHERS, text)


def first_player_named(line: str, called: tuple[str, ...]) -> str | None:
    """Return the player that a statement names first, in small letters, or None."""
    names = finder(called, re.IGNORECASE)
    match = names.search(line) if names is not None else None
    return match[0].lower() if match else None


def locate_decisions(
    game: AbstractedEnvironment,
    episode: Episode,
    decisions: Sequence[JudgedDecision],
    abstract: StandIn,
    *,
    gists: bool = False,
) -> dict[int, AbstractState]:
    """Return the abstracted game's state at each decision, by turn number.

    This replays the episode with the sentence of its cluster in place of each statement. The replay
    ends at a statement without a cluster, and where the sentence is illegal.

    Args:
        game: the abstracted game.
        episode: a record of the full game.
        decisions: the decisions, with all statements of the episode.
        abstract: gives the sentence of a statement.
        gists: see ``abstract_state_of``.
    """
    places: dict[int, AbstractState] = {}
    kinds = {decision.number: decision.kind for decision in decisions}
    settled: dict[int, str] = {}
    with environment_call(game.inner):
        play = AbstractedPlay(game, game.inner.reset(Stream(episode.seed)))
        for number, turn in enumerate(episode.turns):
            if turn.seat not in play.due():
                break
            if number in kinds:
                places[number] = abstract_state_of(play, turn.seat, gists=gists)
            if turn.action is None:
                continue
            action = abstract(kind, turn.action) if (kind := kinds.get(number)) else turn.action
            if action is None:
                break
            settled[turn.seat] = action
            if len(settled) == len(play.due()):
                try:
                    play.step(settled)
                except GameError:
                    break
                settled = {}
    return places
