"""Where a decision stands in an abstracted game."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from sparring.environments.abstracted import AbstractedPlay
from sparring.ops.hashed_ngrams import finder


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
    """Return actions with labels in place of names."""
    of = dict(labels)
    names = finder(tuple(of))
    if names is None:
        return legal
    return tuple(names.sub(lambda one: of[one[0]], action) for action in legal)
