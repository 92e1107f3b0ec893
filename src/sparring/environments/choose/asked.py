"""Candidates that a seat of its own proposes: whoever sits there, a frozen policy or any player."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import random_reply, read_reply, teams_of
from sparring.environments.choose.play import ChoosePlay
from sparring.environments.choose.proposer import Proposer, listed
from sparring.environments.choose.rules import Choose
from sparring.environments.combining import CombinedPlay, ending_of, joined, shown_of, with_news
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, printed

__all__ = ["Asked"]

PROPOSE, TOOK = "propose", "took"  # the question, and how a choice is told, in brief style
FIRST = "Propose an action."
MORE = "Propose an action once more."
OTHER = "Propose another action."


class Asked(Choose):
    """Rules: every seat has a proposer, which is a seat after all others and of the same team."""

    def __init__(self, inner: Any, proposer: Proposer, choosers: Sequence[int] = ()) -> None:
        super().__init__(inner, proposer, choosers)
        self.roles = (*inner.roles, *(f"{role}_proposer" for role in inner.roles))
        self.num_seats = 2 * inner.num_seats
        self.teams = tuple(teams_of(inner)) * 2
        self.max_turns = inner.max_turns * (1 + proposer.count)
        self.utility_sum = None if inner.utility_sum is None else 2 * inner.utility_sum

    def words(self) -> tuple[str, ...]:
        """Return the words around proposals and choices."""
        return (*super().words(), PROPOSE, TOOK)

    def reset(self, stream: Stream) -> AskedPlay:
        """Return a play at its start."""
        return AskedPlay(self, self.inner.reset(stream.child(0)), stream.child(1))


class AskedPlay(ChoosePlay):
    """A play in which proposers name the candidates, one after the other, before a seat chooses.

    Where a seat may say any text candidates are texts. What it notes for itself it says itself.

    Attributes:
        said: by seat that is to choose, what has been proposed for it.
    """

    def _propose(self) -> None:
        """Have nothing proposed yet, for every chooser that is due, unless it notes something."""
        self.drawn, self.candidates = {}, {}
        self.said: dict[int, tuple[str, ...]] = {
            seat: ()
            for seat in self.play.due()
            if seat in self.rules.choosers and not self.play.observe(seat).note
        }

    def within(self, seat: int) -> int:
        """Return the seat that a proposer proposes for; of any other, itself."""
        chooser: int = seat % self.rules.inner.num_seats
        return chooser

    def _waiting(self) -> tuple[int, ...]:
        """Return the seats for which something is to be proposed yet."""
        rules, found = self.rules.proposer, list[int]()
        for seat, said in self.said.items():
            legal = self.play.legal(seat)
            most = len(legal) if rules.diverse and legal is not None else rules.count
            if len(said) < min(most, rules.count):
                found.append(seat)
        return tuple(found)

    def _proposes(self, seat: int) -> bool:
        """Return whether a seat is a proposer."""
        return self.within(seat) != seat

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far; a proposer has those of its seat."""
        return tuple(self.play.returns) * 2

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return what the other environment counts; a proposer has what its seat has."""
        return {name: tuple(own) * 2 for name, own in super().figures().items()}

    def due(self) -> tuple[int, ...]:
        """Return the proposers that are to propose, else the seats that are to choose."""
        waiting = self._waiting()
        if waiting:
            return tuple(seat + self.rules.inner.num_seats for seat in waiting)
        return tuple(self.play.due())

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the numbers of a seat's candidates, or what may be proposed; None: any text."""
        if not self._proposes(seat):
            return super().legal(seat)
        own = self.within(seat)
        said = self.said.get(own, ()) if self.rules.proposer.diverse else ()
        legal = self.play.legal(own)
        return None if legal is None else tuple(one for one in legal if one not in said)

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the number in a reply, or the action that is proposed."""
        if not self._proposes(seat):
            return super().read(seat, reply, exact)
        legal = self.legal(seat)
        return read_reply(self.play, self.within(seat), legal, reply, exact or self.rules.brief)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a reply drawn at random."""
        if not self._proposes(seat):
            return super().sample(seat, stream)
        return random_reply(self.play, self.within(seat), self.legal(seat), stream)

    def observe(self, seat: int) -> Observation:
        """Return what the play tells a seat; a proposer is told what its seat is."""
        if not self._proposes(seat):
            return super().observe(seat)
        rules, said = self.rules, self.said.get(self.within(seat), ())
        seen: Observation = self.play.observe(self.within(seat))
        if self.within(seat) not in self._waiting():
            seen = seen._replace(ask="", key=f"{self.keys[seat]}{seen.key}")
            return with_news(seen, self.news.get(seat, ""), rules.brief)
        key = f"{self.keys[seat]}{seen.key} {PROPOSE} {listed(said)}"
        told = "" if said else seen.told
        if rules.brief:
            seen = seen._replace(told=joined([told, PROPOSE], True), ask="", key=key)
        else:
            ask = FIRST if not said else OTHER if rules.proposer.diverse else MORE
            parts = [part for part in (seen.ask, ask) if part]
            seen = seen._replace(told=told, ask=" ".join(parts), key=key)
        seen = seen._replace(fresh=seen.fresh and not said)
        return with_news(seen, self.news.get(seat, ""), rules.brief)

    def step(self, replies: Mapping[int, str]) -> None:
        """Take what is proposed, or go on with the candidates of these numbers."""
        if self._waiting():
            for seat, action in replies.items():
                self.news.pop(seat, None)
                own = self.within(seat)
                self.said = {**self.said, own: (*self.said[own], action)}
            if not self._waiting():
                self._show()
            return
        before, chose = self.said, tuple(self.candidates)
        super().step(replies)
        for seat in chose:
            proposer, action = seat + self.rules.inner.num_seats, self.chosen[seat][1]
            brief = self.rules.brief
            self.news[proposer] = f"{TOOK} {action}" if brief else f"What was chosen: {action}."
            self.keys = tuple(
                f"{key}{listed((*before[seat], action))}|" if place == proposer else key
                for place, key in enumerate(self.keys)
            )

    def _show(self) -> None:
        """Show every seat its candidates, none of them twice."""
        for seat, said in self.said.items():
            self.drawn = {**self.drawn, seat: tuple(dict.fromkeys(said))}
            legal, stream = self.play.legal(seat), self._draws(seat)
            shown = self.rules.proposer.shown(legal, self.drawn[seat], stream)
            self.candidates = {**self.candidates, seat: shown}

    def ending(self, seat: int) -> str:
        """Return what a seat learns at the end, or the seat that it proposes for."""
        return ending_of(self.play, self.within(seat))

    def shown(self, seat: int) -> str:
        """Return what the rules show a seat at the end, or the seat that it proposes for."""
        return shown_of(self.play, self.within(seat), brief=False)

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the play, and the candidates or proposals that are seen."""
        CombinedPlay.paint(self, canvas, None if seat is None else self.within(seat))
        for head, lines in self._lines(seat):
            heading(canvas, head)
            printed(canvas, lines)

    def described(self, seat: int | None) -> str:
        """Return the position of the play, and the candidates or proposals that are seen."""
        own = None if seat is None else self.within(seat)
        parts = [f"{head}: {', '.join(lines)}." for head, lines in self._lines(seat)]
        return " ".join([CombinedPlay.described(self, own), *parts])

    def _lines(self, seat: int | None) -> list[tuple[str, list[str]]]:
        """Return what a seat sees of candidates; a proposer, what it has proposed."""
        waiting = self._waiting()
        proposed = [
            (f"Proposed for {self.rules.roles[own]}", list(self.said[own]))
            for own in waiting
            if self.said[own] and seat in (None, own + self.rules.inner.num_seats)
        ]
        return [*super()._lines(seat), *proposed]
