"""The tables of SmolLM2 in docs/reproduction/mage.md."""

from __future__ import annotations

from sparring.experiments.reproduce.mage_smol import LONGER, PRETRAINED, TRAINED, WARM_UP
from sparring.report.reproduce.mage import LAST, met
from sparring.report.result_figures import (
    Maker,
    Results,
    interval,
    less,
    markdown,
    shown,
    side,
    spread,
)

NAMES = {
    PRETRAINED: "pretrained",
    WARM_UP: "after the warm-up",
    TRAINED: "trained by reward from there",
    LONGER: "after a warm-up three times as long",
}


def attempts(results: Results) -> str:
    """Return the share of the headroom that every attempt closes, by arm, role and pool."""
    columns = (f"attempt {number}" for number in range(1, LAST + 1))
    head = ("model", "role", "opponents", *columns, "forfeits", "at most, attempts 2 and 3")
    lines = []
    for one in (row for arm in NAMES for row in results.rows(arm=arm)):
        shares = [spread(one, f"closed {number}") for number in range(1, LAST + 1)]
        most = " ".join(f"{share:.2f}" for share in one["ceiling"][1:]) or "-"
        lost = spread(one, "forfeits", low=0.0, high=1.0)
        lines.append((NAMES[one["arm"]], one["role"], met(one), *shares, lost, most))
    return markdown(head, lines)


def learns(results: Results) -> str:
    """Return by how much reward lifts the last attempt above the warm-up, and above attempt 1."""
    last = f"closed {LAST}"
    parts = ("attempt 3 less attempt 1", "attempt 3 less the warm-up's", "by seed", "verdict")
    lines = []
    for one in results.rows(arm=TRAINED):
        place = {name: one[name] for name in ("role", "met")}
        (before,) = results.rows(arm=WARM_UP, **place)
        first = {"values": {last: one["values"]["closed 1"]}}
        gain, ahead = less(one, first, last), less(one, before, last)
        seeds = (
            f"{value - before['values'][last][seed]:.2f}"
            for seed, value in one["values"][last].items()
        )
        held = "held" if gain.low > 0.0 and interval(one, last).low > 0.0 else "not held"
        said = f"{held}; {side(ahead, 'ahead', 'behind')}"
        cells = (shown(gain), shown(ahead), " ".join(seeds), said)
        lines.append((one["role"], met(one), *cells))
    return markdown(("role", "opponents", *parts), lines)


MADE: dict[str, Maker] = {}  # markers of the page, once there are published figures
SHOWN = {"Share of the headroom": attempts, "What reward adds": learns}
