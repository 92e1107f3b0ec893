"""The tables of SmolLM2 in studies/werewolf/page.md."""

from __future__ import annotations

from sparring.core.records import Interval
from sparring.ops.statistics import mean_interval, wilson_ends
from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    decide_comparisons,
    interval,
    interval_text,
    markdown,
    seeds_of,
    table_with_words,
    values,
)
from studies.common.significance import share_probability, zero_probability
from studies.werewolf_smol.study import ARMS, LSPO, SIDES, START, WON

NAMES = {START: "the start", LSPO: "LSPO"}
SHARE = {"low": 0.0, "high": 1.0}
EVEN = 0.5


def wins(results: Results) -> str:
    """Return the share of games against its start that the trained model wins, seed by seed."""
    head = ("seed", "wins as the wolf", "wins as the village", "both", "games", "verdict")
    wolf, village = results.row(wolf=LSPO, village=START), results.row(wolf=START, village=LSPO)
    sides = [values(wolf, WON), [1.0 - share for share in values(village, WON)]]
    both = [sum(by_side) / 2 for by_side in zip(*sides, strict=True)]
    games, lines, chances = wolf["games"] // len(both), [], []
    for index, seed in enumerate(seeds_of(wolf, WON)):
        estimates = [_share(by_side[index], games) for by_side in sides] + [
            _share(both[index], 2 * games)
        ]
        lines.append((seed, *map(interval_text, estimates), str(2 * games)))
        chances.append(share_probability(both[index], 2 * games, EVEN))
    estimates = [mean_interval(by_side) for by_side in (*sides, both)]
    count = 2 * games * len(both)
    lines.append(("all", *map(interval_text, estimates), str(count)))
    known = decide_comparisons([*chances, zero_probability(estimates[-1], level=EVEN)])
    words = [
        ("ahead" if share > EVEN else "behind") if sure else "not decided"
        for share, sure in zip([*both, estimates[-1].mean], known, strict=True)
    ]
    return table_with_words(head, lines, words)


def _share(value: float, games: int) -> Interval:
    """Return a share of games with Wilson's interval."""
    low, high = wilson_ends(value, games, 0.95)
    return Interval(mean=value, low=low, high=high, count=games)


def speeches(results: Results) -> str:
    """Return how each policy speaks in these games: legal replies, and how varied its texts are."""
    head = ("policy", "side", "legal replies", "speeches, all seeds", "different ones, by seed")
    lines = []
    for arm in (START, LSPO):
        for side in SIDES:
            (row,) = results.rows(**{side: arm})
            lines.append((NAMES[arm], side, *_speech_cells(row, side)))
    return markdown((*head, "share of the commonest"), lines)


def _speech_cells(row: Row, side: str) -> tuple[str, ...]:
    """Return the cells of a side of a match."""
    legal, commonest = (
        interval_text(interval(row, f"{side} {name}", **SHARE)) for name in ("legal", "commonest")
    )
    texts, distinct = (values(row, f"{side} {name}") for name in ("texts", "distinct"))
    return legal, f"{sum(texts):.0f}", " ".join(f"{count:.0f}" for count in distinct), commonest


def took(results: Results) -> str:
    """Return what the runs took."""
    lines = [
        (
            NAMES[arm_row["arm"]],
            interval_text(interval(arm_row, "legal replies", **SHARE)),
            _minutes(arm_row),
        )
        for arm_row in (row for arm in ARMS for row in results.rows(arm=arm))
    ]
    return markdown(("policy", "legal replies in the last step", "minutes, by seed"), lines)


def _minutes(row: Row) -> str:
    """Return the minutes of a run, seed by seed."""
    return " ".join(f"{seconds / 60:.0f}" for seconds in values(row, "seconds"))


MARKERS: dict[str, Maker] = {
    "werewolf smol": wins,
    "werewolf smol speeches": speeches,
    "werewolf smol took": took,
    "werewolf smol source": Results.source,
}
SECTIONS = {"Who wins": wins, "Speeches": speeches, "What it took": took}
