"""Agents that play in seats: their protocols, their due turns, and their replies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from sparring.config.plugins.guard import PluginCall
from sparring.config.plugins.registry import BoundPlugin, named
from sparring.core.errors import PluginError
from sparring.core.records import SampledSpan
from sparring.core.rng import Stream
from sparring.environments.base import Play
from sparring.environments.foreign import is_raised_by, lacking_error

if TYPE_CHECKING:
    from sparring.models.samplers.base import Sampler

BASE_NEEDS = {"terminal": "a person at a terminal"}  # the names that a player's NEEDS may have


class PendingTurn(NamedTuple):
    """One decision that is due.

    ``state`` is the play, see ``environments.base``. ``ids`` are the exact token ids of the seat's
    conversation for agents with a renderer, otherwise (). ``stream`` belongs only to this turn:
    draws never depend on other episodes.
    """

    state: Play
    seat: int
    stream: Stream
    ids: tuple[int, ...] = ()
    known: int = 0  # length of the prefix of ``ids`` that the agent saw at its last turn
    notice: str = ""  # the error in the seat's last reply, for agents without a renderer
    prompt: str = ""  # the prompt of this turn, for agents without a renderer
    # the earlier prompts and replies of this conversation, for agents without a renderer
    past: Callable[[], tuple[tuple[str, str], ...]] | None = None
    # the memory that the warm-up writes, if a memory is due, for agents with a renderer
    memory: str | None = None


class Reply(NamedTuple):
    """The reply of an agent; agents with tokens also return sampled ids and log-probabilities."""

    text: str
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    support: tuple[tuple[int, ...], ...] = ()
    truncated: bool = False
    weights_version: int = 0  # version of the weights that sampled the last token
    spans: tuple[SampledSpan, ...] = ()  # spans of equal weights, if they changed during the reply


class FailedPlay(NamedTuple):
    """An error that a play's code raised while an agent used the play; it replaces the reply."""

    error: Exception


class Agent(Protocol):
    """A player of a seat; the protocols ``HasSubmit`` to ``HasNotes`` below are optional abilities.

    ``renderer`` encodes texts as tokens; None for agents without tokens.
    """

    name: str
    renderer: Any

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one reply per pending turn, in order."""
        ...


@runtime_checkable
class HasSubmit(Protocol):
    """An agent that returns some replies before others, so that no episode waits for another."""

    def submit(self, turns: Sequence[PendingTurn], /) -> Iterator[Sequence[tuple[int, Reply]]]:
        """Yield replies with the indices of their turns, in any order; [] if none is complete."""
        ...


@runtime_checkable
class HasJointCall(Protocol):
    """An agent that shares one call with all agents whose ``together`` is equal."""

    @property
    def together(self) -> JointCall | None:
        """The object that calls these agents; None: the agent is called alone."""
        ...


@runtime_checkable
class HasPatience(Protocol):
    """An agent without a time limit, such as a person, if ``patient`` is true."""

    patient: bool


@runtime_checkable
class HasContext(Protocol):
    """An agent with tokens and a context strategy; None means the strategy ``full``."""

    context: BoundPlugin | None


@runtime_checkable
class HasSampler(Protocol):
    """An agent whose replies come from a sampler."""

    @property
    def sampler(self) -> Sampler:
        """The sampler, to which new weights are published."""
        ...


@runtime_checkable
class HasInFlight(Protocol):
    """An agent with a limit on the number of episodes at once; None: no limit."""

    in_flight: int | None


@runtime_checkable
class HasNotes(Protocol):
    """An agent with sentences that a report on it must state."""

    notes: Sequence[str]


def replies(name: str, agent: Agent, turns: Sequence[PendingTurn]) -> list[Reply | FailedPlay]:
    """Return an agent's reply to each pending turn, with a time limit unless it is patient.

    If a play's code raises an error, the agent is called again turn by turn, and only the faulty
    play gets no reply.

    Args:
        name: the agent's name in its seats.
        agent: the agent.
        turns: the decisions that are due.

    Raises:
        PluginError: the agent raised an error, or did not return one reply per turn.
        GameError: a user-defined environment lacks an attribute that the agent reads.
    """
    call = PluginCall(named("players", name))
    if isinstance(agent, HasPatience) and agent.patient:
        return [*agent.act(turns)]
    with call:
        results: Any = _act(agent, turns)
    invalid_replies = (
        [reply for reply in results if not isinstance(reply, Reply | FailedPlay)]
        if isinstance(results, list | tuple)
        else [results]
    )
    if invalid_replies or len(results) != len(turns):
        result_text = type(invalid_replies[0]).__name__ if invalid_replies else str(len(results))
        raise PluginError(
            f"The {call} must return a list of one Reply per turn, {len(turns)} here; it "
            f"returned {result_text}."
        )
    return [*results]


def _act(agent: Agent, turns: Sequence[PendingTurn]) -> Any:
    try:
        return agent.act(turns)
    except Exception as error:
        explanation = lacking_error(error) if isinstance(error, AttributeError) else None
        if explanation is not None:
            raise explanation from error
        if not any(is_raised_by(turn.state, error) for turn in turns):
            raise
        return [_reply_to_one_turn(agent, turn) for turn in turns]


def _reply_to_one_turn(agent: Agent, turn: PendingTurn) -> Reply | FailedPlay:
    try:
        (reply,) = agent.act([turn])
    except Exception as error:
        if not is_raised_by(turn.state, error):
            raise
        return FailedPlay(error)
    return reply


def first_ability(agent: Agent, abilities: Sequence[str]) -> str | None:
    """Return the ability that an agent defines closest to itself, or None.

    The object comes before its class, and a subclass before its base classes. If one class defines
    several abilities, the first in ``abilities`` counts.
    """
    for attributes in (getattr(agent, "__dict__", {}), *map(vars, type(agent).__mro__)):
        for ability in abilities:
            if ability in attributes:
                return ability
    return None


class AgentCall:
    """One call of an agent: its turns, and the replies as they arrive.

    An agent with a method ``submit`` gives each reply as soon as it is complete. Any other agent
    gives all replies at once, by ``act``.

    Attributes:
        name: the agent's name in its seats.
        done: whether ``take`` has returned all replies.

    Raises:
        PluginError: the agent raised an error.
    """

    __slots__ = ("_batches", "_call", "_missing_turns", "done", "name")

    def __init__(self, name: str, agent: Agent, turns: Sequence[PendingTurn]) -> None:
        self.name, self.done = name, not turns
        self._call = PluginCall(named("players", name))
        self._missing_turns = set(range(len(turns)))
        self._batches: Iterator[Sequence[tuple[int, Reply | FailedPlay]]]
        if isinstance(agent, HasSubmit) and first_ability(agent, ("submit", "act")) == "submit":
            with self._call:
                self._batches = iter(agent.submit(turns))
        else:
            self._batches = iter(([*enumerate(replies(name, agent, turns))],))

    def take(self) -> Sequence[tuple[int, Reply | FailedPlay]]:
        """Return the replies that have arrived, each with the index of its turn.

        Raises:
            PluginError: the agent raised an error, or did not give one reply per turn.
        """
        with self._call:
            batch = next(self._batches, None)
        if batch is None:
            raise self._error(f"returned no reply to turn {min(self._missing_turns)}")
        for index, reply in batch:
            if index not in self._missing_turns or not isinstance(reply, Reply | FailedPlay):
                raise self._error(f"returned {type(reply).__name__} for turn {index!r}")
            self._missing_turns.remove(index)
        self.done = not self._missing_turns
        return batch

    def close(self) -> None:
        """Drop the missing replies, and close the agent's ``submit`` if it is a generator."""
        if isinstance(self._batches, Generator):
            self._batches.close()

    def _error(self, problem: str) -> PluginError:
        return PluginError(
            f"The {self._call} {problem}; submit must yield lists of (turn, Reply), each turn once."
        )


class TextAgent:
    """Base class of agents that choose an action by the state of the play."""

    name = ""
    renderer: Any = None

    def __init__(self, name: str = "") -> None:
        self.name = name or self.name

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one reply per pending turn, in order."""
        return [Reply(text=self.choose(turn.state, turn.seat, turn.stream)) for turn in turns]

    @abstractmethod
    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return the action that this agent plays for ``seat`` in ``state``."""


AgentTurns = tuple[Agent, Sequence[PendingTurn]]  # an agent, and its due turns


class JointCall(Protocol):
    """Calls all agents with an equal ``together`` at once.

    The object must be hashable. Two agents have equal objects only if one call can serve both.
    """

    def submit(self, calls: Sequence[AgentTurns]) -> Iterator[Sequence[tuple[int, Reply]]]:
        """Yield replies with the indices of their turns, as they are finished.

        Args:
            calls: the agents and their turns. An index counts the turns of all calls in order.
        """
        ...


class JointAgent:
    """Several agents that are called together, as one agent.

    Args:
        joint_call: the object that calls them.
        agents: each agent with the number of its turns, in the order of the turns.
    """

    renderer = None  # each agent has its own

    def __init__(self, joint_call: JointCall, agents: Sequence[tuple[Agent, int]]) -> None:
        self.name = ", ".join(agent.name for agent, _ in agents)
        self._joint_call, self._agents = joint_call, agents

    def submit(self, turns: Sequence[PendingTurn]) -> Iterator[Sequence[tuple[int, Reply]]]:
        """Yield replies with the indices of their turns, as they are finished."""
        calls: list[AgentTurns] = []
        start = 0
        for agent, num_turns in self._agents:
            calls.append((agent, turns[start : start + num_turns]))
            start += num_turns
        return self._joint_call.submit(calls)

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one reply per pending turn, in order."""
        reply_at = {index: reply for replies in self.submit(turns) for index, reply in replies}
        return [reply_at[index] for index in range(len(turns))]


def joint_agents(
    num_due: Mapping[str, int], agents: Mapping[str, Agent]
) -> Iterator[tuple[tuple[str, ...], Agent]]:
    """Yield the names of the agents of each call, and the agent to call.

    Args:
        num_due: the number of due turns of each agent.
        agents: the agents by name.
    """
    names_by_call: dict[object, list[str]] = {}
    for name in num_due:
        call = _joint_call(agents[name])
        names_by_call.setdefault(name if call is None else (JointCall, call), []).append(name)
    for names in names_by_call.values():
        call = _joint_call(agents[names[0]]) if len(names) > 1 else None
        if call is None:
            yield (names[0],), agents[names[0]]
        else:
            yield tuple(names), JointAgent(call, [(agents[name], num_due[name]) for name in names])


def _joint_call(agent: Agent) -> JointCall | None:
    ability = first_ability(agent, ("together", "submit", "act"))
    return agent.together if ability == "together" and isinstance(agent, HasJointCall) else None
