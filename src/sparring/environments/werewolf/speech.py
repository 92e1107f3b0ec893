"""Speeches: the phrases of the small grammar, and what becomes of a free text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

Say = Literal["claim", "result", "accuse", "support"]

SILENCE = "silence"
SAY: tuple[Say, ...] = ("claim", "result", "accuse", "support")
MOST = 100_000  # characters of a speech that are looked at
_NAME = r"p[1-9]"
_MARKED = re.compile(
    rf"\[\s*({_NAME}|abstain)\s*\]|\*\*\s*({_NAME}|abstain)\s*\*\*"
    rf"|(?<!not )(?<!n't )\b(?:answer|action|vote)\b(?:\s+is)?\s*(?:[:=]\s*)?({_NAME}|abstain)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"(?<![\w-])({_NAME}|abstain)(?![\w-])", re.IGNORECASE)


def phrases(say: Sequence[str], kinds: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return all speeches of the grammar.

    Args:
        say: which of ``SAY`` there are, besides silence.
        kinds: roles that may be claimed.
        others: names of the other players that live.
    """
    found = [SILENCE]
    if "claim" in say:
        found += [f"claim {kind}" for kind in kinds]
    if "result" in say:
        found += [f"seer {name} {word}" for name in others for word in ("wolf", "good")]
    found += [f"{verb} {name}" for verb in ("accuse", "support") if verb in say for name in others]
    return tuple(found)


def whispers(say: Sequence[str], kinds: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return all that wolves say to one another by night, in the grammar.

    Args:
        say: which of ``SAY`` there are; with "claim" a wolf may say as what it will speak by day.
        kinds: roles that may be claimed.
        others: names of the players that may be killed.
    """
    claims = phrases([one for one in say if one == "claim"], kinds, ())
    return (*claims, *(f"kill {name}" for name in others))


def one_line(text: str, limit: int) -> str:
    """Return a speech on one line without characters that print nothing.

    One character more than ``limit`` says that there was more. Of what it returns it returns the
    same.
    """
    shown = "".join(one if one.isprintable() or one.isspace() else "" for one in text[:MOST])
    line = " ".join(shown.split())
    return line[:limit] + line[limit:].lstrip()[:1]


def named(reply: str) -> str | None:
    """Return the one player that a reply names, or abstention; None: no one, or several.

    What is marked counts before what is not: "not p1 but [p2]" names p2.
    """
    text = reply[:MOST]
    for found in (
        {mark.lower() for marks in _MARKED.findall(text) for mark in marks if mark},
        {mark.lower() for mark in _NAMED.findall(text)},
    ):
        if found:
            return next(iter(found)) if len(found) == 1 else None
    return None
