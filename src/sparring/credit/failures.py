"""Which turns carry loss where conversations were ended by limits."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.types import BoolArray, TurnTable

Trains = Literal["all", "unfailed", "as_released"]
TRAINS_NEEDS: dict[str, set[str]] = {  # columns
    "unfailed": {"failed"},
    "as_released": {"wideseek_turns"},
}


def trained_turns(turns: TurnTable, trains: Trains) -> BoolArray | None:
    """Return which turns carry loss, [N]; None: all.

    Args:
        turns: the table, with the column that ``TRAINS_NEEDS`` names.
        trains: the rule.

    Raises:
        CreditError: the column is not there.
    """
    if trains == "all":
        return None
    if trains == "unfailed":
        return ~np.asarray(turns.column("failed"), dtype=bool)
    return np.asarray(turns.column("wideseek_turns"), dtype=bool)


def trained_share(trained: BoolArray | None) -> dict[str, float]:
    """Return the metric of it, where some turns may be left out."""
    if trained is None or not len(trained):
        return {}
    return {"trained_share": float(trained.mean())}
