"""An environment in which what may be said is a short list: one sentence for each kind's cluster.

A *kind of action* is what a seat is asked for, such as "the seer speaks"; statements of one kind
can be compared. A play that has ``kind(seat)`` names the kind of each decision, and "" where the
action is to be taken as it is. Of a play that has not, decisions that allow any text are a kind per
role.

With a list for each kind, statements are actions like others: the environment has a tree where it
has ``openings``, whatever could be said in the full one.

Where statements are about players, a sentence holds "@" in place of a name, and stands for as many
actions as there are players that may be named: "accuse @" for "accuse p1" and "accuse p3". Rules
that have such statements list all names in ``called``, and their plays say who may be named now
(``named(seat)``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sparring.core.records import Observation
from sparring.environments.base import Play, close_play

__all__ = ["NAME", "Abstracted", "AbstractedPlay", "Gist", "filled", "kind_of"]

NAME = "@"  # stands in a sentence for a player


class Gist(NamedTuple):
    """The little that a seat goes by where all that it knows would be too much.

    Args:
        key: the same for all that is to be taken for one state, whichever seat is in it.
        labels: what stands for each player's name in an action there. Players whom nothing tells
            apart have the same.
        means: what a statement counts as to those who go by gists, with names; statements that
            count as the same are one action. None: each as it is.
    """

    key: str
    labels: Mapping[str, str]
    means: Callable[[str], str] | None = None


def kind_of(rules: Any, play: Play, seat: int) -> str:
    """Return the kind of action that a seat that is due is asked for; "" where it is no statement.

    Args:
        rules: the environment.
        play: of it.
        seat: one that is due.
    """
    if (kind := getattr(play, "kind", None)) is not None:
        return str(kind(seat))
    return str(rules.roles[seat]) if play.legal(seat) is None else ""


@lru_cache(maxsize=65_536)
def filled(sentences: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Return sentences with every name in place of ``NAME``, and those without one as they are."""
    return tuple(
        line.replace(NAME, name)
        for line in sentences
        for name in (names if NAME in line else ("",))
    )


class Abstracted:
    """The rules of an environment with a list of statements for each kind.

    Args:
        inner: the full environment.
        said: of each kind that has been met, what may be said; other kinds stay as they are.
    """

    def __init__(self, inner: Any, statements: Mapping[str, Sequence[str]]) -> None:
        self.inner, self.said = inner, {kind: tuple(lines) for kind, lines in statements.items()}
        self.name, self.roles, self.num_seats = inner.name, inner.roles, inner.num_seats

    def openings(self) -> tuple[tuple[float, AbstractedPlay], ...]:
        """Return every play that chance can begin, with its probability."""
        return tuple((share, AbstractedPlay(self, play)) for share, play in self.inner.openings())


class AbstractedPlay:
    """One play.

    Args:
        rules: whose it is.
        inner: the play of the full environment.
    """

    def __init__(self, rules: Abstracted, inner: Any) -> None:
        self.rules, self.inner = rules, inner

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return bool(self.inner.done)

    @property
    def returns(self) -> Sequence[float]:
        """Payoffs so far."""
        payoffs: Sequence[float] = self.inner.returns
        return payoffs

    def due(self) -> tuple[int, ...]:
        """Return the seats whose replies are wanted now."""
        return tuple(self.inner.due())

    def observe(self, seat: int) -> Observation:
        """Return what a seat has not been told yet."""
        observation: Observation = self.inner.observe(seat)
        return observation

    def gist(self, seat: int) -> Gist | None:
        """Return what little a due seat goes by; None: all that it knows, as without ``gist``."""
        gist: Gist | None = self.inner.gist(seat) if hasattr(self.inner, "gist") else None
        return gist

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return what may be said, or the actions as they are."""
        statements = self.rules.said.get(kind_of(self.rules.inner, self.inner, seat), ())
        if hasattr(self.inner, "named"):
            statements = filled(statements, tuple(self.inner.named(seat)))
        actions: tuple[str, ...] | None = statements or self.inner.legal(seat)
        return actions

    def step(self, replies: Mapping[int, str]) -> None:
        """Go on with the replies of all seats that are due."""
        self.inner.step(replies)

    def close(self) -> None:
        """Close the play of the full environment."""
        close_play(self.inner)

    def clone(self) -> AbstractedPlay:
        """Return a copy that would go on the same."""
        return AbstractedPlay(self.rules, self.inner.clone())
