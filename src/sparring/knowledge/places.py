"""Where a decision stands in an abstracted game."""

from __future__ import annotations

from typing import NamedTuple

from sparring.environments.abstracted import AbstractedPlay, Gisted
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
    found = play.inner.gist(seat) if gists and isinstance(play.inner, Gisted) else None
    if found is None:
        return Place(f"{seat} {play.observe(seat).key}", legal, legal)
    names, labels = finder(tuple(found.labels)), found.labels
    if names is None:
        return Place(found.key, legal, legal)
    renamed = tuple(names.sub(lambda one: labels[one[0]], action) for action in legal)
    return Place(found.key, legal, renamed)
