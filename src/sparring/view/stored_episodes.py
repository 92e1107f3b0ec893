"""The stored episodes of a run as pages show them: what was learned, and those of one start."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparring.core.errors import SparringError
from sparring.core.records import Episode
from sparring.play.credit_store import Credits, CreditStore, credits_of
from sparring.play.parquet_parts import DAMAGED
from sparring.play.store import EpisodeStore
from sparring.view.answers import Refused
from sparring.view.index import CREDIT, EPISODES, why_left_out
from sparring.view.plain_files import Signature, signature
from sparring.view.runs import Run

T = TypeVar("T")
KEPT = 8  # episodes, and scales of steps, that are remembered
Key = tuple[str, int, int, Signature | None, Signature | None]
QUANTILE = 0.9  # of absolute values, at which colours are full
Scale = dict[str, float | None]


class StoredEpisode(NamedTuple):
    """A stored episode, with what was learned of it."""

    episode: Episode
    credit: Credits


class Episodes:
    """The episodes that were read last; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Key, StoredEpisode] = OrderedDict()

    def find(self, run: Run, step: int, number: int) -> StoredEpisode:
        """Return a stored episode; it is read again when its files have changed.

        Args:
            run: that played it.
            step: it was played in.
            number: of the episode.

        Raises:
            Refused: there is none, or its part cannot be read.
        """
        path = EpisodeStore(run.path / EPISODES).path(step)
        credit = CreditStore(run.path / CREDIT).path(step)
        key = (str(path), step, number, signature(path), signature(credit))
        with self._lock:
            known = self._known.get(key)
        if known is not None and run.keeps(EPISODES):
            return known
        found = _read(run, step, number)
        with self._lock:
            self._known[key] = found
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found


def _read(run: Run, step: int, number: int) -> StoredEpisode:
    episode = _from_part(run, step, lambda store, path: store.one(step, number))
    if episode is None:
        raise Refused(404, f"step {step} has no episode {number}")
    return StoredEpisode(episode, credit_of(run, step, number))


def _from_part(run: Run, step: int, read: Callable[[EpisodeStore, Path], T]) -> T:
    """Return what is read of the stored part of a step.

    Raises:
        Refused: there is none, or it cannot be read.
    """
    store = EpisodeStore(run.path / EPISODES)
    path = store.path(step)
    if not path.is_file() or not run.keeps(EPISODES):
        raise Refused(404, f"step {step} is not stored, or no longer")
    try:
        return read(store, path)
    except (SparringError, *DAMAGED) as error:
        raise Refused(404, f"{path.name} cannot be read: {why_left_out(error, path)}") from None


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


def siblings(run: Run, step: int, group: int, seat: int | None) -> dict[str, Any]:
    """Return the episodes of a step that share a start, and where they part.

    Args:
        run: that played them.
        step: they were played in.
        group: its number.
        seat: whose actions are told; None tells all.

    Raises:
        Refused: there is no such group, or its part cannot be read.
    """
    only = ("episode_id", "group_id", "seat", "committed", "action", "event", "returns")
    table = _from_part(run, step, lambda store, path: store.load(path, only))
    rows = table.filter(pc.equal(table["group_id"], group)).to_pylist()
    if not rows:
        raise Refused(404, f"step {step} has no group {group}")
    members: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["committed"]:
            number = row["episode_id"]
            new = {"episode": number, "returns": row["returns"], "turns": 0, "illegal": 0}
            member = members.setdefault(number, {**new, "actions": []})
            member["turns"] += 1
            member["illegal"] += row["event"] in ("illegal", "unparsable")
            member["actions"].append(row["action"] if seat in (None, row["seat"]) else None)
    lines = [member["actions"] for member in members.values()]
    part = _parting(lines)
    return {"group": group, "step": step, "part": part, "members": list(members.values())}


def _parting(lines: list[list[Any]]) -> int | None:
    """Return the first place where lines are not all the same; None where they are."""
    for place in range(max(map(len, lines))):
        if len({line[place] if place < len(line) else ... for line in lines}) > 1:
            return place
    return None
