"""A mixture of members, which can be asked how probable its actions are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparring.players.base import Agent
from sparring.players.mixture import Mixture
from sparring.refs import PlayerRef
from sparring.types import FloatArray


class MemberMixture(Mixture):
    """Members of a league with weights, of whom one is drawn for each play and team.

    Args:
        weights: of the members; those of weight 0 are left out.
        agent_of: gives the agent of a member.
        notes: what is to be said of the weights.
    """

    def __init__(
        self,
        weights: Mapping[PlayerRef, float],
        agent_of: Callable[[PlayerRef], Agent],
        notes: Sequence[str] = (),
    ) -> None:
        self.members = {member: weight for member, weight in weights.items() if weight > 0}
        super().__init__({str(member): weight for member, weight in self.members.items()})
        self._agent_of = agent_of
        self.notes = tuple(notes)

    def __str__(self) -> str:
        """Return it in words."""
        return ", ".join(f"{weight:.3f} {member}" for member, weight in self.members.items())

    def shares(self, members: Sequence[PlayerRef] = ()) -> dict[PlayerRef, float]:
        """Return the weight of each member; all of them are there."""
        return dict(self.members)

    def agent(self, player: PlayerRef) -> Agent:
        """Return the agent of a member."""
        return self._agent_of(player)

    def action_logprobs(self, queries: Sequence[Any]) -> list[FloatArray]:
        """Return what one policy would say that plays as the mixture does.

        With w_k the weight of member k, and x_k(h) the product of its probabilities of the seat's
        own earlier actions on the way to information state h (Kuhn, 1953),

            P(a | h) = sum_k w_k x_k(h) P_k(a | h)  /  sum_k w_k x_k(h)

        Where no member plays to h the weights are w_k.

        Args:
            queries: information states.
        """
        earlier = [_earlier(query) for query in queries]
        asked = list(dict.fromkeys(one for past in earlier for one in past))
        parts, reaches = [], []
        for member, weight in self.members.items():
            scorer: Any = self.agent(member)
            rows = scorer.action_logprobs(asked) if asked else []
            said = {one: float(row[0]) for one, row in zip(asked, rows, strict=True)}
            own = [sum(said[one] for one in past) for past in earlier]
            reaches.append(np.log(weight) + np.array(own, dtype=np.float64))
            parts.append(scorer.action_logprobs(queries))
        reach = np.array(reaches)
        nobody = ~np.isfinite(reach).any(axis=0)
        reach[:, nobody] = np.log(list(self.members.values()))[:, None]
        weights = np.exp(reach - np.logaddexp.reduce(reach, axis=0))
        return [
            _mean([rows[number] for rows in parts], weights[:, number])
            for number in range(len(queries))
        ]


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
