"""Agents that are asked in one call.

Members of a league may be adapters over one base, or models of one server. What is due for several
of them at one time is then one batch of their backend, in place of one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from sparring.players.base import Agent, PendingTurn, Reply, gives

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
    """Return what asks an agent together with others; None where it is asked alone.

    An ``act`` or a ``submit`` of a subclass counts for more.
    """
    if gives(agent, ("together", "submit", "act")) != "together":
        return None
    found: Together | None = getattr(agent, "together", None)
    return found
