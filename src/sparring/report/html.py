"""report.html: the curves of a run on one page that needs nothing else. Everything is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sparring.config import of_any
from sparring.measure.verdicts import run_verdicts
from sparring.report.catalogue import glossary
from sparring.report.judged_game import judged_games
from sparring.report.svg import Series, line_chart
from sparring.report.workers_shown import workers_section
from sparring.run.events import HEALTH, METRICS, TIMING, read_figures, read_lines
from sparring.run.folder import CONFIG, RunFolder
from sparring.run.provenance import starts
from sparring.system.files import write_bytes_atomic

STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
.charts { display: grid; \
grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 1.5rem; }
figure { margin: 0; } svg { width: 100%; height: auto; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { padding: .2rem .8rem .2rem 0; text-align: left; font-variant-numeric: tabular-nums; }
code.lines { white-space: pre-wrap; }
pre { overflow-x: auto; padding: 1rem; border: 1px solid #8886; border-radius: .4rem; }
"""

CHARTS = (
    (
        "Learning",
        ("nash_conv/", "return/", "legal_rate"),
        "returns, legal replies, and exact exploitability where it can be had",
    ),
    (
        "Exploitability",
        ("nash_conv/", "optimality_gap/"),
        "exact, in the game's units; 0 is equilibrium",
    ),
    ("Return per role", ("return/",), "mean over self-play games"),
    (
        "Matches",
        (
            "match/*/win_or_draw",
            "match/*/success",
            "match_seen/*/win_or_draw",
            "match_seen/*/success",
        ),
        (
            "share of wins and draws against bots; of successes where one plays alone; match_seen "
            "is of starts that training met"
        ),
    ),
    (
        "Optimal moves",
        ("match/*/optimal", "optimal_rate/"),
        "share of judged turns, in matches and in training",
    ),
    (
        "Regret",
        ("match/*/regret", "regret/"),
        "value lost per judged turn, in the game's units; 0 is perfect",
    ),
    ("Legal replies", ("legal_rate/", "forfeit_rate", "illegal_mass/"), "shares"),
    ("Reply length", ("reply_tokens",), "sampled tokens per turn"),
    ("Truncated replies", ("truncated_rate", "unparsable_rate"), "shares"),
    (
        "Entropy",
        ("sampled_entropy", "entropy_bonus/entropy"),
        "nats per token, estimated from samples and of the whole distribution",
    ),
    (
        "Learning signal",
        ("advantage_std", "group_deviation", "group_equal_share"),
        "0 advantage_std teaches nothing",
    ),
    (
        "Sampler against learner",
        ("logprob_difference_max", "logprob_difference_mean"),
        "difference of log-probabilities",
    ),
    (
        "Ratio tail",
        ("ratio_tail",),
        "share of tokens whose ratio learner / sampler is outside [0.5, 2]",
    ),
    ("Gradient norm", ("gradient_norm",), "before clipping"),
    ("Seat asymmetry", ("seat_asymmetry/",), "largest minus smallest mean return"),
)

MATCH_FIGURES = {
    "success": "success",
    "win": "win",
    "win_or_draw": "win or draw",
    "return": "return",
    "optimal": "optimal moves",
    "regret": "regret per turn",
}


def write_report(path: Path) -> Path:
    """Write ``report.html`` into a run folder and return its path.

    Raises:
        RunError: this is no run folder, or it cannot be written.
    """
    folder = RunFolder.open(path)
    config, lines = folder.config(), read_figures(path / METRICS)
    timing = read_figures(path / TIMING)
    name = html.escape(str(config.get("name", "run")))
    body = [
        f"<h1>{name}</h1>",
        f"<p>{html.escape(str(config.get('summary', '')))}</p>",
        _summary(lines, timing),
    ]
    body += [f"<p>{html.escape(line)}</p>" for line in run_verdicts(config, lines)]
    body.append(_health(read_lines(path / HEALTH), known="health" in config))
    body.append('<div class="charts">')
    for title, prefixes, note in CHARTS:
        chosen = _series(lines, prefixes, config.get("policies") or ())
        if chosen:
            body.append(f"<figure>{line_chart(chosen, title=title, note=note)}</figure>")
    body.append("</div>")
    body.append(workers_section(timing, lines))
    body += [_match_table(lines), judged_games(path / "episodes"), _glossary(lines)]
    body.append(_provenance(path))
    written = html.escape((path / CONFIG).read_text(encoding="utf-8"))
    body.append(f"<h2>Configuration</h2><pre>{written}</pre>")
    page = (
        '<!doctype html><html lang="en"><meta '
        f'charset="utf-8"><title>{name}</title><style>{STYLE}</style>{"".join(body)}</html>'
    )
    target = path / "report.html"
    write_bytes_atomic(target, page.encode())
    return target


def write_chart(path: Path, target: Path) -> Path:
    """Write a run's first chart as an SVG file of its own and return its path.

    Raises:
        RunError: this is no run folder, or the file cannot be written.
    """
    RunFolder.open(path)
    title, prefixes, note = CHARTS[0]
    chart = line_chart(
        _series(read_figures(path / METRICS), prefixes), title=title, note=note, standalone=True
    )
    write_bytes_atomic(target, (chart + "\n").encode())
    return target


def _series(
    lines: list[dict[str, Any]], prefixes: tuple[str, ...], policies: Collection[str] = ()
) -> list[Series]:
    """Return the series of these metrics, those of each of several policies too.

    A prefix that ends in / stands for all below it, a pattern with * for all that it fits.
    """
    folders = tuple(prefix for prefix in prefixes if prefix.endswith("/"))
    names = sorted(
        {
            key
            for line in lines
            for key in line
            if (bare := of_any(key, policies)).startswith(folders)
            or any(fnmatchcase(bare, name) for name in prefixes)
        }
    )
    points = {
        name: [(line["step"], line[name]) for line in lines if line.get(name) is not None]
        for name in names
    }
    return [Series(name=name, points=values) for name, values in points.items() if values]


def _summary(lines: list[dict[str, Any]], timing: list[dict[str, Any]]) -> str:
    """Return a sentence about the run's length and speed."""
    if not lines:
        return "<p>No step has been recorded yet.</p>"
    seconds = sum(line.get("seconds/round") or 0.0 for line in timing) + sum(
        line.get("seconds/evaluation") or 0.0 for line in timing
    )
    return f"<p>{lines[-1]['step']} steps in {seconds:.0f} s of training and measuring.</p>"


def _health(events: list[dict[str, Any]], *, known: bool) -> str:
    """Return what health rules found, oldest first.

    Nothing for a run from before there were any (not ``known``).
    """
    if not events and not known:
        return ""
    items = "".join(
        f"<li>step {event['step']}: {html.escape(str(event.get('message', '')))}</li>"
        for event in events
    )
    return "<h2>Health</h2>" + (
        f"<ul>{items}</ul>" if items else "<p>No health rule has acted.</p>"
    )


def _match_table(lines: list[dict[str, Any]]) -> str:
    """Return the latest match results, with their intervals, as a table."""
    latest: dict[str, Any] = {}
    for line in lines:
        latest.update(
            {key: value for key, value in line.items() if key.startswith(("match/", "match_seen/"))}
        )
    seats = sorted({key.rsplit("/", 1)[0] for key in latest if key.count("/") >= 4})
    if not seats:
        return ""
    shown = [name for name in MATCH_FIGURES if any(f"{seat}/{name}" in latest for seat in seats)]
    rows = []
    for seat in seats:
        family, game, *middle, role = seat.split("/")
        opponent = "/".join(middle)  # an endpoint's model may have a name with /
        pair = f"match_seen/{game}/{opponent}/{role}"
        starts = ("seen" if family == "match_seen" else "unseen") if pair in seats else "-"
        cells = [game, starts, opponent, role, *(_interval(latest, seat, name) for name in shown)]
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(
        f"<th>{name}</th>"
        for name in ("game", "starts", "opponent", "seat", *(MATCH_FIGURES[name] for name in shown))
    )
    return f"<h2>Latest matches, 95 % intervals</h2><table><tr>{head}</tr>{''.join(rows)}</table>"


def _interval(values: dict[str, Any], seat: str, name: str) -> str:
    """Return an interval as text."""
    mean, low, high = (values.get(f"{seat}/{name}{end}") for end in ("", "_low", "_high"))
    if mean is None:
        return "-"
    ends = [math.nan if end is None else end for end in (low, high)]
    return f"{mean:.3f} [{ends[0]:.3f}, {ends[1]:.3f}]"


def _provenance(path: Path) -> str:
    """Return the starts of the run as a table: when, where, by which command and code."""
    rows = ""
    for start in starts(path):
        versions = start.get("versions")
        told = (
            ", ".join(f"{name} {number}" for name, number in versions.items())
            if isinstance(versions, dict)
            else ""
        )
        cells = (
            start.get("date"),
            start.get("command"),
            start.get("after_step"),
            start.get("commit"),
            start.get("host"),
            start.get("replies"),
            start.get("decoding"),
            told,
        )
        rows += (
            "<tr>"
            + "".join(
                f"<td>{html.escape(str('' if cell is None else cell))}</td>" for cell in cells
            )
            + "</tr>"
        )
    heads = "".join(
        f"<th>{head}</th>"
        for head in (
            "started",
            "command",
            "after step",
            "commit",
            "host",
            "replies",
            "decoding",
            "versions",
        )
    )
    return f"<h2>Provenance</h2><table><tr>{heads}</tr>{rows}</table>" if rows else ""


def _glossary(lines: list[dict[str, Any]]) -> str:
    """Return what the metrics mean."""
    if not lines:
        return ""
    rows = "".join(
        f"<tr><td><code>{html.escape(key)}</code></td><td>{html.escape(text)}</td></tr>"
        for key, text in glossary().items()
    )
    return f"<details><summary>What the metrics mean</summary><table>{rows}</table></details>"
