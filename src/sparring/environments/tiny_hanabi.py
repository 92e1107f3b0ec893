"""Tiny Hanabi: two cards, two actions, one shared payoff."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from sparring.environments.drawing.boards import Card, cards
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import heading, table
from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load

CARDS, ACTIONS = ("d0", "d1"), ("a0", "a1", "a2")


@dataclass(kw_only=True, eq=False)
class TinyHanabi(Game):
    """Tiny Hanabi: a two-step cooperative signalling game; the optimal joint policy earns 10.

    Args:
        style: wording, "brief" for tiny models, "full" for language models.

    Reference: Foerster et al., "Bayesian action decoder", 2019 (OpenSpiel's default payoff).
    """

    style: Style = "brief"

    title = "tinyhanabi"

    def __post_init__(self) -> None:
        spiel = load("tiny_hanabi")
        super().__init__(
            spiel, name="tiny_hanabi", roles=("seat0", "seat1"), words=ACTIONS, style=self.style
        )
        self.rules = (
            "We play tiny Hanabi, a cooperative game for two players. Each player receives one "
            "private card, d0 or d1 with equal probability. Then seat0 chooses a0, a1 or a2, "
            "seat1 sees that choice and chooses too, and both receive the same payoff, which "
            "depends on both cards and both actions. Payoffs (card of seat0, card of seat1: "
            f"action of seat0, action of seat1 = payoff):\n{_payoffs(self)}"
        )

    def private_words(self) -> tuple[str, ...]:
        return CARDS

    def private(self, state: State, seat: int) -> str:
        """Return the seat's card."""
        if len(state.trail) <= seat:
            return ""
        card = CARDS[state.trail[seat].action]
        return card if self.brief else f"Your card is {card}."

    def _visible_cards(self, state: State, seat: int | None) -> list[str]:
        return [
            CARDS[event.action] if seat in (None, player) else ""
            for player, event in enumerate(state.trail[: self.num_seats])
        ]

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        hands = self._visible_cards(state, seat)
        self.paint_seats(canvas, state, seat)
        for player, role in enumerate(self.roles):
            cards(canvas, role, [Card(hands[player])], colour=seat_colour(player))
        self.paint_moves(canvas, state)
        for pair in itertools.product(range(len(CARDS)), repeat=2):
            names = [CARDS[card] for card in pair]
            if all(card in ("", name) for card, name in zip(hands, names, strict=True)):
                heading(canvas, f"Payoffs with {names[0]} and {names[1]}")
                rows = [
                    (name, *row)
                    for name, row in zip(ACTIONS, _payoff_square(self, pair), strict=True)
                ]
                actions = [event.action for event in state.trail[self.num_seats :]]
                last_cell = [(actions[0] + 1, actions[1] + 1)] if state.done else []
                table(canvas, [("", *ACTIONS), *rows], marked=last_cell, size=13)

    def describe(self, state: State, seat: int | None) -> str:
        hands = zip(self.roles, self._visible_cards(state, seat), strict=True)
        card_texts = [f"{role} holds {card}." for role, card in hands if card]
        choices = f"Choices so far: {self.actions_so_far(state)}."
        texts = [self.due_text(state), *card_texts, choices, self.payoff_line(state, seat)]
        return " ".join(texts).strip()

    def revealed(self, state: State) -> str:
        deal = zip(self.roles, state.trail, strict=False)
        return f"The cards: {', '.join(f'{role} {CARDS[event.action]}' for role, event in deal)}."


def _payoff_square(game: Game, deal: tuple[int, ...]) -> list[list[str]]:
    rows: list[list[str]] = []
    for first in range(len(ACTIONS)):
        rows.append([])
        for second in range(len(ACTIONS)):
            node = game.first_node()
            for index in (*deal, first, second):
                node = node.child(index)
            rows[-1].append(f"{node.returns()[0]:g}")
    return rows


def _payoffs(game: Game) -> str:
    lines = []
    for deal in itertools.product(range(len(CARDS)), repeat=2):
        cells = (
            f"{ACTIONS[first]}, {ACTIONS[second]} = {value}"
            for first, row in enumerate(_payoff_square(game, deal))
            for second, value in enumerate(row)
        )
        lines.append(f"{CARDS[deal[0]]}, {CARDS[deal[1]]}: {'; '.join(cells)}.")
    return "\n".join(lines)


tiny_hanabi = TinyHanabi
