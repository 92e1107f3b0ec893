"""A mixture of members, which can be asked how probable its actions are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparring.environments.base import side_numbers, teams_of
from sparring.errors import GameError
from sparring.players.base import Agent
from sparring.players.mixture import Mixture
from sparring.refs import PlayerRef
from sparring.types import FloatArray


class MemberMixture(Mixture):
    """Members of a league with weights, of whom one is drawn for each play and team.

    Each of two sides may have weights of its own: then the team with the first seat draws by the
    first ones, and the other team by the second.

    Args:
        weights: of the members; those of weight 0 are left out.
        agent_of: gives the agent of a member.
        notes: what is to be said of the weights.
        second: weights in the second of two sides, where ``weights`` are those in the first; None:
            all sides have the same, however many they are.

    Attributes:
        sides: the weights above 0: of all sides, or of each of two.
        members: weight of each member that can be drawn; its mean over two sides.
    """

    def __init__(
        self,
        weights: Mapping[PlayerRef, float],
        agent_of: Callable[[PlayerRef], Agent],
        notes: Sequence[str] = (),
        second: Mapping[PlayerRef, float] | None = None,
    ) -> None:
        given = (weights,) if second is None else (weights, second)
        self.sides = tuple({who: one for who, one in own.items() if one > 0} for own in given)
        self.members = {
            who: sum(own.get(who, 0.0) for own in self.sides) / len(self.sides)
            for who in dict.fromkeys(who for own in given for who in own)
            if any(who in own for own in self.sides)
        }
        super().__init__({str(member): weight for member, weight in self.members.items()})
        self._agent_of = agent_of
        self.notes = tuple(notes)
        apart = second is not None
        self._apart = tuple(MemberMixture(own, agent_of) for own in self.sides if apart)

    def __str__(self) -> str:
        """Return it in words."""
        said = [
            ", ".join(f"{weight:.3f} {self.called(member)}" for member, weight in own.items())
            for own in self.sides
        ]
        return " in the first side; ".join(said) + (" in the second" if self._apart else "")

    def at(self, game: Any, seat: int) -> Mixture:
        """Return the mixture from which a seat's team draws.

        Raises:
            GameError: there is one for each of two sides, and the environment has not two.
        """
        if not self._apart:
            return self
        return self._apart[_side(game.name, tuple(teams_of(game)), seat)]

    def played_by(self, agent_of: Callable[[PlayerRef], Agent]) -> MemberMixture:
        """Return the same mixture with other agents for its members."""
        return MemberMixture(self.sides[0], agent_of, self.notes, *self.sides[1:])

    def shares(self, members: Sequence[PlayerRef] = ()) -> dict[PlayerRef, float]:
        """Return the weight of each member; all of them are there."""
        return dict(self.members)

    def agent(self, player: PlayerRef) -> Agent:
        """Return the agent of a member."""
        return self._agent_of(player)

    def action_logprobs(self, queries: Sequence[Any]) -> list[FloatArray]:
        """Return what one policy would say that plays as the mixture does.

        With w_k the weight of member k in the seat's side, and x_k(h) the product of its
        probabilities of the seat's own earlier actions on the way to information state h (Kuhn,
        1953),

            P(a | h) = sum_k w_k x_k(h) P_k(a | h)  /  sum_k w_k x_k(h)

        Where no member plays to h the weights are w_k.

        Args:
            queries: information states.

        Raises:
            GameError: as for ``at``.
        """
        earlier = [_earlier(query) for query in queries]
        asked = list(dict.fromkeys(one for past in earlier for one in past))
        logs, parts, reaches = self._logs(queries), [], []
        for place, member in enumerate(self.members):
            scorer: Any = self.agent(member)
            rows = scorer.action_logprobs(asked) if asked else []
            said = {one: float(row[0]) for one, row in zip(asked, rows, strict=True)}
            own = [sum(said[one] for one in past) for past in earlier]
            reaches.append(logs[place] + np.array(own, dtype=np.float64))
            parts.append(scorer.action_logprobs(queries))
        reach = np.array(reaches)
        nobody = ~np.isfinite(reach).any(axis=0)
        reach[:, nobody] = logs[:, nobody]
        weights = np.exp(reach - np.logaddexp.reduce(reach, axis=0))
        return [
            _mean([rows[number] for rows in parts], weights[:, number])
            for number in range(len(queries))
        ]

    def _logs(self, queries: Sequence[Any]) -> FloatArray:
        """Return the logarithm of each member's weight in the side of each query, [K, Q]."""
        with np.errstate(divide="ignore"):
            found = np.log([[own.get(who, 0.0) for own in self.sides] for who in self.members])
        places = [0] * len(queries)
        if self._apart:
            places = [_side(query.game, query.teams, query.seat) for query in queries]
        chosen: FloatArray = found[:, places]
        return chosen


def _side(name: str, teams: tuple[int, ...], seat: int) -> int:
    """Return the number of a seat's side, of two.

    Args:
        name: of the environment.
        teams: the team of each seat; none: every seat is a side.
        seat: one of them.

    Raises:
        GameError: there are not two.
    """
    numbers = side_numbers(teams or tuple(range(max(seat + 1, 2))))
    if max(numbers) != 1:
        raise GameError(
            f"{name}: this mixture has weights for each of two sides, and here are "
            f"{max(numbers) + 1}; take one policy, such as --answer policy."
        )
    return numbers[seat]


def _earlier(query: Any) -> list[Any]:
    """Return the seat's own earlier decisions on the way, each with the action that it took."""
    return [
        replace(
            query,
            key=query.seen[turn].key if query.seen else "",
            observations=query.observations[: turn + 1],
            actions=query.actions[:turn],
            legal_actions=(query.actions[turn],),
            seen=query.seen[: turn + 1],
        )
        for turn in range(len(query.actions))
    ]


def _mean(rows: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    """Return the logarithm of the weighted mean of probabilities, [num_legal]."""
    with np.errstate(divide="ignore"):
        found: FloatArray = np.log(weights @ np.exp(np.array(rows, dtype=np.float64)))
    return found
