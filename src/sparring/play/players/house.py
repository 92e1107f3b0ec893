"""The environment's scripted partner as a player."""

from __future__ import annotations

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.base import PartnerPlay, Play
from sparring.play.players.base import TextAgent


class EnvironmentPartnerAgent(TextAgent):
    """The environment's scripted partner, as a fixed opponent where replies are free text.

    An environment such as ``bargain`` has one if its plays have a method ``house(seat, stream)``.
    """

    name = "house"

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return the reply of the play's partner.

        Raises:
            GameError: the play has no partner.
        """
        if not isinstance(state, PartnerPlay):
            raise GameError(
                f"{type(state).__name__} in {type(state).__module__} has no scripted partner for "
                "the player `house`; give it a method house(seat, stream), or write another "
                "player, such as random."
            )
        return state.house(seat, stream)


house = EnvironmentPartnerAgent
