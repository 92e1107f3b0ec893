"""A person at the terminal."""

from __future__ import annotations

from collections.abc import Callable

from sparring.agents.base import Agent, TextAgent
from sparring.games.base import State
from sparring.rng import Stream

Ask = Callable[[str], str]
"""Shows a text to a person and returns what was typed."""


class HumanAgent(TextAgent):
    """Shows what the seat is told and asks until the reply holds a legal action."""

    def __init__(self, ask: Ask) -> None:
        super().__init__("human")
        self.ask = ask

    def choose(self, state: State, seat: int, stream: Stream) -> str:
        """Return the legal action that the person chose."""
        last = max((event.ply for event in state.trail if event.player == seat), default=-1)
        shown = state.observe(seat, last + 1).text
        legal = f"Legal actions: {', '.join(state.legal_actions())}"
        while True:
            reply = self.ask(f"{shown}\n{legal}\n> " if state.game.brief else f"{shown}\n> ").strip()
            action = state.parse(reply)
            if action in state.legal_actions():
                return str(action)
            shown = state.game.correction(state, action)


def human(*, ask: Ask = input) -> Agent:
    """A person who types actions; asked again until the action is legal.

    Args:
        ask: shows a text and returns the typed line.
    """
    return HumanAgent(ask)
