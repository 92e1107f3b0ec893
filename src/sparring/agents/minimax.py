"""Perfect play by exhaustive search with a table of positions, where the game is small."""

from __future__ import annotations

from typing import Any

import pyspiel

from sparring.agents.base import Agent, TextAgent
from sparring.errors import GameError, TooLargeError
from sparring.games.base import Game, State
from sparring.games.options import check_range
from sparring.rng import Stream

_TYPE = pyspiel.GameType


class MinimaxAgent(TextAgent):
    """Plays an action of the best exact value, drawn uniformly among the best.

    Positions are told apart by OpenSpiel's printed board, so a position reached by two move orders is solved once.
    """

    def __init__(self, max_states: int) -> None:
        super().__init__("minimax")
        self.max_states = max_states
        self._tables: dict[str, dict[str, float]] = {}

    def choose(self, state: State, seat: int, stream: Stream) -> str:
        """Return one of the best actions.

        Raises:
            GameError: the game has chance, hidden information or not two opposed seats.
            TooLargeError: more than ``max_states`` positions.
        """
        values = self.action_values(state)
        best = max(values.values())
        actions = [action for action, value in values.items() if value == best]
        return actions[stream.integer(0, len(actions))]

    def action_values(self, state: State) -> dict[str, float]:
        """Return the exact value of each legal action for the seat to act, in the game's units."""
        game = state.game
        self._check(game)
        table = self._tables.setdefault(str(game.spiel), {})
        sign = 1.0 if state.seat == 0 else -1.0
        legal = zip(state.legal_actions(), state.spiel.legal_actions(), strict=True)
        return {action: sign * self._value(state.spiel.child(index), table, game.name) for action, index in legal}

    def _check(self, game: Game) -> None:
        """Refuse games that minimax does not apply to."""
        kind = game.spiel.get_type()
        fits = kind.information == _TYPE.Information.PERFECT_INFORMATION and kind.chance_mode == _TYPE.ChanceMode.DETERMINISTIC
        if not (fits and game.zero_sum and game.num_seats == 2):
            raise GameError(
                f"Agent 'minimax' needs two opposed seats, no chance and nothing hidden, unlike {game.name!r}; write agent mcts or cfr."
            )

    def _value(self, spiel: Any, table: dict[str, float], name: str) -> float:
        """Return the value of a position for seat 0."""
        if spiel.is_terminal():
            return float(spiel.returns()[0])
        player = spiel.current_player()
        position = f"{player}\n{spiel}"
        if position not in table:
            if len(table) >= self.max_states:
                raise TooLargeError(f"Agent 'minimax': {name!r} has over max_states={self.max_states} positions; write agent mcts there.")
            choose = max if player == 0 else min
            value = choose(self._value(spiel.child(index), table, name) for index in spiel.legal_actions())
            table[position] = value
        return table[position]


def minimax(*, max_states: int = 200_000) -> Agent:
    """Perfect play in small two-seat games without chance or hidden information, uniform among the best actions.

    Args:
        max_states: positions to remember before giving up.

    Raises:
        ConfigError: a number out of range.
    """
    check_range("minimax: max_states", max_states, 1)
    return MinimaxAgent(max_states)
