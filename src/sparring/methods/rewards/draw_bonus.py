"""Reward: a small bonus for a draw."""

from __future__ import annotations

from sparring.core.records import Episode

PRESETS = {"mars": {"bonus": 0.1, "games": ("tic_tac_toe", "connect_four", "hanabi")}}


def draw_bonus(
    episode: Episode, *, bonus: float = 0.1, games: tuple[str, ...] = ()
) -> tuple[float, ...]:
    """Pay every seat a bonus if all returns are 0.

    What: lifts a draw a little above the middle between loss and win.
    When to use: if good play ends in draws, as in tic-tac-toe, and wins in self-play become rare.
    Mathematics: on the last turn of each seat
        r = bonus if all returns are 0, nobody forfeited, and no conversation outgrew the context
    and 0 on all other turns.
    Shapes: one number per turn.
    Pitfalls: the game is no longer zero-sum, so two seats can agree to draw. MARS's code pays if
    the last reward is 0, in Hanabi even after cards were played; here the whole return must be 0.
    Reference: MARS (thu-nics/MARSHAL), the environments of the three games.
    Verified by: tests/methods/rewards/test_reply_rewards.py.

    Args:
        bonus: reward of a drawn game, once per seat, in units of returns. Default 0.1, as in MARS.
        games: names of the games with the bonus; empty (default): every game. Preset ``mars`` names
            MARS's two board games and Hanabi.
    """
    is_draw = (
        episode.forfeited_by is None
        and not episode.has_outgrown_context
        and not any(episode.returns)
        and (not games or episode.game in games)
    )
    last_index_of = {turn.seat: index for index, turn in enumerate(episode.turns)}
    return tuple(
        bonus if is_draw and last_index_of[turn.seat] == index else 0.0
        for index, turn in enumerate(episode.turns)
    )
