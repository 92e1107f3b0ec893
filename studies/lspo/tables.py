"""The tables of docs/lspo.md."""

from __future__ import annotations

from studies.common.exploited_table import format_exploitability, largest_distance
from studies.common.result_figures import Maker, Results

FIVE, BLUFF = "lspo/rps_spock_lizard-tiny", "lspo/bluff-tiny"
AIMS = {30: 1 / 3, 60: 1 / 3, 90: 0.0}
WITHIN = 0.05


def five(results: Results) -> str:
    """Return the exploitability after each iteration in the game of five words."""
    known = dict.fromkeys((FIVE, f"{FIVE}-hard"), ".333, .333, 0")
    return format_exploitability(results, (1, *AIMS), known)


def bluff(results: Results) -> str:
    """Return the exploitability after each iteration in bluff."""
    return format_exploitability(results, (1, 20, 40, 60), {BLUFF: "0"})


def verdict(results: Results) -> str:
    """Return how far the recipe is from what was asked for."""
    far = largest_distance(results, FIVE, AIMS)
    seeds = len(results.row(recipe=FIVE)["values"]["legal replies"])
    outcome = "held" if far <= WITHIN else "not held"
    return (
        f"Asked for: 1/3, 1/3, 0 within {WITHIN} after the three iterations. **{outcome}**: over "
        f"{seeds} seeds at most {far:.3f} away."
    )


MARKERS: dict[str, Maker] = {
    "lspo five": five,
    "lspo bluff": bluff,
    "lspo verdict": verdict,
    "lspo source": Results.source,
}
SECTIONS = {"Five words": five, "Bluff": bluff}
