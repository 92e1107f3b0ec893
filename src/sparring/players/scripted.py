"""Says what it was told to say: a list of moves, then an order of preference."""

from __future__ import annotations

from sparring.environments.openspiel.base import State
from sparring.players.base import Agent, TextAgent
from sparring.rng import Stream


class ScriptedAgent(TextAgent):
    """Says ``moves`` one per own turn, as written.

    Afterwards it is the first legal action of ``preference``, else the first legal one.
    """

    def __init__(self, moves: tuple[str, ...], preference: tuple[str, ...]) -> None:
        super().__init__("scripted")
        self.moves, self.preference = moves, preference

    def choose(self, state: State, seat: int, stream: Stream) -> str:
        """Return the scripted reply for the seat's next own turn."""
        turn = sum(event.player == seat for event in state.trail)
        if turn < len(self.moves):
            return self.moves[turn]
        legal = state.legal_actions()
        return next((action for action in self.preference if action in legal), legal[0])


def scripted(*, moves: tuple[str, ...] = (), preference: tuple[str, ...] = ()) -> Agent:
    """A fixed script: moves in order, then the first legal action of a preference list.

    Args:
        moves: the replies of the seat's own turns 0, 1, 2, ... They are said as written, legal or
            not. Empty (default): none.
        preference: actions from most to least preferred, for the turns after ``moves``. If none of
            them is legal, the first legal action is played. Empty (default): always the first legal
            action.
    """
    return ScriptedAgent(moves, preference)
