"""Speeches in sentences: wordings of the phrases of the grammar, and what a free text means.

What a text means is one phrase at most, read by its words: who is named, whether the speaker says
that it has seen something as the seer, and whether what is said of the player is good or bad. A
text that accuses one player and supports another is about the first that it names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache, partial

from sparring.core.rng import Stream
from sparring.environments.abstracted import NAME, Gist
from sparring.environments.werewolf.rules import (
    DOCTOR,
    GOOD,
    MOST,
    NIGHT,
    SEER,
    SILENCE,
    VILLAGER,
    WOLF,
    Event,
    Position,
    name_of,
    number_of,
)

ROLES = {  # by the words for them
    **dict.fromkeys((WOLF, "werewolf"), WOLF),
    **{role: role for role in (SEER, DOCTOR, VILLAGER)},
}
CLAIMS: tuple[str, ...] = ("I am the #.", "Believe me, I am the #.", "My role is #.")
WORDINGS: dict[str, tuple[str, ...]] = {
    f"{SEER} {NAME} {WOLF}": (
        "I am the seer and @ is a werewolf.",
        "I looked at @ last night: a werewolf!",
        "My vision shows that @ is the wolf.",
    ),
    f"{SEER} {NAME} {GOOD}": (
        "I am the seer and @ is no werewolf.",
        "I looked at @ last night: not a wolf.",
        "My vision shows that @ is innocent.",
    ),
    f"accuse {NAME}": (
        "I think that @ is a werewolf.",
        "We should vote for @ today.",
        "I do not trust @.",
        "@ looks guilty to me.",
    ),
    f"support {NAME}": ("I trust @.", "@ seems honest to me.", "I think that @ is no werewolf."),
    f"kill {NAME}": (  # of a wolf to the wolves
        "Let us kill @.",
        "I want @ dead tonight.",
        "@ is my choice.",
    ),
    SILENCE: ("I have nothing to say.", "I know nothing yet.", "Let us be careful today."),
    **{
        f"claim {role}": tuple(line.replace("#", word) for line in CLAIMS)
        for word, role in ROLES.items()
    },
}

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_PLAYER = re.compile(r"p[1-9]")
_CLAIM = re.compile(
    rf"(?:^claim|^as|\bi am|\bi'm|\bmy role is) (?:an? |the )?({'|'.join(ROLES)})\b"
)
_SAW = re.compile(
    r"^seer |\bi (?:have )?(?:looked|saw|seen|checked|learned|learnt)\b|\bmy vision\b"
)
_BAD = {
    *("wolf", "wolves", "werewolf", "werewolves", "accuse", "suspect", "suspicious", "guilty"),
    *("vote", "voting", "lying", "lies", "liar", "dangerous", "evil", "doubt"),
}
_GOOD = {
    *("good", "trust", "honest", "innocent", "villager", "doctor", "support", "believe"),
    *("safe", "friend", "defend"),
}
_NOT = {"not", "no", "never", "cannot", "nobody"}  # besides all that end in n't
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc`", "'"))
_OPINION = {"think", "believe", "say", "suppose", "feel", "doubt"}
_CLAUSE = re.compile(r"(?:that )?p[1-9] (?:is|was|has|to|will|would|looks|seems|must|may|might)\b")
NEAR = 3  # words before a word in which a negation turns it


def worded(phrase: str, stream: Stream) -> str:
    """Return a phrase of the grammar as a sentence, one of its wordings drawn.

    Args:
        phrase: e.g. "seer p2 wolf".
        stream: of the draw.
    """
    name, lines = _PLAYER.search(phrase), WORDINGS[_PLAYER.sub(NAME, phrase)]
    line = lines[stream.integer(0, len(lines))]
    return line.replace(NAME, name[0]) if name else line


def phrase_of(event: Event) -> str:
    """Return what somebody has said, as a phrase of the grammar."""
    return meaning(event.word, name_of(event.who))


def victims(events: Sequence[Event]) -> list[str]:
    """Return whom the wolves have named since the last vote, one after the other; "": nobody.

    Args:
        events: that a wolf knows of.
    """
    ends = [number for number, event in enumerate(events) if event.kind in ("out", "stay")]
    tonight = events[ends[-1] + 1 :] if ends else events
    return [victim(event.word) for event in tonight if event.kind == "whisper"]


def whispered(text: str) -> str:
    """Return the phrase that a text comes closest to that a wolf says to the wolves by night."""
    whom = victim(text)
    return f"kill {whom}" if whom else SILENCE


@lru_cache(maxsize=4096)
def victim(text: str) -> str:
    """Return whom a wolf that says a text to the wolves wants dead: whom it names first; "": none.

    A player is not named where a negation is within three words before it, after another player:
    "not p3, but p5" is p5.

    Args:
        text: a phrase, or any text.
    """
    words, begins = _words(text), 0
    for number, word in enumerate(words):
        if _PLAYER.fullmatch(word):
            if not any(map(_denies, words[max(number - NEAR, begins) : number])):
                return word
            begins = number + 1
    return ""


@lru_cache(maxsize=4096)
def meaning(text: str, own: str = "") -> str:
    """Return the phrase of the grammar that a speech comes closest to, ``silence`` where none does.

    Args:
        text: a phrase, or any text.
        own: the speaker's name; what it says of itself is about no other player.
    """
    words = _words(text)
    line = " ".join(words)
    claim = _CLAIM.search(line)
    role = ROLES[claim[1]] if claim else ""
    about = next((word for word in words if _PLAYER.fullmatch(word) and word != own), None)
    told = _verdict(words if claim is None else _WORD.findall(line[claim.end() :]))
    if about is None or not told:
        return f"claim {role}" if role else SILENCE
    if role == SEER or _SAW.search(line):
        return f"{SEER} {about} {told}"
    return f"{'accuse' if told == WOLF else 'support'} {about}"


def _verdict(words: list[str]) -> str:
    """Return what is said of a player, by the first word that is good or bad; "" for nothing.

    An opinion that is denied or doubted turns what it is about: "I don't think that p2 is a wolf".
    """
    begins, doubted = 0, False  # where the clause begins that an opinion is about
    for number, word in enumerate(words):
        judges = word in _BAD or word in _GOOD
        if not judges and word not in _OPINION:
            continue
        near = words[max(begins, number - NEAR) : number]
        turned = any(map(_denies, near))
        if judges and not (
            word in _OPINION and _CLAUSE.match(" ".join(words[number + 1 : number + 4]))
        ):
            return WOLF if (word in _BAD) != (turned != doubted) else GOOD
        begins, doubted = number + 1, turned != (word == "doubt")
    return ""


def _words(text: str) -> list[str]:
    text = text[:MOST].translate(_APOSTROPHES).lower()
    return [word.removesuffix("'s") for word in _WORD.findall(text)]


def _denies(word: str) -> bool:
    return word in _NOT or word.endswith("n't")


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
