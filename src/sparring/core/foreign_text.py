"""Text of strangers (models, endpoints, recipes, files) as a terminal may show it."""

from __future__ import annotations

import unicodedata

KEPT = "\n\t"
# controls, formats such as turned writing, halves of pairs, separators
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
JOINERS = "\u200c\u200d"  # formats that scripts and emoji need; they only join their neighbours


def shown(text: object, *, lines: bool = True) -> str:
    r"""Return a text with every character that commands a terminal escaped.

    It is written as its escape, such as ``\x1b``.

    Args:
        text: anything; what is no string is turned into one first.
        lines: whether line ends and tabs stay; otherwise they are escaped as well.
    """
    text = str(text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character, KEPT if lines else "") for character in text)


def _escaped(character: str, kept: str) -> str:
    """Return a character, or its escape where it would command a terminal."""
    if character in kept or character in JOINERS or unicodedata.category(character) not in HIDDEN:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def in_words(minutes: float) -> str:
    """Return a duration as a person would say it.

    >>> in_words(0.2), in_words(1.6), in_words(200)
    ('12 seconds', '2 minutes', '3.3 hours')
    """
    if minutes < 1:
        return f"{max(minutes * 60, 1):.0f} seconds"
    if minutes < 120:
        return f"{minutes:.0f} minute{'s' if round(minutes) != 1 else ''}"
    return f"{minutes / 60:,.{0 if minutes > 600 else 1}f} hours"
