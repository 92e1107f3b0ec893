"""Reward: a bonus for every legal reply."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.types import Episode

PRESETS = {
    "mars_released": {"bonus": 0.05, "penalty": 0.0},
}


def format_bonus(
    episode: Episode, *, bonus: Annotated[float, Field(ge=0)] = 0.05, penalty: Annotated[float, Field(ge=0)] = 0.0
) -> tuple[float, ...]:
    """A bonus for every legal reply, a penalty for every other one.

    What: pays for form alone, so that a model that cannot yet win has something to learn from.
    When to use: for models that begin with few legal replies; take it away later with a schedule of its weight.
    Mathematics: r_t = bonus if the reply was a legal action, else -penalty.
    Shapes: one number per turn.
    Options: ``bonus`` and ``penalty``, both at least 0. Preset ``mars_released`` is what MARS's configuration amounts to: its
    "format_penalty: 0.05" pays 0.05 for a valid turn and takes nothing for an invalid one.
    Pitfalls: it pays for long games. The bound on shaping holds the sum below the difference of two outcomes; without it
    (``reorder_outcomes``) a slow loss can beat a quick win. It comes on top of what ``illegal`` of the game costs.
    Reference: MARS (thu-nics/MARSHAL), env_manager.py.
    Verified by: tests/rewards/test_format_bonus.py.
    """
    return tuple(bonus if turn.event == "ok" else -penalty for turn in episode.turns)
