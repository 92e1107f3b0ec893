"""The picture of a bargain: the pool and what it is worth to whom, the offers, the messages."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.environments.bargain.rules import KINDS, Counts, Table
from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import Said, heading, seats, table, timeline
from sparring.environments.drawing.told import due_sentence
from sparring.environments.drawing.words import wrapped

ACTS = {"offer": "offers", "accept": "accepts", "reject": "breaks off", "talk": ""}


def paint(canvas: Canvas, position: Table, seat: int | None, roles: Sequence[str]) -> None:
    """Draw a bargain.

    Args:
        canvas: to draw on.
        position: the scenario and the messages so far.
        seat: who looks: it knows its own values alone; None: nothing is hidden.
        roles: name of each seat.
    """
    scenario, due = position.scenario, () if position.done else (position.seat,)
    kinds = KINDS[: len(scenario.counts)]
    seats(canvas, roles, due, _got(position, seat))
    rows = [("", *kinds), ("pool", *map(str, scenario.counts))]
    for one, role in enumerate(roles):
        known = seat in (None, one)
        values = scenario.values[one] if known else ("?",) * len(kinds)
        rows.append((f"worth to {role}", *map(str, values)))
    for one, role in enumerate(roles):
        if (share := position.offer_of(one)) is not None:
            rows.append((f"{role} would take", *map(str, share)))
    table(canvas, rows)
    heading(canvas, "Messages", f"{len(position.said)} of {position.limit}")
    said = [
        Said(roles[number % 2], message.said or "(nothing)", seat_colour(number % 2), note)
        for number, message in enumerate(position.said)
        for note in [_note(position, number, seat)]
    ]
    timeline(canvas, said, most=8)


def describe(position: Table, seat: int | None, roles: Sequence[str]) -> str:
    """Return who is to speak, the pool, the values that are seen, and what was said last."""
    scenario = position.scenario
    parts = [due_sentence([] if position.done else [roles[position.seat]])]
    parts.append(f"The pool holds {_listed(scenario.counts)}.")
    for one, role in enumerate(roles):
        if seat in (None, one):
            parts.append(f"Each is worth {_listed(scenario.values[one])} to {role}.")
        if (share := position.offer_of(one)) is not None:
            parts.append(f"{role} would take {_listed(share)}.")
    if position.said:
        number = len(position.said) - 1
        last = wrapped(position.said[-1].said, 1, 60, 1)[0]
        parts.append(f"{roles[number % 2]} said last: {last or '(nothing)'}")
    return " ".join(parts)


def _listed(numbers: Counts) -> str:
    """Return a number per kind of item, in words."""
    return ", ".join(f"{kind} {number}" for kind, number in zip(KINDS, numbers, strict=False))


def _note(position: Table, number: int, seat: int | None) -> str:
    """Return what a message does, as far as the reader knows it.

    What is wrong with a proposal its own seat alone is told.
    """
    message = position.said[number]
    own = seat is None or number % 2 == seat
    return ACTS.get(message.act, message.act if own else "")


def _got(position: Table, seat: int | None) -> dict[int, str]:
    """Return what each seat has got, as far as the reader can count it."""
    if position.shares() is None:
        return {}
    points = enumerate(position.worth())
    return {one: f"{worth} points" for one, worth in points if seat in (None, one)}
