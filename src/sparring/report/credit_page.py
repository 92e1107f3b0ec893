"""Makes docs/credit-lab.md: how estimators compare with exact policy gradients, per game."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sparring.core.errors import ConfigError
from sparring.report.svg import scatter_chart

HEADS = (  # headings of the columns; KEYS has the keys of all columns but the first in a result
    "estimator",
    "bias",
    "bias, scaled",
    "cosine",
    "variance",
    "variance, scaled",
    "batch cosine",
    "right sign",
    "zeros",
    "effective",
    "s / 100 k",
)
KEYS = (
    "bias",
    "bias_scaled",
    "cosine",
    "variance",
    "variance_scaled",
    "batch_cosine",
    "right_sign",
    "zeros",
    "effective",
    "seconds",
)
WITH_INTERVAL = ("bias", "bias_scaled", "cosine", "variance", "variance_scaled")
TEMPLATES = Path(__file__).parent / "templates"


def page(result: dict[str, Any], command: str, *, images: dict[str, str], note: str = "") -> str:
    """Return the page of a comparison as Markdown.

    Args:
        result: result of ``api.credit_lab.compare``.
        command: command line that made the page.
        images: path of each game's chart as the page links to it.
        note: a line about the source of the figures.
    """
    guide = (TEMPLATES / "credit_reading.md").read_text(encoding="utf-8")
    lines = ["# Credit lab", "", "Made by", "", "```bash", command, "```", "", note, "", guide]
    for report in result["games"]:
        lines += [f"## {report['game']}", "", summary(report, result["settings"]), ""]
        if report["game"] in images:
            lines += [f"![Bias against variance]({images[report['game']]})", ""]
        figure_rows = [row for row in report["rows"] if "refused" not in row]
        lines += ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
        lines += [
            "| " + " | ".join([_link(row["estimator"]), *cells(row)]) + " |" for row in figure_rows
        ]
        error_rows = [row for row in report["rows"] if "refused" in row]
        lines += [
            "",
            *(
                f"- {_link(row['estimator'])}: not measured. {message}"
                for row in error_rows
                for message in [re.sub(r"([*_<|])", r"\\\1", row["refused"])]  # no markup
            ),
            "",
        ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def summary(report: dict[str, Any], settings: dict[str, Any]) -> str:
    """Return a paragraph on the played episodes and the accuracy of the comparison."""
    returns = ", ".join(f"{value:+.3f}" for value in report["returns"])
    check = report["check"]
    return (
        f"{report['num_info_states']:,} information states, {report['num_parameters']:,} logits, "
        f"policy {settings['policy']}, expected returns {returns}. {report['episodes']:,} "
        f"episodes ({report['turns']:,} turns) in {report['batches']:,} batches of "
        f"{settings['batch_size']}, groups of {settings['group_size']}, "
        f"critic {settings['critic']}, seed {settings['seed']}{_options_text(settings)}. "
        "Check: the gradient of the returns, without control variates, is off by "
        f"{_interval_text(check)} of the exact gradient's length, which is "
        f"{report['gradient_norm']:.4f}."
    )


def cells(row: dict[str, Any]) -> list[str]:
    """Return the figures of a row as text, in the order of ``HEADS``."""
    return [
        _interval_text(row[key], key in WITH_INTERVAL)
        if isinstance(row[key], dict)
        else number(row[key])
        for key in KEYS
    ]


def number(value: float | None) -> str:
    """Return a number with three decimals (three digits if large), or a dash for None."""
    if value is None:
        return "-"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.3g}"


def _options_text(settings: dict[str, Any]) -> str:
    text = f", playouts {settings['playouts']}" if "playouts" in settings else ""
    if settings.get("reward"):
        text += f"; the reward is {settings['reward']} instead of the game's"
    return text


def _interval_text(interval: dict[str, Any], with_ends: bool = True) -> str:
    ends = f" [{number(interval['low'])}, {number(interval['high'])}]"
    return number(interval["mean"]) + (ends if with_ends and interval["low"] is not None else "")


def _link(name: str) -> str:
    return f"[`{name}`](methods/credit-{re.split('[: ]', name)[0]}.md)"


def image_paths(result: dict[str, Any], path: Path) -> dict[str, str]:
    """Return the path of each game's chart, relative to the page."""
    games = [report["game"] for report in result["games"]]
    names = [re.sub(r"[^A-Za-z0-9_]+", "-", game) for game in games]
    return {game: f"images/{path.stem}-{name}.svg" for game, name in zip(games, names, strict=True)}


def write_page(result: dict[str, Any], path: Path, command: str) -> list[Path]:
    """Write the page, and charts in the folder ``images`` next to it; return the files.

    Raises:
        ConfigError: a file cannot be written.
    """
    images = image_paths(result, path)
    files = {
        path.parent / images[report["game"]]: chart(report) + "\n" for report in result["games"]
    }
    files[path] = page(result, command, images=images)
    try:
        (path.parent / "images").mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"--page {path} cannot be written ({error}); name a file in a folder that is "
            "writable, e.g. credit-lab.md."
        ) from None
    return list(files)


def chart(report: dict[str, Any], *, standalone: bool = True) -> str:
    """Return a chart of bias against variance of a game's estimators, as an <svg> element."""
    points = [
        (row["estimator"], row["variance_scaled"]["mean"], row["bias_scaled"]["mean"])
        for row in report["rows"]
        if "refused" not in row and row["variance_scaled"]["mean"] is not None
    ]
    return scatter_chart(
        points,
        title=f"Credit estimators in {report['game']}",
        note="towards the lower left is better",
        x_label="variance of a batch's gradient at equal progress",
        y_label="bias after the best scale",
        standalone=standalone,
    )
