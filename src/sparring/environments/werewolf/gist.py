"""The little that a player goes by: of each other one what it is known to be, and what was said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache, partial

from sparring.environments.abstracted import Gist
from sparring.environments.werewolf.names import name_of, number_of
from sparring.environments.werewolf.rules import GOOD, NIGHT, Event, Position
from sparring.environments.werewolf.sentences import meaning, phrase_of, victims, whispered
from sparring.environments.werewolf.setup import SEER, WOLF
from sparring.environments.werewolf.speech import SILENCE

AGAINST = {"accuse": 1, "support": -1, WOLF: 2, GOOD: -2}  # what is said adds so much
ME, DEAD = "me", "dead"
TOP, TRUSTED, PLAIN = "top", "trusted", "plain"


def gist(position: Position, seat: int) -> Gist:
    """Return what a seat goes by: its role, the phase, and what others are marked as.

    Each living player has one mark, the first that fits:

    - "wolf" or "good": the seat knows it;
    - "seer": it claims to be;
    - "top": nobody who lives is more suspicious, by accusations less support, twice as much by who
      claims to be the seer;
    - "trusted": more is said for it than against it;
    - "plain".

    By night wolves know who was proposed, or where they talk who was named last, "!". How many have
    a mark, other claims, who said what in what order, votes and the round are left out, so that few
    plays meet most states. A free text counts as what it means in the grammar, what is heard and
    what may be said: texts of one meaning are one action.

    Args:
        position: of a play.
        seat: one that is due.
    """
    events, own, role = position.events, position.places[seat], position.setup.kinds[seat]
    seers, suspicion = _said(events)
    known = dict[int, str]()
    if role == SEER:
        known = {event.target: event.word for event in events if event.kind == "look"}
    elif role == WOLF:
        known = {position.places[mate]: WOLF for mate in position.setup.wolves}
    living = [position.places[one] for one in position.living()]
    most = max(1, *(suspicion[place] for place in living))

    def mark(place: int) -> str:
        """Return what a player is marked as."""
        if place in known and place != own:
            return known[place]
        if place in seers:
            return SEER
        if suspicion[place] >= most:
            return TOP
        return TRUSTED if suspicion[place] < 0 else PLAIN

    marks = {place: mark(place) for place in living if place != own}
    if position.phase in NIGHT and role == WOLF:
        wanted = position.proposed if position.phase == "decide" else _wanted(events)
        if wanted in marks:
            marks[wanted] += "!"
    about = (role, position.phase, mark(own), DEAD if position.dead else "-")
    key = " / ".join([" ".join(about), *sorted(set(marks.values()))])
    everybody = map(name_of, range(position.setup.players))  # a free text may name the dead
    labels = {name_of(place): f"#{one}" for place, one in marks.items()}
    means = None
    if position.speaking and position.setup.speech == "text":
        here = frozenset(name_of(place) for place in marks)
        means = partial(_meant, day=position.phase == "speak", own=name_of(own), here=here)
    return Gist(key, {**dict.fromkeys(everybody, DEAD), **labels, name_of(own): ME}, means)


def _meant(text: str, *, day: bool, own: str, here: frozenset[str]) -> str:
    """Return the phrase that a text counts as; of the dead, and of nobody, nothing is said.

    Args:
        text: of a speech.
        day: whether it is said to all, or else to the wolves.
        own: the speaker's name.
        here: the names of the others who live.
    """
    phrase = meaning(text, own) if day else whispered(text)
    verb, *rest = phrase.split()
    if verb == "claim" or not rest or rest[0] in here:
        return phrase
    return f"claim {SEER}" if verb == SEER else SILENCE


def _wanted(events: Sequence[Event]) -> int:
    """Return the number of the player whom a wolf has named last this night; -1: nobody."""
    named = [name for name in victims(events) if name]
    return number_of(named[-1]) if named else -1


def _said(events: Sequence[Event]) -> tuple[set[int], defaultdict[int, int]]:
    """Return who claims to be the seer, and how suspicious what was said makes each."""
    seers, suspicion = set[int](), defaultdict[int, int](int)
    for event in events:
        if event.kind != "say":
            continue
        verb, about, more = _told(event)
        if verb == SEER:
            seers.add(event.who)
        elif verb == "claim":
            seers.discard(event.who)
        if more:
            suspicion[about] += more
    return seers, suspicion


@lru_cache(maxsize=65_536)
def _told(event: Event) -> tuple[str, int, int]:
    """Return what a speech says of its speaker and of another.

    Returns:
        ``SEER`` where it claims to be the seer, "claim" where it claims another role, else ""; the
        number of the player whom it is about, and how much more suspicious it makes this one.
    """
    verb, *rest = phrase_of(event).split()
    if verb == "claim":
        return (SEER if rest[0] == SEER else verb), -1, 0
    if verb in (SEER, "accuse", "support"):
        more = AGAINST[rest[1] if verb == SEER else verb]
        return (SEER if verb == SEER else ""), number_of(rest[0]), more
    return "", -1, 0
