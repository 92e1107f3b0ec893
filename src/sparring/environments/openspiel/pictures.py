"""How the games over OpenSpiel are drawn: the hooks that a game overrides, and a picture for any.

A seat's picture holds what its information state holds, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import heading, paragraph, printed, seats, strip, table
from sparring.environments.drawing.told import due_sentence
from sparring.environments.openspiel.events import CHANCE

if TYPE_CHECKING:
    from sparring.environments.openspiel.generic import GenericGame
    from sparring.environments.openspiel.state import State


class Pictured:
    """The part of ``Game`` that draws; games override ``paint`` and ``describe``."""

    roles: tuple[str, ...]
    words: tuple[str, ...]
    num_seats: int

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        """Draw a position as a seat sees it; None: nothing is hidden."""
        self.paint_seats(canvas, state, seat)
        printed(canvas, self.known_lines(state, seat))

    def describe(self, state: State, seat: int | None) -> str:
        """Return a position in a sentence or two, as a seat knows it; None: nothing is hidden."""
        known = "; ".join(line for line in self.known_lines(state, seat) if line.strip())
        return f"{self.whose(state)} {known}".strip()

    def paint_seats(
        self,
        canvas: Canvas,
        state: State,
        seat: int | None,
        notes: dict[int, str] | None = None,
    ) -> None:
        """Draw who sits where, and who is due; with nothing hidden also what each has been paid."""
        said = {number: [note] for number, note in (notes or {}).items()}
        if seat is None and (state.done or any(state.returns)):
            for number, value in enumerate(state.returns):
                said.setdefault(number, []).append(f"{value:+g}")
        seats(canvas, self.roles, state.due(), {n: ", ".join(parts) for n, parts in said.items()})

    def paint_moves(self, canvas: Canvas, state: State, *, empty: str = "No move yet.") -> None:
        """Draw the actions of all seats in order; for games in which every seat sees them."""
        moves = [
            (self.words[event.action], seat_colour(event.player))
            for event in state.trail
            if event.player != CHANCE
        ]
        if moves:
            strip(canvas, moves)
        else:
            paragraph(canvas, empty, colour="dim")

    def whose(self, state: State) -> str:
        """Return the sentence that says who is to act."""
        return due_sentence([self.roles[seat] for seat in state.due()])

    def last_move(self, state: State) -> str:
        """Return the sentence that says what was done last; "" before the first action."""
        acted = [event for event in state.trail if event.player != CHANCE]
        if not acted:
            return ""
        return f"{self.roles[acted[-1].player]} played {self.words[acted[-1].action]} last."

    def paid(self, state: State, seat: int | None) -> str:
        """Return the payoffs of a play that is over, for a reader from whom nothing is hidden."""
        if seat is not None or not state.done:
            return ""
        got = zip(self.roles, state.returns, strict=True)
        return f"Payoffs: {', '.join(f'{role} {value:+g}' for role, value in got)}."

    def known_lines(self, state: State, seat: int | None) -> list[str]:
        """Return what OpenSpiel tells a seat of a position, as lines."""
        text = str(state.spiel) if seat is None else state.observe(seat, 0).key
        return [line for line in text.split("\n") if line.strip()][:24]


def paint_matrix(canvas: Canvas, game: GenericGame, state: State, seat: int | None) -> None:
    """Draw the payoffs of a matrix game, and what was chosen as far as the reader knows it."""
    game.paint_seats(canvas, state, seat)
    heading(canvas, "Payoffs", f"{game.roles[0]} (rows), {game.roles[1]} (columns)")
    chosen = [event.action for event in state.trail]
    table(canvas, game.payoffs, marked=[(chosen[0] + 1, chosen[1] + 1)] if state.done else ())
    for line in _choices(game, state, seat):
        paragraph(canvas, line)


def describe_matrix(game: GenericGame, state: State, seat: int | None) -> str:
    """Return the position of a matrix game in a sentence or two."""
    parts = (game.whose(state), *_choices(game, state, seat), game.paid(state, seat))
    return " ".join(part for part in parts if part)


def _choices(game: GenericGame, state: State, seat: int | None) -> list[str]:
    """Return who chose what, as far as the reader knows it: all of it at the end."""
    names = [row[0] for row in game.payoffs[1:]], game.payoffs[0][1:]
    return [
        f"{game.roles[event.player]} chose {names[event.player][event.action]}."
        for event in state.trail
        if state.done or seat in (None, event.player)
    ]
