"""What speeches say of others, and whether votes agree with it.

A stance is what a speech means of another player, by the grammar or as a free text is read:
``accuse p2`` and ``seer p2 wolf`` are against p2, ``support p2`` and ``seer p2 good`` for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sparring.environments.werewolf.names import number_of
from sparring.environments.werewolf.rules import Event, Position
from sparring.environments.werewolf.sentences import phrase_of
from sparring.environments.werewolf.setup import SEER, WOLF

NAMES = ("right_stances", "votes_as_said", "votes_with_team")


def stance(event: Event) -> tuple[int, bool] | None:
    """Return the number of the player that a speech is about, and whether it is against it.

    Args:
        event: in which somebody says something.
    """
    verb, *rest = phrase_of(event).split()
    if verb == SEER:
        return number_of(rest[0]), rest[1] == WOLF
    return (number_of(rest[0]), verb == "accuse") if verb in ("accuse", "support") else None


def counted(position: Position, teams: Sequence[int]) -> dict[str, tuple[float, ...]]:
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
    return dict(zip(NAMES, zip(*shares, strict=True), strict=True))


def _days(events: Sequence[Event]) -> list[list[Event]]:
    """Return the speeches and votes of each day."""
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
