"""Text in pictures: visible characters, widths, shortening and line breaks.

Models and people may write any characters. Characters that control a screen or other text (control
characters, direction marks, characters without a width) are shown as their number.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

MAX_CHARACTERS = 4000  # largest number of characters of a text; the rest is ignored
SHAPELESS_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})  # of Unicode, without a shape
MARK_CATEGORIES = frozenset({"Mn", "Me"})  # of marks on the previous letter
NARROW_LETTERS = frozenset("iljtfrI.,:;'|!()[]{}/\\- ")
WIDE_LETTERS = frozenset("mwMW@%—…")


def visible_text(text: str) -> str:
    """Return a text on one line; characters without a shape become numbers, such as [U+202E]."""
    return " ".join("".join(_visible_characters(text[:MAX_CHARACTERS])).split())


def line_with_blanks(text: str) -> str:
    """Return a line with all its blanks; characters without a shape become numbers."""
    return "".join(_visible_characters(text.rstrip()[:MAX_CHARACTERS])).replace(" ", "\u00a0")


def _visible_characters(text: str) -> Iterator[str]:
    num_marks = 0
    for character in text:
        category = unicodedata.category(character)
        num_marks = num_marks + 1 if category in MARK_CATEGORIES else 0
        if character.isspace():
            yield " "
        elif category in SHAPELESS_CATEGORIES or num_marks > 2:
            yield f"[U+{ord(character):04X}]"
        else:
            yield character


def width_of(text: str, size: float) -> float:
    """Return the approximate width of a text, in units of the picture.

    Args:
        text: one line.
        size: size of the letters.
    """
    return size * sum(map(_em, text))


def _em(character: str) -> float:
    if character in NARROW_LETTERS:
        return 0.36
    if character in WIDE_LETTERS or unicodedata.east_asian_width(character) in "WF":
        return 1.0
    return 0.7 if character.isupper() else 0.6


def shorten(text: str, size: float, width: float) -> str:
    """Return a text on one line, shortened to ``width``."""
    text = visible_text(text)
    return text if width_of(text, size) <= width else _prefix(text, size, width - size) + "…"


def _prefix(text: str, size: float, width: float) -> str:
    free_width = width
    for index, character in enumerate(text):
        free_width -= size * _em(character)
        if free_width < 0:
            return text[:index].rstrip()
    return text


def wrap_text(text: str, size: float, width: float, most: int) -> list[str]:
    """Return a text as lines, with "…" at the end of a shortened text.

    Args:
        text: the text with its own line ends.
        size: size of the letters.
        width: width of a line, in units of the picture.
        most: largest number of lines, at least 1.
    """
    lines: list[str] = []
    for line_text in text[:MAX_CHARACTERS].splitlines() or [""]:
        lines += _break_line(visible_text(line_text), size, width)
        if len(lines) > most:
            break
    is_shortened = len(lines) > most or len(text) > MAX_CHARACTERS
    if is_shortened:
        lines = lines[:most]
        lines[-1] = _prefix(lines[-1], size, width - size) + "…"
    return lines


def _break_line(text: str, size: float, width: float) -> list[str]:
    """Break a line between words, or within a word that is wider than the line."""
    lines = [""]
    for word in text.split():
        longer_line = f"{lines[-1]} {word}".strip()
        if width_of(longer_line, size) <= width:
            lines[-1] = longer_line
            continue
        while width_of(word, size) > width:
            prefix = _prefix(word, size, width) or word[:1]
            lines.append(prefix)
            word = word[len(prefix) :]
        lines.append(word)
    return [line for line in lines if line] or [""]
