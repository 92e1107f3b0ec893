"""Liar's dice: the seats bid on the dice of both seats, or doubt the last bid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from sparring.environments.drawing.boards import dice as draw_dice
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load

LIAR = "liar"


@dataclass(kw_only=True, eq=False)
class LiarsDice(Game):
    """Liar's dice for 2 seats, with private dice and bids that only rise.

    Args:
        dice: number of dice of each seat, 1 to 5.
        sides: number of faces of a die, 2 to 10; the highest face counts as any face.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range.

    Reference: Lanctot et al., "Monte Carlo sampling for regret minimization", 2009 (as "Bluff").
    """

    dice: Annotated[int, Field(ge=1, le=5)] = 1
    sides: Annotated[int, Field(ge=2, le=10)] = 6
    style: Style = "brief"

    title = "dice"

    def __post_init__(self) -> None:
        dice, sides = self.dice, self.sides
        spiel = load("liars_dice", {"numdice": dice, "dice_sides": sides})
        bids = tuple(
            f"{count}-{face}" for count in range(1, 2 * dice + 1) for face in range(1, sides + 1)
        )
        super().__init__(
            spiel,
            name="liars_dice",
            roles=("seat0", "seat1"),
            words=(*bids, LIAR),
            style=self.style,
        )
        self.faces = tuple(str(face) for face in range(1, sides + 1))
        self.rules = (
            f"We play liar's dice with 2 players and {dice} private dice each; a die has faces 1 "
            f"to {sides}. The players take turns. A bid such as 1-{sides - 1} claims that at "
            f"least 1 die of all dice of both players shows face {sides - 1}; dice showing "
            f"{sides} count as any face. A new bid must raise the number of dice, or keep it and "
            "raise the face. Instead of bidding, 'liar' doubts the last bid: all dice are shown, "
            "and the last bidder wins if the bid holds and loses if it does not."
        )

    def private_words(self) -> tuple[str, ...]:
        return self.faces

    def private(self, state: State, seat: int) -> str:
        """Return the seat's dice, lowest first."""
        faces = self._faces(state, seat)
        return faces if self.brief else f"Your dice show: {faces}."

    def _faces(self, state: State, seat: int) -> str:
        rolls = state.trail[seat * self.dice : (seat + 1) * self.dice]
        return " ".join(
            self.faces[index]
            for index in sorted(
                event.action for event in rolls if event.ply == 0 and event.player < 0
            )
        )

    def on_table(self, state: State, seat: int) -> str:
        """Return the bids so far."""
        return f"Bids so far: {self.actions_so_far(state)}."

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        self.paint_seats(canvas, state, seat)
        for player, role in enumerate(self.roles):
            is_visible = seat in (None, player)
            faces = [int(face) for face in self._faces(state, player).split()] if is_visible else []
            draw_dice(canvas, role, faces or [None] * self.dice, colour=seat_colour(player))
        self.paint_moves(canvas, state, empty="No bid yet.")

    def describe(self, state: State, seat: int | None) -> str:
        texts = [
            f"The dice of {role} show {self._faces(state, player)}."
            for player, role in enumerate(self.roles)
            if seat in (None, player)
        ]
        return " ".join(
            [self.due_text(state), *texts, self.on_table(state, 0), self.payoff_line(state, seat)]
        ).strip()

    def revealed(self, state: State) -> str:
        rolls = (f"{role} {self._faces(state, seat)}" for seat, role in enumerate(self.roles))
        return f"The dice: {', '.join(rolls)}."


liars_dice = LiarsDice
