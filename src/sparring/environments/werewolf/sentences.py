"""Speeches in sentences: wordings of the phrases of the grammar, and the meaning of free text.

The meaning of a text is at most one phrase, from its words: the players that it names, a claim to
have seen something as the seer, and good or bad words. A text about several players means the first
that it names.
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
    WerewolfEvent,
    WerewolfPosition,
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
    f"kill {NAME}": (  # from a wolf to the wolves
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
_NOT = {"not", "no", "never", "cannot", "nobody"}  # besides words that end in n't
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc`", "'"))
_OPINION = {"think", "believe", "say", "suppose", "feel", "doubt"}
_CLAUSE = re.compile(r"(?:that )?p[1-9] (?:is|was|has|to|will|would|looks|seems|must|may|might)\b")
NEAR = 3  # words before a word in which a negation reverses it


def to_sentence(phrase: str, stream: Stream) -> str:
    """Return a phrase of the grammar as a sentence, a random one of its wordings.

    Args:
        phrase: e.g. "seer p2 wolf".
        stream: source of random numbers.
    """
    name, lines = _PLAYER.search(phrase), WORDINGS[_PLAYER.sub(NAME, phrase)]
    line = lines[stream.integer(0, len(lines))]
    return line.replace(NAME, name[0]) if name else line


def phrase_of(event: WerewolfEvent) -> str:
    """Return the meaning of a speech as a phrase of the grammar."""
    return meaning(event.word, name_of(event.who))


def victims(events: Sequence[WerewolfEvent]) -> list[str]:
    """Return the victims that the wolves named since the last vote, in order, "" for nobody.

    Args:
        events: the events that a wolf knows of.
    """
    ends = [number for number, event in enumerate(events) if event.kind in ("out", "stay")]
    tonight = events[ends[-1] + 1 :] if ends else events
    return [victim(event.word) for event in tonight if event.kind == "whisper"]


def whisper_phrase(text: str) -> str:
    """Return the phrase closest to a text of a wolf to the wolves."""
    whom = victim(text)
    return f"kill {whom}" if whom else SILENCE


@lru_cache(maxsize=4096)
def victim(text: str) -> str:
    """Return the victim in a text of a wolf to the wolves, the first player named, "" for none.

    A player does not count if a negation is within three words before it, after any earlier player:
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
def meaning(text: str, speaker: str = "") -> str:
    """Return the phrase of the grammar closest to a speech, ``silence`` if none is close.

    Args:
        text: a phrase, or any text.
        speaker: the speaker's name, which does not count as a player named.
    """
    words = _words(text)
    line = " ".join(words)
    claim = _CLAIM.search(line)
    role = ROLES[claim[1]] if claim else ""
    about = next((word for word in words if _PLAYER.fullmatch(word) and word != speaker), None)
    verdict = _verdict(words if claim is None else _WORD.findall(line[claim.end() :]))
    if about is None or not verdict:
        return f"claim {role}" if role else SILENCE
    if role == SEER or _SAW.search(line):
        return f"{SEER} {about} {verdict}"
    return f"{'accuse' if verdict == WOLF else 'support'} {about}"


def _verdict(words: list[str]) -> str:
    """Return the verdict on a player by the first good or bad word, "" for none.

    A denied or doubted opinion reverses its clause: "I don't think that p2 is a wolf".
    """
    begins, doubted = 0, False  # where the clause of an opinion begins
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


AGAINST = {"accuse": 1, "support": -1, WOLF: 2, GOOD: -2}  # suspicion that a phrase adds
ME, DEAD = "me", "dead"
TOP, TRUSTED, PLAIN = "top", "trusted", "plain"


def gist(position: WerewolfPosition, seat: int) -> Gist:
    """Return the coarse state of a seat: its role, the phase, and the marks of others.

    Each living player has one mark, the first that fits:

    - "wolf" or "good": the seat knows this;
    - "seer": the player claims to be the seer;
    - "top": no living player is more suspicious, by accusations less support, where the word of a
      claimed seer counts twice;
    - "trusted": more speeches are for the player than against;
    - "plain".

    By night the mark "!" shows wolves the proposed player, or the last player named in their talk.
    The state leaves out the counts of marks, other claims, the order of speeches, votes and the
    round, so that few episodes visit most states. A free text counts as its meaning in the grammar:
    texts of one meaning are one action.

    Args:
        position: the position.
        seat: a seat that is due.
    """
    events, me, role = position.events, position.places[seat], position.setup.kinds[seat]
    seers, suspicion = _claims_and_suspicion(events)
    results = dict[int, str]()
    if role == SEER:
        results = {event.target: event.word for event in events if event.kind == "look"}
    elif role == WOLF:
        results = {position.places[mate]: WOLF for mate in position.setup.wolves}
    living = [position.places[label] for label in position.living()]
    strongest = max(1, *(suspicion[place] for place in living))

    def mark(place: int) -> str:
        if place in results and place != me:
            return results[place]
        if place in seers:
            return SEER
        if suspicion[place] >= strongest:
            return TOP
        return TRUSTED if suspicion[place] < 0 else PLAIN

    marks = {place: mark(place) for place in living if place != me}
    if position.phase in NIGHT and role == WOLF:
        target = position.proposed if position.phase == "decide" else _last_named(events)
        if target in marks:
            marks[target] += "!"
    about = (role, position.phase, mark(me), DEAD if position.dead else "-")
    key = " / ".join([" ".join(about), *sorted(set(marks.values()))])
    everybody = map(name_of, range(position.setup.players))  # a free text may name dead players
    labels = {name_of(place): f"#{label}" for place, label in marks.items()}
    means = None
    if position.speaking and position.setup.speech == "text":
        alive = frozenset(name_of(place) for place in marks)
        day = position.phase == "speak"
        means = partial(_phrase_meant, day=day, speaker=name_of(me), living=alive)
    return Gist(key, {**dict.fromkeys(everybody, DEAD), **labels, name_of(me): ME}, means)


def _phrase_meant(text: str, *, day: bool, speaker: str, living: frozenset[str]) -> str:
    """Return the phrase that a text counts as; only living players count as named.

    Args:
        text: a speech.
        day: whether the speech is to all, else to the wolves.
        speaker: the speaker's name.
        living: the names of the other living players.
    """
    phrase = meaning(text, speaker) if day else whisper_phrase(text)
    verb, *arguments = phrase.split()
    if verb == "claim" or not arguments or arguments[0] in living:
        return phrase
    return f"claim {SEER}" if verb == SEER else SILENCE


def _last_named(events: Sequence[WerewolfEvent]) -> int:
    """Return the number of the last player that a wolf named this night, -1 for none."""
    names = [name for name in victims(events) if name]
    return number_of(names[-1]) if names else -1


def _claims_and_suspicion(
    events: Sequence[WerewolfEvent],
) -> tuple[set[int], defaultdict[int, int]]:
    """Return (players that claim to be the seer, suspicion of each player)."""
    seers, suspicion = set[int](), defaultdict[int, int](int)
    for event in events:
        if event.kind != "say":
            continue
        verb, about, weight = _speech_effect(event)
        if verb == SEER:
            seers.add(event.who)
        elif verb == "claim":
            seers.discard(event.who)
        if weight:
            suspicion[about] += weight
    return seers, suspicion


@lru_cache(maxsize=65_536)
def _speech_effect(event: WerewolfEvent) -> tuple[str, int, int]:
    """Return the effect of a speech on its speaker and on another player.

    Returns:
        (``SEER`` for a claim to be the seer, "claim" for another claim, else ""; the number of the
        player that the speech is about; the suspicion that it adds to this player).
    """
    verb, *arguments = phrase_of(event).split()
    if verb == "claim":
        return (SEER if arguments[0] == SEER else verb), -1, 0
    if verb in (SEER, "accuse", "support"):
        weight = AGAINST[arguments[1] if verb == SEER else verb]
        return (SEER if verb == SEER else ""), number_of(arguments[0]), weight
    return "", -1, 0
