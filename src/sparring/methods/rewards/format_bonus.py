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
    """Pay a bonus for every legal reply, and charge a penalty for every other reply.

    What: pays only for the form, as a signal for a model that cannot win yet.
    When to use: for models with few legal replies. A schedule should lower the weight to 0.
    Mathematics:
        r_t = bonus if the reply was a legal action, else -penalty
    Shapes: one number per turn.
    Pitfalls:
        - The sum favours long episodes. The bound on shaping keeps the sum below the difference of
          two outcomes. Without the bound (``reorder_outcomes``) a slow loss can pay more than a
          quick win.
        - The game's own penalty for illegal replies (``illegal``) is added to this one.
    Reference: MARS (thu-nics/MARSHAL), env_manager.py.
    Verified by: tests/methods/rewards/test_reply_rewards.py.

    Args:
        bonus: reward of a legal reply, at least 0. Default 0.05. Preset ``mars_released`` is the
            effect of MARS's configuration: "format_penalty: 0.05" pays 0.05 for a valid turn and
            nothing for an invalid one.
        penalty: cost of any other reply, at least 0. Default 0.
    """
    return tuple(bonus if turn.event == "ok" else -penalty for turn in episode.turns)
