"""What lead and workers are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.core.records import Observation
from sparring.environments.wide_search import answers

if TYPE_CHECKING:
    from sparring.environments.wide_search.call import Call
    from sparring.environments.wide_search.play import Search

WORDS = (  # of every brief wording; then those of pages found by words, and of a table written
    *("lead", "single", "worker", "items", "workers", "waves", "find", "of", "left", "back"),
    *("call", "finish", "open", "note", "done", "noted", "page"),
)
SEARCHED = ("search", "found", "nothing", "list", "news")
WRITTEN = ("write", answers.NEXT, answers.EMPTY, answers.NONE)


def lead(play: Search) -> Observation:
    """Return what the lead is told: the task at first, then what came back."""
    rules, start = play.rules, play.start
    brief = rules.brief
    key = f"lead {_asked(play)} | {' | '.join(_waves(play))}{play.written}"
    if play.said:
        told = play.said[-1]
    elif brief:
        told = (
            f"lead items {rules.items} find {' '.join(start.columns)} workers {rules.workers} "
            f"waves {rules.waves}"
        )
    else:
        what = f"of all {start.kind} {start.asked}, {len(start.names)} of them," * bool(start.asked)
        answer = "that you write at the end" if rules.writes else "that was noted"
        told = (
            f"You lead {rules.workers} workers. A table {what or f'of {rules.items} items'} has "
            f"the columns {', '.join(start.columns)}, and its cells are to be found. When you call "
            "workers, the items that lack a cell are shared out among them evenly, they search at "
            f"once, and each has {rules.turns} turns. You may call {rules.waves} times. The result "
            f"of all is item F1 of the table {answer}."
        )
    ask = "" if brief else "Reply call N, with a number of workers, or finish."
    return Observation(told=told, ask=ask, key=key, view=told)


def _asked(play: Search) -> str:
    """Return what tells the lead's task from another of the same options."""
    start = play.start
    return f"{start.asked}: {', '.join(start.columns)}" if start.asked else f"{play.rules.items}"


def _waves(play: Search) -> tuple[str, ...]:
    """Return of each wave how many the lead called, and what it was told."""
    return tuple(f"{len(wave)}: {said}" for wave, said in zip(play.waves, play.said, strict=True))


def back(play: Search) -> str:
    """Return what the lead is told after a wave: cells that were noted, rows that are open.

    One that writes the table itself is told what the workers noted in this wave, too.
    """
    cells, left, brief = len(play.notes), len(play.open_items()), play.rules.brief
    total = len(play.start.names) * play.rules.columns
    told = (
        f"back noted {cells} left {left}"
        if brief
        else f"The workers are back. {cells} of {total} cells are noted; {left} items lack a cell."
    )
    new = play.noted(play.before) if play.rules.writes else {}
    if brief:
        rows = (f"{name} {' '.join(map(' '.join, row.items()))}" for name, row in new.items())
        return " ".join((told, *rows))
    rows = (
        f"- {name}: {'; '.join(f'{column} {value}' for column, value in row.items())}"
        for name, row in new.items()
    )
    return "\n".join((told, *rows))


def writer(play: Search) -> Observation:
    """Return what the seat that writes the table is told: what it has not heard, and the form."""
    rules, start = play.rules, play.start
    news = play.said[play.heard :] if rules.workers else ()
    key = f"{rules.roles[0]} writes {_asked(play)} | {' | '.join((*_waves(play), *play.past))}"
    if rules.brief:
        told = " ".join((*news, "write"))
        return Observation(told=told, key=key, view=told)
    told = "\n".join((*news, "The search is over. Write the table."))
    header = answers.written({}, start, brief=False)
    ask = (
        f"Reply with a markdown table that begins with these two lines, and has a line for each "
        f"of the {start.kind}; leave empty what you do not know.\n\n{header}"
    )
    return Observation(told=told, ask=ask, key=key, view=told)


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
            pages = "Search for pages, and open them." if rules.by_words else "Each has a page."
            asked = f" ({start.kind} {start.asked})" * bool(start.asked)
            told = (
                f"You are {role}. Find {' and '.join(start.columns)} of {', '.join(names)}{asked}. "
                f"{pages} What you note is kept; nobody sees anything else of your work."
            )
    else:
        told = play.ways.came(play, call)
    gap = "\n\n" if rules.by_words else " "
    told = f"{told} left {call.left}" if brief else f"{told}{gap}Turns left: {call.left}."
    ask = "" if brief else play.ways.forms(start.columns, fresh)
    key = f"{role} {call.items} | {' | '.join((*call.told, told))}"
    return Observation(told=told, ask=ask, key=key, view=told, fresh=fresh)


def idle(play: Search, seat: int) -> Observation:
    """Return what a worker knows that is not at work: nothing."""
    written = play.written if seat == 0 else ""
    return Observation(told="", key=f"{play.rules.roles[seat]} idle{written}")
