"""What fresh order cannot be combined with: all that asks which plays are a step's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparring.config.run import RunConfig

WAVES = "plays on where other plays of its step have ended"


def check_fresh(config: RunConfig) -> None:
    """Refuse what needs pinned order.

    Raises:
        ValueError: something does; it says what, and what to write instead.
    """
    rollout = config.rollout
    needs = (
        ("rollout.plan", rollout.plan.name, "none", WAVES),
        ("rollout.playouts", rollout.playouts, 0, WAVES),
        ("rollout.refills", rollout.refills, 0, "replaces plays of its step by others of it"),
        ("replay", config.replay.name, "none", "learns from plays older than scale.lag allows"),
        (
            "league.learners",
            ", ".join(config.league.learners),
            "{}",
            "says of each step which plays are whose",
        ),
    )
    for key, value, usual, why in needs:
        if value and value != usual:
            raise ValueError(
                f"{key}={value} {why}, and with scale.order=fresh no step has plays of its own; "
                f"write {key}: {usual}, or scale.order: pinned"
            )
