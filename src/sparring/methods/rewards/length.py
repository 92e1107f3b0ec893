"""Reward: a bonus for short replies, a penalty for long ones."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.records import Episode
from sparring.play.episode import num_sampled_tokens

READS = "turn"
PRESETS = {
    "mars_paper": {"shortest": 11, "longest": 2048, "bonus": 0.5, "penalty": 0.0},
    "mars_released": {"shortest": 11, "longest": 2048, "bonus": 0.0, "penalty": 0.5},
}


def length(
    episode: Episode,
    *,
    shortest: Annotated[int, Field(ge=0)] = 11,
    longest: Annotated[int, Field(ge=1)] = 2048,
    bonus: Annotated[float, Field(ge=0)] = 0.0,
    penalty: Annotated[float, Field(ge=0)] = 0.5,
) -> tuple[float, ...]:
    """Pay for replies shorter than a length, and charge for longer ones, in proportion.

    What: a function of the reply's tokens that is linear below and above ``longest``.
    When to use: against replies that grow without improving.
    Mathematics:
        s_t = 1 - (L_t - shortest) / (longest - shortest)
        r_t = bonus * s_t if s_t > 0, else penalty * s_t
    L_t counts the sampled tokens of turn t, its stop token included. Turns without tokens get 0.
    Shapes: one number per turn.
    Pitfalls:
        - The bonus pays for every turn, and so favours long episodes.
        - A reply shorter than ``shortest`` gets a little more than ``bonus``.
        - With an outcome gap of 1, either preset can reach the bound on shaping.
        - Preset ``mars_paper`` is the paper's alpha * max(0, s_t) with alpha 0.5. Preset
          ``mars_released`` (the default) is MARS's code, which pays nothing up to ``longest`` and
          charges half of s_t beyond.
    Reference: MARS (arXiv:2510.15414), and the authors' code, env_manager.py.
    Verified by: tests/methods/rewards/test_reply_rewards.py.

    Args:
        shortest: length of a reply with the full bonus, in tokens, at least 0. The default 11 is
            that of MARS's code; the paper has no number.
        longest: length above which a reply is charged, in tokens, above ``shortest``. The default
            2048 is that of MARS's code; the paper has no number.
        bonus: reward of a reply of ``shortest`` tokens, at least 0; it falls to 0 at ``longest``.
        penalty: cost of every longest - shortest tokens beyond ``longest``, in proportion; at least
            0. Default 0.5.

    Raises:
        ConfigError: longest is not above shortest.
    """
    if longest <= shortest:
        raise ConfigError(
            f"rewards 'length': longest={longest} must be above shortest={shortest}; write "
            f"longest: {shortest + 1}."
        )
    return tuple(
        _reward(num_sampled_tokens(turn), shortest, longest, bonus, penalty)
        for turn in episode.turns
    )


def _reward(num_tokens: int, shortest: int, longest: int, bonus: float, penalty: float) -> float:
    if not num_tokens:
        return 0.0
    share = 1.0 - (num_tokens - shortest) / (longest - shortest)
    return share * (bonus if share > 0.0 else penalty)
