"""The little that a player goes by: of each other one what it is known to be, and what was said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sparring.environments.abstracted import Gist
from sparring.environments.werewolf.names import name_of, number_of
from sparring.environments.werewolf.rules import GOOD, SEER, WOLF, Event, Position
from sparring.environments.werewolf.sentences import phrase_of
from sparring.environments.werewolf.speech import SILENCE

LEAST, MOST = -1, 2  # suspicion
AGAINST = {"accuse": 1, "support": -1, WOLF: 2, GOOD: -2}  # what is said adds so much
ME, DEAD = "me", "dead"


def gist(position: Position, seat: int) -> Gist:
    """Return what a seat goes by: its role, the phase, who lives, and a line for each player.

    A line has what the seat knows the player to be, whether it claims to be the seer, and how
    suspicious it is, from -1 to 2: accusations, less support, and twice as much by who claims to be
    the seer. The wolf that decides knows who was proposed. Other claims, who said what in what
    order, votes and the round are left out. A free text counts as what it means in the grammar.

    Args:
        position: of a play.
        seat: one that is due.
    """
    seen, own = position.seen(seat), position.places[seat]
    seers, suspicion = _said(seen)
    known = {event.target: event.word for event in seen if event.kind == "look"}
    if position.setup.kinds[seat] == WOLF:
        known |= {position.places[mate]: WOLF for mate in position.setup.wolves}

    def line(place: int) -> str:
        """Return what is known of a player."""
        mark = "!" if place == position.proposed and position.phase == "decide" else ""
        claim = SEER if place in seers else "-"
        return f"{known.get(place, '?')}{mark} {claim} {min(max(suspicion[place], LEAST), MOST)}"

    others = sorted({position.places[one] for one in position.living()} - {own})
    lines = {place: line(place) for place in others}
    order = sorted(set(lines.values()))
    labels = {name_of(place): f"#{order.index(said)}" for place, said in lines.items()}
    about = f"{position.setup.kinds[seat]} {position.phase} {line(own)}"
    key = " / ".join([about, *sorted(lines.values())])
    everybody = map(name_of, range(position.setup.players))  # a free text may name the dead
    return Gist(key, {**dict.fromkeys(everybody, DEAD), **labels, name_of(own): ME})


def _said(seen: Sequence[Event]) -> tuple[set[int], Counter[int]]:
    """Return who claims to be the seer, and how suspicious what was said makes each."""
    seers, suspicion = set[int](), Counter[int]()
    for event in seen:
        said = phrase_of(event) if event.kind == "say" else SILENCE
        verb, *rest = said.split()
        if verb == "claim":
            seers = seers | {event.who} if rest[0] == SEER else seers - {event.who}
        elif verb == SEER:
            seers |= {event.who}
        if verb in (SEER, "accuse", "support"):
            suspicion[number_of(rest[0])] += AGAINST[rest[1] if verb == SEER else verb]
    return seers, suspicion
