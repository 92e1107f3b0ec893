"""The tables of docs/sla.md."""

from __future__ import annotations

from studies.common.exploited_table import format_exploitability, largest_distance
from studies.common.result_figures import Maker, Results

THREE, FIVE, LAST_STEP = "sla/rps-tiny", "sla/rps_spock_lizard-tiny", 150
SOLUTIONS = {THREE: 0.0, FIVE: 1 / 3}


def chooser_table(results: Results) -> str:
    """Return the exploitability of the chooser in both games."""
    known = {recipe: f"{value:.3f}" for recipe, value in SOLUTIONS.items()}
    return format_exploitability(results, (1, 50, 100, LAST_STEP), known)


def verdict_text(results: Results) -> str:
    """Return the final distance of both recipes from the equilibrium of their candidates."""
    far = {
        recipe: largest_distance(results, recipe, {LAST_STEP: value})
        for recipe, value in SOLUTIONS.items()
    }
    seeds = len(results.row(recipe=FIVE)["values"]["legal replies"])
    return (
        f"Over {seeds} seeds the runs end at most {far[THREE]:.3f} from 0 in rock, paper, scissors "
        f"and at most {far[FIVE]:.3f} from 1/3 in the game of five."
    )


MARKERS: dict[str, Maker] = {
    "sla chosen": chooser_table,
    "sla verdict": verdict_text,
    "sla source": Results.source,
}
SECTIONS = {"Candidates": chooser_table}
