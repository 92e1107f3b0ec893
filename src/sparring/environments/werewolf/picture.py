"""The picture of Werewolf: who knows what, says what, votes whom."""

from __future__ import annotations

from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import Said, heading, printed, table, timeline
from sparring.environments.drawing.told import due_sentence
from sparring.environments.werewolf.names import name_of
from sparring.environments.werewolf.rules import DEDUCED, NIGHT, Event, Position
from sparring.environments.werewolf.setup import NOBODY, SEER, WOLF, WOLVES
from sparring.environments.werewolf.wording import full_event, thoughts


def paint(canvas: Canvas, position: Position, seat: int | None) -> None:
    """Draw a play as a seat sees it; None: nothing is hidden."""
    heading(canvas, _when(position, seat), _end(position))
    events = position.events if seat is None else position.seen(seat)
    rows = [("player", "role", "knows", "votes")]
    for place in range(position.setup.players):
        one = position.seat_at(place)
        gone = _gone(events, place)
        name = f"{name_of(place)}{f' ({gone})' if gone else ''}"
        own = seat is None or position.phase == "over" or seat == one
        role = position.setup.kinds[one] if own or _known(position, seat, one, events) else "?"
        looks = [event for event in events if event.kind == "look" and event.who == place]
        knows = " ".join(f"{name_of(event.target)} {event.word}" for event in looks)
        if role == WOLF and (own or seat in position.setup.wolves):
            knows = " ".join(f"{name_of(position.places[w])} wolf" for w in _mates(position, one))
        votes = [event.target for event in events if event.kind == "vote" and event.who == place]
        cast = " ".join(name_of(one) if one >= 0 else "-" for one in votes)
        rows.append((name, role, knows, cast))
    gone_rows = [
        (row, column) for row in range(1, len(rows)) for column in range(4) if "(" in rows[row][0]
    ]
    table(canvas, rows, faint=gone_rows, shares=(2, 3, 3))
    text = position.setup.speech == "text"
    shown = [event for event in events if event.kind not in ("vote", DEDUCED)]
    timeline(canvas, [_line(position, event, text) for event in shown], most=8, lines=2)
    thought = _thought(events)
    if thought:
        heading(canvas, "Deduced last")
        printed(canvas, thought)


def describe(position: Position, seat: int | None) -> str:
    """Return the position in words, as a seat knows it; None: nothing is hidden."""
    if position.phase == "over":
        return f"The play is over. {_end(position)}."
    events = position.events if seat is None else position.seen(seat)
    names = [
        name_of(place) for place in sorted(position.places[one] for one in _due(position, seat))
    ]
    first = due_sentence(names) if names else "Others are to act."
    gone = [name_of(place) for place in range(position.setup.players) if _gone(events, place)]
    parts = [first, f"{_when(position, seat)}."]
    parts += [f"Dead or out: {', '.join(gone)}."] if gone else []
    shown = range(position.setup.players) if seat is None else (seat,)
    parts += [f"{name_of(position.places[one])} is {position.setup.kinds[one]}." for one in shown]
    parts += [f"Deduced by {line}." for line in _thought(events)]
    return " ".join(parts)


def _thought(events: tuple[Event, ...]) -> list[str]:
    """Return the last deduction of each player, of events that are seen."""
    last = {event.who: event.word for event in events if event.kind == DEDUCED}
    return [f"{name_of(who)}: {', '.join(thoughts(last[who]))}" for who in sorted(last)]


def _when(position: Position, seat: int | None) -> str:
    """Return night or day with its number, as far as a seat knows it."""
    if seat is not None and seat in position.dead and position.phase != "over":
        return "You are out"
    return f"{'Night' if position.phase in NIGHT else 'Day'} {position.round}"


def _due(position: Position, seat: int | None) -> tuple[int, ...]:
    """Return the seats of which a seat knows that they are to act: by day all that speak or vote.

    Who deduces before is not told, as that may say what its role is.
    """
    if seat is None:
        return position.due()
    if position.phase in ("speak", "vote") and seat not in position.dead:
        return position.acting
    return tuple(one for one in position.due() if one == seat)


def _end(position: Position) -> str:
    """Return who has won."""
    if position.winner < 0:
        return ""
    if position.winner == NOBODY:
        return "Nobody wins"
    return "The wolves win" if position.winner == WOLVES else "The village wins"


def _gone(events: tuple[Event, ...], place: int) -> str:
    """Return how a player left, or ""."""
    kinds = {event.kind for event in events if event.target == place}
    return "dead" if "dead" in kinds else "out" if "out" in kinds else ""


def _known(position: Position, seat: int | None, one: int, events: tuple[Event, ...]) -> bool:
    """Return whether a seat knows another one's role: its mates', or what a death has shown."""
    if seat in position.setup.wolves and one in position.setup.wolves:
        return True
    place = position.places[one]
    return any(e.kind in ("dead", "out") and e.target == place and e.word for e in events)


def _mates(position: Position, one: int) -> tuple[int, ...]:
    """Return the other wolves."""
    return tuple(wolf for wolf in position.setup.wolves if wolf != one)


def _line(position: Position, event: Event, text: bool) -> Said:
    """Return an event as a message of the timeline."""
    if event.kind == "say":
        place = event.who
        return Said(name_of(place), event.word or "(nothing)", seat_colour(place))
    sentence = full_event(event, text)
    if event.to is None:
        return Said("all are told", sentence)
    who = name_of(event.who)
    if event.kind == "look":
        what = "a werewolf" if event.word == WOLF else "no werewolf"
        sentence = f"{who} ({SEER}) learns that {name_of(event.target)} is {what}."
    if event.kind == "save":
        sentence = f"{who} saves {name_of(event.target)}."
    return Said(f"night, {who}", sentence, seat_colour(event.who))
