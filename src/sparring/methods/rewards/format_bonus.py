"""Reward: a bonus for every legal reply."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.core.records import Episode

READS = "turn"
PRESETS = {"mars_released": {"bonus": 0.05, "penalty": 0.0}}


def format_bonus(
    episode: Episode,
    *,
    bonus: Annotated[float, Field(ge=0)] = 0.05,
    penalty: Annotated[float, Field(ge=0)] = 0.0,
) -> tuple[float, ...]:
    """A bonus for every legal reply, a penalty for every other one.

    What: pays for the form alone, so a model that cannot win yet has something to learn from.
    When to use: for models that begin with few legal replies. Lower its weight to 0 later by a
    schedule.
    Mathematics:
        r_t = bonus if the reply was a legal action, else -penalty
    Shapes: one number per turn.
    Pitfalls: it pays for long games. The bound on shaping holds the sum below the difference of two
    outcomes; without it (``reorder_outcomes``) a slow loss can be worth more than a quick win. It
    is added to what ``illegal`` of the game costs.
    Reference: MARS (thu-nics/MARSHAL), env_manager.py.
    Verified by: tests/methods/rewards/test_reply_rewards.py.

    Args:
        bonus: reward of a legal reply, at least 0. Default 0.05. Preset ``mars_released`` is what
            MARS's configuration amounts to: its "format_penalty: 0.05" pays 0.05 for a valid turn
            and takes nothing for an invalid one.
        penalty: cost of any other reply, at least 0. The default 0 costs nothing.
    """
    return tuple(bonus if turn.event == "ok" else -penalty for turn in episode.turns)
