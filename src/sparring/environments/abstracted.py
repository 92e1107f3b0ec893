"""An abstracted environment: a finite list of statements replaces free text.

A *kind of action* is the type of statement that a decision asks for, such as "the seer speaks". A
play with a method ``kind(seat)`` names the kind of each decision, and returns "" if the action is
not a statement. In other plays all free-text decisions of a role are one kind.

With a list of statements for each kind, such as one sentence for each cluster of statements, the
actions are finite. Then an environment with ``openings`` has a tree, even if it allows any text.

In statements about players, "@" stands for a name: "accuse @" means "accuse p1", "accuse p3" and so
on. Rules with such statements list all names in ``player_names``, and their plays return the names
that are possible now by ``legal_names(seat)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sparring.core.records import Observation
from sparring.environments.base import Play, close_play

__all__ = ["NAME", "AbstractedEnvironment", "AbstractedPlay", "Gist", "fill_names", "kind_of"]

NAME = "@"  # placeholder of a player's name in a statement


class Gist(NamedTuple):
    """An abstract state: the part of a seat's information on which its policy depends.

    Args:
        key: name of the abstract state; equal for all its information states, of any seat.
        labels: player's name in an action -> label; exchangeable players have equal labels.
        meaning_of: gives the meaning of a statement with names; statements of equal meaning are one
            action. None: every statement is a different action.
    """

    key: str
    labels: Mapping[str, str]
    meaning_of: Callable[[str], str] | None = None


def kind_of(rules: Any, play: Play, seat: int) -> str:
    """Return the kind of action at a decision; "" if the action is not a statement.

    Args:
        rules: the environment.
        play: a play of it.
        seat: a seat that is due.
    """
    if (kind := getattr(play, "kind", None)) is not None:
        return str(kind(seat))
    return str(rules.roles[seat]) if play.legal(seat) is None else ""


@lru_cache(maxsize=65_536)
def fill_names(statements: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Return each statement once per name, with the name in place of ``NAME``, if it has one."""
    return tuple(
        statement.replace(NAME, name)
        for statement in statements
        for name in (names if NAME in statement else ("",))
    )


class AbstractedEnvironment:
    """The rules of an environment with a list of statements for each kind.

    Args:
        inner: the full environment.
        statements: kind -> its statements; kinds that are missing keep their actions.
    """

    def __init__(self, inner: Any, statements: Mapping[str, Sequence[str]]) -> None:
        self.inner = inner
        self.statements = {kind: tuple(texts) for kind, texts in statements.items()}
        self.name, self.roles, self.num_seats = inner.name, inner.roles, inner.num_seats

    def openings(self) -> tuple[tuple[float, AbstractedPlay], ...]:
        """Return every possible initial play as (probability, play)."""
        return tuple((chance, AbstractedPlay(self, play)) for chance, play in self.inner.openings())


class AbstractedPlay:
    """A play in which statements come from lists.

    Args:
        rules: the environment with the lists.
        inner: the play of the full environment.
    """

    def __init__(self, rules: AbstractedEnvironment, inner: Any) -> None:
        self.rules, self.inner = rules, inner

    @property
    def done(self) -> bool:
        """Whether the play is over."""
        return bool(self.inner.done)

    @property
    def returns(self) -> Sequence[float]:
        """Payoffs so far."""
        payoffs: Sequence[float] = self.inner.returns
        return payoffs

    def due(self) -> tuple[int, ...]:
        """Return the seats that are due."""
        return tuple(self.inner.due())

    def observe(self, seat: int) -> Observation:
        """Return the new observation of a seat."""
        observation: Observation = self.inner.observe(seat)
        return observation

    def gist(self, seat: int) -> Gist | None:
        """Return the abstract state of a due seat; None: the policy uses the information state."""
        gist: Gist | None = self.inner.gist(seat) if hasattr(self.inner, "gist") else None
        return gist

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the statements for the seat's decision, else the full environment's actions."""
        statements = self.rules.statements.get(kind_of(self.rules.inner, self.inner, seat), ())
        if hasattr(self.inner, "legal_names"):
            statements = fill_names(statements, tuple(self.inner.legal_names(seat)))
        actions: tuple[str, ...] | None = statements or self.inner.legal(seat)
        return actions

    def step(self, replies: Mapping[int, str]) -> None:
        """Apply the replies of all seats that are due."""
        self.inner.step(replies)

    def close(self) -> None:
        """Close the play of the full environment."""
        close_play(self.inner)

    def clone(self) -> AbstractedPlay:
        """Return an independent copy."""
        return AbstractedPlay(self.rules, self.inner.clone())
