"""What was said in plays, by kind of action, and where it was said in the abstracted game."""

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


class Place(NamedTuple):
    """Where a decision stands in the abstracted game: its state, and the actions.

    Args:
        key: of the state.
        legal: the actions, as they are.
        labels: of each action what it is called in the state's strategy. Actions that nothing tells
            apart have the same.
    """

    key: str
    legal: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def called(self) -> tuple[str, ...]:
        """The labels, each once, in the order of a strategy's probabilities."""
        found = dict.fromkeys(self.labels)
        return tuple(found if self.labels == self.legal else sorted(found))

    def number(self, action: str) -> int:
        """Return which of the strategy's probabilities is an action's."""
        return self.called.index(self.labels[self.legal.index(action)])


def place_of(play: AbstractedPlay, seat: int, *, gists: bool) -> Place:
    """Return where a seat that is due stands.

    Args:
        play: of the abstracted game.
        seat: one that is due.
        gists: whether a seat goes by the little that the play says that it does, where it says so.
    """
    legal = play.legal(seat) or ()
    found = play.gist(seat) if gists else None
    if found is None:
        return Place(f"{seat} {play.observe(seat).key}", legal, legal)
    words = legal if found.means is None else tuple(map(found.means, legal))
    return Place(found.key, legal, _renamed(words, tuple(found.labels.items())))


@lru_cache(maxsize=65_536)
def _renamed(legal: tuple[str, ...], labels: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    of = dict(labels)
    names = finder(tuple(of))
    if names is None:
        return legal
    return tuple(names.sub(lambda one: of[one[0]], action) for action in legal)


Abstract = Callable[[str, str], str | None]
"""Kind and statement -> what stands for it in the abstracted game; None where nothing does."""


OTHERS = "someone"  # stands for the players that a statement names after the first


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A decision that is judged.

    Args:
        number: of its turn in the episode.
        kind: of action; "" where it is no statement, but an action of a list.
        said: by each reply to the prompt, in ``base.replies``' order; None where it was no action.
        legal: the list, where there is one.
        several: whether there was more than one reply.
    """

    number: int
    kind: str
    said: tuple[str | None, ...]
    legal: tuple[str, ...]
    several: bool


def decisions(game: Environment, episode: Episode, *, actions: bool = False) -> list[Decision]:
    """Return the decisions of a play that are statements, in order.

    The play is played again, as a record does not say of which kind an action is.

    Args:
        game: what it was played by.
        episode: its record.
        actions: return decisions that are no statements too.
    """
    found = []
    stood = zip(episode.turns, replayed(game, episode), strict=False)
    for number, (turn, play) in enumerate(stood):
        if not turn.is_decision or turn.seat not in play.due():
            continue
        kind = kind_of(game, play, turn.seat)
        if not kind and not actions:
            continue
        said = tuple(one.action if one.event == "ok" else None for one in replies(turn))
        found.append(
            Decision(
                number=number,
                kind=kind,
                said=said,
                legal=turn.legal_actions,
                several=bool(turn.candidates),
            )
        )
    return found


def pattern(line: str, called: tuple[str, ...]) -> str:
    """Return a statement without names, so that it can be said of any player.

    Args:
        line: the statement.
        called: names of players, in small letters. "@" stands for the one that is named first,
            "someone" for others. Without any the statement is returned as it is.
    """
    names = finder(called, re.IGNORECASE)
    if names is None:
        return line
    first, text = about(line, called), line.replace(NAME, " at ")
    return names.sub(lambda one: NAME if one[0].lower() == first else OTHERS, text)


def about(line: str, called: tuple[str, ...]) -> str | None:
    """Return the player that a statement names first, in small letters; None: it names none."""
    names = finder(called, re.IGNORECASE)
    found = names.search(line) if names is not None else None
    return found[0].lower() if found else None


def placed(
    few: AbstractedEnvironment,
    episode: Episode,
    found: Sequence[Decision],
    abstract: Abstract,
    *,
    gists: bool = False,
) -> dict[int, Place]:
    """Return where each decision stands in the abstracted game, by the number of its turn.

    The play is played once more, with the sentence of its cluster in place of each statement. What
    comes after a statement that has no cluster, or in whose place the rules allow no other, is left
    out.

    Args:
        few: the abstracted game.
        episode: a record of the full one.
        found: its decisions, all statements among them.
        abstract: gives the sentence of a statement.
        gists: see ``places.place_of``.
    """
    places: dict[int, Place] = {}
    kinds = {one.number: one.kind for one in found}
    settled: dict[int, str] = {}
    with environment_call(few.inner):
        play = AbstractedPlay(few, few.inner.reset(Stream(episode.seed)))
        for number, turn in enumerate(episode.turns):
            if turn.seat not in play.due():
                break
            if number in kinds:
                places[number] = place_of(play, turn.seat, gists=gists)
            if turn.action is None:
                continue
            said = abstract(kind, turn.action) if (kind := kinds.get(number)) else turn.action
            if said is None:
                break
            settled[turn.seat] = said
            if len(settled) == len(play.due()):
                try:
                    play.step(settled)
                except GameError:
                    break
                settled = {}
    return places
