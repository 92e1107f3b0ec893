"""Leduc poker: two betting rounds, one private card, one public card."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sparring.environments.drawing.boards import Card, cards
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.openspiel.base import CHANCE, Event, Game, State, Style
from sparring.environments.openspiel.load import load

RANKS = ("J", "Q", "K", "A")
NAMES = {"J": "Jack", "Q": "Queen", "K": "King", "A": "Ace"}
ROLES = ("first", "second", "third")


@dataclass(kw_only=True, eq=False)
class LeducPoker(Game):
    """Leduc poker with 2 or 3 seats: two betting rounds and a public card.

    Args:
        players: number of seats.
        style: wording, "brief" for tiny models, "full" for language models.

    Reference: Southey et al., "Bayes' bluff: opponent modelling in poker", 2005.
    """

    players: Literal[2, 3] = 2
    style: Style = "brief"

    title = "leduc"

    def __post_init__(self) -> None:
        players = self.players
        spiel = load("leduc_poker", {"players": players, "suit_isomorphism": True})
        super().__init__(
            spiel,
            name="leduc_poker",
            roles=ROLES[:players],
            words=("fold", "call", "raise"),
            style=self.style,
        )
        self.ranks = RANKS[: players + 1]
        ranks = ", ".join(NAMES[rank] for rank in self.ranks)
        self.rules = (
            f"We play Leduc poker with {players} players. The deck holds two cards of each rank, "
            f"from low to high: {ranks}. Each player pays one chip into the pot and receives one "
            "private card. There are two betting rounds; after the first one a public card is "
            "turned over. 'call' matches the current bet (or checks if there is none), 'raise' "
            "adds 2 chips to it in the first round and 4 chips in the second, at most two raises "
            "per round, and 'fold' gives up the pot. At the end a private card of the same rank "
            "as the public card wins, otherwise the highest private card; equal hands share the "
            "pot."
        )

    def private_words(self) -> tuple[str, ...]:
        return self.ranks

    def private(self, state: State, seat: int) -> str:
        """Return the rank of the seat's card."""
        if len(state.trail) <= seat:
            return ""
        rank = self.ranks[state.trail[seat].action]
        return rank if self.brief else f"Your private card is a {NAMES[rank]}."

    def chance_event(self, state: State, seat: int, event: Event) -> str:
        """Return the rank of the public card; "" for the private cards, dealt before any action."""
        if event.ply == 0 and event.player == CHANCE:
            return ""
        rank = self.ranks[event.action]
        return rank if self.brief else f"The public card is a {NAMES[rank]}."

    def on_table(self, state: State, seat: int) -> str:
        """Return the public card, the pot and the betting so far."""
        public_ranks = self._public_cards(state)
        card = f"Public card: {NAMES[public_ranks[0]]}. " if public_ranks else ""
        chips = ", ".join(
            f"{self.stake(state, other):g} from {role}" for other, role in enumerate(self.roles)
        )
        return f"{card}Chips in the pot: {chips}. Betting so far: {self.actions_so_far(state)}."

    def _public_cards(self, state: State) -> list[str]:
        deals = (event for event in state.trail if event.player == CHANCE and event.ply)
        return [self.ranks[event.action] for event in deals]

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        chips = {
            player: f"put in {self.stake(state, player):g}" for player in range(self.num_seats)
        }
        self.paint_seats(canvas, state, seat, chips)
        cards(canvas, "public", [Card(rank) for rank in self._public_cards(state) or [""]])
        for player, role in enumerate(self.roles):
            rank = self.ranks[state.trail[player].action] if seat in (None, player) else ""
            cards(canvas, role, [Card(rank)], colour=seat_colour(player))
        self.paint_moves(canvas, state, empty="No bet yet.")

    def describe(self, state: State, seat: int | None) -> str:
        hands = [
            f"{role} holds a {NAMES[self.ranks[event.action]]}."
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

    def revealed(self, state: State) -> str:
        deals = zip(self.roles, state.trail, strict=False)
        hands = ", ".join(f"{role} {NAMES[self.ranks[event.action]]}" for role, event in deals)
        return f"The private cards: {hands}."

    def stake(self, state: State, seat: int) -> float:
        """Return the chips the seat has put into the pot."""
        match = re.search(r"\[Ante: ([\d ]+)\]", self.view(state, seat))
        return float(match.group(1).split()[seat]) if match else 1.0


leduc_poker = LeducPoker
