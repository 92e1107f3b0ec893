"""Free-text speeches: sentences for the phrases of the grammar, and phrases for free text.

The meaning of a text is at most one phrase of the grammar. The phrase depends on the first player
that the text names, on good and bad words, and on a claim to have looked at a player as the seer.
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
    MAX_CHARS,
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

ROLES = {  # role by its word in a text
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
_SEER_REPORT = re.compile(
    r"^seer |\bi (?:have )?(?:looked|saw|seen|checked|learned|learnt)\b|\bmy vision\b"
)
_BAD_WORDS = {
    *("wolf", "wolves", "werewolf", "werewolves", "accuse", "suspect", "suspicious", "guilty"),
    *("vote", "voting", "lying", "lies", "liar", "dangerous", "evil", "doubt"),
}
_GOOD_WORDS = {
    *("good", "trust", "honest", "innocent", "villager", "doctor", "support", "believe"),
    *("safe", "friend", "defend"),
}
_NEGATIONS = {"not", "no", "never", "cannot", "nobody"}  # besides words that end in n't
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc`", "'"))
_OPINION_WORDS = {"think", "believe", "say", "suppose", "feel", "doubt"}
_CLAUSE = re.compile(r"(?:that )?p[1-9] (?:is|was|has|to|will|would|looks|seems|must|may|might)\b")
NEGATION_RANGE = 3  # a negation reverses the meaning of the next three words


def to_sentence(phrase: str, stream: Stream) -> str:
    """Return a random sentence with the meaning of a phrase of the grammar.

    Args:
        phrase: a phrase of the grammar, such as "seer p2 wolf".
        stream: source of random numbers.
    """
    name, lines = _PLAYER.search(phrase), WORDINGS[_PLAYER.sub(NAME, phrase)]
    line = lines[stream.integer(0, len(lines))]
    return line.replace(NAME, name[0]) if name else line


def phrase_of(event: WerewolfEvent) -> str:
    """Return the meaning of a speech as a phrase of the grammar."""
    return phrase_meant(event.word, name_of(event.actor))


def victims_named(events: Sequence[WerewolfEvent]) -> list[str]:
    """Return the victim in each speech of the wolves since the last vote; "" for no victim.

    Args:
        events: the events that a wolf knows.
    """
    day_ends = [index for index, event in enumerate(events) if event.kind in ("out", "stay")]
    events_tonight = events[day_ends[-1] + 1 :] if day_ends else events
    return [victim_in(event.word) for event in events_tonight if event.kind == "whisper"]


def whisper_phrase(text: str) -> str:
    """Return the phrase of the grammar closest to a wolf's text to the wolves."""
    victim = victim_in(text)
    return f"kill {victim}" if victim else SILENCE


@lru_cache(maxsize=4096)
def victim_in(text: str) -> str:
    """Return the victim in a wolf's text to the wolves: the first player that it names, or "".

    A negation at most three words before a player excludes this player: "not p3, but p5" names p5.

    Args:
        text: a phrase, or any text.
    """
    words, start = _words(text), 0
    for index, word in enumerate(words):
        if _PLAYER.fullmatch(word):
            if not any(map(_is_negation, words[max(index - NEGATION_RANGE, start) : index])):
                return word
            start = index + 1
    return ""


@lru_cache(maxsize=4096)
def phrase_meant(text: str, speaker: str = "") -> str:
    """Return the phrase of the grammar closest to a speech; ``silence`` if no phrase is close.

    Args:
        text: a phrase, or any text.
        speaker: the speaker's name, which does not count in the text.
    """
    words = _words(text)
    line = " ".join(words)
    claim = _CLAIM.search(line)
    role = ROLES[claim[1]] if claim else ""
    player = next((word for word in words if _PLAYER.fullmatch(word) and word != speaker), None)
    verdict = _verdict(words if claim is None else _WORD.findall(line[claim.end() :]))
    if player is None or not verdict:
        return f"claim {role}" if role else SILENCE
    if role == SEER or _SEER_REPORT.search(line):
        return f"{SEER} {player} {verdict}"
    return f"{'accuse' if verdict == WOLF else 'support'} {player}"


def _verdict(words: list[str]) -> str:
    """Return ``WOLF`` or ``GOOD`` by the first bad or good word; "" without such a word.

    A denied or doubted opinion reverses the next clause: "I don't think that p2 is a wolf".
    """
    start, is_doubted = 0, False  # start: index of the first word after "I think" and the like
    for index, word in enumerate(words):
        is_verdict = word in _BAD_WORDS or word in _GOOD_WORDS
        if not is_verdict and word not in _OPINION_WORDS:
            continue
        preceding = words[max(start, index - NEGATION_RANGE) : index]
        is_negated = any(map(_is_negation, preceding))
        if is_verdict and not (
            word in _OPINION_WORDS and _CLAUSE.match(" ".join(words[index + 1 : index + 4]))
        ):
            return WOLF if (word in _BAD_WORDS) != (is_negated != is_doubted) else GOOD
        start, is_doubted = index + 1, is_negated != (word == "doubt")
    return ""


def _words(text: str) -> list[str]:
    text = text[:MAX_CHARS].translate(_APOSTROPHES).lower()
    return [word.removesuffix("'s") for word in _WORD.findall(text)]


def _is_negation(word: str) -> bool:
    return word in _NEGATIONS or word.endswith("n't")


SUSPICION = {"accuse": 1, "support": -1, WOLF: 2, GOOD: -2}  # change of suspicion by a phrase
ME, DEAD = "me", "dead"
TOP, TRUSTED, PLAIN = "top", "trusted", "plain"


def gist(position: WerewolfPosition, seat: int) -> Gist:
    """Return the abstract state of a seat: its role, the phase, and a mark of each living player.

    A player's mark is the first of this list that applies:

    - "wolf" or "good": the seat knows that the player is, or is not, a wolf;
    - "seer": the player claims to be the seer;
    - "top": no living player is more suspicious. Suspicion is accusations minus support, and a
      seer's report counts twice;
    - "trusted": more speeches are for the player than against;
    - "plain": no other mark applies.

    By night wolves also see "!" at the proposed player, or at the last player named in their talk.
    The state leaves out how often a mark occurs, other claims, the order of speeches, votes and the
    round, so few episodes visit most states. Free texts with the same meaning are one action.

    Args:
        position: the position.
        seat: a seat that must reply now.
    """
    events, role = position.events, position.setup.roles[seat]
    own_place = position.places[seat]
    seers, suspicion = _claims_and_suspicion(events)
    results = dict[int, str]()
    if role == SEER:
        results = {event.target: event.word for event in events if event.kind == "look"}
    elif role == WOLF:
        results = {position.places[mate]: WOLF for mate in position.setup.wolves}
    living = [position.places[player] for player in position.living()]
    max_suspicion = max(1, *(suspicion[place] for place in living))

    def mark(place: int) -> str:
        if place in results and place != own_place:
            return results[place]
        if place in seers:
            return SEER
        if suspicion[place] >= max_suspicion:
            return TOP
        return TRUSTED if suspicion[place] < 0 else PLAIN

    marks = {place: mark(place) for place in living if place != own_place}
    if position.phase in NIGHT and role == WOLF:
        target = position.proposed_victim if position.phase == "decide" else _last_named(events)
        if target in marks:
            marks[target] += "!"
    state_words = (role, position.phase, mark(own_place), DEAD if position.dead else "-")
    key = " / ".join([" ".join(state_words), *sorted(set(marks.values()))])
    all_names = map(name_of, range(position.setup.players))  # a free text may name dead players
    labels = {name_of(place): f"#{label}" for place, label in marks.items()}
    meaning_of, own_name = None, name_of(own_place)
    if position.is_speaking and position.setup.speech == "text":
        names = frozenset(name_of(place) for place in marks)
        is_day = position.phase == "speak"
        meaning_of = partial(_living_phrase_meant, is_day=is_day, speaker=own_name, living=names)
    return Gist(key, {**dict.fromkeys(all_names, DEAD), **labels, own_name: ME}, meaning_of)


def _living_phrase_meant(text: str, *, is_day: bool, speaker: str, living: frozenset[str]) -> str:
    """Return the phrase of the grammar that a text means; names of dead players do not count.

    Args:
        text: a speech.
        is_day: True: a speech to all players; False: to the wolves.
        speaker: the speaker's name.
        living: the names of the other living players.
    """
    phrase = phrase_meant(text, speaker) if is_day else whisper_phrase(text)
    verb, *arguments = phrase.split()
    if verb == "claim" or not arguments or arguments[0] in living:
        return phrase
    return f"claim {SEER}" if verb == SEER else SILENCE


def _last_named(events: Sequence[WerewolfEvent]) -> int:
    """Return the number of the last player that a wolf named this night; -1 if there is none."""
    names = [name for name in victims_named(events) if name]
    return number_of(names[-1]) if names else -1


def _claims_and_suspicion(
    events: Sequence[WerewolfEvent],
) -> tuple[set[int], defaultdict[int, int]]:
    seers, suspicion = set[int](), defaultdict[int, int](int)
    for event in events:
        if event.kind != "say":
            continue
        verb, target, weight = _speech_effect(event)
        if verb == SEER:
            seers.add(event.actor)
        elif verb == "claim":
            seers.discard(event.actor)
        if weight:
            suspicion[target] += weight
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
        weight = SUSPICION[arguments[1] if verb == SEER else verb]
        return (SEER if verb == SEER else ""), number_of(arguments[0]), weight
    return "", -1, 0
