"""Stances of speeches towards other players, and deductions of their roles.

A stance is for or against another player: ``accuse p2`` and ``seer p2 wolf`` are against p2,
``support p2`` and ``seer p2 good`` are for p2. A speech in free text has the stance of the phrase
with the same meaning. A deduction guesses the roles of all other living players, in any order. In
brief style:

    p2 wolf high p3 seer low

The normal form has a guess per player in the order of names; an unparsable one is ``p3 unknown``.
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
    DEDUCTION_EVENT,
    GOOD,
    MAX_CHARS,
    SEER,
    WOLF,
    WerewolfEvent,
    WerewolfPosition,
    name_of,
    number_of,
)
from sparring.environments.werewolf.sentences import phrase_of

STANCE_FIGURES = ("right_stances", "votes_as_said", "votes_with_team")


def stance_of(event: WerewolfEvent) -> tuple[int, bool] | None:
    """Return (number of a player, whether the speech is against the player); None: no stance.

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
    """Return the metrics of stances per seat; a share of nothing is NaN.

    - ``right_stances``: the share of a seat's stances that are against the other team or for its
      own team. Stances on numbers without a player do not count.
    - ``votes_as_said``: on days when the seat's last stance is against a player that it can vote
      for, the share of votes for that player.
    - ``votes_with_team``: the share of team-mates' votes for the player that the seat voted for.
      Abstentions do not count.

    Args:
        position: the position at the end of an episode.
        teams: the team of each seat.
    """
    shares: list[tuple[float, ...]] = []
    for seat, place in enumerate(position.places):
        right_stances, votes_as_said, votes_with_team = list[bool](), list[bool](), list[bool]()
        for day in _days(position.events):
            stances = [
                stance_of(event) for event in day if (event.kind, event.actor) == ("say", place)
            ]
            valid_stances = [stance for stance in stances if stance and stance[0] < len(teams)]
            right_stances += [
                is_against == (teams[position.seat_at(target)] != teams[seat])
                for target, is_against in valid_stances
            ]
            votes = {event.actor: event.target for event in day if event.kind == "vote"}
            vote = votes.pop(place, None)
            if vote is None:
                continue
            target, is_against = valid_stances[-1] if valid_stances else (-1, False)
            if is_against and target in votes:  # a living player: it has voted
                votes_as_said.append(vote == target)
            if vote >= 0:
                mates = [voter for voter in votes if teams[position.seat_at(voter)] == teams[seat]]
                votes_with_team += [votes[voter] == vote for voter in mates if votes[voter] >= 0]
        shares.append(tuple(map(share_true, (right_stances, votes_as_said, votes_with_team))))
    return dict(zip(STANCE_FIGURES, zip(*shares, strict=True), strict=True))


def _days(events: Sequence[WerewolfEvent]) -> list[list[WerewolfEvent]]:
    days: list[list[WerewolfEvent]] = [[]]
    for event in events:
        if event.kind in ("say", "vote"):
            days[-1].append(event)
        elif event.kind in ("out", "stay"):
            days.append([])
    return days


def share_true(values: Sequence[bool]) -> float:
    """Return the share of true values, NaN without values."""
    return sum(values) / len(values) if values else math.nan


CONFIDENCES = ("low", "medium", "high")
UNKNOWN = "unknown"
RIGHT_ROLES = "right_roles"
_SEPARATOR = r"[^\w]{1,20}"
_ROLE = "werewolf|wolf|seer|doctor|villager"
_BEFORE_ROLE = (
    "s|is|was|role|must|may|could|be|probably|likely|maybe|perhaps|possibly|surely|an?|the"
)
_BEFORE_CONFIDENCE = "with|confidence|is|of|and|my"
# "p2: werewolf, high", "p2 is probably the seer (confidence: low)"; not "p2 is not a werewolf"
_GUESS = re.compile(
    rf"(?<![\w-])(p[1-9]){_SEPARATOR}(?:(?:{_BEFORE_ROLE}){_SEPARATOR}){{0,6}}({_ROLE})\b"
    rf"(?:{_SEPARATOR}(?:(?:{_BEFORE_CONFIDENCE}){_SEPARATOR}){{0,4}}(low|medium|high)\b)?",
    re.IGNORECASE,
)


class RoleGuess(NamedTuple):
    """A seat's guess of one player's role; role and confidence are "" if unparsable."""

    name: str
    role: str = ""
    confidence: str = ""


def read_deduction(text: str, names: Sequence[str], roles: Sequence[str], brief: bool) -> str:
    """Return a deduction in its normal form.

    Args:
        text: the reply of the seat.
        names: names of the players whose roles the seat must guess.
        roles: the roles of the game.
        brief: True: the text must follow the grammar. False: a search finds the guesses in any
            text, and the last guess about each player counts.
    """
    guesses = _parse_grammar(text) if brief else _search_guesses(text)
    valid_guesses = {g.name: g for g in guesses if g.role in roles and g.confidence in CONFIDENCES}
    if brief and not (len(guesses) == len(names) and set(valid_guesses) == set(names)):
        valid_guesses = {}
    return " ".join(_format_guess(valid_guesses.get(name, RoleGuess(name))) for name in names)


def parse_guesses(deduction: str) -> tuple[RoleGuess, ...]:
    """Return the guesses in a deduction in normal form."""
    words, guesses = deduction.split(), list[RoleGuess]()
    while words:
        num_words = 2 if words[1] == UNKNOWN else 3
        name, *values = words[:num_words]
        guesses.append(RoleGuess(name) if num_words == 2 else RoleGuess(name, *values))
        words = words[num_words:]
    return tuple(guesses)


def is_complete(deduction: str) -> bool:
    """Return whether a deduction in normal form has a role for every player."""
    return all(guess.role for guess in parse_guesses(deduction))


def random_deduction(position: WerewolfPosition, seat: int, stream: Stream) -> str:
    """Return a random deduction in normal form that agrees with the seat's knowledge.

    All deals that the seat cannot exclude are equally likely. A known role has high confidence. If
    the seat knows only whether the player is a wolf, the confidence is medium; otherwise low.

    Args:
        position: a position in which the seat must reply.
        seat: the seat that deduces.
        stream: source of random numbers.
    """
    setup, own_place = position.setup, position.places[seat]
    known_roles, non_wolves = _certain_knowledge(position, seat)
    remaining_roles = list(setup.roles)
    for role in (setup.roles[seat], *known_roles.values()):
        remaining_roles.remove(role)
    candidates = [place for place in range(setup.players) if place not in {own_place, *known_roles}]
    possible_wolves = [place for place in candidates if place not in non_wolves]
    wolf_sets = _possible_wolf_sets(position, seat, known_roles, possible_wolves)
    wolves = wolf_sets[stream.child(0).integer(0, len(wolf_sets))]
    roles = {**known_roles, **dict.fromkeys(wolves, WOLF)}
    other_players = [place for place in candidates if place not in roles]
    other_roles = stream.child(1).shuffled(role for role in remaining_roles if role != WOLF)
    roles |= zip(other_players, other_roles, strict=True)
    has_one_role_left = len({*other_roles}) == 1
    words = []
    for place in position.targets(seat):
        is_certain = len({place in wolves for wolves in wolf_sets}) == 1  # the same in all sets
        can_infer_role = is_certain and (roles[place] == WOLF or has_one_role_left)
        is_known = place in known_roles or can_infer_role
        confidence = "high" if is_known else "medium" if is_certain else "low"
        words.append(_format_guess(RoleGuess(name_of(place), roles[place], confidence)))
    return " ".join(words)


def _possible_wolf_sets(
    position: WerewolfPosition, seat: int, known_roles: Mapping[int, str], players: Sequence[int]
) -> list[tuple[int, ...]]:
    setup, living = position.setup, {position.places[player] for player in position.living()}
    known_wolves = [place for place, role in known_roles.items() if role == WOLF]
    known_wolves += [position.places[seat]] if seat in setup.wolves else []

    def is_undecided(wolves: tuple[int, ...]) -> bool:  # the wolves have not won so far
        return setup.winner(len(living & {*known_wolves, *wolves}), len(living)) < 0

    wolf_sets = combinations(sorted(players), len(setup.wolves) - len(known_wolves))
    return [wolves for wolves in wolf_sets if is_undecided(wolves)]


def figure_names(roles: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the metrics of deductions in a game with these roles."""
    return (RIGHT_ROLES, *(f"{RIGHT_ROLES}_{role}" for role in dict.fromkeys(roles)), "malformed")


def deduction_figures(position: WerewolfPosition) -> dict[str, tuple[float, ...]]:
    """Return per seat the share of right guesses, and the number of malformed deductions.

    The share is over all guesses in all deductions of a seat, NaN without deductions. The share of
    a role has values only for the seats of this role.
    """
    setup = position.setup
    shares, num_malformed = [], []
    for place in position.places:
        texts = [e.word for e in position.events if (e.kind, e.actor) == (DEDUCTION_EVENT, place)]
        guesses = [guess for text in texts for guess in parse_guesses(text)]
        are_right = [setup.roles[position.seat_at(number_of(g.name))] == g.role for g in guesses]
        shares.append(share_true(are_right))
        num_malformed.append(float(sum(not is_complete(text) for text in texts)))
    by_role = {
        f"{RIGHT_ROLES}_{role}": tuple(
            share if setup.roles[seat] == role else math.nan for seat, share in enumerate(shares)
        )
        for role in dict.fromkeys(setup.roles)
    }
    return {RIGHT_ROLES: tuple(shares), **by_role, "malformed": tuple(num_malformed)}


def _parse_grammar(text: str) -> list[RoleGuess]:
    words = text[:MAX_CHARS].split()
    return [RoleGuess(*words[start : start + 3]) for start in range(0, len(words), 3)]


def _search_guesses(text: str) -> list[RoleGuess]:
    """Return the guesses in a text, in order; a guess without confidence has low confidence."""
    text = text[:MAX_CHARS]
    matches = [*_parse_json_guesses(text), *_GUESS.findall(text)]
    guesses = []
    for name, role, confidence in matches:
        role_name = WOLF if role.lower() == "werewolf" else role.lower()
        guesses.append(RoleGuess(name.lower(), role_name, confidence.lower() or "low"))
    return guesses


def _parse_json_guesses(text: str) -> list[tuple[str, str, str]]:
    """Return (name, role, confidence) of each entry of a JSON object in a text."""
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        data = parse_json(text[max(start, 0) : end])
    except ValueError:
        return []
    triples = []
    for name, value in data.items() if isinstance(data, dict) else ():
        entry = value if isinstance(value, dict) else {"role": value}
        triples.append((name, str(entry.get("role", "")), str(entry.get("confidence", ""))))
    return triples


def _format_guess(guess: RoleGuess) -> str:
    return " ".join(guess) if guess.role else f"{guess.name} {UNKNOWN}"


def _certain_knowledge(position: WerewolfPosition, seat: int) -> tuple[dict[int, str], set[int]]:
    """Return (roles known for certain, by player number; players known not to be wolves)."""
    setup, known_roles, non_wolves = position.setup, dict[int, str](), set[int]()
    if seat in setup.wolves:
        known_roles |= {position.places[wolf]: WOLF for wolf in setup.wolves if wolf != seat}
    for event in position.events_of(seat):
        if event.kind == "dead" or (event.kind == "look" and event.word == GOOD):
            non_wolves.add(event.target)
        if event.kind in ("look", "dead", "out") and event.word not in ("", GOOD):
            known_roles[event.target] = event.word
    return known_roles, non_wolves
