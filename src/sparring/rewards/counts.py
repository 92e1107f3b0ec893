"""What rewards share that pay a lead by what its environment counts."""

from __future__ import annotations

from typing import Any

from sparring.rollout.replay import figures_of
from sparring.types import Episode


def paid_to_leads(episode: Episode, game: Any, name: str) -> tuple[float | None, ...]:
    """Return a figure of the play on the last turn of each seat that leads, None on all others.

    None everywhere where the environment does not count it, or has no lead, and in plays that were
    cut or forfeited.

    Args:
        episode: the play.
        game: its environment; ``leads(seat)`` says who leads.
        name: of the figure.
    """
    nothing = (None,) * len(episode.turns)
    leads = getattr(game, "leads", None)
    if leads is None or name not in getattr(game, "figures", ()):
        return nothing
    found = figures_of(game, episode)
    if found is None:
        return nothing
    last = {turn.seat: number for number, turn in enumerate(episode.turns)}
    return tuple(
        found[name][turn.seat] if last[turn.seat] == number and leads(turn.seat) else None
        for number, turn in enumerate(episode.turns)
    )
