"""Exact values against the average policy of counterfactual regret minimisation.

What oracles cfr and best_response share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparring.environments.openspiel.base import Game, State
from sparring.environments.walked import WalkedGame, walk
from sparring.ops.game_tree import best_response, policy_values
from sparring.oracles.base import verdict
from sparring.oracles.cached import CachedOracle, widened
from sparring.players.cfr import CfrAgent, fits
from sparring.types import FloatArray, Verdict

Play = Literal["average", "best_response"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Values:
    """What every information state of a game is worth."""

    walked: WalkedGame
    action: tuple[FloatArray, ...]  # [I] arrays [num_legal]
    # [I] how often the others and chance let the seat come by; 0: the values say nothing
    others: FloatArray
    # what the seats would gain, together, if each alone left the average policy for its best
    # response
    nash_conv: float


class EquilibriumOracle(CachedOracle):
    """Judges by the exact values of each action at the seat's information state.

    A game is solved when it is first met.

    Args:
        name: the plug-in's name.
        solver: makes the average policy.
        own: what the seat itself plays from its next decision on, "average" or its best response to
            "average".
        against: what the others play, "average" or each its best response to "average".
        margin: actions worth at most this less than the best one are best too.
    """

    def __init__(
        self, name: str, solver: CfrAgent, own: Play, against: Play, margin: float
    ) -> None:
        super().__init__(name)
        self.solver, self.own, self.against, self.margin = solver, own, against, margin
        self._solved: dict[str, _Values] = {}

    def covers(self, game: Game) -> str:
        """Return why this game cannot be judged, or ""."""
        if not game.has_info_states:
            return (
                "OpenSpiel gives no information states for it; use oracle minimax or mcts if "
                "nothing is hidden."
            )
        if game.rules_key not in self._solved and not fits(game, self.solver.max_histories):
            return (
                f"its tree has over max_histories={self.solver.max_histories} histories; use a "
                "smaller game, or raise max_histories."
            )
        return ""

    def key(self, state: State) -> str:
        """Return the seat and its information state."""
        return f"{state.seat}\n{state.node.information_state_string(state.seat)}"

    def opinions(self, states: Sequence[State]) -> list[Verdict | None]:
        """Return a verdict per state.

        None where the others' policies and chance never let the seat come by.
        """
        rules = states[0].game.rules_key
        if rules not in self._solved:
            self._solved[rules] = self._values(states[0].game)
        return [self._opinion(state, self._solved[rules]) for state in states]

    def _opinion(self, state: State, values: _Values) -> Verdict | None:
        """Return the verdict on one information state."""
        index = values.walked.number[state.seat, state.node.information_state_string(state.seat)]
        if values.others[index] <= 0:
            self.counts["unreached"] += 1
            return None
        return widened(
            verdict(state.legal_actions(), values.action[index].tolist(), bound=values.nash_conv),
            self.margin,
        )

    def _values(self, game: Game) -> _Values:
        """Return the values of all information states."""
        walked = walk(game)
        tree, seats = walked.tree, walked.seats
        table = self.solver.policy(game)
        average = []
        for example, legal in zip(walked.examples, walked.legal, strict=True):
            chosen = table.action_probabilities(example)
            row = np.array([chosen.get(index, 0.0) for index in legal])
            average.append(row / row.sum())
        returns = policy_values(tree, seats, average).returns
        answers = [best_response(tree, seats, average, seat) for seat in range(game.num_seats)]
        gains = [
            policy_values(tree, seats, answer).returns[seat] - returns[seat]
            for seat, answer in enumerate(answers)
        ]
        best = [answers[seat][index] for index, seat in enumerate(seats)]
        action, others = list(average), np.zeros(len(seats))
        for seat in range(game.num_seats):
            mine, theirs = (
                best if play == "best_response" else average for play in (self.own, self.against)
            )
            found = policy_values(
                tree,
                seats,
                [
                    mine[index] if seats[index] == seat else theirs[index]
                    for index in range(len(seats))
                ],
            )
            for index in np.flatnonzero(seats == seat):
                action[index], others[index] = found.action[index], found.others[index]
        return _Values(
            walked=walked,
            action=tuple(action),
            others=others,
            nash_conv=max(float(sum(gains)), 0.0),
        )
