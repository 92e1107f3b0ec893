"""The tables of studies/wideseek/page.md."""

from __future__ import annotations

from itertools import pairwise

from sparring.core.records import Interval
from studies.common.result_figures import (
    Maker,
    Results,
    chance_beyond,
    decide_comparisons,
    interval_text,
    markdown,
    mean,
    paired_difference,
    spread,
    table_with_words,
    words_of_differences,
)
from studies.common.self_played import TOKENS_FIGURE
from studies.wideseek.study import (
    ALONE,
    ALONE_START,
    ARMS,
    JOINT,
    LEAD,
    START,
    TEAMS,
    WORKERS,
)

NAMES = {
    START: "nothing (after the warm-up)",
    JOINT: "lead and workers",
    LEAD: "the lead",
    WORKERS: "the workers",
    ALONE_START: "nothing (one agent after the warm-up)",
    ALONE: "one agent",
}
F1, BARE = "item_f1", "non_key_f1"
UP, DOWN = "held", "refuted"


def figures_by_width(results: Results) -> str:
    """Return the figures of each arm by width, on tables that training never met."""
    names = (F1, BARE, "success", "width", "critical_steps", "total_steps")
    head = ("trained", "max workers", "item F1", "non-key F1", "whole tables")
    lines = [
        (NAMES[row["arm"]], str(row["workers"]), *(spread(row, name) for name in names))
        for row in results.rows()
    ]
    return markdown((*head, "width", "critical steps", "total steps"), lines)


def widths(results: Results) -> str:
    """Return by how much a wider team is better than a narrower one, before and after training."""
    head = ("trained", "workers", "gain in item F1", "gain in non-key F1", "verdict")
    lines, gains = [], []
    for arm in TEAMS:
        rows = results.rows(arm=arm)
        pairs = [*zip(rows[1:], rows, strict=False), *([(rows[-1], rows[0])] if rows else [])]
        for wider, narrower in pairs:
            gains_of_pair = [paired_difference(wider, narrower, name) for name in (F1, BARE)]
            gains.append(gains_of_pair[0])
            workers = f"{wider['workers']} instead of {narrower['workers']}"
            lines.append((NAMES[arm], workers, *map(interval_text, gains_of_pair)))
    return table_with_words(head, lines, words_of_differences(gains, "rises", "falls"))


def alone(results: Results) -> str:
    """Return how far the team is ahead of one agent, by equal total and by equal critical steps."""
    head = ("trained", "workers", "equal", "turns of one agent", "team minus agent", "verdict")
    lines, gaps = [], []
    for team, agent in ((START, ALONE_START), (JOINT, ALONE)):
        few_turns = results.rows(arm=agent, workers=1)  # as many turns as a team has critical steps
        for row in results.rows(arm=team):
            equal_turns = results.rows(arm=agent, workers=row["workers"])
            for equal, others in (("total turns", equal_turns), ("critical steps", few_turns)):
                for other in others:
                    gap = paired_difference(row, other, F1)
                    turns = str(1 + 3 * other["workers"])
                    cells = (NAMES[team], str(row["workers"]), equal, turns)
                    gaps.append(gap)
                    lines.append((*cells, interval_text(gap)))
    return table_with_words(head, lines, words_of_differences(gaps, "ahead", "behind"))


def both(results: Results) -> str:
    """Return how far a team of which both parts are trained is ahead of the others, by width."""
    head = ("workers", "lead and workers minus", "item F1", "non-key F1", "verdict")
    lines, gains = [], []
    for row in results.rows(arm=JOINT):
        for arm in (LEAD, WORKERS, START):
            for other in results.rows(arm=arm, workers=row["workers"]):
                gains_of_pair = [paired_difference(row, other, name) for name in (F1, BARE)]
                gains.append(gains_of_pair[0])
                lines.append((str(row["workers"]), NAMES[arm], *map(interval_text, gains_of_pair)))
    return table_with_words(head, lines, words_of_differences(gains, UP, DOWN))


def claims(results: Results) -> str:
    """Return one line per claim of the paper with its verdict."""
    gains_after, gains_before = _wider(results, JOINT), _wider(results, START)
    chances = {
        "A wider team is better after training": [chance_beyond(gain) for gain in gains_after],
        "A wider team is worse before training": [
            chance_beyond(gain, above=False) for gain in gains_before
        ],
        "A team beats one agent at equal total turns": _ahead(results, ALONE, same=True),
        "A team beats one agent at equal critical steps": _ahead(results, ALONE, same=False),
        "Training both beats training only the lead": _ahead(results, LEAD, same=True),
        "Training both beats training only the workers": _ahead(results, WORKERS, same=True),
    }
    known = iter(
        decide_comparisons([chance for gain_chances in chances.values() for chance in gain_chances])
    )
    words = [_count_text([next(known) for _ in gain_chances]) for gain_chances in chances.values()]
    return table_with_words(("claim", "held in"), [(claim,) for claim in chances], words)


def costs(results: Results) -> str:
    """Return the training cost of each arm."""
    head = ("trained", "million tokens sampled", "minutes")
    lines = []
    for arm in ARMS:
        for row in results.rows(arm=arm)[:1]:
            minutes, tokens = mean(row, "seconds") / 60, mean(row, TOKENS_FIGURE) / 1e6
            lines.append((NAMES[arm], f"{tokens:.2f}", f"{minutes:.1f}"))
    return markdown(head, lines)


def _wider(results: Results, arm: str) -> list[Interval]:
    """Return for each step up in width how much higher item F1 is there, paired over seeds."""
    return [paired_difference(more, fewer, F1) for fewer, more in pairwise(results.rows(arm=arm))]


def _ahead(results: Results, arm: str, *, same: bool) -> list[float]:
    """Return for each width of two workers or more p that the trained team is not ahead of an arm.

    Args:
        results: of the study.
        arm: that is compared.
        same: whether it is of the same width; else of the fewest turns.
    """
    wide = [row for row in results.rows(arm=JOINT) if row["workers"] > 1]
    return [
        chance_beyond(paired_difference(row, other, F1))
        for row in wide
        for other in results.rows(arm=arm, workers=row["workers"] if same else 1)
    ]


def _count_text(outcomes: list[bool]) -> str:
    """Return in how many comparisons a claim held."""
    return f"{sum(outcomes)} of {len(outcomes)} comparisons" if outcomes else "not measured"


MARKERS: dict[str, Maker] = {
    "wideseek claims": claims,
    "wideseek": figures_by_width,
    "wideseek widths": widths,
    "wideseek alone": alone,
    "wideseek both": both,
    "wideseek costs": costs,
    "wideseek source": Results.source,
}
SECTIONS = {
    "Claim by claim": claims,
    "By width": figures_by_width,
    "Is the wider team better?": widths,
    "Team and one agent": alone,
    "Does it take both?": both,
    "What it took": costs,
}
