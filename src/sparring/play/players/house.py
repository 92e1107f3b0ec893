"""Says what the environment's own scripted partner would say."""

from __future__ import annotations

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.base import PartnerPlay, Play
from sparring.play.players.base import TextAgent


class HouseAgent(TextAgent):
    """The environment's own scripted partner: a fixed opponent where any text may be said.

    A play has one if it has a method ``house(seat, stream)``; ``bargain`` does.
    """

    name = "house"

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return what the play's own partner says.

        Raises:
            GameError: the play has none.
        """
        if not isinstance(state, PartnerPlay):
            raise GameError(
                f"{type(state).__name__} in {type(state).__module__} has no partner of its own, "
                "which the player `house` is; give it a method house(seat, stream), or write "
                "another player, such as random."
            )
        return state.house(seat, stream)


house = HouseAgent
