"""Pictures of positions. No environment draws one yet: this is the place where they come in."""

from __future__ import annotations

from sparring.types import Episode


def has_pictures(episode: Episode) -> bool:
    """Return whether the environment of an episode draws its positions."""
    return board(episode, 0, None, "light") is not None


def board(episode: Episode, turn: int, seat: int | None, theme: str) -> str | None:
    """Return the position before a turn as SVG; None where the environment draws none.

    Args:
        episode: that is shown.
        turn: number of the turn, from 0.
        seat: whose view is drawn; None draws all.
        theme: light or dark.
    """
    return None
