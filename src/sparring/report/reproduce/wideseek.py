"""The tables of docs/reproduction/wideseek.md."""

from __future__ import annotations

from itertools import pairwise

from sparring.experiments.reproduce.wideseek import (
    ALONE,
    ALONE_START,
    ARMS,
    JOINT,
    LEAD,
    START,
    TEAMS,
    WORKERS,
)
from sparring.experiments.self_played import TOKENS
from sparring.report.result_figures import (
    Maker,
    Results,
    less,
    markdown,
    mean,
    shown,
    side,
    spread,
)
from sparring.types import Interval

NAMES = {
    START: "nobody yet",
    JOINT: "lead and workers",
    LEAD: "the lead",
    WORKERS: "the workers",
    ALONE_START: "one agent, not yet",
    ALONE: "one agent",
}
F1, BARE = "item_f1", "non_key_f1"
UP, DOWN = "held", "refuted"


def found(results: Results) -> str:
    """Return the figures of each arm by width, on tables that training never met."""
    names = (F1, BARE, "success", "width", "critical_steps", "total_steps")
    head = ("trained", "workers at most", "item F1", "non-key F1", "whole tables")
    lines = [
        (NAMES[one["arm"]], str(one["workers"]), *(spread(one, name) for name in names))
        for one in results.rows()
    ]
    return markdown((*head, "width", "critical steps", "total steps"), lines)


def widths(results: Results) -> str:
    """Return by how much a wider team is better than a narrower one, before and after training."""
    head = ("trained", "workers", "item F1 more by", "non-key F1 more by", "verdict")
    lines = []
    for arm in TEAMS:
        rows = results.rows(arm=arm)
        pairs = [*zip(rows[1:], rows, strict=False), *([(rows[-1], rows[0])] if rows else [])]
        for more, fewer in pairs:
            ahead = [less(more, fewer, name) for name in (F1, BARE)]
            said = side(ahead[0], "rises", "falls")
            workers = f"{more['workers']} less {fewer['workers']}"
            lines.append((NAMES[arm], workers, *map(shown, ahead), said))
    return markdown(head, lines)


def alone(results: Results) -> str:
    """Return how far the team is ahead of one agent, by equal total and by equal critical steps."""
    head = ("trained", "workers", "one agent has", "its turns", "team ahead by", "verdict")
    lines = []
    for team, agent in ((START, ALONE_START), (JOINT, ALONE)):
        few = results.rows(arm=agent, workers=1)  # as many turns as a team has critical steps
        for one in results.rows(arm=team):
            same = results.rows(arm=agent, workers=one["workers"])
            for what, others in (("as many turns in all", same), ("the critical steps", few)):
                for other in others:
                    ahead = less(one, other, F1)
                    turns = str(1 + 3 * other["workers"])
                    cells = (NAMES[team], str(one["workers"]), what, turns)
                    lines.append((*cells, shown(ahead), side(ahead, "ahead", "behind")))
    return markdown(head, lines)


def both(results: Results) -> str:
    """Return how far a team of which both parts are trained is ahead of the others, by width."""
    head = ("workers", "lead and workers, less", "item F1", "non-key F1", "verdict")
    lines = []
    for one in results.rows(arm=JOINT):
        for arm in (LEAD, WORKERS, START):
            for other in results.rows(arm=arm, workers=one["workers"]):
                ahead = [less(one, other, name) for name in (F1, BARE)]
                said = side(ahead[0], UP, DOWN)
                lines.append((str(one["workers"]), NAMES[arm], *map(shown, ahead), said))
    return markdown(head, lines)


def claims(results: Results) -> str:
    """Return the claims of the paper with what was found, a line each."""
    said = [
        _claim(
            "The wider team is the better one after training",
            [one.low > 0.0 for one in _wider(results, JOINT)],
        ),
        _claim(
            "It is the worse one before training",
            [one.high < 0.0 for one in _wider(results, START)],
        ),
        _claim(
            "A team beats one agent with as many turns in all", _ahead(results, ALONE, same=True)
        ),
        _claim(
            "A team beats one agent at equal critical steps", _ahead(results, ALONE, same=False)
        ),
        _claim("Training both beats training the lead alone", _ahead(results, LEAD, same=True)),
        _claim(
            "Training both beats training the workers alone", _ahead(results, WORKERS, same=True)
        ),
    ]
    return markdown(("claim", "held in"), said)


def costs(results: Results) -> str:
    """Return what the training of each arm took."""
    head = ("trained", "million tokens sampled", "minutes")
    lines = []
    for arm in ARMS:
        for one in results.rows(arm=arm)[:1]:
            minutes, tokens = mean(one, "seconds") / 60, mean(one, TOKENS) / 1e6
            lines.append((NAMES[arm], f"{tokens:.2f}", f"{minutes:.1f}"))
    return markdown(head, lines)


def _wider(results: Results, arm: str) -> list[Interval]:
    """Return for each step up in width how much higher item F1 is there, paired over seeds."""
    return [less(more, fewer, F1) for fewer, more in pairwise(results.rows(arm=arm))]


def _ahead(results: Results, arm: str, *, same: bool) -> list[bool]:
    """Return for each width of two workers or more whether the trained team is ahead of an arm.

    Args:
        results: of the study.
        arm: that is compared.
        same: whether it is of the same width; else of the fewest turns.
    """
    wide = [one for one in results.rows(arm=JOINT) if one["workers"] > 1]
    return [
        less(one, other, F1).low > 0.0
        for one in wide
        for other in results.rows(arm=arm, workers=one["workers"] if same else 1)
    ]


def _claim(text: str, held: list[bool]) -> tuple[str, str]:
    """Return a claim, and in how many comparisons it held."""
    return text, f"{sum(held)} of {len(held)} comparisons" if held else "not measured"


MADE: dict[str, Maker] = {
    "wideseek claims": claims,
    "wideseek": found,
    "wideseek widths": widths,
    "wideseek alone": alone,
    "wideseek both": both,
    "wideseek costs": costs,
    "wideseek source": Results.source,
}
SHOWN = {
    "Claim by claim": claims,
    "By width": found,
    "Is the wider team better?": widths,
    "Team and one agent": alone,
    "Does it take both?": both,
    "What it took": costs,
}
