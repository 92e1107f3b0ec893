"""report.html: a run on one page that needs nothing else, fit to be attached to a paper.

The page is a function of the run folder: the same folder gives the same bytes. Everything in it is
escaped (``page.py``); what cannot be read is said, and the rest is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparring.config import RunConfig
from sparring.config.checks import LIVE, measured_weights
from sparring.measure.verdicts import run_verdicts
from sparring.report.catalogue import glossary
from sparring.report.curves import CHARTS, charts, names_of, points_of, series_of, with_weights
from sparring.report.judged_game import judged_games
from sparring.report.known import RANDOM, Known, best_of, cells_of, known_values
from sparring.report.page import document, folded, marked, paragraphs, section, table
from sparring.report.play_shown import play_html
from sparring.report.ratings import league, matches
from sparring.report.repeating import configuration, repeating
from sparring.report.sample_plays import RULE, STRANGE, sample_plays
from sparring.report.several import Seed, charts_over_seeds, results_over_seeds, said_of, seeds_of
from sparring.report.svg import line_chart
from sparring.report.workers_shown import workers_section
from sparring.run.evaluation import FAMILIES
from sparring.run.events import HEALTH, METRICS, TIMING, read_figures, read_lines, torn_after
from sparring.run.folder import RunFolder
from sparring.run.provenance import starts
from sparring.run.token_texts import token_decoder
from sparring.system.files import write_bytes_atomic
from sparring.system.text import in_words

RESULTS = (  # figures in the table of results
    *("nash_conv/", "exploitability/", "optimality_gap/", "return/"),
    *("regret/", "optimal_rate/", "legal_rate"),
)


def write_report(path: Path, target: Path | None = None, others: Sequence[Path] = ()) -> Path:
    """Write the page of a run and return its path.

    Args:
        path: the run folder.
        target: the file; None: ``report.html`` in the run folder.
        others: folders of the same configuration with other seeds: results and curves are of all.

    Raises:
        RunError: this is no run folder, or the file cannot be written.
        ConfigError: the others are of other configurations.
    """
    target = path / "report.html" if target is None else target
    seeds = seeds_of([path, *others]) if others else []
    path = seeds[0].path if seeds else path
    config = RunFolder.open(path).config()
    write_bytes_atomic(target, document(_named(config), _body(path, config, seeds)))
    return target


def write_chart(path: Path, target: Path) -> Path:
    """Write a run's first chart as an SVG file of its own and return its path.

    Raises:
        RunError: this is no run folder, or the file cannot be written.
    """
    chart, weights = CHARTS[0], _weights(RunFolder.open(path).config())
    series = with_weights(series_of(read_figures(path / METRICS), chart.prefixes), weights)
    svg = line_chart(series, title=chart.title, note=chart.note, standalone=True)
    write_bytes_atomic(target, (svg + "\n").encode())
    return target


def _body(path: Path, config: Mapping[str, Any], seeds: Sequence[Seed]) -> str:
    """Return the page of a run between its first heading and its end."""
    lines, timing = read_figures(path / METRICS), read_figures(path / TIMING)
    events = read_lines(path / HEALTH)
    known = known_values(config, names_of(lines))
    policies = config.get("policies")
    policies = policies if isinstance(policies, dict) else {}
    plays, troubles = _plays(path)
    meets = _name(config.get("matchmaker")) not in ("", "mirror")  # somebody else than itself
    weights = _weights(config)
    if seeds:
        results = results_over_seeds(seeds, known, RESULTS)
        curves = charts_over_seeds(seeds, known, weights)
    else:
        results = _results(lines, known) + paragraphs(run_verdicts(config, lines))
        curves = charts(lines, known, events, policies, weights)
    results += paragraphs([_weights_sentence(weights)] if results else [])
    sections = [
        ("results", "Results", results),
        ("curves", "Curves", curves),
        ("ratings", "Ratings", matches(lines) + (league(path) if meets and lines else "")),
        ("plays", "Sample plays", plays),
        ("health", "Health", _health(events, timing, known="health" in config)),
        ("repeat", "To repeat it", repeating(path, config)),
        ("configuration", "Configuration", configuration(path)),
        ("glossary", "Glossary", _glossary(lines)),
    ]
    parts = {name: section(name, title, body) for name, title, body in sections}
    parts["plays"] += judged_games(path / "episodes")
    parts["health"] += workers_section(timing, lines)
    links = "".join(
        f'<li><a href="#{name}">{title}</a></li>' for name, title, _ in sections if parts[name]
    )
    return "".join(
        [
            f"<header><h1>{marked(_named(config))}</h1>",
            paragraphs([str(config.get("summary") or "")]),
            said_of(seeds) if seeds else "",
            _facts(path, config, lines, timing),
            f'<nav aria-label="Contents"><ul>{links}</ul></nav></header>',
            _missing([*_torn(path), *troubles]),
            *parts.values(),
        ]
    )


def _named(config: Mapping[str, Any]) -> str:
    """Return what the run is called."""
    return str(config.get("name", "run"))


def _weights(config: Mapping[str, Any]) -> str:
    """Return in words which weights a run measures; the live ones where it cannot be read."""
    try:  # the folder may be of another version, or a stranger's
        return measured_weights(RunConfig.model_validate(config))
    except ValueError:
        return LIVE


def _weights_sentence(measured: str) -> str:
    """Return in a sentence which figures are of which weights."""
    if measured == LIVE:
        return f"All figures are of the {LIVE}, which play and learn."
    families = ", ".join(FAMILIES)
    return f"Of the {measured} are {families}. All other figures are of the {LIVE}."


def _name(section: Any) -> str:
    """Return the name of the plug-in that a section of the configuration names."""
    found = section.get("name", "") if isinstance(section, dict) else section or ""
    return str(found).split(" ")[0]


def _facts(
    path: Path,
    config: Mapping[str, Any],
    lines: Sequence[Mapping[str, Any]],
    timing: Sequence[Mapping[str, Any]],
) -> str:
    """Return how long the run was, and what it was made with."""
    if not lines:
        return "<p>No step has been recorded yet.</p>"
    training = sum(line.get("seconds/round") or 0.0 for line in timing)
    measuring = sum(line.get("seconds/evaluation") or 0.0 for line in timing)
    facts = {
        "Steps": f"{lines[-1]['step']} of {config.get('steps', '?')}",
        "Plays": _counted(timing, "games_per_second"),
        "Tokens trained on": _counted(timing, "tokens_per_second"),
        "Time": f"{in_words((training + measuring) / 60)}: {training:.0f} s of training, "
        f"{measuring:.0f} s of measuring",
        "Seed": str(config.get("seed", 0)),
    }
    begun = starts(path)
    if begun:
        versions = begun[-1].get("versions")
        number = versions.get("sparring") if isinstance(versions, dict) else None
        commit, _, dirty = str(begun[-1].get("commit") or "not known").partition("-")
        changed = " and changes" if dirty else ""
        facts["Sparring"] = f"{number or '?'}, commit {commit[:12]}{changed}"
    rows = "".join(
        f"<div><dt>{name}</dt><dd>{marked(text)}</dd></div>" for name, text in facts.items() if text
    )
    return f'<dl class="facts">{rows}</dl>'


def _counted(timing: Sequence[Mapping[str, Any]], rate: str) -> str:
    """Return how many there were, from a rate and the seconds of each round; "" if unknown."""
    total = sum((line.get(rate) or 0.0) * (line.get("seconds/round") or 0.0) for line in timing)
    return f"{round(total):,}" if total else ""


def _results(lines: Sequence[Mapping[str, Any]], known: Known) -> str:
    """Return the last and the best value of the figures that tell how good the policy is."""
    rows = []
    for name in names_of(lines):
        points = points_of(lines, name)
        if not points or not name.startswith(RESULTS):
            continue
        best, (step, value) = best_of(name, points), points[-1]
        shown = "-" if best is None else _at(*best)
        rows.append((name, _at(step, value), shown, *cells_of(known, name)))
    head = ("figure", "last", "best of the run", RANDOM, "best play")
    return table(head, rows, tight=True) if rows else ""


def _at(step: float, value: float) -> str:
    """Return a value and its step, which stay on one line."""
    return f"{value:.4g}\u00a0(step\u00a0{step})"


def _plays(path: Path) -> tuple[str, list[str]]:
    """Return three plays, and in words what could not be read of them."""
    samples, troubles = sample_plays(path)
    if not samples:
        return "", troubles
    decode, why = token_decoder(path)
    legend = (
        "Under each sampled token stands its probability; ␣ is a space, ⏎ a line end, … a piece "
        "that ends no character. A character that cannot be seen is shown by its number."
    )
    shown = ""
    for sample in samples:
        try:
            shown += play_html(sample, decode)
        except STRANGE:
            number = sample.episode.episode_id
            troubles.append(f"Play {number} of step {sample.step} holds what no run writes.")
    return (
        f'{paragraphs([RULE, legend])}<div class="plays">{shown}</div>',
        troubles + ([why] if why else []),
    )


def _health(
    events: Sequence[Mapping[str, Any]], timing: Sequence[Mapping[str, Any]], *, known: bool
) -> str:
    """Return what health rules found, oldest first, and what sinks did not take.

    Nothing for a run from before there were any (not ``known``).
    """
    if not events and not known:
        return ""
    items = "".join(
        f"<li>step {event['step']}: {marked(event.get('message', ''))}</li>" for event in events
    )
    failed = sum(1 for line in timing if line.get("failed_sinks"))
    body = f"<ul>{items}</ul>" if items else "<p>No health rule has acted.</p>"
    sinks = f"The figures of {failed} steps did not reach a sink of logging.sinks."
    return body + (paragraphs([sinks]) if failed else "")


def _torn(path: Path) -> list[str]:
    """Return in words which files of figures end before their end."""
    found = []
    for name in (METRICS, TIMING, HEALTH):
        step = torn_after(path / name)
        if step is not None:
            found.append(f"{name} cannot be read after step {step}: what follows is left out.")
    return found


def _missing(troubles: Sequence[str]) -> str:
    """Return what is missing in the page, as a list."""
    items = "".join(f"<li>{marked(trouble)}</li>" for trouble in dict.fromkeys(troubles))
    return (
        f'<div class="missing"><p>What is missing here:</p><ul>{items}</ul></div>' if items else ""
    )


def _glossary(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return what the metrics mean."""
    if not lines:
        return ""
    return folded("What the metrics mean", table(("metric", "meaning"), glossary().items()))
