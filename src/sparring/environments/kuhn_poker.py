"""Kuhn poker: one card each, one bet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sparring.environments.drawing.boards import Card, cards
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.openspiel.base import CHANCE, Game, State, Style
from sparring.environments.openspiel.load import load

CARDS = ("J", "Q", "K", "A")
NAMES = {"J": "Jack", "Q": "Queen", "K": "King", "A": "Ace"}
ROLES = ("first", "second", "third")


@dataclass(kw_only=True, eq=False)
class KuhnPoker(Game):
    """Kuhn poker with 2 or 3 seats: a three- or four-card deck, one bet, solved exactly.

    Args:
        players: number of seats.
        style: wording, "brief" for tiny models, "full" for language models.

    Reference: Kuhn, "A simplified two-person poker", 1950; game value -1/18 for the first seat.
    """

    players: Literal[2, 3] = 2
    style: Style = "brief"

    title = "kuhn"

    def __post_init__(self) -> None:
        players = self.players
        spiel = load("kuhn_poker", {"players": players})
        super().__init__(
            spiel, name="kuhn_poker", roles=ROLES[:players], words=("pass", "bet"), style=self.style
        )
        self.cards = CARDS[: players + 1]
        deck = ", ".join(NAMES[card] for card in self.cards)
        self.rules = (
            f"We play Kuhn poker with {players} players. The deck holds {players + 1} cards, from "
            f"low to high: {deck}. Each player pays one chip into the pot and receives one "
            "private card. The players act in order. While nobody has bet, 'pass' checks and "
            "'bet' adds one chip to the pot. After a bet, 'bet' calls it with one chip and 'pass' "
            "folds; every other player answers the bet once. Among the players who have not "
            "folded, the highest card takes the pot."
        )

    def private_words(self) -> tuple[str, ...]:
        return self.cards

    def private(self, state: State, seat: int) -> str:
        """Return the seat's card."""
        if len(state.trail) <= seat:
            return ""
        card = self.cards[state.trail[seat].action]
        return card if self.brief else f"Your card is the {NAMES[card]}."

    def on_table(self, state: State, seat: int) -> str:
        """Return the pot and the betting so far."""
        chips = ", ".join(
            f"{self.stake(state, other):g} from {role}" for other, role in enumerate(self.roles)
        )
        return f"Chips in the pot: {chips}. Betting so far: {self.actions_so_far(state)}."

    def revealed(self, state: State) -> str:
        deals = zip(self.roles, state.trail, strict=False)
        hands = ", ".join(f"{role} {NAMES[self.cards[event.action]]}" for role, event in deals)
        return f"The cards: {hands}."

    def shown(self, state: State, seat: int) -> str:
        """Return the other players' cards at a show-down, for a seat that has not folded."""
        if self._has_folded(state, seat):
            return ""
        other_hands = [
            (role, self.cards[state.trail[player].action])
            for player, role in enumerate(self.roles)
            if player != seat and not self._has_folded(state, player)
        ]
        if self.brief and self.num_seats == 2:  # the role is left out
            return " ".join(card for _, card in other_hands)
        if self.brief:
            return " ".join(f"{role} {card}" for role, card in other_hands)
        return " ".join(f"{role} held the {NAMES[card]}." for role, card in other_hands)

    def _has_folded(self, state: State, seat: int) -> bool:
        bettors = {
            event.player for event in state.trail if event.player != CHANCE and event.action == 1
        }
        return bool(bettors) and seat not in bettors

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        chips = {
            player: f"put in {self.stake(state, player):g}" for player in range(self.num_seats)
        }
        self.paint_seats(canvas, state, seat, chips)
        for player, role in enumerate(self.roles):
            card = self.cards[state.trail[player].action] if seat in (None, player) else ""
            cards(canvas, role, [Card(card)], colour=seat_colour(player))
        self.paint_moves(canvas, state, empty="No bet yet.")

    def describe(self, state: State, seat: int | None) -> str:
        hands = [
            f"{role} holds the {NAMES[self.cards[event.action]]}."
            for player, (role, event) in enumerate(zip(self.roles, state.trail, strict=False))
            if seat in (None, player)
        ]
        return " ".join(
            [
                self.due_text(state),
                *hands,
                self.on_table(state, seat or 0),
                self.payoff_line(state, seat),
            ]
        ).strip()

    def stake(self, state: State, seat: int) -> float:
        """Return the chips the seat has put into the pot."""
        return 1.0 + any(event.player == seat and event.action == 1 for event in state.trail)


kuhn_poker = KuhnPoker
