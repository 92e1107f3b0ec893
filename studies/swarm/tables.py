"""The tables of studies/swarm/page.md."""

from __future__ import annotations

from typing import NamedTuple

from sparring.core.records import Interval
from sparring.ops.statistics import mean_interval
from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    chance_beyond,
    decide_comparisons,
    interval,
    interval_text,
    markdown,
    mean,
    paired_difference,
    spread,
    table_with_words,
    values,
    words_of_differences,
)
from studies.common.self_played import TOKENS_FIGURE
from studies.swarm.study import (
    ANNEALED,
    CONSTANT,
    EIGHT,
    JOINT,
    LEAD,
    NONE,
    SHAPES,
    START,
    TEAMS,
    WORKERS,
)
from studies.swarm.widths import ALL

NAMES = {
    ANNEALED: "annealed to zero",
    NONE: "none",
    CONSTANT: "constant",
    EIGHT: "annealed to zero, eight workers",
}
TEAM_NAMES = {  # names of teams whose workers are models
    START: "nobody",
    LEAD: "the lead",
    WORKERS: "the workers",
    JOINT: "both",
}
RANK = "rank_correlation"
# goals: rank correlation, share of steps, and tolerance of the share finished
MIN_CORRELATION, MAX_STEPS_SHARE, TOLERANCE = 0.8, 1 / 3, 0.02


def figures_by_shape(results: Results) -> str:
    """Return the figures of each arm by shape, on worlds that do not occur in training."""
    names = ("return", "success", "width", "optimal_width", "regret")
    steps = ("critical_steps", "optimal_critical_steps", "serial_critical_steps")
    head = ("rewards beside the outcome", "sub-tasks", "finished", "all finished", "width")
    more = ("best width", "regret", "critical steps", "best", "one at a time", "rank correlation")
    lines = []
    for row in results.rows():
        if row["shape"] != ALL and row["arm"] in NAMES:
            ranks = spread(row, RANK) if RANK in row["values"] else "-"
            cells = (*(spread(row, name) for name in (*names, *steps)), ranks)
            lines.append((NAMES[row["arm"]], row["shape"], *cells))
    return markdown((*head, *more), lines)


def claims(results: Results) -> str:
    """Return the claims of Agent Swarm, with a verdict for each."""
    lines = [_judge_serial_claim(results), _judge_spurious_claim(results)]
    lines += [_judge_chain_claim(results, arm) for arm in NAMES if results.rows(arm=arm)]
    lines += [_judge_rank_claim(results, arm) for arm in NAMES if results.rows(arm=arm)]
    lines += [_judge_steps_claim(results)]
    compared = [line for line in lines if line]
    known = decide_comparisons([comparison.chance for comparison in compared])
    words = [
        "held" if is_decided else comparison.otherwise
        for comparison, is_decided in zip(compared, known, strict=True)
    ]
    return table_with_words(
        ("claim", "figure", "verdict"),
        [(comparison.claim, comparison.figure) for comparison in compared],
        words,
    )


class SwarmClaim(NamedTuple):
    """A claim, its figure, the p value against it, and the word if p is not small."""

    claim: str
    figure: str
    chance: float
    otherwise: str = "not held"


def _judge_serial_claim(results: Results) -> SwarmClaim | None:
    """Return whether a lead without PARL's rewards calls fewer workers than with them."""
    pair = [results.rows(arm=arm, shape="independent") for arm in (NONE, ANNEALED)]
    if not all(pair):
        return None
    gap = paired_difference(pair[0][0], pair[1][0], "width")
    parts = (interval(pair[0][0], "width"), 1.5), (gap, 0.0)
    return SwarmClaim(
        "without PARL's rewards a lead calls one worker at a time (serial collapse)",
        f"width on independent sub-tasks {spread(pair[0][0], 'width')}",
        max(chance_beyond(gain, level, above=False) for gain, level in parts),
        "not observed",
    )


def _judge_spurious_claim(results: Results) -> SwarmClaim | None:
    """Return whether constant weights teach width in tasks where it is useless."""
    pair = [results.rows(arm=arm, shape="chain") for arm in (CONSTANT, ANNEALED)]
    if not all(pair):
        return None
    gap = paired_difference(pair[0][0], pair[1][0], "width")
    return SwarmClaim(
        "with constant weights a lead calls workers without need (spurious parallelism)",
        f"width in chains, minus that with annealed weights {interval_text(gap)}",
        chance_beyond(gap),
    )


def _judge_chain_claim(results: Results, arm: str) -> SwarmClaim:
    """Return whether an arm calls one worker at a time in chains."""
    row = results.row(arm=arm, shape="chain")
    return SwarmClaim(
        f"width 1 in chains: {NAMES[arm]}",
        spread(row, "width"),
        chance_beyond(interval(row, "width"), 1.1, above=False),
    )


def _judge_rank_claim(results: Results, arm: str) -> SwarmClaim:
    """Return whether chosen and best width are correlated over all worlds."""
    row = results.row(arm=arm, shape=ALL)
    if RANK not in row["values"]:
        return SwarmClaim(f"rank correlation of chosen and best width: {NAMES[arm]}", "-", 1.0)
    estimate = interval(row, RANK)
    return SwarmClaim(
        f"rank correlation of chosen and best width at least {MIN_CORRELATION}: {NAMES[arm]}",
        spread(row, RANK),
        chance_beyond(estimate, MIN_CORRELATION),
        "in the mean" if estimate.mean >= MIN_CORRELATION else "not held",
    )


def _judge_steps_claim(results: Results) -> SwarmClaim | None:
    """Return whether eight workers take a third of one worker's steps, and finish all."""
    rows = results.rows(arm=EIGHT, shape="independent")
    if not rows:
        return None
    share = _ratio(rows[0], "critical_steps", "serial_critical_steps")
    whole = chance_beyond(interval(rows[0], "return"), 1 - TOLERANCE)
    return SwarmClaim(
        "with eight workers independent sub-tasks take at most a third of the steps of one worker, "
        f"and {1 - TOLERANCE:.0%} are finished",
        f"{interval_text(share)} of the steps; finished {spread(rows[0], 'return')}",
        max(chance_beyond(share, MAX_STEPS_SHARE, above=False), whole),
    )


def _ratio(row: Row, above: str, below: str) -> Interval:
    """Return a figure as a share of another, seed by seed."""
    pairs = zip(values(row, above), values(row, below), strict=True)
    return mean_interval([upper / lower for upper, lower in pairs])


def table_of_teams(results: Results) -> str:
    """Return the figures of teams whose workers are models, by which of them learn."""
    names = ("return", "success", "width", "optimal_width", "finished_share", "critical_steps")
    head = ("learns", "sub-tasks", "finished", "all finished", "width", "best width")
    more = ("calls that finish", "critical steps", "million tokens sampled", "minutes")
    lines = []
    for arm in TEAMS:
        for row in results.rows(arm=arm):
            costs = (f"{mean(row, TOKENS_FIGURE) / 1e6:.2f}", f"{mean(row, 'seconds') / 60:.1f}")
            cells = (*(spread(row, name) for name in names), *costs)
            lines.append((TEAM_NAMES[arm], row["shape"], *cells))
    return markdown((*head, *more), lines)


def table_of_both(results: Results) -> str:
    """Return the lead of a team in which both parts learn over other teams, by shape."""
    head = ("sub-tasks", "both minus", "finished", "verdict")
    lines, gaps = [], []
    for shape in SHAPES:
        for row in results.rows(arm=JOINT, shape=shape):
            for arm in (LEAD, WORKERS, START):
                for other in results.rows(arm=arm, shape=shape):
                    gaps.append(paired_difference(row, other, "return"))
                    lines.append((shape, TEAM_NAMES[arm], interval_text(gaps[-1])))
    return table_with_words(head, lines, words_of_differences(gaps, "ahead", "behind"))


MARKERS: dict[str, Maker] = {
    "swarm claims": claims,
    "swarm": figures_by_shape,
    "swarm teams": table_of_teams,
    "swarm both": table_of_both,
    "swarm source": Results.source,
}
SECTIONS = {
    "Claim by claim": claims,
    "By shape": figures_by_shape,
    "Who learns": table_of_teams,
    "Both, or one": table_of_both,
}
