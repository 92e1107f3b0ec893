"""The tables of studies/vpr_methods/page.md on VPR as released."""

from __future__ import annotations

from studies.common.result_figures import (
    Maker,
    Results,
    less,
    markdown,
    shown,
    sides,
    spread,
    worded,
)
from studies.common.vpr_figures import part

ARMS = {
    "start": "nothing yet: after the warm-up",
    "released": "VPR as released",
    "random": "the same, any reply committed",
    "outcome": "outcome, GRPO",
    "vine": "VinePPO",
    "older": "VPR, older form",
}


def learnt(results: Results) -> str:
    """Return what each arm solves at equal sampled tokens, on starts that training never met."""
    head = ("puzzle", "learns by", "starts", "solved", "completion", "illegal", "tokens", "steps")
    lines = []
    for one in results.rows():
        sums = (spread(one, name, 0) for name in ("tokens", "steps"))
        parts = (part(one, name) for name in ("success", "completion", "illegal"))
        lines.append((one["game"], ARMS[one["arm"]], one["starts"], *parts, *sums))
    return markdown(head, lines)


def claims(results: Results) -> str:
    """Return the released form less each other arm, paired by seed, with a verdict for each."""
    head = ("puzzle", "VPR as released, less", "solved", "completion", "verdict")
    lines, gains = [], []
    for one in results.rows():
        if one["arm"] in ("released", "start"):
            continue
        best = results.row(game=one["game"], arm="released")
        found = [less(best, one, name) for name in ("success", "completion")]
        gains.append(found[0])
        lines.append((one["game"], ARMS[one["arm"]], *map(shown, found)))
    return worded(head, lines, sides(gains, "held", "refuted"))


MADE: dict[str, Maker] = {
    "vpr released": learnt,
    "vpr released claims": claims,
    "vpr released source": Results.source,
}
SHOWN = {"At equal sampled tokens": "vpr released", "Claim by claim": "vpr released claims"}
