"""Episodes that share a start, and where they part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from sparring.errors import SparringError
from sparring.rollout.parts import DAMAGED
from sparring.rollout.store import EpisodeStore
from sparring.view.answers import Refused
from sparring.view.index import EPISODES, why_left_out
from sparring.view.runs import Run


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
    store = EpisodeStore(run.path / EPISODES)
    path = store.path(step)
    if not path.is_file() or not run.keeps(EPISODES):
        raise Refused(404, f"step {step} is not stored, or no longer")
    only = ("episode_id", "group_id", "seat", "committed", "action", "event", "returns")
    try:
        table = store.load(path, only)
    except (SparringError, *DAMAGED) as error:
        raise Refused(404, f"{path.name} cannot be read: {why_left_out(error, path)}") from None
    rows = table.filter(pc.equal(table["group_id"], group)).to_pylist()
    if not rows:
        raise Refused(404, f"step {step} has no group {group}")
    members: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["committed"]:
            own = members.setdefault(row["episode_id"], _member(row))
            own["turns"] += 1
            own["illegal"] += row["event"] in ("illegal", "unparsable")
            own["actions"].append(row["action"] if seat in (None, row["seat"]) else None)
    lines = [own["actions"] for own in members.values()]
    part = _parting(lines)
    return {"group": group, "step": step, "part": part, "members": list(members.values())}


def _member(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sibling that has no turns yet."""
    return {
        "episode": row["episode_id"],
        "returns": row["returns"],
        "turns": 0,
        "illegal": 0,
        "actions": [],
    }


def _parting(lines: list[list[Any]]) -> int | None:
    """Return the first place where lines are not all the same; None where they are."""
    for place in range(max(map(len, lines))):
        if len({line[place] if place < len(line) else ... for line in lines}) > 1:
            return place
    return None
