"""The tables of docs/lspo.md."""

from __future__ import annotations

from studies.common.exploited_table import format_exploitability, largest_distance
from studies.common.result_figures import Maker, Results

FIVE, BLUFF = "lspo/rps_spock_lizard-tiny", "lspo/bluff-tiny"
EXPECTED = {30: 1 / 3, 60: 1 / 3, 90: 0.0}
TOLERANCE = 0.05


def table_of_five_words(results: Results) -> str:
    """Return the exploitability after each iteration in the game of five words."""
    known = dict.fromkeys((FIVE, f"{FIVE}-hard"), ".333, .333, 0")
    return format_exploitability(results, (1, *EXPECTED), known)


def table_of_bluff(results: Results) -> str:
    """Return the exploitability after each iteration in bluff."""
    return format_exploitability(results, (1, 20, 40, 60), {BLUFF: "0"})


def verdict_text(results: Results) -> str:
    """Return a text with the distance of the recipe from its expected values."""
    distance = largest_distance(results, FIVE, EXPECTED)
    seeds = len(results.row(recipe=FIVE)["values"]["legal replies"])
    outcome = "reached" if distance <= TOLERANCE else "not reached"
    return (
        f"Goal: after the three iterations, the exploitability is within {TOLERANCE} of 1/3, 1/3 "
        f"and 0. **The goal is {outcome}**: the largest distance in {seeds} seeds is "
        f"{distance:.3f}."
    )


MARKERS: dict[str, Maker] = {
    "lspo five": table_of_five_words,
    "lspo bluff": table_of_bluff,
    "lspo verdict": verdict_text,
    "lspo source": Results.source,
}
SECTIONS = {"Five words": table_of_five_words, "Bluff": table_of_bluff}
