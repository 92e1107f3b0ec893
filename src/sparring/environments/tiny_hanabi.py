"""Tiny Hanabi: two cards, two actions, one shared payoff."""

from __future__ import annotations

import itertools

from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load

CARDS, ACTIONS = ("d0", "d1"), ("a0", "a1", "a2")


class TinyHanabi(Game):
    """Two seats with one private card each act once, in order, and share the payoff."""

    title = "tinyhanabi"

    def __init__(self, style: Style) -> None:
        spiel = load("tiny_hanabi")
        super().__init__(
            spiel, name="tiny_hanabi", roles=("seat0", "seat1"), words=ACTIONS, style=style
        )
        self.rules = (
            "We play tiny Hanabi, a cooperative game for two players. Each player receives one "
            "private card, d0 or d1 with equal probability. Then seat0 chooses a0, a1 or a2, "
            "seat1 sees that choice and chooses too, and both receive the same payoff, which "
            "depends on both cards and both actions. Payoffs (card of seat0, card of seat1: "
            f"action of seat0, action of seat1 = payoff):\n{_payoffs(self)}"
        )

    def private_words(self) -> tuple[str, ...]:
        """Return the cards."""
        return CARDS

    def private(self, state: State, seat: int) -> str:
        """Return the seat's card."""
        if len(state.trail) <= seat:
            return ""
        card = CARDS[state.trail[seat].action]
        return card if self.brief else f"Your card is {card}."

    def revealed(self, state: State) -> str:
        """Return both cards."""
        dealt = zip(self.roles, state.trail, strict=False)
        return f"The cards: {', '.join(f'{role} {CARDS[event.action]}' for role, event in dealt)}."


def _payoffs(game: Game) -> str:
    """Return the payoff table in words, one line per pair of cards.

    It is found by playing every line of the game.
    """
    lines = []
    for cards in itertools.product(range(len(CARDS)), repeat=2):
        cells = []
        for actions in itertools.product(range(len(ACTIONS)), repeat=2):
            node = game.first_node()
            for index in (*cards, *actions):
                node = node.child(index)
            cells.append(f"{ACTIONS[actions[0]]}, {ACTIONS[actions[1]]} = {node.returns()[0]:g}")
        lines.append(f"{CARDS[cards[0]]}, {CARDS[cards[1]]}: {'; '.join(cells)}.")
    return "\n".join(lines)


def tiny_hanabi(*, style: Style = "brief") -> Game:
    """Tiny Hanabi: a two-step cooperative signalling game; the best joint play earns 10.

    Args:
        style: wording, "brief" for tiny models, "full" for language models.

    Reference: Foerster et al., "Bayesian action decoder", 2019 (OpenSpiel's default payoff).
    """
    return TinyHanabi(style)
