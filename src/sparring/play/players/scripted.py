"""A player with a fixed script: a list of moves, then an order of preference."""

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
from sparring.play.players.chances import legal_actions_of


@dataclass(kw_only=True, eq=False)
class ScriptedAgent(TextAgent):
    """Plays fixed moves in order, then the first legal action of a preference list.

    Args:
        moves: the replies in the seat's turns 0, 1, 2, ..., which may be illegal. Default: none.
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
        """Return the scripted reply for the seat's next turn.

        Raises:
            GameError: ``moves`` is not empty, and the play does not count turns.
        """
        trail = getattr(state, "trail", None)
        if self.moves and trail is None:
            raise GameError(
                f"Agent 'scripted' cannot choose from moves={quoted(self.moves)}: "
                f"{type(innermost_play(state)).__name__} does not count a seat's turns; "
                "write preference=[...]."
            )
        return self._reply(0 if trail is None else _num_turns(trail, seat), state, seat)

    def chances(self, state: Play, seat: int) -> dict[str, float]:
        """Return probability 1 for the scripted reply.

        Raises:
            GameError: ``moves`` is not empty, and the play does not count turns; or the reply is
                illegal.
        """
        legal, turn = legal_actions_of(self.name, state, seat), 0
        if self.moves:
            trail = getattr(innermost_play(state), "trail", None)
            if trail is None:
                raise GameError(
                    f"Agent 'scripted' has no exact probabilities with moves={quoted(self.moves)}: "
                    f"{type(innermost_play(state)).__name__} does not count a seat's turns; "
                    "write preference=[...]."
                )
            turn = _num_turns(trail, seat)
        reply = self._reply(turn, state, seat)
        if reply not in legal:
            raise GameError(
                f"Agent 'scripted' replies {quoted(reply)} in turn {turn}, which is illegal and "
                f"has no exact probabilities; legal: {', '.join(legal)}."
            )
        return {reply: 1.0}

    def _reply(self, turn: int, state: Play, seat: int) -> str:
        if turn < len(self.moves):
            return self.moves[turn]
        legal: tuple[str, ...] | None = state.legal(seat)
        if legal is None:  # any text is legal
            return next(iter(self.preference), "")
        replies = dict(zip(actions_meant(state, seat, legal), legal, strict=True))
        return next((replies[name] for name in self.preference if name in replies), legal[0])


def _num_turns(trail: Iterable[Event], seat: int) -> int:
    return sum(event.player == seat for event in trail)


scripted = ScriptedAgent
