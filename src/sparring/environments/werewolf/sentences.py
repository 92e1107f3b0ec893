"""Speeches in sentences: wordings of the phrases of the grammar, and what a free text means.

What a text means is one phrase at most, read by its words: who is named, whether the speaker says
that it has seen something as the seer, and whether what is said of the player is good or bad. A
text that accuses one player and supports another is about the first that it names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from sparring.core.rng import Stream
from sparring.environments.abstracted import NAME
from sparring.environments.werewolf.names import name_of
from sparring.environments.werewolf.rules import GOOD, Event
from sparring.environments.werewolf.setup import DOCTOR, SEER, VILLAGER, WOLF
from sparring.environments.werewolf.speech import MOST, SILENCE

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
    f"support {NAME}": (
        "I trust @.",
        "@ seems honest to me.",
        "I think that @ is no werewolf.",
    ),
    f"kill {NAME}": (  # of a wolf to the wolves
        "Let us kill @.",
        "I want @ dead tonight.",
        "@ is my choice.",
    ),
    SILENCE: (
        "I have nothing to say.",
        "I know nothing yet.",
        "Let us be careful today.",
    ),
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
        if judges and not (word in _OPINION and _goes_on(words[number + 1 :])):
            return WOLF if (word in _BAD) != (turned != doubted) else GOOD
        begins, doubted = number + 1, turned != (word == "doubt")
    return ""


def _words(text: str) -> list[str]:
    """Return the words of a text, in small letters."""
    text = text[:MOST].translate(_APOSTROPHES).lower()
    return [word.removesuffix("'s") for word in _WORD.findall(text)]


def _denies(word: str) -> bool:
    """Return whether a word is a negation."""
    return word in _NOT or word.endswith("n't")


def _goes_on(words: list[str]) -> bool:
    """Return whether an opinion is about what is said after it, not about a player by itself."""
    return _CLAUSE.match(" ".join(words[:3])) is not None
