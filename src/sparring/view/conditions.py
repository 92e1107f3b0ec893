"""Conditions on episodes as SQL with places for values; a request gives no names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sparring.view.answers import Refused
from sparring.view.index import SEATS
from sparring.view.runs import PEOPLE

OUTCOMES = {"win": "gained > 0", "draw": "gained = 0", "loss": "gained < 0"}
OF = {"training": f"run < {PEOPLE}", "people": f"run >= {PEOPLE}"}
_RANGE = re.compile(r"(-?[0-9.]+(?:e-?[0-9]+)?)?(-)?(-?[0-9.]+(?:e-?[0-9]+)?)?")
Condition = tuple[str, list[Any]]
Asked = Mapping[str, str]


class Cast(NamedTuple):
    """Who plays what.

    Attributes:
        game: label of the environment.
        roles: of the seats.
        agents: players of the seats, in their text form.
    """

    game: str
    roles: list[str]
    agents: list[str]


Casts = Mapping[int, Cast]


def where(asked: Asked, casts: Casts) -> Condition:
    """Return the conditions of a request on rows of ``episodes``.

    Raises:
        Refused: a parameter has no such value.
    """
    conditions = list(_of_episodes(asked, casts))
    text = " AND ".join(text for text, _ in conditions) or "true"
    return text, [value for _, values in conditions for value in values]


def _of_episodes(asked: Asked, casts: Casts) -> Iterable[Condition]:
    """Yield the conditions on rows of ``episodes``."""
    if runs := asked.get("run"):
        numbers = [whole({"run": text}, "run", 0, 10**9) for text in runs.split(",")]
        yield f"list_contains(?::INTEGER[], run % {PEOPLE})", [numbers]
    if of := asked.get("of"):
        if of not in OF:
            raise Refused(400, f"of is one of {', '.join(OF)}")
        yield OF[of], []
    if game := asked.get("game"):
        yield _among("cast_id", [number for number, cast in casts.items() if cast.game == game])
    for name, column in (("turns", "turns"), ("step", "step"), ("group", "group_id")):
        if asked.get(name):
            yield _between(name, column, asked[name])
    if asked.get("forfeited"):
        yield f"forfeited_by IS {'NOT ' if _flag(asked, 'forfeited') else ''}NULL", []
    if asked.get("text"):
        yield "(run, step, episode) IN (SELECT (run, step, episode) FROM spoken)", []
    if asked.get("seat") or asked.get("player"):
        yield from _of_one_seat(asked, casts)
        return
    yield from _measured(asked)
    outcome = list(_outcome(asked))
    if outcome:
        yield f"id IN (SELECT id FROM seats WHERE {outcome[0][0]})", []


def _of_one_seat(asked: Asked, casts: Casts) -> Iterable[Condition]:
    """Yield the conditions that one seat must meet, all of them together."""
    places = [
        number * SEATS + seat
        for number, cast in casts.items()
        for seat, (role, agent) in enumerate(zip(cast.roles, cast.agents, strict=True))
        if asked.get("seat", role) in ("", role) and asked.get("player", agent) in ("", agent)
    ]
    conditions = [*_outcome(asked), *_measured(asked)]
    if not conditions:
        yield _among("cast_id", sorted({place // SEATS for place in places}))
        return
    text, values = _among("place", places)
    own = " AND ".join([text, *(text for text, _ in conditions)])
    values = [*values, *(value for _, some in conditions for value in some)]
    yield f"id IN (SELECT id FROM seats WHERE {own})", values


def _among(column: str, numbers: list[int]) -> Condition:
    """Return the condition that a column has one of some numbers."""
    if not numbers:
        return "false", []
    return f"{column} IN ({', '.join('?' * len(numbers))})", list(numbers)


def _outcome(asked: Asked) -> Iterable[Condition]:
    """Yield the condition on what a seat returned."""
    if outcome := asked.get("outcome"):
        if outcome not in OUTCOMES:
            raise Refused(400, f"outcome is one of {', '.join(OUTCOMES)}")
        yield OUTCOMES[outcome], []


def _measured(asked: Asked) -> Iterable[Condition]:
    """Yield the conditions on what an episode and a seat both have."""
    if asked.get("illegal"):
        yield f"illegal {'>' if _flag(asked, 'illegal') else '='} 0", []
    if asked.get("wrong"):
        yield f"{'' if _flag(asked, 'wrong') else 'NOT '}wrong", []
    for name in ("advantage", "regret"):
        if asked.get(name):
            yield _between(name, name, asked[name])


def whole(asked: Asked, name: str, default: int, most: int) -> int:
    """Return a parameter that is a whole number, at most so large.

    Raises:
        Refused: it is none.
    """
    text = asked.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refused(400, f"{name} is a whole number")
    return min(int(text), most)


def _flag(asked: Asked, name: str) -> bool:
    """Return a parameter that is 0 or 1.

    Raises:
        Refused: it is neither.
    """
    if asked[name] not in ("0", "1"):
        raise Refused(400, f"{name} is 0 or 1")
    return asked[name] == "1"


def _between(name: str, column: str, text: str) -> Condition:
    """Return the condition of a range: 5, 5-9, 5- or -9.

    Raises:
        Refused: it is no range.
    """
    try:
        low, high = _ends(text.strip())
    except ValueError:
        raise Refused(400, f"{name} is a number or a range, such as 5, 5-9, 5- or -9") from None
    pairs = [(">=", low), ("<=", high)]
    said = [(f"{column} {sign} ?", end) for sign, end in pairs if end is not None]
    return " AND ".join(text for text, _ in said), [end for _, end in said]


def _ends(text: str) -> tuple[float | None, float | None]:
    """Return the ends of a range; a minus at the beginning leaves the lower end open."""
    match = _RANGE.fullmatch(text)
    if match is None or not text.strip("-"):
        raise ValueError(text)
    if text.startswith("-"):
        return None, float(text[1:])
    low = float(match[1])
    return low, low if match[2] is None else float(match[3]) if match[3] else None
