"""Interface of column plug-ins: input, declarations and checks.

A column's function takes a ``ColumnSource`` and returns its numbers: one per turn [N], or one per
sampled token if the module declares ``PER = "token"``. The module also declares its needs:

    REQUIRED_SERVICES
             parts of a run: "critic" (a value head), "reference" (the initial policy), "process"
             (the reward model), "tree" (exact evaluation of every game), "candidates" (a row for
             every reply to a prompt), "playouts" (starting before and after every turn)
    NEEDS    other columns, which are computed first

``standard.py`` holds many columns and declares these by the decorator ``column``.
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
ValuePosition = Literal["before", "after", "token"]
FIELDS = frozenset(field.name for field in fields(TurnTable))


class ColumnSource(Protocol):
    """Input of a column's function.

    Attributes:
        turns: the turn table, with the columns computed so far.
        episodes: the episodes; the table's rows are their trained turns, in the order of
            ``ordered_turns``.
    """

    turns: TurnTable
    episodes: Sequence[Episode]

    def critic(self, position: ValuePosition) -> FloatArray:
        """Return the critic's values: [N] before or after the turns, or one per sampled token."""
        ...

    def logprobs(self, of: Literal["learner", "reference", "process"]) -> FloatArray:
        """Return a model's log-probability of each turn's sampled tokens, summed, [N], in nats."""
        ...

    def exact(self) -> Mapping[str, FloatArray]:
        """Return the exact action_value, state_value and default_value of the turns, [N] each."""
        ...


def playout_values(source: ColumnSource, name: str) -> FloatArray:
    """Return the mean return of the playouts after or before every turn, [N].

    Args:
        source: the column's input.
        name: "playout" for playouts after the turn, or "playout_before".
    """
    rows = ordered_turns(source.episodes, candidates=source.turns.state_group is not None)
    values = [
        episode.returns[turn.seat]
        if turn.playout is None or turn.playout_before is None
        else getattr(turn, name)
        for episode, turn in rows
    ]
    return np.array(values, dtype=np.float64)


def column(
    *,
    required_services: Collection[str] = (),
    needs: Collection[str] = (),
    per: Literal["turn", "token"] = "turn",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare REQUIRED_SERVICES, NEEDS and PER of one column in a module of several columns."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        vars(function).update(REQUIRED_SERVICES=required_services, NEEDS=needs, PER=per)
        return function

    return declare


def with_column(turns: TurnTable, name: str, column: FloatArray) -> TurnTable:
    """Return the table with one more column."""
    changes: Mapping[str, Any] = (
        {name: column} if name in FIELDS else {"extra": {**turns.extra, name: column}}
    )
    return replace(turns, **changes)


def check_output(bound: BoundPlugin, output: Any, source: ColumnSource) -> None:
    """Check the output of a column's function, after every call.

    Raises:
        PluginError: the output is not one number per turn, or per sampled token.
    """
    turns, by_token = source.turns, bound.plugin.declared("PER", "turn") == "token"
    length = int(turns.n_tokens.sum()) if by_token else len(turns.reward)
    if (
        not isinstance(output, np.ndarray)
        or output.shape != (length,)
        or output.dtype.kind not in "fiub"
    ):
        actual = (
            f"shape {output.shape} of {output.dtype}"
            if isinstance(output, np.ndarray)
            else type(output).__name__
        )
        unit = "sampled token" if by_token else "turn"
        raise PluginError(
            f"The {bound} must return one number per {unit}, an array of shape ({length},); it "
            f"returned {actual}."
        )
