"""Exact values as columns of the turn table, for estimators that compare a turn with what else
could have been done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sparring.environments.openspiel.base import Game
from sparring.measure.exact_values import exact_values
from sparring.measure.exploitability import ask
from sparring.measure.info_states import InfoStates, enumerate_info_states
from sparring.measure.policies import ActionScorer
from sparring.rollout.table import ordered_turns
from sparring.types import Episode, FloatArray, TurnTable


@dataclass(frozen=True, kw_only=True, slots=True)
class _Book:
    """The information states of a game, their numbers, and the values of one policy on them."""

    states: InfoStates
    number: dict[tuple[int, str], int]


class ExactColumns:
    """Fills ``action_value``, ``state_value`` and ``default_value`` by enumeration, for games small
    enough.

    ``scales`` multiplies a game's values, as its payoffs are multiplied in what credit sees; 1
    where a game is missing.

    Raises:
        TooLargeError: a game has more information states than ``limit``.
    """

    def __init__(
        self, games: Sequence[Game], limit: int, scales: Mapping[str, float] | None = None
    ) -> None:
        self._scales = dict(scales or {})
        self._books: dict[str, _Book] = {}
        for game in games:
            states = enumerate_info_states(game, limit=limit)
            number = {(query.seat, query.key): index for index, query in enumerate(states.queries)}
            self._books[game.name] = _Book(states=states, number=number)

    def of(
        self, turns: TurnTable, episodes: Sequence[Episode], policy: ActionScorer
    ) -> dict[str, FloatArray]:
        """Return the columns, [N] each, of the policy renormalised over legal actions in every
        seat.

        A reply that was no legal action is worth what its turn was paid, and a memory what the
        state is worth in which it is written. A seat that is asked again
        after an illegal reply stands in the same information state.
        """
        values = {}
        for name in {episode.game for episode in episodes}:
            states = self._books[name].states
            values[name] = exact_values(states, ask(policy, states)[0])
        action, state, default = (
            turns.reward.copy(),
            np.zeros(len(turns.reward)),
            np.zeros(len(turns.reward)),
        )
        rows = ordered_turns(episodes, candidates=turns.state_group is not None)
        for row, (episode, turn) in enumerate(rows):
            book, own = self._books[episode.game], values[episode.game]
            memory = turn.event == "memory"
            index = book.number[turn.seat, turn.state_key.removesuffix("|memory" if memory else "")]
            scale = self._scales.get(episode.game, 1.0)
            state[row], default[row] = scale * own.state[index], scale * own.action[index].mean()
            if memory:  # which leads to the same state, whatever is written
                action[row] = default[row] = state[row]
            if turn.action is not None:
                action[row] = (
                    scale
                    * own.action[index][book.states.queries[index].legal_actions.index(turn.action)]
                )
        return {"action_value": action, "state_value": state, "default_value": default}
