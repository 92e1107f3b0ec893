"""Stances of speeches towards other players, and deductions of their roles.

A stance is for or against another player: ``accuse p2`` and ``seer p2 wolf`` are against p2,
``support p2`` and ``seer p2 good`` for p2; a free text has the stance of its meaning. A deduction
lists the roles of all other living players in any order, in the grammar of brief style

    p2 wolf high p3 seer low

A player whose part cannot be parsed is noted as ``p3 unknown``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from sparring.core.files import parse_json
from sparring.core.rng import Stream
from sparring.environments.werewolf.rules import (
    DEDUCED,
    GOOD,
    MOST,
    SEER,
    WOLF,
    WerewolfEvent,
    WerewolfPosition,
    name_of,
    number_of,
)
from sparring.environments.werewolf.sentences import phrase_of

STANCE_FIGURES = ("right_stances", "votes_as_said", "votes_with_team")


def stance(event: WerewolfEvent) -> tuple[int, bool] | None:
    """Return (number of the player that a speech is about, whether it is against the player).

    Args:
        event: a speech.
    """
    verb, *arguments = phrase_of(event).split()
    if verb == SEER:
        return number_of(arguments[0]), arguments[1] == WOLF
    return (number_of(arguments[0]), verb == "accuse") if verb in ("accuse", "support") else None


def stance_figures(
    position: WerewolfPosition, teams: Sequence[int]
) -> dict[str, tuple[float, ...]]:
    """Return the figures of stances per seat, NaN where nothing can be counted.

    - ``right_stances``: the share of its speeches with a stance that are against a player of the
      other team or for a player of its own; a number without a player does not count;
    - ``votes_as_said``: on days when its last stance was against a player whom it could vote for,
      the share of its votes for that player;
    - ``votes_with_team``: on days when it voted, the share of its team-mates' votes, without
      abstentions, for the same player.

    Args:
        position: the position at the end of an episode.
        teams: the team of each seat.
    """
    shares: list[tuple[float, ...]] = []
    for seat, place in enumerate(position.places):
        right, as_said, with_team = list[bool](), list[bool](), list[bool]()
        for day in _days(position.events):
            stances = [stance(event) for event in day if event.kind == "say" and event.who == place]
            valid = [item for item in stances if item is not None and item[0] < len(teams)]
            right += [
                against == (teams[position.seat_at(about)] != teams[seat])
                for about, against in valid
            ]
            votes = {event.who: event.target for event in day if event.kind == "vote"}
            vote = votes.pop(place, None)
            if vote is None:
                continue
            if valid and valid[-1][1] and valid[-1][0] in votes:  # voters are alive
                as_said.append(vote == valid[-1][0])
            if vote >= 0:
                mates = [voter for voter in votes if teams[position.seat_at(voter)] == teams[seat]]
                with_team += [votes[voter] == vote for voter in mates if votes[voter] >= 0]
        shares.append(tuple(map(share, (right, as_said, with_team))))
    return dict(zip(STANCE_FIGURES, zip(*shares, strict=True), strict=True))


def _days(events: Sequence[WerewolfEvent]) -> list[list[WerewolfEvent]]:
    days: list[list[WerewolfEvent]] = [[]]
    for event in events:
        if event.kind in ("say", "vote"):
            days[-1].append(event)
        elif event.kind in ("out", "stay"):
            days.append([])
    return days


def share(hits: Sequence[bool]) -> float:
    """Return the share of true values, NaN without values."""
    return sum(hits) / len(hits) if hits else math.nan


CONFIDENCES = ("low", "medium", "high")
UNKNOWN = "unknown"
RIGHT = "right_roles"
_GAP = r"[^\w]{1,20}"
_ROLE = "werewolf|wolf|seer|doctor|villager"
_BEFORE = "s|is|was|role|must|may|could|be|probably|likely|maybe|perhaps|possibly|surely|an?|the"
_BETWEEN = "with|confidence|is|of|and|my"
# "p2: werewolf, high", "p2 is probably the seer (confidence: low)"; not "p2 is not a werewolf"
_THOUGHT = re.compile(
    rf"(?<![\w-])(p[1-9]){_GAP}(?:(?:{_BEFORE}){_GAP}){{0,6}}({_ROLE})\b"
    rf"(?:{_GAP}(?:(?:{_BETWEEN}){_GAP}){{0,4}}(low|medium|high)\b)?",
    re.IGNORECASE,
)


class RoleGuess(NamedTuple):
    """A seat's belief about one player; role and confidence are "" if unparsable."""

    name: str
    role: str = ""
    confidence: str = ""


def read_deduction(text: str, names: Sequence[str], kinds: Sequence[str], brief: bool) -> str:
    """Return a deduction in its normal form.

    Args:
        text: the reply of the seat.
        names: the players in question.
        kinds: the roles of the game.
        brief: whether the text must follow the grammar; else a search finds the parts in any text,
            and the last part of each player counts.
    """
    parts = _by_grammar(text) if brief else _by_search(text)
    valid_parts = {p.name: p for p in parts if p.role in kinds and p.confidence in CONFIDENCES}
    if brief and not (len(parts) == len(names) and set(valid_parts) == set(names)):
        valid_parts = {}
    return " ".join(_noted(valid_parts.get(name, RoleGuess(name))) for name in names)


def guesses(noted: str) -> tuple[RoleGuess, ...]:
    """Return the parts of a deduction in normal form."""
    words, parts = noted.split(), list[RoleGuess]()
    while words:
        size = 2 if words[1] == UNKNOWN else 3
        name, *values = words[:size]
        parts.append(RoleGuess(name) if size == 2 else RoleGuess(name, *values))
        words = words[size:]
    return tuple(parts)


def is_complete(noted: str) -> bool:
    """Return whether a deduction in normal form has a role for every player."""
    return all(part.role for part in guesses(noted))


def random_deduction(position: WerewolfPosition, seat: int, stream: Stream) -> str:
    """Return a random deduction in normal form that agrees with all certain knowledge of a seat.

    All deals that the seat cannot exclude are equally likely. A known role has high confidence; the
    role of a player known to be a wolf, or not to be one, has medium confidence.

    Args:
        position: a position in which the seat is due.
        seat: the seat that deduces.
        stream: source of random numbers.
    """
    setup, own_place = position.setup, position.places[seat]
    exact, good_players = _certain(position, seat)
    remaining = list(setup.kinds)
    for kind in (setup.kinds[seat], *exact.values()):
        remaining.remove(kind)
    unknown = [place for place in range(setup.players) if place != own_place and place not in exact]
    packs = _packs(position, seat, exact, [place for place in unknown if place not in good_players])
    pack = packs[stream.child(0).integer(0, len(packs))]
    roles = {**exact, **dict.fromkeys(pack, WOLF)}
    others = [place for place in unknown if place not in roles]
    kinds = stream.child(1).shuffled(kind for kind in remaining if kind != WOLF)
    roles |= zip(others, kinds, strict=True)
    words = []
    for place in position.targets(seat):
        sure = len({place in wolves for wolves in packs}) == 1  # wolf or not is certain
        is_known = place in exact or (sure and (roles[place] == WOLF or len({*kinds}) == 1))
        confidence = "high" if is_known else "medium" if sure else "low"
        words.append(_noted(RoleGuess(name_of(place), roles[place], confidence)))
    return " ".join(words)


def _packs(
    position: WerewolfPosition, seat: int, exact: Mapping[int, str], doubtful: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return the possible sets of unknown wolves, by number."""
    setup, living = position.setup, {position.places[alive] for alive in position.living()}
    known_wolves = [place for place, kind in exact.items() if kind == WOLF]
    known_wolves += [position.places[seat]] if seat in setup.wolves else []

    def goes_on(pack: tuple[int, ...]) -> bool:
        return setup.winner(len(living & {*known_wolves, *pack}), len(living)) < 0

    packs = combinations(sorted(doubtful), len(setup.wolves) - len(known_wolves))
    return [pack for pack in packs if goes_on(pack)]


def figures(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the figures of deductions in a game with these roles."""
    return (RIGHT, *(f"{RIGHT}_{kind}" for kind in dict.fromkeys(kinds)), "malformed")


def deduction_figures(position: WerewolfPosition) -> dict[str, tuple[float, ...]]:
    """Return per seat the share of right roles, and the number of malformed deductions.

    The share is over all parts of all deductions of a seat, NaN without deductions. The share of a
    role is that of the seats of this role.
    """
    setup = position.setup
    right, malformed = [], []
    for place in position.places:
        notes = [e.word for e in position.events if e.kind == DEDUCED and e.who == place]
        parts = [guess for noted in notes for guess in guesses(noted)]
        hits = [setup.kinds[position.seat_at(number_of(part.name))] == part.role for part in parts]
        right.append(share(hits))
        malformed.append(float(sum(not is_complete(noted) for noted in notes)))
    by_role = {
        f"{RIGHT}_{kind}": tuple(
            notes if setup.kinds[seat] == kind else math.nan for seat, notes in enumerate(right)
        )
        for kind in dict.fromkeys(setup.kinds)
    }
    return {RIGHT: tuple(right), **by_role, "malformed": tuple(malformed)}


def _by_grammar(text: str) -> list[RoleGuess]:
    words = text[:MOST].split()
    return [RoleGuess(*words[place : place + 3]) for place in range(0, len(words), 3)]


def _by_search(text: str) -> list[RoleGuess]:
    """Return the parts in a text, in order; confidence is low by default."""
    text = text[:MOST]
    matches = [*_of_json(text), *_THOUGHT.findall(text)]
    parts = []
    for name, role, confidence in matches:
        kind = WOLF if role.lower() == "werewolf" else role.lower()
        parts.append(RoleGuess(name.lower(), kind, confidence.lower() or "low"))
    return parts


def _of_json(text: str) -> list[tuple[str, str, str]]:
    """Return (name, role, confidence) of each entry of a JSON object in a text."""
    begin, end = text.find("{"), text.rfind("}") + 1
    try:
        data = parse_json(text[max(begin, 0) : end])
    except ValueError:
        return []
    triples = []
    for name, value in data.items() if isinstance(data, dict) else ():
        inner = value if isinstance(value, dict) else {"role": value}
        triples.append((name, str(inner.get("role", "")), str(inner.get("confidence", ""))))
    return triples


def _noted(guess: RoleGuess) -> str:
    return " ".join(guess) if guess.role else f"{guess.name} {UNKNOWN}"


def _certain(position: WerewolfPosition, seat: int) -> tuple[dict[int, str], set[int]]:
    """Return (known roles by number, players known not to be wolves): wolves kill no wolf."""
    setup, exact, good_players = position.setup, dict[int, str](), set[int]()
    if seat in setup.wolves:
        exact |= {position.places[wolf]: WOLF for wolf in setup.wolves if wolf != seat}
    for event in position.events_of(seat):
        if event.kind == "dead" or (event.kind == "look" and event.word == GOOD):
            good_players.add(event.target)
        if event.kind in ("look", "dead", "out") and event.word not in ("", GOOD):
            exact[event.target] = event.word
    return exact, good_players
