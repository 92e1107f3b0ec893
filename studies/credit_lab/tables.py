"""The findings and tables of the credit lab, from its results file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from sparring.report import credit_page
from sparring.report.credit_page import chart
from studies.common.result_figures import Maker, Results, markdown


def comparison(results: Results) -> dict[str, Any]:
    """Return the comparison in the results file, in the format of ``credit_lab.compare``."""
    reports = [
        {**game, "check": interval_fields(game["check"]), "rows": rows(results, game["game"])}
        for game in results.document["games"]
    ]
    return {"settings": results.document["setting"], "games": reports}


def interval_fields(figure: Any) -> dict[str, float]:
    """Return an interval in the format of the library's pages."""
    return (
        figure
        if isinstance(figure, dict)
        else dict(zip(("mean", "low", "high"), figure, strict=True))
    )


def rows(results: Results, game: str) -> list[dict[str, Any]]:
    """Return the rows of a game in the format of the credit lab."""
    entries = []
    for result_row in results.rows(game=game):
        row: dict[str, Any] = {"estimator": result_row["estimator"]}
        if "refused" in result_row:
            entries.append({**row, "refused": result_row["refused"]})
            continue
        for key in credit_page.KEYS:
            low, high = result_row["intervals"].get(key, (None, None))
            mean = result_row["values"][key]["0"] if key in result_row["values"] else None
            row[key] = {"mean": mean, "low": low, "high": high}
        entries.append(row)
    return entries


def charts(results: Results) -> dict[str, str]:
    """Return the chart of each game by file name."""
    result = comparison(results)
    images = credit_page.image_paths(result, Path("credit-lab.md"))
    return {Path(images[report["game"]]).name: chart(report) for report in result["games"]}


MAX_SINE = 5e-3  # largest bias after the best scale that counts as the exact direction


class LabFigures:
    """The figures of all estimators in all games of the lab.

    Args:
        results: the published results.
    """

    def __init__(self, results: Results) -> None:
        games = comparison(results)["games"]
        self.games = [
            {row["estimator"]: row for row in game["rows"] if "refused" not in row}
            for game in games
        ]
        self.names = [name for name in self.games[0] if all(name in game for game in self.games)]

    def of(self, name: str, figure: str, end: str = "mean") -> list[float]:
        """Return a figure of an estimator in every game in which it was measured."""
        cells = (game[name][figure] for game in self.games)
        values = (cell[end] if isinstance(cell, dict) else cell for cell in cells)
        return [value for value in values if value is not None]

    def noise(self, name: str) -> float:
        """Return the variance at equal progress, as geometric mean over the measured games."""
        return math.exp(
            fmean(math.log(max(value, 1e-9)) for value in self.of(name, "variance_scaled"))
        )

    def right_in_direction(self) -> list[str]:
        """Return the estimators whose gradient has the exact direction in every game."""
        return [name for name in self.names if max(self.of(name, "bias_scaled", "low")) <= MAX_SINE]


def names_as_code(names: Iterable[str]) -> str:
    """Return names as code, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def link_to_estimator(name: str) -> str:
    """Return an estimator as a link from the study's page to its own page."""
    return f"[`{name}`](../../docs/methods/credit-{re.split('[: ]', name)[0]}.md)"


def list_findings(results: Results) -> str:
    """Return the findings of the lab in ten sentences."""
    lab = LabFigures(results)
    noise = {name: lab.noise(name) for name in lab.names}
    unbiased = [n for n in lab.names if max(lab.of(n, "bias", "low")) <= 5e-4]
    aligned = lab.right_in_direction()
    judged_names = ["vpr", "ppr", "spae", "ssl"]
    misdirected = [n for n in lab.names if min(lab.of(n, "cosine")) < 0.2]
    noisiest = sorted(noise, key=noise.__getitem__)[-3:][::-1]
    seconds = {name: max(lab.of(name, "seconds")) for name in lab.names}
    slowest = max(seconds, key=seconds.__getitem__)

    def largest_bias(name: str) -> str:
        return f"{max(lab.of(name, 'bias_scaled')):.2f}"

    def right_sign_range(name: str) -> str:
        return f"{min(lab.of(name, 'right_sign')):.2f} to {max(lab.of(name, 'right_sign')):.2f}"

    def wrong_share(name: str) -> float:
        return 1.0 - fmean(lab.of(name, "right_sign"))

    lines = (
        f"{len(lab.names)} estimators and presets were measured in {len(lab.games)} games.",
        f"These have no bias in any game, within the error: {names_as_code(unbiased)}.",
        "These have the right direction in every game, so a learning rate corrects the rest: "
        f"{names_as_code(n for n in aligned if n not in unbiased)}.",
        f"The exact advantage has a variance of {noise['exact_advantage']:.2f}, the plain return "
        f"(`outcome`) of {noise['outcome']:.2f}: a perfect critic reduces it by a factor of "
        f"{noise['outcome'] / noise['exact_advantage']:.1f}.",
        f"The variance is {noise['rloo']:.2f} with a group's mean (`rloo`), {noise['mars']:.2f} "
        f"with MARS, {noise['gae']:.2f} with an exact critic (`gae`), and {noise['vine_ppo']:.2f} "
        "with rollouts from each state (`vine_ppo`).",
        "Division by the group's deviation changes the direction: `grpo` has a bias of up to "
        f"{largest_bias('grpo')} after the best scale, `grpo:dr_grpo` of "
        f"{largest_bias('grpo:dr_grpo')}.",
        "A perfect judge of single turns gives little noise, but another direction: "
        + ", ".join(
            f"`{n}` {noise[n]:.2f} with a bias of up to {largest_bias(n)}" for n in judged_names
        )
        + ".",
        f"A turn's advantage has the right sign in a share of {right_sign_range('rloo')} of turns "
        f"for `rloo`, and of {right_sign_range('gae')} for `gae`, depending on the game. As means "
        f"over the games, {wrong_share('rloo'):.2f} and {wrong_share('gae'):.2f} of turns have the "
        "wrong sign.",
        f"The noisiest are {', '.join(f'`{n}` ({noise[n]:.1f})' for n in noisiest)}; "
        f"{names_as_code(misdirected)} are nearly orthogonal to the exact gradient, or point away "
        "from it, in at least one game.",
        f"No estimator takes more than {seconds[slowest]:.2f} s for 100,000 turns "
        f"(`{slowest}`), so the choice does not depend on time.",
    )
    return "\n".join(f"{index}. {line}" for index, line in enumerate(lines, 1))


def rank_estimators(results: Results) -> str:
    """Return the ten estimators with the least noise among those without bias in direction."""
    lab = LabFigures(results)
    rows = [
        (
            link_to_estimator(name),
            f"{lab.noise(name):.3f}",
            f"{max(lab.of(name, 'bias')):.3f}",
            f"{min(lab.of(name, 'right_sign')):.2f}",
        )
        for name in sorted(lab.right_in_direction(), key=lab.noise)[:10]
    ]
    head = ("estimator", "variance, scaled (mean of games)", "largest bias", "smallest right sign")
    return markdown(head, rows)


def sections_of_games(results: Results) -> str:
    """Return a collapsible section for each game: chart, summary and table."""
    result = comparison(results)
    images = credit_page.image_paths(result, Path("credit-lab.md"))
    parts = []
    for report in result["games"]:
        measured = [row for row in report["rows"] if "refused" not in row]
        rows = [(link_to_estimator(row["estimator"]), *credit_page.cells(row)) for row in measured]
        table = markdown(credit_page.HEADS, rows)
        refused = [
            f"- {link_to_estimator(row['estimator'])}: not measured. "
            + re.sub(r"([*_<|])", r"\\\1", row["refused"])
            for row in report["rows"]
            if "refused" in row
        ]
        summary = credit_page.summary(report, result["settings"])
        image = f"![Bias against variance](../../docs/{images[report['game']]})"
        head = f"<details markdown>\n<summary>{report['game']}</summary>"
        parts.append(
            "\n".join([head, "", summary, "", image, "", table, "", *refused, "", "</details>", ""])
        )
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip()


MARKERS: dict[str, Maker] = {
    "credit-lab findings": list_findings,
    "credit-lab ranking": rank_estimators,
    "credit-lab games": sections_of_games,
    "credit-lab source": Results.source,
}
SECTIONS = {"Findings": list_findings, "Ranking": rank_estimators, "By game": sections_of_games}
