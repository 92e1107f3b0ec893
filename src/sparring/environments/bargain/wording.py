"""The messages of a bargain: how they are read, and what the seats are told.

A message is data: what the other seat is told of it stands in quotation marks that the message
cannot close, on one line, without control characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sparring.environments.bargain.rules import KINDS, Counts, Message, Scenario

TITLE = "bargain"
VERBS = ("offer", "accept", "reject")  # brief: what begins an act
TALK = ("want", "need", "give", "keep", "yes", "no")  # brief: what may be said besides
NOTES = {
    "malformed": (
        "Your last message held a proposal that could not be read: {why}. It was passed on as talk."
    ),
    "nothing": "You accepted, but the other player has proposed nothing yet; say what you want.",
    "cut": "Your last message was too long: only its first {talk} characters were passed on.",
}
_TAG = re.compile(r"<(propose|accept|reject)\s?/?>", re.IGNORECASE)
_ALONE = re.compile(r"\W{0,9}(accept|reject)\W{0,9}", re.IGNORECASE)
_BROKEN = re.compile(r"<\s?/?\s?(?:propos|accept|reject)", re.IGNORECASE)
_PART = re.compile(r"([0-9]{1,3})\s?([a-z]+)")


def listed(counts: Counts) -> str:
    """Return numbers of items in words, such as "2 books, 1 hat, 0 balls"."""
    return ", ".join(
        f"{number} {name[:-1] if number == 1 else name}"
        for name, number in zip(KINDS, counts, strict=False)
    )


def clean(reply: str, talk: int) -> tuple[str, bool]:
    """Return a reply as one line of printable characters, and whether it was cut.

    Thoughts before ``</think>``, or begun and not ended, are not said.

    Args:
        reply: any text.
        talk: characters that are kept at most.
    """
    spoken = reply.rpartition("</think>")[2].partition("<think>")[0]
    line = " ".join("".join(c if c.isprintable() else " " for c in spoken).split())
    return (line[:talk].rstrip(), True) if len(line) > talk else (line, False)


def share_of(text: str, counts: Counts) -> tuple[Counts | None, str]:
    """Return the share that a proposal names, or None and what is wrong with it.

    Kinds that are not named are 0.
    """
    names = KINDS[: len(counts)]
    found: dict[str, int] = {}
    for part in re.split(r",|\band\b", text.lower()):
        match = _PART.fullmatch(part.strip(" ."))
        if match is None:
            return None, f"write it like {listed(counts)}"
        name = match[2] if match[2] in names else f"{match[2]}s"
        if name not in names or name in found:
            return None, f"name each of {', '.join(names)} once"
        found[name] = int(match[1])
    share = tuple(found.get(name, 0) for name in names)
    if any(taken > held for taken, held in zip(share, counts, strict=True)):
        return None, f"there are only {listed(counts)}"
    return share, ""


def read_full(line: str, cut: bool, counts: Counts) -> tuple[Message, str]:
    """Return a message of full style, and what is wrong with its proposal, or "".

    The last of ``<propose>...</propose>``, ``<accept>``, ``<reject>`` counts; "accept" or "reject"
    alone will do as well.
    """
    alone, tags = _ALONE.fullmatch(line), [*_TAG.finditer(line)]
    verb = alone[1].lower() if alone else tags[-1][1].lower() if tags else ""
    if verb == "accept":
        return Message(line, "accept", cut=cut), ""
    if verb == "reject":
        return Message(line, "reject", cut=cut), ""
    if not verb:
        broken = _BROKEN.search(line) is not None
        why = "close the form with </propose> and open it with <propose>" if broken else ""
        return Message(line, "malformed" if broken else "talk", cut=cut), why
    body, closed, _ = line[tags[-1].end() :].partition("</propose>")
    share, why = share_of(body, counts) if closed else (None, "it does not end with </propose>")
    if share is None:
        return Message(line, "malformed", cut=cut), why
    return Message(line, "offer", share, cut), ""


def read_brief(line: str, cut: bool, counts: Counts, known: frozenset[str]) -> Message:
    """Return a message of brief style: its known words, of which the last verb counts.

    An offer is "offer" and a number per kind that the pool holds, no fewer and no more.
    """
    words = [word for word in line.split() if word in known]
    said = " ".join(words)
    place = max((at for at, word in enumerate(words) if word in VERBS), default=-1)
    if place < 0:
        return Message(said, "talk", cut=cut)
    if words[place] != "offer":
        return Message(said, "accept" if words[place] == "accept" else "reject", cut=cut)
    numbers = _leading_numbers(words[place + 1 :])
    fits = len(numbers) == len(counts)
    if not fits or any(a > b for a, b in zip(numbers, counts, strict=True)):
        return Message(said, "malformed", cut=cut)
    return Message(said, "offer", numbers, cut)


def _leading_numbers(words: Sequence[str]) -> Counts:
    """Return the numbers that words begin with."""
    found: list[int] = []
    for word in words:
        if not (word.isascii() and word.isdigit()):
            break
        found.append(int(word))
    return tuple(found)


def brief_words(kinds: int, most: int, total: int) -> frozenset[str]:
    """Return every word of brief style but the roles."""
    numbers = {str(number) for number in range(most + 1)}
    values = {f"={value}" for value in range(total + 1)}
    return frozenset({TITLE, ".", *NOTES, *VERBS, *TALK, *KINDS[:kinds], *numbers, *values})


def brief_pool(scenario: Scenario, seat: int) -> str:
    """Return the pool and a seat's values in brief words, such as "books 2 =1 hats 1 =8"."""
    parts = zip(KINDS, scenario.counts, scenario.values[seat], strict=False)
    return " ".join(f"{name} {number} ={value}" for name, number, value in parts)


def quoted(message: Message) -> str:
    """Return what the other seat said, in quotation marks that it cannot close."""
    if not message.said:
        return "The other player says nothing."
    return 'The other player says: "{}"'.format(message.said.replace('"', "'"))


def full_rules(limit: int, talk: int, joint: bool) -> str:
    """Return the rules in sentences."""
    aim = (
        "Your result is the mean of both players' points, and so is the other player's: find the "
        "split that is worth most to you both."
        if joint
        else "Your result is what your own items are worth to you, whatever the other player gets."
    )
    return (
        "We play a bargaining game with 2 players, who divide a pool of items. An item is worth "
        "a number of points that depends on its kind and on the player; the whole pool is worth "
        "the same to both, but the other player's values can differ from yours, and are not told. "
        f"The players send messages in turn, {limit} in all, of at most {talk} characters each. "
        "A message is any text. It may hold a proposal, which says what you would take; the other "
        "player would get the rest. <accept> agrees to the other player's last proposal and ends "
        "the game; <reject> breaks the talks off. Without an agreement both players get nothing. "
        f"{aim}"
    )


def full_pool(scenario: Scenario, seat: int) -> str:
    """Return the pool and a seat's values in a sentence."""
    parts = zip(KINDS, scenario.values[seat], strict=False)
    prices = ", ".join(f"one {name[:-1]} {value}" for name, value in parts)
    return f"The pool: {listed(scenario.counts)}. In points it is worth to you: {prices}."


def full_form(counts: Counts) -> str:
    """Return how a message is to be written, in a sentence."""
    half = tuple(number // 2 for number in counts)
    example = listed(half if any(half) else (1, *half[1:]))
    return (
        "Write one short message to the other player. A proposal of what you would take is "
        f"written <propose>{example}</propose>; write <accept> to agree to the other player's "
        "last proposal."
    )
