"""Checks of numbers that options may take."""

from __future__ import annotations

from sparring.errors import ConfigError


def check_range(where: str, value: float, low: float, high: float = float("inf")) -> None:
    """Refuse a number outside [low, high].

    Raises:
        ConfigError: ``value`` is out of range; ``where`` names the plug-in and the option, e.g.
            "liars_dice: dice".
    """
    if not low <= value <= high:
        upper = "" if high == float("inf") else f" and at most {high:g}"
        raise ConfigError(
            f"{where}={value:g} must be at least {low:g}{upper}; "
            f"write {where.split(': ')[-1]}={low:g}."
        )
