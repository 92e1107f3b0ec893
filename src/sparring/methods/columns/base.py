"""What a column is computed from, and what it must be.

A column's function takes a ``Source`` and returns its numbers: one per turn [N], or one per sampled
token where its module says ``PER = "token"``. The module declares what it takes to have it:

    ASKS     parts of a run: "critic" (a value head), "reference" (the policy that the run was made
             from), "process" (the reward model), "tree" (exact evaluation of every game),
             "candidates" (a row for every reply to a prompt, not for that alone which was played),
             "playouts" (games played on from before and after every turn)
    NEEDS    other columns, which are computed before

In ``standard.py``, which holds many, the decorator ``column`` declares them of each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, Protocol

import numpy as np

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import PluginError
from sparring.core.records import Episode, FloatArray, TurnTable
from sparring.play.turn_table import ordered_turns

NEEDS_FROM = ("columns",)
Place = Literal["before", "after", "token"]
FIELDS = frozenset(field.name for field in fields(TurnTable))


class Source(Protocol):
    """What a column may be computed from.

    Attributes:
        turns: the table, with the columns that were computed before.
        episodes: whose trained turns are its rows, in the order of ``rollout.table.ordered_turns``.
    """

    turns: TurnTable
    episodes: Sequence[Episode]

    def critic(self, at: Place) -> FloatArray:
        """Return the critic's values.

        [N] before or after the turns, or one before each sampled token.
        """
        ...

    def logprobs(self, of: Literal["learner", "reference", "process"]) -> FloatArray:
        """Return the sum of a model's log-probabilities over the sampled tokens of each turn.

        Its shape is [N], in nats.
        """
        ...

    def exact(self) -> Mapping[str, FloatArray]:
        """Return the exact action_value, state_value and default_value of the turns, [N] each."""
        ...


def played_on(source: Source, name: str) -> FloatArray:
    """Return a value of every turn by playing on, [N]; see the column ``playout``.

    Args:
        source: of the column.
        name: "playout" or "playout_before".
    """
    rows = ordered_turns(source.episodes, candidates=source.turns.state_group is not None)
    found = [
        episode.returns[turn.seat]
        if turn.playout is None or turn.playout_before is None
        else getattr(turn, name)
        for episode, turn in rows
    ]
    return np.array(found, dtype=np.float64)


def column(
    *,
    asks: Collection[str] = (),
    needs: Collection[str] = (),
    per: Literal["turn", "token"] = "turn",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare ASKS, NEEDS and PER of one of several columns in a module."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        vars(function).update(ASKS=asks, NEEDS=needs, PER=per)
        return function

    return declare


def with_column(turns: TurnTable, name: str, column: FloatArray) -> TurnTable:
    """Return the table with a column more."""
    given: Mapping[str, Any] = (
        {name: column} if name in FIELDS else {"extra": {**turns.extra, name: column}}
    )
    return replace(turns, **given)


def check_output(bound: BoundPlugin, given: Any, source: Source) -> None:
    """Check what a column's function has given; every call of one ends here.

    Raises:
        PluginError: it is not one number per turn, or per sampled token.
    """
    turns, by_token = source.turns, bound.plugin.declared("PER", "turn") == "token"
    length = int(turns.n_tokens.sum()) if by_token else len(turns.reward)
    if (
        not isinstance(given, np.ndarray)
        or given.shape != (length,)
        or given.dtype.kind not in "fiub"
    ):
        found = (
            f"shape {given.shape} of {given.dtype}"
            if isinstance(given, np.ndarray)
            else type(given).__name__
        )
        what = "sampled token" if by_token else "turn"
        raise PluginError(
            f"The {bound} must give one number per {what}, an array of shape ({length},); it "
            f"gave {found}."
        )
