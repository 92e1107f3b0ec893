"""Turn tables, advantages and losses, without the libraries of models and environments.

Numpy and pydantic are enough for tables and advantages; losses need torch too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, CreditError, quoted
from sparring.core.records import Credit, Episode, TurnTable
from sparring.methods.columns.arrays import table_of_arrays
from sparring.play.turn_table import turn_table as make_turn_table

if TYPE_CHECKING:
    from sparring.methods.losses.base import LossBatch, LossTerm


def turn_table(
    episodes: Sequence[Episode] | None = None, *, candidates: bool = False, **columns: Any
) -> TurnTable:
    """Return the turns of trained seats as columns, sorted by episode, seat and turn.

    Args:
        episodes: the episodes; each turn of a trained seat is a row.
        candidates: whether candidate replies that were not played are rows too, for estimators
            that compare candidates.
        columns: replaces ``episodes``: arrays with one entry per turn; ``reward`` and
            ``episode`` are needed. See ``sparring.methods.columns.arrays.table_of_arrays``.

    Raises:
        ConfigError: the arguments are not episodes, or a column has another length.
        UnknownNameError: there is no such column.
    """
    if episodes is None and columns:
        missing_names = [name for name in ("reward", "episode") if name not in columns]
        if missing_names:
            raise ConfigError(
                f"turn_table() of arrays needs {missing_names[0]!r}; write "
                "turn_table(reward=[...], episode=[...])."
            )
        return table_of_arrays(**columns)
    if (
        not isinstance(episodes, Sequence)
        or columns
        or not all(isinstance(episode, Episode) for episode in episodes)
    ):
        raise ConfigError(
            f"turn_table() takes a list of episodes, not a {type(episodes).__name__}; write "
            "turn_table(play_episodes(...)), or turn_table(reward=[...], episode=[...])."
        )
    return make_turn_table(episodes, candidates=candidates)


def advantages(
    estimator: str, turns: TurnTable, state: Mapping[str, Any] | None = None, **options: Any
) -> Credit:
    """Return the advantages of an estimator on a turn table.

    Args:
        estimator: name of the estimator, or name and preset, e.g. "mars", "mars:as_released" or
            "my_package.my_estimator".
        turns: the turn table.
        state: the state that the previous call returned, for estimators that keep a state.
        options: options of the estimator.

    Raises:
        UnknownNameError: there is no such estimator, preset or option.
        CreditError: the estimator cannot use this table: e.g. a critic's column is missing, or the
            table holds candidates, which this estimator does not read.
    """
    if not isinstance(estimator, str) or not isinstance(turns, TurnTable):
        arguments = f"{quoted(estimator)} and a {type(turns).__name__}"
        raise ConfigError(
            f"advantages() takes an estimator's name and a turn table, not {arguments}; write "
            "advantages('mars', turns)."
        )
    name, _, preset = estimator.partition(":")
    plugin = registry.bind("credit", name, options, preset=preset or None)
    if turns.state_group is not None and "candidates" not in registry.required_services(plugin):
        raise CreditError(
            f"credit {name!r} reads only played turns, but this table also holds the candidates "
            "that were not played; leave candidates=True out of turn_table()."
        )
    credit: Credit = plugin(turns, dict(state or {}))
    return credit


def loss(name: str, batch: LossBatch, **options: Any) -> LossTerm:
    """Return the loss term of a batch of tokens; its ``values`` carry gradients.

    Args:
        name: name of the loss, e.g. "ppo_clip".
        batch: the tokens; ``sparring.methods.losses.base.LossBatch`` describes the fields.
        options: options of the loss.

    Raises:
        UnknownNameError: there is no such loss or option.
    """
    term: LossTerm = registry.bind("losses", name, options)(batch)
    return term
