"""Keeping rules: their input, and the check of their result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import PluginError
from sparring.core.records import PlayerRef, refs
from sparring.core.rng import Stream
from sparring.league.payoffs import Payoffs


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepRequest:
    """The input of a keeping rule, after a new snapshot.

    Args:
        members: all snapshots, oldest first; the last one is new.
        keep: the largest number that may stay (``league.keep``).
        payoffs: the payoff book.
        step: number of steps done.
        stream: the stream of all draws.
        permanent_members: members that stay in any case: the learners' initial weights, and the
            snapshots of other learners of the league.
    """

    members: Sequence[PlayerRef]
    keep: int
    payoffs: Payoffs = field(default_factory=Payoffs)
    step: int = 0
    stream: Stream
    permanent_members: Sequence[PlayerRef] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", refs(self.members))
        object.__setattr__(self, "permanent_members", refs(self.permanent_members))

    @property
    def steps(self) -> tuple[int, ...]:
        """The step of each snapshot, in the order of ``members``."""
        return tuple(member.step or 0 for member in self.members)


def check_output(rule: BoundPlugin, remaining: Any, request: KeepRequest) -> None:
    """Check the result of a rule, after every call.

    Raises:
        PluginError: the result is not a tuple of at most ``keep`` different members.
    """
    if not isinstance(remaining, Sequence) or not all(isinstance(m, PlayerRef) for m in remaining):
        raise PluginError(
            f"The {rule} must return the snapshots that stay, a tuple of request.members; it "
            f"returned {remaining!r:.100}."
        )
    unknown_names = [str(member) for member in remaining if member not in request.members]
    if unknown_names:
        raise PluginError(
            f"The {rule} keeps {unknown_names[0]!r}, which is not one of the "
            f"{len(request.members)} snapshots; return some of request.members."
        )
    if len(set(remaining)) != len(remaining) or len(remaining) > request.keep:
        raise PluginError(
            f"The {rule} must keep at most {request.keep} snapshots (league.keep), each once; it "
            f"returned {', '.join(map(str, remaining))}."
        )
