"""Named parts of a turn's reward, for estimators that treat them apart."""

from __future__ import annotations

import numpy as np

from sparring.errors import CreditError
from sparring.types import FloatArray, TurnTable


def component(turns: TurnTable, method: str, name: str) -> FloatArray:
    """Return a named part of the reward, [N].

    Args:
        turns: the table.
        method: name of the estimator, for messages.
        name: the part; the components of an empty table are empty.

    Raises:
        CreditError: no turn has this part, or it is not finite.
    """
    if name not in turns.components:
        if not len(turns.reward):
            return np.zeros(0)
        known = ", ".join(sorted(turns.components)) or "none"
        raise CreditError(
            f"credit {method!r}: no reward component {name!r} (there are: {known}); name one of "
            "them, or add it to rewards. A reward that abstained on every turn gives none."
        )
    values = turns.components[name]
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise CreditError(
            f"credit {method!r}: component {name!r} is {values[wrong[0]]} in row {wrong[0]}; mend "
            "the reward that gave it."
        )
    return values
