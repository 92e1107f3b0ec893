"""Agents that can say exactly how they play: the probability of every legal action.

What is computed of opponents exactly (``measure.adaptation_exact``) asks for this.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Protocol, runtime_checkable

from sparring.config.plugins.guard import PluginCall
from sparring.config.plugins.registry import named
from sparring.core.errors import GameError, quoted
from sparring.core.rng import Stream
from sparring.environments.base import Play, random_reply
from sparring.play.players.base import TextAgent

TOLERANCE = 1e-9  # by which probabilities may miss a sum of 1


@runtime_checkable
class Described(Protocol):
    """An agent that can say exactly how it plays; without ``chances`` it cannot be described."""

    def chances(self, state: Play, seat: int) -> Mapping[str, float]:
        """Return the probabilities of the legal actions of a seat that is due; 0 if left out.

        They are a function of what the seat knows of the play that goes on: inside ``trial`` and
        ``repeated`` nothing is remembered of the plays before.

        Raises:
            GameError: it cannot say so here.
        """
        ...


class DescribedAgent(TextAgent):
    """Base of agents that draw from ``chances``, by one draw of the turn's stream.

    Where any text is a reply, such as a note, it says what the play draws.
    """

    @abstractmethod
    def chances(self, state: Play, seat: int) -> dict[str, float]:
        """Return the probabilities of the legal actions; see ``Described``."""

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return a legal action, drawn with its probability."""
        if state.legal(seat) is None:
            return random_reply(state, seat, None, stream)
        found = [(action, share) for action, share in self.chances(state, seat).items() if share]
        sums = list(accumulate(share for _, share in found))
        return found[min(bisect_right(sums, stream.uniform(0) * sums[-1]), len(found) - 1)][0]


def listed(name: str, state: Play, seat: int) -> tuple[str, ...]:
    """Return the legal actions of a seat, whose probabilities an agent is to give.

    Args:
        name: of the agent, for errors.
        state: the play.
        seat: who is due.

    Raises:
        GameError: any text is a reply there.
    """
    legal: tuple[str, ...] | None = state.legal(seat)
    if legal is None:
        raise GameError(
            f"Agent {name!r} has no exact description where any text is a reply, as for seat "
            f"{seat} of {type(state).__name__} now."
        )
    return legal


def chances_of(name: str, agent: Any, state: Play, seat: int) -> dict[str, float]:
    """Return the probability of every legal action of a seat, as its agent says it.

    Args:
        name: of the agent, for errors.
        agent: who sits there.
        state: the play, in which the seat is due.
        seat: whose actions.

    Raises:
        GameError: the agent cannot be described exactly, or gives no probabilities.
        PluginError: its code failed.
    """
    if not isinstance(agent, Described):
        raise GameError(
            f"{name!r} cannot be described exactly, as it has no method chances(state, seat) that "
            "gives the probabilities of the legal actions."
        )
    legal = listed(name, state, seat)
    with PluginCall(named("players", name)):
        given = {action: float(share) for action, share in agent.chances(state, seat).items()}
    wrong = [action for action in given if action not in legal]
    if (
        wrong
        or not all(share >= 0 for share in given.values())
        or (not abs(sum(given.values()) - 1.0) <= TOLERANCE)
    ):
        raise GameError(
            f"{name!r}: chances gave {quoted(given)}; give probabilities of the legal actions "
            f"{', '.join(legal)} that sum to 1."
        )
    return {action: given.get(action, 0.0) for action in legal}
