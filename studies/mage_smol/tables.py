"""The tables of SmolLM2 in studies/mage/page.md."""

from __future__ import annotations

from sparring.core.records import Interval
from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    chance_beyond,
    decide_comparisons,
    interval,
    interval_text,
    markdown,
    paired_difference,
    spread,
    table_with_words,
)
from studies.common.significance import zero_probability
from studies.mage.tables import LAST_ATTEMPT, pool_text
from studies.mage_smol.study import TRAINED, WARM_UP

NAMES = {
    WARM_UP: "after the warm-up",
    TRAINED: "trained by reward from there",
}


def table_of_headroom(results: Results) -> str:
    """Return the share of the headroom that every attempt closes, by arm, role and pool."""
    columns = (f"attempt {index}" for index in range(1, LAST_ATTEMPT + 1))
    head = ("model", "role", "opponents", *columns, "forfeits", "at most, attempts 2 and 3")
    lines = []
    for trained_row in (row for arm in NAMES for row in results.rows(arm=arm)):
        shares = [spread(trained_row, f"closed {index}") for index in range(1, LAST_ATTEMPT + 1)]
        most = " ".join(f"{share:.2f}" for share in trained_row["ceiling"][1:]) or "-"
        lost = spread(trained_row, "forfeits", low=0.0, high=1.0)
        lines.append(
            (
                NAMES[trained_row["arm"]],
                trained_row["role"],
                pool_text(trained_row),
                *shares,
                lost,
                most,
            )
        )
    return markdown(head, lines)


def table_of_gains(results: Results) -> str:
    """Return the gain of the last attempt over the warm-up, and over attempt 1.

    Both roles are combined into one mean, as the game is symmetric.
    """
    parts = ("attempt 3", "minus attempt 1", "minus attempt 3 of the warm-up", "by seed", "verdict")
    lines: list[tuple[str, ...]] = []
    adapts, gains = list[float](), list[Interval]()
    both = results.rows(arm=WARM_UP) and results.rows(arm=TRAINED)
    for met_before in (True, False) if both else ():
        trained, before = (_both_roles(results, arm, met_before) for arm in (TRAINED, WARM_UP))
        last, first = f"closed {LAST_ATTEMPT}", "closed 1"
        gain = paired_difference(trained, {"values": {last: trained["values"][first]}}, last)
        ahead = paired_difference(trained, before, last)
        seeds = (
            f"{value - before['values'][last][seed]:.2f}"
            for seed, value in trained["values"][last].items()
        )
        adapts.append(max(chance_beyond(gain), chance_beyond(interval(trained, last))))
        gains.append(ahead)
        cells = (spread(trained, last), interval_text(gain), interval_text(ahead), " ".join(seeds))
        lines.append((pool_text({"met": met_before}), *cells))
    known = decide_comparisons([*adapts, *map(zero_probability, gains)])
    words = [
        f"adapts: {'held' if first else 'not held'}; by reward: "
        + (("ahead" if gain.mean > 0 else "behind") if second else "not decided")
        for gain, first, second in zip(gains, known, known[len(adapts) :], strict=False)
    ]
    return table_with_words(("opponents", *parts), lines, words)


def _both_roles(results: Results, arm: str, met_before: bool) -> Row:
    """Return a row with the mean over roles of each figure and seed."""
    first, second = results.rows(arm=arm, met=met_before)
    return {
        "values": {
            name: {
                seed: (value + second["values"][name][seed]) / 2 for seed, value in by_seed.items()
            }
            for name, by_seed in first["values"].items()
        }
    }


MARKERS: dict[str, Maker] = {
    "mage smol": table_of_headroom,
    "mage smol learns": table_of_gains,
    "mage smol source": Results.source,
}
SECTIONS = {"Share of the headroom": table_of_headroom, "What reward adds": table_of_gains}
