"""Texts of pictures: what may be seen of any text, how wide it is, how it is cut and wrapped.

Text of models and of people is data. What steers a screen or another text (control characters,
direction marks, characters without a width) is shown by its number.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

LONGEST = 4000  # letters of a text that are looked at
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})  # categories that have no shape of their own
MARKS = frozenset({"Mn", "Me"})  # they are put on the letter before them
NARROW = frozenset("iljtfrI.,:;'|!()[]{}/\\- ")
BROAD = frozenset("mwMW@%—…")


def visible(text: str) -> str:
    """Return a text on one line, in which every character can be seen.

    White space is one blank each. What has no shape is shown as its number, such as [U+202E].
    """
    return " ".join("".join(_shown(text[:LONGEST])).split())


def as_printed(text: str) -> str:
    """Return a line in which every character can be seen, its blanks kept where they are."""
    return "".join(_shown(text.rstrip()[:LONGEST])).replace(" ", "\u00a0")


def _shown(text: str) -> Iterator[str]:
    """Yield each character, or what is shown in its place."""
    marks = 0
    for sign in text:
        kind = unicodedata.category(sign)
        marks = marks + 1 if kind in MARKS else 0
        if sign.isspace():
            yield " "
        elif kind in HIDDEN or marks > 2:
            yield f"[U+{ord(sign):04X}]"
        else:
            yield sign


def width_of(text: str, size: float) -> float:
    """Return about how wide a text is, in the units of the picture.

    Args:
        text: on one line.
        size: of its letters.
    """
    return size * sum(map(_em, text))


def _em(sign: str) -> float:
    """Return about how wide a letter is, as a share of its size."""
    if sign in NARROW:
        return 0.36
    if sign in BROAD or unicodedata.east_asian_width(sign) in "WF":
        return 1.0
    return 0.7 if sign.isupper() else 0.6


def cut(text: str, size: float, width: float) -> str:
    """Return a text on one line, its end left out where it is wider than ``width``."""
    text = visible(text)
    return text if width_of(text, size) <= width else _begin(text, size, width - size) + "…"


def _begin(text: str, size: float, width: float) -> str:
    """Return the beginning of a text that is not wider than this."""
    room = width
    for place, sign in enumerate(text):
        room -= size * _em(sign)
        if room < 0:
            return text[:place].rstrip()
    return text


def wrapped(text: str, size: float, width: float, most: int) -> list[str]:
    """Return a text as lines; the last one ends in "…" where something is left out.

    Args:
        text: its own line ends stay.
        size: of its letters.
        width: of a line, in the units of the picture.
        most: lines, at least 1.
    """
    lines: list[str] = []
    for part in text[:LONGEST].splitlines() or [""]:
        lines += _broken(visible(part), size, width)
        if len(lines) > most:
            break
    left_out = len(lines) > most or len(text) > LONGEST
    if left_out:
        lines = lines[:most]
        lines[-1] = _begin(lines[-1], size, width - size) + "…"
    return lines


def _broken(text: str, size: float, width: float) -> list[str]:
    """Return a line broken between words, and within a word that is wider than the line."""
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}".strip()
        if width_of(joined, size) <= width:
            lines[-1] = joined
            continue
        while width_of(word, size) > width:
            head = _begin(word, size, width) or word[:1]
            lines.append(head)
            word = word[len(head) :]
        lines.append(word)
    return [line for line in lines if line] or [""]
