"""What sits in a seat.

The pending turn it is shown, the reply it gives, and the protocol of an agent.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from sparring.config.plugins.guard import PluginCall
from sparring.config.plugins.registry import named
from sparring.core.errors import PluginError
from sparring.core.records import SampledRun
from sparring.core.rng import Stream
from sparring.environments.base import Play
from sparring.environments.foreign import is_raised_by, lacking_error

if TYPE_CHECKING:
    from sparring.models.samplers.base import Sampler

GIVEN = {"terminal": "a person at a terminal"}  # what NEEDS may name


class PendingTurn(NamedTuple):
    """One decision that is due.

    ``state`` is the play, see ``environments.base``. ``ids`` are the exact token ids of the seat's
    conversation so far, for agents with a renderer, else empty. ``stream`` belongs to this turn
    alone: draws never depend on what other games do.
    """

    state: Play
    seat: int
    stream: Stream
    ids: tuple[int, ...] = ()
    known: int = 0  # length of the prefix of ``ids`` that the agent has seen at its last turn
    notice: str = ""  # for agents without a renderer: what was wrong with the seat's last reply
    told: str = ""  # for agents without a renderer: what the seat is told at this turn
    # for agents without a renderer: what the seat was told and has replied in this conversation
    past: Callable[[], tuple[tuple[str, str], ...]] | None = None
    # for agents with a renderer: where a memory is asked for and no action, what the warm-up writes
    memory: str | None = None


class Reply(NamedTuple):
    """What an agent said. Token agents also give the sampled ids and their log-probabilities."""

    text: str
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    kept: tuple[tuple[int, ...], ...] = ()
    truncated: bool = False
    weights_version: int = 0  # of the last token
    runs: tuple[SampledRun, ...] = ()  # of one that went on over a change of weights


class Failed(NamedTuple):
    """What stands in place of a reply where the play's own code raised while an agent asked it."""

    error: Exception


# gives replies with the places of their turns as they come, in any order; an empty list where none
# has come for a moment
Submit = Callable[[Sequence["PendingTurn"]], Iterator[Sequence[tuple[int, "Reply"]]]]


class Agent(Protocol):
    """Anything that can sit in a seat.

    ``renderer`` is None for agents that do not speak in tokens. One that answers some turns before
    others may have a method ``submit`` too, a ``Submit``: then no play waits for another's reply.
    One that speaks in tokens may have ``context``, a context strategy; without it, it sees its
    whole past. One that may be asked in one call with others has ``together``, see
    ``Together``.
    """

    name: str
    renderer: Any

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one reply per pending turn, in order."""
        ...


@runtime_checkable
class HasSampler(Protocol):
    """An agent whose replies a sampler draws."""

    @property
    def sampler(self) -> Sampler:
        """The sampler; new weights are published to it."""
        ...


@runtime_checkable
class HasNotes(Protocol):
    """An agent with remarks that an evaluation reports once."""

    @property
    def notes(self) -> Sequence[str]:
        """The remarks, such as that of a meta-solver that stopped early."""
        ...


def replies(name: str, agent: Agent, turns: Sequence[PendingTurn]) -> list[Reply | Failed]:
    """Return what an agent says to the pending turns, under a watch unless it waits for a person.

    Where a play's own code raises while it is asked, the agent is asked for each turn alone, and
    the others are answered.

    Args:
        name: what the agent is seated under.
        agent: who is asked.
        turns: the decisions that are due.

    Raises:
        PluginError: the agent raised, or gave anything but one reply per turn.
        GameError: an environment of one's own lacks what the agent asks of it.
    """
    call = PluginCall(named("players", name))
    if getattr(agent, "patient", False):
        return [*agent.act(turns)]
    with call:
        said: Any = _act(agent, turns)
    wrong = (
        [reply for reply in said if not isinstance(reply, Reply | Failed)]
        if isinstance(said, list | tuple)
        else [said]
    )
    if wrong or len(said) != len(turns):
        given = f"{type(wrong[0]).__name__}" if wrong else f"{len(said)}"
        raise PluginError(
            f"The {call} must give a list of one Reply per turn, {len(turns)} here; it "
            f"gave {given}."
        )
    return [*said]


def _act(agent: Agent, turns: Sequence[PendingTurn]) -> Any:
    """Return what an agent gives for these turns, or for each of them where a play is at fault."""
    try:
        return agent.act(turns)
    except Exception as error:
        lacking = lacking_error(error) if isinstance(error, AttributeError) else None
        if lacking is not None:
            raise lacking from error
        if not any(is_raised_by(turn.state, error) for turn in turns):
            raise
        return [_alone(agent, turn) for turn in turns]


def _alone(agent: Agent, turn: PendingTurn) -> Reply | Failed:
    """Return the reply to one turn, or that its play is at fault."""
    try:
        (reply,) = agent.act([turn])
    except Exception as error:
        if not is_raised_by(turn.state, error):
            raise
        return Failed(error)
    return reply


def gives(agent: Agent, ways: Sequence[str]) -> str | None:
    """Return by which of these ways an agent is to be asked: the first that its class has.

    What a subclass has, or the object itself, replaces what stands above it.
    """
    for names in (getattr(agent, "__dict__", {}), *map(vars, type(agent).__mro__)):
        for way in ways:
            if way in names:
                return way
    return None


class Flight:
    """Turns that were given to an agent, and the replies to them as they come.

    An agent with a method ``submit`` gives each reply as soon as it is there; any other gives all
    by ``act``.

    Attributes:
        name: what the agent is seated under.
        done: whether all replies were taken.

    Raises:
        PluginError: the agent raised.
    """

    __slots__ = ("_call", "_coming", "_left", "done", "name")

    def __init__(self, name: str, agent: Agent, turns: Sequence[PendingTurn]) -> None:
        self.name, self.done = name, not turns
        self._call = PluginCall(named("players", name))
        self._left = set(range(len(turns)))
        found = gives(agent, ("submit", "act"))
        submit: Submit | None = getattr(agent, "submit", None) if found == "submit" else None
        self._coming: Iterator[Sequence[tuple[int, Reply | Failed]]]
        if submit is None:
            self._coming = iter(([*enumerate(replies(name, agent, turns))],))
        else:
            with self._call:
                self._coming = iter(submit(turns))

    def take(self) -> Sequence[tuple[int, Reply | Failed]]:
        """Return replies that have come, with the places of their turns; none if there are none.

        Raises:
            PluginError: the agent raised, or gave anything but one reply per turn.
        """
        with self._call:
            found = next(self._coming, None)
        if found is None:
            raise self._wrong(f"gave no reply to turn {min(self._left)} of those it was given")
        for place, reply in found:
            if place not in self._left or not isinstance(reply, Reply | Failed):
                raise self._wrong(f"gave {type(reply).__name__} for place {place!r}")
            self._left.remove(place)
        self.done = not self._left
        return found

    def close(self) -> None:
        """Give up what has not come; the agent's ``submit`` ends there if it is a generator."""
        if isinstance(self._coming, Generator):
            self._coming.close()

    def _wrong(self, what: str) -> PluginError:
        return PluginError(
            f"The {self._call} {what}; submit must yield lists of (place, Reply), each place once."
        )


class TextAgent:
    """Base of agents that look at the state and say an action."""

    name = ""
    renderer: Any = None

    def __init__(self, name: str = "") -> None:
        self.name = name or self.name

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one reply per pending turn, in order."""
        return [Reply(text=self.choose(turn.state, turn.seat, turn.stream)) for turn in turns]

    @abstractmethod
    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return the action string this agent plays for ``seat`` in ``state``."""


Asked = tuple[Agent, Sequence[PendingTurn]]  # an agent, and its turns that are due


class Together(Protocol):
    """Asks several agents at once. Agents that have equal ones as ``together`` are asked by it.

    It must have a hash, and be equal to that of another agent only where both can be asked so.
    """

    def submit(self, asked: Sequence[Asked]) -> Iterator[Sequence[tuple[int, Reply]]]:
        """Yield replies with the places of their turns, as they are finished.

        Places count through the turns of all agents, those of the first agent first.

        Args:
            asked: the agents and their turns.
        """
        ...


class Party:
    """Several agents that are asked together, as one agent.

    Args:
        by: asks them.
        agents: each with the number of its turns; those of the first come first.
    """

    renderer = None  # each has its own

    def __init__(self, by: Together, agents: Sequence[tuple[Agent, int]]) -> None:
        self.name = ", ".join(agent.name for agent, _ in agents)
        self._by, self._agents = by, agents

    def submit(self, turns: Sequence[PendingTurn]) -> Iterator[Sequence[tuple[int, Reply]]]:
        """Yield replies with the places of their turns, as they are finished."""
        asked: list[Asked] = []
        begin = 0
        for agent, count in self._agents:
            asked.append((agent, turns[begin : begin + count]))
            begin += count
        return self._by.submit(asked)

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one reply per pending turn, in order."""
        found = {place: reply for replies in self.submit(turns) for place, reply in replies}
        return [found[place] for place in range(len(turns))]


def parties(
    due: Mapping[str, int], agents: Mapping[str, Agent]
) -> Iterator[tuple[tuple[str, ...], Agent]]:
    """Yield who is asked in one call, by name, and the agent to ask; in order of the first of each.

    Args:
        due: the number of turns that are due for each agent.
        agents: by the same names.
    """
    found: dict[object, list[str]] = {}
    for name in due:
        by = _together(agents[name])
        found.setdefault(name if by is None else (Together, by), []).append(name)
    for names in found.values():
        by = _together(agents[names[0]]) if len(names) > 1 else None
        if by is None:
            yield (names[0],), agents[names[0]]
        else:
            yield tuple(names), Party(by, [(agents[name], due[name]) for name in names])


def _together(agent: Agent) -> Together | None:
    """Return what asks an agent together with others; None where it is asked alone."""
    if gives(agent, ("together", "submit", "act")) != "together":
        return None
    found: Together | None = getattr(agent, "together", None)
    return found
