"""What players say and think of each other: stances of speeches, and deductions.

A stance is what a speech means of another player, by the grammar or as a free text is read:
``accuse p2`` and ``seer p2 wolf`` are against p2, ``support p2`` and ``seer p2 good`` for it. A
deduction is what a seat thinks that the others are, in the grammar of brief style

    p2 wolf high p3 seer low

of every other player that lives, in any order. Of a player of whom nothing could be read it is
noted as ``p3 unknown``.
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
    Event,
    Position,
    name_of,
    number_of,
)
from sparring.environments.werewolf.sentences import phrase_of

STANCE_FIGURES = ("right_stances", "votes_as_said", "votes_with_team")


def stance(event: Event) -> tuple[int, bool] | None:
    """Return the number of the player that a speech is about, and whether it is against it.

    Args:
        event: in which somebody says something.
    """
    verb, *rest = phrase_of(event).split()
    if verb == SEER:
        return number_of(rest[0]), rest[1] == WOLF
    return (number_of(rest[0]), verb == "accuse") if verb in ("accuse", "support") else None


def stance_figures(position: Position, teams: Sequence[int]) -> dict[str, tuple[float, ...]]:
    """Return figures of a play, per seat; no number where there is nothing to count.

    - ``right_stances``: of its speeches with a stance, the share against a player of the other team
      or for one of its own; a number that nobody has is no player;
    - ``votes_as_said``: of its votes on days when its last stance was against a player whom it
      could vote for, the share for that player;
    - ``votes_with_team``: of the votes of its team-mates on days when it voted, abstentions left
      out, the share for the player for whom it voted.

    Args:
        position: of a play that is over.
        teams: of each seat.
    """
    shares: list[tuple[float, ...]] = []
    for seat, place in enumerate(position.places):
        right, as_said, with_team = list[bool](), list[bool](), list[bool]()
        for day in _days(position.events):
            stances = [stance(event) for event in day if event.kind == "say" and event.who == place]
            taken = [one for one in stances if one is not None and one[0] < len(teams)]
            right += [
                against == (teams[position.seat_at(about)] != teams[seat])
                for about, against in taken
            ]
            votes = {event.who: event.target for event in day if event.kind == "vote"}
            own = votes.pop(place, None)
            if own is None:
                continue
            if taken and taken[-1][1] and taken[-1][0] in votes:  # who votes lives
                as_said.append(own == taken[-1][0])
            if own >= 0:
                mates = [who for who in votes if teams[position.seat_at(who)] == teams[seat]]
                with_team += [votes[who] == own for who in mates if votes[who] >= 0]
        shares.append(tuple(map(share, (right, as_said, with_team))))
    return dict(zip(STANCE_FIGURES, zip(*shares, strict=True), strict=True))


def _days(events: Sequence[Event]) -> list[list[Event]]:
    days: list[list[Event]] = [[]]
    for event in events:
        if event.kind in ("say", "vote"):
            days[-1].append(event)
        elif event.kind in ("out", "stay"):
            days.append([])
    return days


def share(hits: Sequence[bool]) -> float:
    """Return the share of what is true; no number of nothing."""
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


class Guess(NamedTuple):
    """What a seat thinks that one player is; role and confidence are "" where nothing was read."""

    name: str
    role: str = ""
    confidence: str = ""


def read(text: str, names: Sequence[str], kinds: Sequence[str], brief: bool) -> str:
    """Return a deduction in the words in which it is noted.

    Args:
        text: what the seat has replied.
        names: the players that it was asked about.
        kinds: the roles that there are.
        brief: whether nothing but the grammar will do, and all of it; otherwise what is said of
            each player is looked for, and the last that is said of one counts.
    """
    found = _by_grammar(text) if brief else _by_search(text)
    good = {one.name: one for one in found if one.role in kinds and one.confidence in CONFIDENCES}
    if brief and not (len(found) == len(names) and set(good) == set(names)):
        good = {}
    return " ".join(_noted(good.get(name, Guess(name))) for name in names)


def guesses(noted: str) -> tuple[Guess, ...]:
    """Return the parts of a deduction as it is noted."""
    words, found = noted.split(), list[Guess]()
    while words:
        size = 2 if words[1] == UNKNOWN else 3
        name, *rest = words[:size]
        found.append(Guess(name) if size == 2 else Guess(name, *rest))
        words = words[size:]
    return tuple(found)


def whole(noted: str) -> bool:
    """Return whether a deduction as it is noted says something of everybody."""
    return all(one.role for one in guesses(noted))


def drawn(position: Position, seat: int, stream: Stream) -> str:
    """Return a deduction that agrees with all that a seat knows for certain, in the grammar.

    All deals that it cannot exclude by what it has seen itself are equally likely. A role that it
    knows has high confidence; one of a player of whom it knows whether it is a wolf, medium.

    Args:
        position: in which the seat is due.
        seat: who deduces.
        stream: what is drawn from.
    """
    setup, own = position.setup, position.places[seat]
    exact, good = _certain(position, seat)
    left = list(setup.kinds)
    for kind in (setup.kinds[seat], *exact.values()):
        left.remove(kind)
    rest = [place for place in range(setup.players) if place != own and place not in exact]
    packs = _packs(position, seat, exact, [place for place in rest if place not in good])
    pack = packs[stream.child(0).integer(0, len(packs))]
    roles = {**exact, **dict.fromkeys(pack, WOLF)}
    others = [place for place in rest if place not in roles]
    kinds = stream.child(1).shuffled(kind for kind in left if kind != WOLF)
    roles |= zip(others, kinds, strict=True)
    found = []
    for place in position.targets(seat):
        sure = len({place in one for one in packs}) == 1  # whether it is a wolf is certain
        known = place in exact or (sure and (roles[place] == WOLF or len({*kinds}) == 1))
        confidence = "high" if known else "medium" if sure else "low"
        found.append(_noted(Guess(name_of(place), roles[place], confidence)))
    return " ".join(found)


def _packs(
    position: Position, seat: int, exact: Mapping[int, str], doubtful: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return sets of unknown players who may be the wolves that live, by number."""
    setup, living = position.setup, {position.places[one] for one in position.living()}
    known = [place for place, kind in exact.items() if kind == WOLF]
    known += [position.places[seat]] if seat in setup.wolves else []

    def goes_on(pack: tuple[int, ...]) -> bool:
        """Return whether nobody has won yet if these are wolves."""
        return setup.winner(len(living & {*known, *pack}), len(living)) < 0

    packs = combinations(sorted(doubtful), len(setup.wolves) - len(known))
    return [pack for pack in packs if goes_on(pack)]


def figures(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the names of what ``counted`` counts, where there are these roles."""
    return (RIGHT, *(f"{RIGHT}_{kind}" for kind in dict.fromkeys(kinds)), "malformed")


def deduction_figures(position: Position) -> dict[str, tuple[float, ...]]:
    """Return figures of a play, per seat: which share of roles was right, and what was malformed.

    The share is over all players that a seat was asked about, each time it was; there is no number
    for a seat that never was. The share of one role's deductions is that of the seats of this role.
    """
    setup = position.setup
    right, malformed = [], []
    for place in position.places:
        own = [e.word for e in position.events if e.kind == DEDUCED and e.who == place]
        said = [guess for noted in own for guess in guesses(noted)]
        hits = [setup.kinds[position.seat_at(number_of(one.name))] == one.role for one in said]
        right.append(share(hits))
        malformed.append(float(sum(not whole(noted) for noted in own)))
    by_role = {
        f"{RIGHT}_{kind}": tuple(
            own if setup.kinds[seat] == kind else math.nan for seat, own in enumerate(right)
        )
        for kind in dict.fromkeys(setup.kinds)
    }
    return {RIGHT: tuple(right), **by_role, "malformed": tuple(malformed)}


def _by_grammar(text: str) -> list[Guess]:
    """Return the triples of words; one that is not whole has no confidence."""
    words = text[:MOST].split()
    return [Guess(*words[place : place + 3]) for place in range(0, len(words), 3)]


def _by_search(text: str) -> list[Guess]:
    """Return what is said of players, in order; confidence is low where none is said."""
    text = text[:MOST]
    said = [*_of_json(text), *_THOUGHT.findall(text)]
    found = []
    for name, role, confidence in said:
        kind = WOLF if role.lower() == "werewolf" else role.lower()
        found.append(Guess(name.lower(), kind, confidence.lower() or "low"))
    return found


def _of_json(text: str) -> list[tuple[str, str, str]]:
    """Return name, role and confidence of what a JSON object in a text says, however ordered."""
    begin, end = text.find("{"), text.rfind("}") + 1
    try:
        said = parse_json(text[max(begin, 0) : end])
    except ValueError:
        return []
    found = []
    for name, one in said.items() if isinstance(said, dict) else ():
        inner = one if isinstance(one, dict) else {"role": one}
        found.append((name, str(inner.get("role", "")), str(inner.get("confidence", ""))))
    return found


def _noted(guess: Guess) -> str:
    return " ".join(guess) if guess.role else f"{guess.name} {UNKNOWN}"


def _certain(position: Position, seat: int) -> tuple[dict[int, str], set[int]]:
    """Return by number the known roles, and the players known to be no wolf: wolves kill none."""
    setup, exact, good = position.setup, dict[int, str](), set[int]()
    if seat in setup.wolves:
        exact |= {position.places[wolf]: WOLF for wolf in setup.wolves if wolf != seat}
    for event in position.seen(seat):
        if event.kind == "dead" or (event.kind == "look" and event.word == GOOD):
            good.add(event.target)
        if event.kind in ("look", "dead", "out") and event.word not in ("", GOOD):
            exact[event.target] = event.word
    return exact, good
