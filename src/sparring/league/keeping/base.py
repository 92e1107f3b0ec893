"""What a keeping rule is asked, and what it answers."""

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
    """A snapshot has been taken: which ones stay?

    Args:
        members: all snapshots, oldest first; the last one is new.
        keep: how many may stay (``league.keep``).
        payoffs: how plays between players have ended.
        step: steps done.
        stream: what is drawn comes from here.
        others: members that stay in any case: the learners' starts, and the snapshots of other
            learners of the league.
    """

    members: Sequence[PlayerRef]
    keep: int
    payoffs: Payoffs = field(default_factory=Payoffs)
    step: int = 0
    stream: Stream
    others: Sequence[PlayerRef] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", refs(self.members))
        object.__setattr__(self, "others", refs(self.others))

    @property
    def steps(self) -> tuple[int, ...]:
        """The step that each snapshot was taken at, in the order of ``members``."""
        return tuple(member.step or 0 for member in self.members)


def check_output(rule: BoundPlugin, kept: Any, request: KeepRequest) -> None:
    """Check that a rule has named snapshots that there are, and not too many.

    Every call of one ends here.

    Raises:
        PluginError: it gave something else.
    """
    if not isinstance(kept, Sequence) or not all(isinstance(m, PlayerRef) for m in kept):
        raise PluginError(
            f"The {rule} must return the snapshots that stay, a tuple of request.members; it "
            f"returned {kept!r:.100}."
        )
    unknown = [str(member) for member in kept if member not in request.members]
    if unknown:
        raise PluginError(
            f"The {rule} keeps {unknown[0]!r}, which is none of the {len(request.members)} "
            "snapshots; return some of request.members."
        )
    if len(set(kept)) != len(kept) or len(kept) > request.keep:
        raise PluginError(
            f"The {rule} must keep at most {request.keep} snapshots (league.keep), each once; it "
            f"gave {', '.join(map(str, kept))}."
        )
