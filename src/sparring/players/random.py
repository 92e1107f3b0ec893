"""Plays any legal action with equal probability."""

from __future__ import annotations

from sparring.environments.openspiel.base import State
from sparring.players.base import Agent, TextAgent
from sparring.rng import Stream


class RandomAgent(TextAgent):
    """Draws uniformly from the legal actions, one draw of the turn's stream per decision."""

    def choose(self, state: State, seat: int, stream: Stream) -> str:
        """Return a legal action, each with equal probability."""
        legal = state.legal_actions()
        return legal[stream.integer(0, len(legal))]


def random() -> Agent:
    """Uniform random play over the legal actions: the weakest opponent with full support."""
    return RandomAgent("random")
