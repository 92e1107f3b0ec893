"""The tables of studies/mars/page.md on the ablations with the tiny model."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sparring.core.records import Interval
from studies.common.claims import MIN_SEEDS, judge_differences
from studies.common.result_figures import Maker, Results, Row, markdown, paired_difference, spread

Arm = tuple[str, str]  # trained on, variant
Comparison = tuple[str, str, Arm, Arm, Interval]
RANGES = {  # figure -> its smallest and largest possible value
    "tic_tac_toe": (-1, 1),
    "kuhn_poker": (-2, 2),
    "kuhn_poker-exact": (0, math.inf),
    "hanabi_mini": (0, 4),
    "three games": (0, 100),
    "connect_four": (-1, 1),
    "leduc_poker": (-13, 13),
    "hanabi_simple": (0, 6),
    "held out": (0, 100),
}
TRAINED = {
    "tic_tac_toe": "tic-tac-toe",
    "kuhn_poker": "Kuhn",
    "kuhn_poker-exact": "NashConv in Kuhn",
    "hanabi_mini": "Mini Hanabi",
    "three games": "three games",
}
HELD_OUT = {
    "connect_four": "connect four",
    "leduc_poker": "Leduc",
    "hanabi_simple": "Simple Hanabi",
    "held out": "held out",
}
DIGITS = {"three games": 1, "held out": 1}
THREE, ONE, NONE = "three games", "tic-tac-toe", "none"
# claim -> comparisons: (figure, better arm, worse arm); an arm is (trained on, variant)
FULL, FULL_ONE, START = (THREE, "full"), (ONE, "full"), (NONE, "untrained")
CLAIMS: dict[str, list[tuple[str, Arm, Arm]]] = {
    "self-play with MARS learns all three games at once": [
        (figure, FULL, START)
        for figure in ("tic_tac_toe", "kuhn_poker", "kuhn_poker-exact", "hanabi_mini")
    ],
    "turn-level credit is better than credit by trajectory": [
        ("three games", FULL, (THREE, "no-turn-level")),
        ("held out", FULL, (THREE, "no-turn-level")),
    ],
    "agent-specific normalisation is better than one mean for all": [
        ("three games", FULL, (THREE, "no-agent-specific")),
        ("held out", FULL, (THREE, "no-agent-specific")),
        ("connect_four", FULL_ONE, (ONE, "no-agent-specific")),
    ],
    "a fixed opponent wins on the trained game": [("tic_tac_toe", (THREE, "fixed-opponent"), FULL)],
    "a fixed opponent loses elsewhere": [
        ("kuhn_poker-exact", FULL, (THREE, "fixed-opponent")),
        ("held out", FULL, (THREE, "fixed-opponent")),
    ],
    "MARS is better than RAE": [("hanabi_mini", FULL, (THREE, "rae"))],
    "MARS is better than GRPO": [("three games", FULL, (THREE, "grpo"))],
    "several games are better than one for held-out games": [("held out", FULL, FULL_ONE)],
    "self-play generalises to held-out games": [
        *((figure, FULL, START) for figure in ("connect_four", "leduc_poker", "hanabi_simple")),
        ("connect_four", FULL_ONE, START),
    ],
}
SMALLER_IS_BETTER = {"kuhn_poker-exact"}


def table_of_arms(results: Results, figures: Mapping[str, str]) -> str:
    """Return a table of figures, one line per arm."""
    lines = []
    for row in results.rows():
        cells = []
        for figure in figures:
            low, high = RANGES[figure]
            cells.append(spread(row, figure, DIGITS.get(figure, 2), low=low, high=high))
        seeds = str(len(row["values"]["seconds"]))
        lines.append((row["trained on"], row["variant"], seeds, *cells))
    return markdown(("trained on", "variant", "seeds", *figures.values()), lines)


def comparisons(results: Results) -> list[Comparison]:
    """Return (claim, figure, better, worse, gain) for each claim whose arms were both run.

    A gain above 0 favours the claim.
    """
    run = {(row["trained on"], row["variant"]) for row in results.rows()}
    result = []
    for claim, compared in CLAIMS.items():
        for figure, better, worse in compared:
            if not {better, worse} <= run:
                continue
            first, second = (worse, better) if figure in SMALLER_IS_BETTER else (better, worse)
            gain = paired_difference(
                row_of_arm(results, first), row_of_arm(results, second), figure
            )
            result.append((claim, figure, better, worse, gain))
    return result


def row_of_arm(results: Results, key: Arm) -> Row:
    """Return the row of an arm."""
    return results.row(trained_on=key[0], variant=key[1])


def table_of_claims(results: Results) -> str:
    """Return the table of the paper's claims, with comparisons and verdicts."""
    tested = comparisons(results)
    verdicts = judge_differences([gain for *_, gain in tested], digits=2)
    lines, before = [], None
    for (claim, figure, better, worse, _gain), verdict_row in zip(tested, verdicts, strict=True):
        compared = f"{figure_name(figure)}: {arm_name(better, worse)}"
        verdict = (verdict_row[key] for key in ("difference", "p", "corrected", "verdict"))
        lines.append((claim if claim != before else "", compared, *verdict))
        before = claim
    return markdown(("claim of the paper", "compared", "gain", "p", "p, corrected", "here"), lines)


def figure_name(figure: str) -> str:
    """Return a figure's name on the page."""
    return {**TRAINED, **HELD_OUT}[figure] + (" score" if figure in DIGITS else "")


def arm_name(better: Arm, worse: Arm) -> str:
    """Return the two arms of a comparison as the page names them."""
    if better[0] == worse[0]:
        return f"{better[1]} against {worse[1]}, trained on {better[0]}"
    return " against ".join(
        f"{variant} ({on})" if on != NONE else variant for on, variant in (better, worse)
    )


def rae_gap(results: Results) -> str:
    """Return a text: whether our interval contains the paper's gap to RAE in Mini Hanabi."""
    gain = paired_difference(
        row_of_arm(results, FULL), row_of_arm(results, (THREE, "rae")), "hanabi_mini"
    )
    low, high = 25 * gain.low, 25 * gain.high
    if gain.count < MIN_SEEDS:
        return f"here it is {25 * gain.mean:.1f} over {gain.count} seeds, which decide nothing"
    outside = "outside" if high < 29 else "inside"
    here = f"{25 * gain.mean:.1f} [{low:.1f}, {high:.1f}]"
    return f"here it is {here} of 100 points, and the paper's 29 lie {outside}"


MARKERS: dict[str, Maker] = {
    "ablations trained": lambda results: table_of_arms(results, TRAINED),
    "ablations held out": lambda results: table_of_arms(results, HELD_OUT),
    "ablations claims": table_of_claims,
    "ablations source": Results.source,
    "ablations comparisons": lambda results: str(len(comparisons(results))),
    "ablations rae gap": rae_gap,
}
SECTIONS = {
    "Trained games": "ablations trained",
    "Held out": "ablations held out",
    "Claims": "ablations claims",
}
