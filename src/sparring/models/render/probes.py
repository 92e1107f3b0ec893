"""Conversations that show how a chat template writes turns, and whether it writes all alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sparring.core.errors import ModelError

PROBES = (
    "firstuserprobe",
    "firstreplyprobe",
    "seconduserprobe",
    "secondreplyprobe",
    "thirduserprobe",
)
TOLD_PROBE = "It is your turn. Legal actions: bet, pass.\n\nPlease choose one of them."
REPLY_PROBE = "bet"
# the texts between the contents of a conversation, and who speaks from the third on
Render = Callable[..., list[str]]


def pieces(render: Render, remedy: str) -> tuple[str, str, str, str]:
    """Return the texts around messages and replies.

    They are before the first message, before a reply in the history, between a reply and the
    next message, and from a message to the reply that is asked for.

    Args:
        render: gives the texts between contents.
        remedy: what to write instead of the template, for the error.

    Raises:
        ModelError: the pieces depend on how long the conversation is: the template is not
            prefix-stable.
    """
    first, ask = render(PROBES[:1])
    second = render(PROBES[:3])
    third = render(PROBES)
    expected = [first, second[1], second[2], second[1], second[2], ask]
    if second != [first, second[1], second[2], ask] or third != expected:
        place = (
            next(index for index, (a, b) in enumerate(zip(third, expected, strict=True)) if a != b)
            if third != expected
            else 0
        )
        raise ModelError(
            f"The chat template is not prefix-stable: piece {place} is {third[place]!r} after "
            f"three messages and {expected[place]!r} after two, so earlier turns would be "
            f"told differently later. {remedy} Or give a template in renderer.template that writes "
            "every turn the same way."
        )
    return first, second[1], second[2], ask


def tool_turns(render: Render) -> Literal["stable", "unstable", "none"]:
    """Return how the template writes what a tool answers.

    The same way however long the conversation, or not, or not at all.
    """
    try:
        first = render(PROBES[:1])
        second, third = render(PROBES[:3], "tool"), render(PROBES, "tool")
    except ModelError:
        return "none"
    expected = [first[0], second[1], second[2], third[3], second[2], second[3]]
    return "stable" if second[0] == first[0] and third == expected else "unstable"


def between(rendered: str, contents: tuple[str, ...], remedy: str) -> list[str]:
    """Return the texts of a rendered conversation before, between and after its contents.

    Args:
        rendered: the conversation.
        contents: what was said in it, in order.
        remedy: what to write instead of the template, for the error.

    Raises:
        ModelError: one of the contents is not there once.
    """
    found, rest = [], rendered
    for text in contents:
        if rest.count(text) != 1:
            raise ModelError(
                f"The chat template changes or repeats what is said ({text!r}). {remedy}"
            )
        before, _, rest = rest.partition(text)
        found.append(before)
    return [*found, rest]
