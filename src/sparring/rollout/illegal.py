"""What a seat is told after a reply that is no legal action."""

from __future__ import annotations

from typing import Any

from sparring.rollout.draft import Draft


def correction(environment: Any, play: Any, draft: Draft, played: str | None = None) -> str:
    """Return what a seat is told after a reply that is no legal action.

    Args:
        environment: its own wording is taken where it has any: a method ``correction``.
        play: as it stood when the reply came.
        draft: the reply.
        played: what was played at random in its place, or None if the seat may try again.
    """
    own = getattr(environment, "correction", None)
    if own is not None:
        text: str = own(play, draft.named, played)
        return text
    if environment.brief:  # of a vocabulary of its own
        return draft.observation.text if played is None else played
    wrong = (
        "Your reply contained no action."
        if draft.named is None
        else f"The action {draft.named} is not legal now."
    )
    if played is not None:
        return f"{wrong} The action {played} was played for you."
    return f"{wrong} {draft.observation.ask or draft.observation.told}"
