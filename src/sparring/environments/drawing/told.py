"""The picture of a play that brings none: what was told and said, as a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sparring.environments.base import Play
from sparring.environments.drawing.canvas import Canvas, Theme, seat_colour
from sparring.environments.drawing.pieces import Said, paragraph, seats, timeline
from sparring.environments.drawing.words import visible, wrapped

LINES = 3  # of a told text or a reply that are shown


class Exchange(NamedTuple):
    """What a seat was told at one of its turns, and what it replied."""

    seat: int
    told: str
    reply: str


def draw_told(
    play: Play,
    roles: Sequence[str],
    seat: int | None,
    theme: Theme = "light",
    past: Sequence[Exchange] = (),
) -> str:
    """Return the picture of any play.

    Args:
        play: it need not be ``Drawable``.
        roles: name of each seat.
        seat: who looks; None: nothing is hidden.
        theme: "light" or "dark".
        past: the turns so far, of all seats; a seat is shown its own.
    """
    if hasattr(play, "draw"):
        drawn: str = play.draw(seat, theme)
        return drawn
    canvas, due = Canvas(theme), tuple(play.due())
    notes = {}
    if seat is None:
        notes = {number: f"{value:+g}" for number, value in enumerate(play.returns)}
    seats(canvas, roles, due, notes)
    messages: list[Said] = []
    for one in past:
        if seat in (None, one.seat):
            messages += _messages(roles, one.seat, one.told)
            messages.append(Said(roles[one.seat], one.reply, seat_colour(one.seat)))
    for number in due:
        if seat in (None, number):
            messages += _messages(roles, number, play.observe(number).text)
    timeline(canvas, messages, lines=LINES)
    if not messages:
        paragraph(canvas, _standing(roles, due), colour="dim")
    return canvas.svg(describe_told(play, roles, seat, past))


def describe_told(
    play: Play, roles: Sequence[str], seat: int | None, past: Sequence[Exchange] = ()
) -> str:
    """Return the position of any play in a sentence or two; see ``draw_told``."""
    if hasattr(play, "described"):
        said: str = play.described(seat)
        return said
    due = tuple(play.due())
    asked = [number for number in due if seat in (None, number)]
    if asked:
        (line,) = wrapped(play.observe(asked[0]).text, 1, 80, 1)
        return f"{_standing(roles, due)} {roles[asked[0]]} is told: {line}"
    own = [one for one in past if seat in (None, one.seat)]
    last = ""
    if own:
        last = f" {roles[own[-1].seat]} said last: {wrapped(own[-1].reply, 1, 80, 1)[0]}"
    return f"{_standing(roles, due)}{last}"


def _messages(roles: Sequence[str], seat: int, told: str) -> list[Said]:
    return [Said(f"told to {roles[seat]}", told)] if visible(told) else []


def _standing(roles: Sequence[str], due: Sequence[int]) -> str:
    return due_sentence([roles[number] for number in due])


def due_sentence(names: Sequence[str]) -> str:
    """Return the sentence that says who is to act: nobody is when the play is over."""
    if not names:
        return "The play is over."
    if len(names) == 1:
        return f"{names[0]} is to act."
    return f"{', '.join(names[:-1])} and {names[-1]} are to act at once."


def ended(
    plays: Sequence[Any], roles: Sequence[str], seat: int | None, word: str, most: int
) -> list[Said]:
    """Return plays that are over as messages, as a seat knows them; None: nothing is hidden.

    Args:
        plays: in order.
        roles: name of each seat.
        seat: who looks.
        word: what such a play is called.
        most: the latest ones, which are worded; those before are empty messages.
    """
    hidden = max(0, len(plays) - most)
    said = [Said("", "")] * hidden
    for number, play in enumerate(plays[hidden:], start=hidden + 1):
        text = describe_told(play, roles, seat).removeprefix("The play is over.").strip()
        got = play.returns if seat is None else play.returns[seat : seat + 1]
        note = " and ".join(f"{value:+g}" for value in got)
        said.append(Said(f"{word} {number}", text, note=note))
    return said
