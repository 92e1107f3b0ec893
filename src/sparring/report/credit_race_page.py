"""The page of the race, docs/credit-race.md: what was raced, curves, a table, and what it says of published claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import spearmanr

from sparring.errors import ConfigError
from sparring.ops.statistics import mean_interval
from sparring.report.svg import Series, line_chart, scatter_chart

LAB_KEYS = ("bias_scaled", "variance_scaled", "cosine")
SHOWN = 8  # curves in the chart: as many as there are colours
CLAIMS = (
    ("mars", "rae", "turn-level returns beat one return per game and role (MARS)"),
    ("mars", "grpo", "turn-level, agent-specific credit beats GRPO (MARS)"),
    ("mars", "mars:no_turn_level", "turn-level credit beats credit by trajectory (MARS's ablation)"),
    ("mars", "mars:no_agent_specific", "a mean per role beats one mean (MARS's ablation)"),
    ("mars", "mars:as_released", "the paper's estimator beats the released one"),
    ("rae", "outcome", "a baseline per role beats none (SPIRAL)"),
    ("gigpo", "grpo", "step-level groups beat whole-trajectory groups (GiGPO)"),
    ("hgpo", "gigpo", "contexts of several lengths beat one (HGPO)"),
    ("grpo:dr_grpo", "grpo", "no division by the deviation is better (Dr. GRPO)"),
    ("rloo", "grpo", "the unbiased leave-one-out mean is no worse (RLOO)"),
    ("salt", "grpo", "merging shared steps beats GRPO (SALT)"),
    ("spo_tree", "grpo", "values along the tree beat one value per trajectory (SPO)"),
    ("mc_grpo", "grpo", "the median beats the mean (MC-GRPO)"),
    ("ngrpo", "grpo", "a virtual best member beats GRPO (NGRPO)"),
    ("gae", "outcome", "a critic beats none"),
    ("bi_level_gae", "gae", "turns then tokens beat turns alone (VAGEN)"),
    ("exact_advantage", "mars", "the exact advantage is the best there is"),
)


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return an estimator's final and mean distance as they are shown."""
    return [_interval(row["final"]), _interval(row["mean"])]


def chart(result: Mapping[str, Any], *, standalone: bool = True) -> str:
    """Return the mean curves of the estimators that end best, and the worst, as an <svg> element."""
    rows = [row for row in result["rows"] if "refused" not in row]
    chosen = rows if len(rows) <= SHOWN else [*rows[: SHOWN - 1], rows[-1]]
    series = [Series(name=row["estimator"], points=[(games, value) for games, value in row["curve"]]) for row in chosen]
    note = f"mean over {result['settings']['seeds']} seeds; smaller is better"
    return line_chart(
        series, title=f"Distance from the best play, {result['settings']['recipe']}", note=note, x_label="games", standalone=standalone
    )


def lab_chart(result: Mapping[str, Any], lab: Mapping[str, Mapping[str, Any]]) -> str:
    """Return final distance against the lab's variance as an <svg> element."""
    points = []
    for row in result["rows"]:
        found = lab.get(row["estimator"], {}).get("variance_scaled")
        if "refused" not in row and found is not None and found["mean"] is not None:
            points.append((row["estimator"], found["mean"], row["final"]["mean"]))
    return scatter_chart(
        points,
        title="Does truth pay?",
        note="lower is better",
        x_label="variance of a batch's gradient at equal progress, in the lab",
        y_label="final distance in the race",
        standalone=True,
    )


def lab_rows(lab: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the rows of a comparison (``sparring credit compare --json``) by estimator, of its first game.

    Raises:
        ConfigError: it is no such comparison.
    """
    try:
        return {row["estimator"]: row for row in lab["games"][0]["rows"] if "refused" not in row}
    except (KeyError, IndexError, TypeError):
        raise ConfigError("--lab wants the output of `sparring credit compare --json`; write that to a file first.") from None


def verdicts(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return, for every claim whose estimators both raced, the paired difference over seeds and what it says."""
    ends = {row["estimator"]: row["ends"] for row in result["rows"] if "refused" not in row}
    found = []
    for better, worse, claim in CLAIMS:
        if better in ends and worse in ends:
            gain = mean_interval([b - a for a, b in zip(ends[better], ends[worse], strict=True)])
            said = "held" if gain.low > 0 else "not held" if gain.high < 0 else "not decided by these seeds"
            shown = f"{gain.mean:.3f} [{gain.low:.3f}, {gain.high:.3f}]"
            found.append({"claim": claim, "compared": f"{worse} - {better}", "difference": shown, "verdict": said})
    return found


def correlations(result: Mapping[str, Any], lab: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return Spearman's rank correlation of each of the lab's figures with the final distance; nan for fewer than three, or all equal."""
    ends = {row["estimator"]: row["final"]["mean"] for row in result["rows"] if "refused" not in row}
    found = {}
    for key in LAB_KEYS:
        pairs = [(lab[name][key]["mean"], end) for name, end in ends.items() if name in lab and lab[name][key]["mean"] is not None]
        differ = len(pairs) > 2 and len({figure for figure, _ in pairs}) > 1
        found[key] = float(spearmanr(*zip(*pairs, strict=True)).statistic) if differ else math.nan
    return found


def write_page(result: Mapping[str, Any], path: Path, command: str, lab: Mapping[str, Mapping[str, Any]] | None = None) -> list[Path]:
    """Write the page and its charts; return their paths.

    Raises:
        ConfigError: a file cannot be written.
    """
    images = path.parent / "images"
    charts = {"credit-race.svg": chart(result), **({"credit-race-lab.svg": lab_chart(result, lab)} if lab else {})}
    written = [images / name for name in charts]
    try:
        images.mkdir(parents=True, exist_ok=True)
        for file, text in zip(written, charts.values(), strict=True):
            file.write_text(text, encoding="utf-8")
        path.write_text(_text(result, command, list(charts), lab), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"The page {path} cannot be written ({error.strerror}).") from None
    return [path, *written]


def _text(result: Mapping[str, Any], command: str, charts: Sequence[str], lab: Mapping[str, Mapping[str, Any]] | None) -> str:
    """Return the page."""
    settings = result["settings"]
    lines = [
        "# Does truth pay? The race",
        "",
        f"Made by `{command}`.",
        "",
        f"Every estimator trains the recipe `{settings['recipe']}` with {', '.join(settings['overrides']) or 'no changes'},",
        f"over {settings['seeds']} seeds: the same games, model, loss and step size; those with a critic get the loss `value_loss`",
        "besides, and those that read judged turns the reward `best_action`, from the oracle `cfr` unless the recipe has one.",
        "Distance is NashConv (in cooperative games the optimality gap), in the game's units, 0 at the best play; *final* at the end",
        "of the run, *mean* over all measurements of a run. Brackets are Student's 95 % intervals over seeds.",
        "",
        *(f"![{name}](images/{name})\n" for name in charts),
    ]
    heads = ["estimator", "final", "mean", *(["bias, scaled", "variance, scaled", "cosine"] if lab else [])]
    lines += [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in result["rows"]:
        if "refused" not in row:
            own = [_lab_cell(lab.get(row["estimator"]), key) for key in LAB_KEYS] if lab else []
            lines.append(f"| {' | '.join([row['estimator'], *cells(row), *own])} |")
    refused = [row for row in result["rows"] if "refused" in row]
    lines += ["", *(f"Not raced: `{row['estimator']}`: {row['refused']}\n" for row in refused)]
    lines += ["## Published claims, here", "", "Paired by seed; a positive difference is in favour of the claim.", ""]
    lines += ["| claim | compared | difference of final distance | verdict |", "|---|---|---|---|"]
    lines += [f"| {v['claim']} | {v['compared']} | {v['difference']} | {v['verdict']} |" for v in verdicts(result)]
    if lab:
        shown = ", ".join(f"{key.replace('_', ', ')} {value:.2f}" for key, value in correlations(result, lab).items())
        lines += ["", "## Truth and success", "", f"Spearman's rank correlation of the lab's figures with the final distance: {shown}."]
    return "\n".join(lines) + "\n"


def _interval(found: Mapping[str, float | None]) -> str:
    """Return a mean with its interval."""
    if found["low"] is None or found["high"] is None:
        return f"{found['mean']:.3f}"
    return f"{found['mean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def _lab_cell(row: Mapping[str, Any] | None, key: str) -> str:
    """Return one of the lab's figures, or a dash."""
    value = None if row is None else row[key]["mean"]
    return "-" if value is None else f"{value:.3g}"
