"""Choosing among candidates: one play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import Play
from sparring.environments.choose.proposer import numbers, remembered
from sparring.environments.combining import CombinedPlay
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, printed
from sparring.environments.reply import listed_reply

__all__ = ["ChoosePlay"]


class ChoosePlay(CombinedPlay):
    """A play in which a seat is shown candidates and replies with a number.

    Attributes:
        drawn: candidates of the seats that are due, as the proposer said them.
        candidates: the same, as they are shown.
        chosen: by seat, its last candidates and the one that it chose.
    """

    def __init__(self, rules: Any, play: Play, stream: Stream) -> None:
        super().__init__(rules, play)
        self.stream = stream
        self.taken = (0,) * rules.num_seats  # choices so far
        self.keys = ("",) * rules.num_seats  # what each seat was shown before
        self.chosen: dict[int, tuple[tuple[str, ...], str]] = {}
        self.drawn: dict[int, tuple[str, ...]] = {}
        self.candidates: dict[int, tuple[str, ...]] = {}
        try:
            self._propose()
        except BaseException:
            self.close()
            raise

    def _propose(self) -> None:
        """Draw the candidates of every chooser that is due; none where it may say any text."""
        self.drawn, self.candidates = {}, {}
        for seat in self.play.due():
            legal = self.play.legal(seat)
            if seat in self.rules.choosers and legal is not None:
                stream = self._draws(seat)
                self.drawn[seat] = self.rules.proposer.drawn(legal, stream)
                self.candidates[seat] = self.rules.proposer.shown(legal, self.drawn[seat], stream)

    def _draws(self, seat: int) -> Stream:
        """Return the stream of a seat's next choice, which hangs on nothing that others do."""
        return self.stream.child(seat).child(self.taken[seat])

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the numbers of the candidates of a seat."""
        if seat not in self.candidates:
            return super().legal(seat)
        return numbers(len(self.candidates[seat]))

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the number in a reply."""
        if seat not in self.candidates:
            return super().read(seat, reply, exact)
        return listed_reply(numbers(self.rules.proposer.count), reply, exact or self.rules.brief)

    def meant(self, seat: int, legal: tuple[str, ...]) -> tuple[str, ...]:
        """Return the candidates, in the order of their numbers."""
        return self.candidates[seat] if seat in self.candidates else super().meant(seat, legal)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a reply drawn at random."""
        if seat not in self.candidates:
            return super().sample(seat, stream)
        return numbers(len(self.candidates[seat]))[stream.integer(0, len(self.candidates[seat]))]

    def observe(self, seat: int) -> Observation:
        """Return what the play tells a seat, with its candidates."""
        seen = super().observe(seat)
        if seat not in self.candidates:
            return seen._replace(key=f"{self.keys[seat]}{seen.key}")
        offered: Observation = self.rules.offered(seen, self.candidates[seat], self.keys[seat])
        return offered

    def step(self, replies: Mapping[int, str]) -> None:
        """Go on with the candidates of these numbers."""
        said = dict(replies)
        for seat, shown in self.candidates.items():
            said[seat] = shown[int(replies[seat]) - 1]
            self.chosen = {**self.chosen, seat: (shown, said[seat])}
            self.keys = tuple(
                f"{key}{remembered(shown)}" if place == seat else key
                for place, key in enumerate(self.keys)
            )
        chosen = self.candidates
        self.taken = tuple(count + (seat in chosen) for seat, count in enumerate(self.taken))
        super().step(said)
        self._propose()

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return what the other environment counts in a play that is over."""
        return dict(self.play.figures())

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the play, and the candidates that are seen."""
        super().paint(canvas, seat)
        for line in self._lines(seat):
            heading(canvas, line[0])
            printed(canvas, line[1])

    def _lines(self, seat: int | None) -> list[tuple[str, list[str]]]:
        """Return a heading and numbered candidates of every seat whose candidates are seen."""
        found, roles = list[tuple[str, list[str]]](), self.rules.roles
        for one in range(self.rules.num_seats):
            if seat not in (None, one):
                continue
            if one in self.candidates:
                found.append((f"Candidates of {roles[one]}", _listed(self.candidates[one])))
            elif one in self.chosen:
                shown, action = self.chosen[one]
                found.append((f"{roles[one]} chose among", _listed(shown, action)))
        return found

    def described(self, seat: int | None) -> str:
        """Return the position of the play, and the candidates that are seen."""
        parts = [f"{head}: {', '.join(lines)}." for head, lines in self._lines(seat)]
        return " ".join([super().described(seat), *parts])


def _listed(shown: Sequence[str], chosen: str | None = None) -> list[str]:
    """Return candidates with their numbers; the chosen one is marked."""
    return [
        f"{number} {action}{' (chosen)' if action == chosen else ''}"
        for number, action in zip(numbers(len(shown)), shown, strict=True)
    ]
