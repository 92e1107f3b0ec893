"""Reward: a draw is worth a little."""

from __future__ import annotations

from sparring.types import Episode

PRESETS = {
    "mars": {"bonus": 0.1, "games": ("tic_tac_toe", "connect_four", "hanabi")},
}


def draw_bonus(episode: Episode, *, bonus: float = 0.1, games: tuple[str, ...] = ()) -> tuple[float, ...]:
    """A bonus for every seat when the game ends with nothing for anyone.

    What: lifts a draw a little above the middle between loss and win.
    When to use: where good play ends in draws, as in tic-tac-toe, and wins against oneself fade away.
    Mathematics: on the last turn of each seat, r = bonus if all returns are 0 and nobody forfeited; 0 on all other turns.
    Shapes: one number per turn.
    Options: ``bonus``; ``games`` limits it to games of these names (empty: every game). Preset ``mars`` is MARS's +0.1 in its two
    board games and Hanabi.
    Pitfalls: it is no zero-sum game any more: two seats can agree to draw. MARS's code pays whenever the last reward is 0,
    which in Hanabi can be after cards were played; here the whole return must be 0.
    Reference: MARS (thu-nics/MARSHAL), the environments of the three games.
    Verified by: tests/rewards/test_draw_bonus.py.
    """
    drawn = episode.forfeited_by is None and not any(episode.returns) and (not games or episode.game in games)
    last = {turn.seat: number for number, turn in enumerate(episode.turns)}
    return tuple(bonus if drawn and last[turn.seat] == number else 0.0 for number, turn in enumerate(episode.turns))
