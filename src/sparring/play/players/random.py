"""A player that plays uniformly among the legal actions."""

from __future__ import annotations

from sparring.core.rng import Stream
from sparring.environments.base import Play, random_reply
from sparring.play.players.base import TextAgent
from sparring.play.players.chances import legal_actions_of


class RandomAgent(TextAgent):
    """Uniform random play over the legal actions: the weakest opponent with full support."""

    name = "random"

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return a legal action drawn uniformly; a random text where any text is legal."""
        return random_reply(state, seat, state.legal(seat), stream)

    def chances(self, state: Play, seat: int) -> dict[str, float]:
        """Return the same probability for every legal action."""
        legal = legal_actions_of(self.name, state, seat)
        return dict.fromkeys(legal, 1.0 / len(legal))


random = RandomAgent
