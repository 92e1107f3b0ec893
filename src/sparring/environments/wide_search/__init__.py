"""A lead that calls workers, who search for the cells of a table at once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.environments.bank import BANKS
from sparring.environments.wide_search.rules import WideSearch
from sparring.environments.wide_search.world import COLUMNS, NAMES


def wide_search(
    *,
    items: Annotated[int, Field(ge=1, le=len(NAMES))] = 8,
    columns: Annotated[int, Field(ge=1, le=len(COLUMNS))] = 2,
    workers: Annotated[int, Field(ge=0, le=16)] = 4,
    turns: Annotated[int, Field(ge=1, le=1000)] = 6,
    waves: Annotated[int, Field(ge=1, le=100)] = 2,
    critical: Annotated[int, Field(ge=0, le=100_000)] = 0,
    worlds: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000,
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0,
    style: Literal["brief", "full"] = "brief",
) -> WideSearch:
    """A table is to be found: a lead calls workers, who read pages at once and note cells.

    What: a world of things with invented names has a page on each. The lead says how many workers
    it calls; the rows that lack a cell are shared out among them evenly, and they search at once.
    A worker begins a fresh conversation at every call, opens pages, notes values and is done, or
    has no turns left. Then the lead is told how many cells are noted, and calls again or finishes.
    The table that the notes make is the answer.
    When to use: to train teams whose size is theirs to choose (WideSeek-R1; Agent Swarm, with the
    workers frozen), and to compare them with one agent that does all of it alone: ``workers: 0``
    has one seat, with ``turns`` turns in all.
    Mathematics: the return of every seat is item F1, of E true rows, M rows of the answer and A
    columns beside the name:

        TP = sum over rows of the answer of 1 + its right cells
        P = TP / (M (1 + A)),    R = TP / (E (1 + A)),    item F1 = 2 P R / (P + R)

        critical steps = the lead's turns + sum over waves of the turns of its slowest worker

    Figures: item_f1, precision, recall, non_key_f1, row_f1, success, waves, width (of the widest
    wave), critical_steps, total_steps, and found, the right cells that each seat noted. Also called
    (how often a worker was), finished (calls of a worker that noted a right cell), parallel (width
    as a share of what it may be, from 0 for one worker) and finished_share (of the calls).
    Pitfalls: names of found rows count as right cells, so that a row with wrong values is still
    worth something; non_key_f1 leaves names out. Two workers never have the same row, so that they
    cannot disagree. The lead sees no cell, so it decides by numbers alone.
    Reference: WideSeek-R1 (arXiv 2602.04634); Kimi K2.5's critical steps (arXiv 2602.02276).
    Verified by: tests/environments/test_wide_search.py.

    Args:
        items: rows of the table, 1 to 48.
        columns: cells of a row beside its name, 1 to 4: colour, size, food, place.
        workers: most workers of a call, 0 to 16; 0: one seat, "single", works alone.
        turns: of a worker at each call, 1 to 1000. A row takes one turn to open and one for each
            cell.
        waves: calls of the lead, 1 to 100.
        critical: critical steps after which the play ends; 0 (default): no limit.
        worlds: worlds in the bank, 1 to 10,000,000.
        bank: number of the bank, below 2^31; another one has other worlds.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """
    return WideSearch(
        items=items,
        columns=columns,
        workers=workers,
        turns=turns,
        waves=waves,
        critical=critical,
        worlds=worlds,
        bank=bank,
        style=style,
    )
