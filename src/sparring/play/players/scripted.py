"""Says what it was told to say: a list of moves, then an order of preference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparring.core.errors import GameError, quoted
from sparring.core.rng import Stream
from sparring.environments.base import Play
from sparring.environments.combining import innermost_play
from sparring.environments.openspiel.position import Event
from sparring.environments.reply import actions_meant
from sparring.play.players.base import PendingTurn, Reply, TextAgent
from sparring.play.players.described import listed


@dataclass(kw_only=True, eq=False)
class ScriptedAgent(TextAgent):
    """A fixed script: moves in order, then the first legal action of a preference list.

    Args:
        moves: the replies of the seat's own turns 0, 1, 2, ... They are said as written, legal or
            not. Empty (default): none.
        preference: actions from most to least preferred, for the turns after ``moves``. If none of
            them is legal, the first legal action is played. Empty (default): always the first legal
            action.
    """

    moves: tuple[str, ...] = ()
    preference: tuple[str, ...] = ()

    name = "scripted"

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return the scripted reply of each pending turn."""
        return [
            Reply(text=self.choose(turn.state, turn.seat, turn.stream))
            if hasattr(turn.state, "trail") or turn.past is None
            else Reply(text=self._reply(len(turn.past()), turn.state, turn.seat))
            for turn in turns
        ]

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return the scripted reply for the seat's next own turn.

        Raises:
            GameError: there are ``moves``, and the play counts no turns.
        """
        trail = getattr(state, "trail", None)
        if self.moves and trail is None:
            raise GameError(
                f"Agent 'scripted': which of moves={quoted(self.moves)} is due cannot be told from "
                f"{type(innermost_play(state)).__name__} alone, which does not count a seat's "
                "turns; write preference=[...]."
            )
        return self._reply(0 if trail is None else _turn(trail, seat), state, seat)

    def chances(self, state: Play, seat: int) -> dict[str, float]:
        """Return probability 1 for what it says.

        Raises:
            GameError: there are ``moves``, and the play counts no turns, or the next is illegal.
        """
        legal, turn = listed(self.name, state, seat), 0
        if self.moves:
            trail = getattr(innermost_play(state), "trail", None)
            if trail is None:
                raise GameError(
                    f"Agent 'scripted': moves={quoted(self.moves)} has no exact description in "
                    f"{type(innermost_play(state)).__name__}, which does not count a seat's "
                    "turns; write preference=[...]."
                )
            turn = _turn(trail, seat)
        said = self._reply(turn, state, seat)
        if said not in legal:
            raise GameError(
                f"Agent 'scripted' says {quoted(said)} at its turn {turn}, which is not legal "
                f"there, so that it has no exact description; legal: {', '.join(legal)}."
            )
        return {said: 1.0}

    def _reply(self, turn: int, state: Play, seat: int) -> str:
        """Return the reply of own turn ``turn``."""
        if turn < len(self.moves):
            return self.moves[turn]
        legal: tuple[str, ...] | None = state.legal(seat)
        if legal is None:  # any text: the favourite one
            return next(iter(self.preference), "")
        replies = dict(zip(actions_meant(state, seat, legal), legal, strict=True))
        return next((replies[name] for name in self.preference if name in replies), legal[0])


def _turn(trail: Iterable[Event], seat: int) -> int:
    return sum(event.player == seat for event in trail)


scripted = ScriptedAgent
