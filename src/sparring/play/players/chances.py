"""Players that can describe their policy: the exact probability of every legal action.

Exact measures of opponents (``measure.attempt_tree``) need these probabilities.
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

TOLERANCE = 1e-9  # largest error of the sum of probabilities, which must be 1


@runtime_checkable
class HasChances(Protocol):
    """An agent that gives the exact probabilities of its actions."""

    def chances(self, state: Play, seat: int) -> Mapping[str, float]:
        """Return the probabilities of the legal actions of a due seat; missing actions have 0.

        The probabilities may depend only on the seat's knowledge of the current play. Inside
        ``trial`` and ``repeated`` they must not depend on earlier episodes.

        Raises:
            GameError: the probabilities are unknown here.
        """
        ...


class AgentWithChances(TextAgent):
    """Base class of agents that draw an action from ``chances``.

    If any text is legal, such as for a note, the environment draws a text.
    """

    @abstractmethod
    def chances(self, state: Play, seat: int) -> dict[str, float]:
        """Return the probabilities of the legal actions; see ``HasChances``."""

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return a legal action, drawn with its probability."""
        if state.legal(seat) is None:
            return random_reply(state, seat, None, stream)
        pairs = [(action, share) for action, share in self.chances(state, seat).items() if share]
        sums = list(accumulate(share for _, share in pairs))
        return pairs[min(bisect_right(sums, stream.uniform(0) * sums[-1]), len(pairs) - 1)][0]


def legal_actions_of(name: str, state: Play, seat: int) -> tuple[str, ...]:
    """Return the legal actions of a seat, for an agent that must give their probabilities.

    Args:
        name: the agent's name, for errors.
        state: the play.
        seat: the due seat.

    Raises:
        GameError: any text is a legal reply in this state.
    """
    legal: tuple[str, ...] | None = state.legal(seat)
    if legal is None:
        raise GameError(
            f"Agent {name!r} has no exact probabilities if any text is a reply, as for seat "
            f"{seat} of {type(state).__name__} now."
        )
    return legal


def chances_of(name: str, agent: Any, state: Play, seat: int) -> dict[str, float]:
    """Return the probability that a seat's agent gives to every legal action.

    Args:
        name: the agent's name, for errors.
        agent: the seat's agent.
        state: the play, in which the seat is due.
        seat: the due seat.

    Raises:
        GameError: the agent has no ``chances``, or they are not probabilities.
        PluginError: the agent's code failed.
    """
    if not isinstance(agent, HasChances):
        raise GameError(
            f"{name!r} cannot be measured exactly, as it has no method chances(state, seat) that "
            "returns the probabilities of the legal actions."
        )
    legal = legal_actions_of(name, state, seat)
    with PluginCall(named("players", name)):
        shares = {action: float(share) for action, share in agent.chances(state, seat).items()}
    illegal_actions = [action for action in shares if action not in legal]
    if (
        illegal_actions
        or not all(share >= 0 for share in shares.values())
        or (not abs(sum(shares.values()) - 1.0) <= TOLERANCE)
    ):
        raise GameError(
            f"{name!r}: chances returned {quoted(shares)}; return probabilities of the legal "
            f"actions {', '.join(legal)} that sum to 1."
        )
    return {action: shares.get(action, 0.0) for action in legal}
