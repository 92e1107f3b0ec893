"""What sits in a seat: the pending turn it is shown, the reply it gives, and the protocol of an agent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from sparring.games.base import State
from sparring.rng import Stream

SUPPORT = True


class PendingTurn(NamedTuple):
    """One decision that is due.

    ``ids`` are the exact token ids of the seat's conversation so far, for agents with a renderer, else empty.
    ``stream`` belongs to this turn alone: draws never depend on what other games do.
    """

    state: State
    seat: int
    stream: Stream
    ids: tuple[int, ...] = ()
    known: int = 0  # length of the prefix of ``ids`` that the agent has seen at its last turn
    notice: str = ""  # for agents without a renderer: what was wrong with the seat's last reply


class Reply(NamedTuple):
    """What an agent said. Token agents also give the sampled ids and their log-probabilities."""

    text: str
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    kept: tuple[tuple[int, ...], ...] = ()
    truncated: bool = False
    weights_version: int = 0


class Agent(Protocol):
    """Anything that can sit in a seat. ``renderer`` is None for agents that do not speak in tokens."""

    name: str
    renderer: Any

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one reply per pending turn, in order."""
        ...


class TextAgent:
    """Base of agents that look at the state and say an action."""

    renderer: Any = None

    def __init__(self, name: str) -> None:
        self.name = name

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one reply per pending turn, in order."""
        return [Reply(text=self.choose(turn.state, turn.seat, turn.stream)) for turn in turns]

    @abstractmethod
    def choose(self, state: State, seat: int, stream: Stream) -> str:
        """Return the action string this agent plays for ``seat`` in ``state``."""
