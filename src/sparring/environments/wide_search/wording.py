"""What lead and workers are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.environments.wide_search.world import VALUES
from sparring.types import Observation

if TYPE_CHECKING:
    from sparring.environments.wide_search.play import Call, Search

WORDS = (
    *("lead", "single", "worker", "items", "workers", "waves", "find", "of", "left", "back"),
    *("call", "finish", "open", "note", "done", "noted", "page"),
)


def lead(play: Search) -> Observation:
    """Return what the lead is told: the task at first, then what came back."""
    rules, start = play.rules, play.start
    brief = rules.brief
    key = f"lead {rules.items} | {' | '.join(play.said)}"
    if play.said:
        told = play.said[-1]
    elif brief:
        told = (
            f"lead items {rules.items} find {' '.join(start.columns)} workers {rules.workers} "
            f"waves {rules.waves}"
        )
    else:
        told = (
            f"You lead {rules.workers} workers. A table of {rules.items} items has the columns "
            f"{', '.join(start.columns)}, and its cells are to be found. When you call workers, "
            "the items that lack a cell are shared out among them evenly, they search at once, and "
            f"each has {rules.turns} turns. You may call {rules.waves} times. The result of all is "
            "item F1 of the table that was noted."
        )
    ask = "" if brief else "Reply call N, with a number of workers, or finish."
    return Observation(told=told, ask=ask, key=key, view=told)


def back(play: Search) -> str:
    """Return what the lead is told after a wave: cells that were noted, rows that are open."""
    cells, left = len(play.notes), len(play.open_items())
    if play.rules.brief:
        return f"back noted {cells} left {left}"
    total = play.rules.items * play.rules.columns
    return f"The workers are back. {cells} of {total} cells are noted; {left} items lack a cell."


def worker(play: Search, seat: int, call: Call) -> Observation:
    """Return what a worker is told: its items at first, then what its last turn has given."""
    rules, start, brief = play.rules, play.start, play.rules.brief
    fresh = not call.told
    role = rules.roles[seat]
    if fresh:
        names = [start.names[item] for item in call.items]
        if brief:
            told = f"{role} find {' '.join(start.columns)} of {' '.join(names)}"
        else:
            told = (
                f"You are {role}. Find {' and '.join(start.columns)} of {', '.join(names)}. Each "
                "has a page. What you note is kept; nobody sees anything else of your work."
            )
    elif call.told[-1].startswith("open"):
        page = play.start.row(call.open)
        name = start.names[call.open]
        if brief:
            told = f"page {name} {' '.join(f'{one} {value}' for one, value in page.items())}"
        else:
            said = "; ".join(f"{one}: {value}" for one, value in page.items())
            told = f"The page of {name}. {said}."
    else:
        told = "noted" if brief else "Noted."
    told = f"{told} left {call.left}" if brief else f"{told} Turns left: {call.left}."
    ask = "" if brief else _forms(start.columns)
    key = f"{role} {call.items} | {' | '.join((*call.told, told))}"
    return Observation(told=told, ask=ask, key=key, view=told, fresh=fresh)


def idle(play: Search, seat: int) -> Observation:
    """Return what a worker knows that is not at work: nothing."""
    return Observation(told="", key=f"{play.rules.roles[seat]} idle")


def _forms(columns: tuple[str, ...]) -> str:
    """Return the forms of a worker's replies, in full style."""
    listed = "; ".join(f"{name} is one of {', '.join(VALUES[name])}" for name in columns)
    return (
        "Reply open NAME to read a page, note COLUMN VALUE to note a cell of the page that is "
        f"open, or done. Values: {listed}. For example: note {columns[0]} {VALUES[columns[0]][0]}"
    )
