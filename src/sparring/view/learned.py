"""What was learned of stored episodes: rows of credit, and the scale of their colours."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparring.errors import SparringError
from sparring.rollout.credit_store import Credits, CreditStore, credits_of
from sparring.rollout.parts import DAMAGED
from sparring.view.index import CREDIT
from sparring.view.plain_files import Signature, signature
from sparring.view.runs import Run

QUANTILE = 0.9  # of absolute values, at which colours are full
KEPT = 8  # steps whose scale is remembered
Scale = dict[str, float | None]


class Scales:
    """At which values colours are full, of the steps that were looked at last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[int, int, Signature], Scale] = OrderedDict()

    def of(self, run: Run, step: int) -> Scale:
        """Return the quantile of absolute values over the stored turns of a step."""
        found = signature(CreditStore(run.path / CREDIT).path(step))
        if found is None:
            return {"advantage": None, "entropy": None}
        key = (run.number, step, found)
        with self._lock:
            if key not in self._known:
                self._known[key] = _quantiles(run, step)
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
            return self._known[key]


def credit_of(run: Run, step: int, number: int) -> Credits:
    """Return the rows of credit of an episode; nothing where they cannot be read."""
    table = _credit_table(run, step, None)
    return {} if table is None else credits_of(table, number)


def _credit_table(run: Run, step: int, only: tuple[str, ...] | None) -> pa.Table | None:
    """Return the part of credit of a step; None where it cannot be read."""
    if not run.keeps(CREDIT):
        return None
    store = CreditStore(run.path / CREDIT)
    try:
        return store.load(store.path(step), only)
    except (SparringError, *DAMAGED):
        return None


def _quantiles(run: Run, step: int) -> dict[str, float | None]:
    """Return the quantiles of absolute advantages and entropies of a step."""
    table = _credit_table(run, step, ("advantage", "entropies"))
    if table is None:
        return {"advantage": None, "entropy": None}
    advantages = table["advantage"].drop_null().to_numpy()
    entropies = pc.list_flatten(table["entropies"]).drop_null().to_numpy()
    return {"advantage": _quantile(advantages), "entropy": _quantile(entropies)}


def _quantile(values: Any) -> float | None:
    """Return the quantile of finite absolute values; None where there is none above 0."""
    sizes = np.abs(values[np.isfinite(values)])
    found = float(np.quantile(sizes, QUANTILE)) if len(sizes) else 0.0
    return found or None
