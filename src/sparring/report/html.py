"""report.html: a run on one page that needs nothing else, fit to be attached to a paper.

The page is a function of the run folder: the same folder gives the same bytes. This module gathers
what the template ``run.html`` shows. What cannot be read is said, and the rest is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparring.config import RunConfig
from sparring.config.checks import LIVE, measured_weights
from sparring.config.scale import FRESH
from sparring.core.files import write_bytes_atomic
from sparring.core.foreign_text import in_words
from sparring.measure.references import run_verdicts
from sparring.report.baselines import RANDOM, Known, best_of, cells_of, known_values
from sparring.report.catalogue import glossary
from sparring.report.curves import CHARTS, charts, names_of, points_of, series_of, with_weights
from sparring.report.episode_text import STRANGE, UNSENT, token_decoder
from sparring.report.page import document
from sparring.report.ratings import league, matches
from sparring.report.sample_plays import RULE, judged_games, play_values, sample_plays
from sparring.report.seeds import about_seeds, charts_over_seeds, results_over_seeds, seeds_of
from sparring.report.svg import line_chart
from sparring.report.worker_status import workers_values
from sparring.run.config_checks import CHANGES, START
from sparring.run.evaluation import FAMILIES
from sparring.run.events import HEALTH, METRICS, TIMING, read_figures, read_lines, torn_after
from sparring.run.folder import CONFIG, RunFolder
from sparring.run.provenance import PROVENANCE, starts

Lines = Sequence[Mapping[str, Any]]  # of a file of figures
RESULTS = (  # figures in the table of results
    *("nash_conv/", "exploitability/", "optimality_gap/", "return/"),
    *("regret/", "optimal_rate/", "legal_rate"),
)
LEGEND = (
    "Under each sampled token stands its probability; ␣ is a space, ⏎ a line end, … a piece that "
    "ends no character. A character that cannot be seen is shown by its number."
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
    lines, timing = read_figures(path / METRICS), read_figures(path / TIMING)
    events = read_lines(path / HEALTH)
    known = known_values(config, names_of(lines))
    weights = _weights(config)
    policies = config.get("policies")
    policies = policies if isinstance(policies, dict) else {}
    plays, troubles = _plays(path)
    if seeds:
        results = results_over_seeds(seeds, known, RESULTS) | {"notes": []}
        curves = charts_over_seeds(seeds, known, weights)
    else:
        results = _results(lines, known) | {"notes": list(run_verdicts(config, lines))}
        curves = charts(lines, known, events, policies, weights)
    if results["rows"] or results["notes"]:
        results["notes"].append(_weights_sentence(weights))
    begun = starts(path)
    name = str(config.get("name", "run"))
    page = document(
        "run.html",
        name,
        name=name,
        about=[*filter(None, [config.get("summary")]), *(about_seeds(seeds) if seeds else ())],
        facts=_facts(config, lines, timing, begun),
        troubles=list(dict.fromkeys([*_torn(path), *troubles])),
        results=results,
        curves=curves,
        matches=matches(lines),
        league=league(path) if lines and _meets_others(config) else None,
        play_notes=[RULE, LEGEND],
        plays=plays,
        unsent=UNSENT,
        judged=judged_games(path / "episodes"),
        has_health=bool(events) or "health" in config,
        events=[(event["step"], event.get("message", "")) for event in events],
        failed_sinks=sum(1 for line in timing if line.get("failed_sinks")),
        workers=workers_values(timing, lines),
        provenance=PROVENANCE,
        repeat=_repeating(path, config, begun),
        config_name=CONFIG,
        config=(path / CONFIG).read_text(encoding="utf-8", errors="replace"),
        glossary=list(glossary(names_of(lines)).items()) if lines else [],
    )
    write_bytes_atomic(target, page)
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


def _weights(config: Mapping[str, Any]) -> str:
    """Return in words which weights a run measures; the live ones where it cannot be read."""
    try:  # the folder may be of another version, or a stranger's
        return measured_weights(RunConfig.model_validate(config))
    except ValueError:
        return LIVE


def _weights_sentence(measured: str) -> str:
    if measured == LIVE:
        return f"All figures are of the {LIVE}, which play and learn."
    families = ", ".join(FAMILIES)
    return f"Of the {measured} are {families}. All other figures are of the {LIVE}."


def _meets_others(config: Mapping[str, Any]) -> bool:
    """Return whether the learner played somebody else than itself."""
    matchmaker = config.get("matchmaker")
    name = matchmaker.get("name", "") if isinstance(matchmaker, dict) else matchmaker or ""
    return str(name).split(" ")[0] not in ("", "mirror")


def _facts(config: Mapping[str, Any], lines: Lines, timing: Lines, begun: Lines) -> dict[str, str]:
    """Return how long the run was, and what it was made with; nothing before its first step."""
    if not lines:
        return {}

    def summed(name: str, times: str = "") -> float:
        return sum(
            (line.get(name) or 0.0) * (line.get(times) or 0.0 if times else 1) for line in timing
        )

    training, measuring = summed("seconds/round"), summed("seconds/evaluation")
    counts = {
        "Plays": summed("games_per_second", "seconds/round"),
        "Tokens trained on": summed("tokens_per_second", "seconds/round"),
    }
    facts = {"Steps": f"{lines[-1]['step']} of {config.get('steps', '?')}"}
    facts |= {name: f"{round(count):,}" for name, count in counts.items() if count}
    facts["Time"] = (
        f"{in_words((training + measuring) / 60)}: {training:.0f} s of training, "
        f"{measuring:.0f} s of measuring"
    )
    facts["Seed"] = str(config.get("seed", 0))
    if begun:
        versions = begun[-1].get("versions")
        number = versions.get("sparring") if isinstance(versions, dict) else None
        commit, _, dirty = str(begun[-1].get("commit") or "not known").partition("-")
        changed = " and changes" if dirty else ""
        facts["Sparring"] = f"{number or '?'}, commit {commit[:12]}{changed}"
    return facts


def _results(lines: Lines, known: Known) -> dict[str, Any]:
    """Return the last and the best value of the figures that tell how good the policy is."""
    rows = []
    for name in names_of(lines):
        points = points_of(lines, name)
        if points and name.startswith(RESULTS):
            best = best_of(name, points)
            cells = ["-" if point is None else _at(*point) for point in (points[-1], best)]
            rows.append((name, *cells, *cells_of(known, name)))
    head = ("figure", "last", "best of the run", RANDOM, "best play")
    return {"head": head, "rows": rows, "caption": ""}


def _at(step: float, value: float) -> str:
    """Return a value and its step, which stay on one line."""
    return f"{value:.4g}\u00a0(step\u00a0{step})"


def _plays(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return three plays, and in words what could not be read of them."""
    samples, troubles = sample_plays(path)
    if not samples:
        return [], troubles
    decode, why = token_decoder(path)
    plays = []
    for sample in samples:
        try:
            plays.append(play_values(sample, decode))
        except STRANGE:
            number = sample.episode.episode_id
            troubles.append(f"Play {number} of step {sample.step} holds what no run writes.")
    return plays, [*troubles, *filter(None, [why])]


def _torn(path: Path) -> list[str]:
    """Return in words which files of figures end before their end."""
    steps = {name: torn_after(path / name) for name in (METRICS, TIMING, HEALTH)}
    return [
        f"{name} cannot be read after step {step}: what follows is left out."
        for name, step in steps.items()
        if step is not None
    ]


def _repeating(path: Path, config: Mapping[str, Any], begun: Lines) -> dict[str, Any]:
    """Return how a run is repeated, and where it ran."""
    first = begun[0] if begun else {}
    commit, command = str(first.get("commit") or ""), str(first.get("command") or "")
    commands = [f"git checkout {commit.removesuffix('-dirty')}    # of Sparring"] if commit else []
    if command:
        is_command = command.startswith("sparring train")
        commands.append(command if is_command else f"# begun from Python: {command}")
    commands += [
        "# or, with the configuration below in a file run.yaml:",
        "sparring train run.yaml --run again",
    ]
    changes = [line for line in read_lines(path / CHANGES) if START not in line]
    columns = ("date", "after_step", "command", "commit", "replies", "decoding")
    return {
        "commands": "\n".join(commands),
        "conditions": _conditions(config, begun),
        "changes": [
            (line.get("key"), line["step"], line.get("old"), line.get("new")) for line in changes
        ],
        "start_head": ("started", "after step", "command", "commit", "replies", "decoding"),
        "starts": [[_text(start.get(name)) for name in columns] for start in begun],
        **_machines(begun),
    }


def _conditions(config: Mapping[str, Any], begun: Lines) -> list[str]:
    """Return in sentences what must be alike for figures to be alike."""
    conditions = []
    commits = {str(start.get("commit")) for start in begun if start.get("commit")}
    if any(commit.endswith("-dirty") for commit in commits):
        conditions.append(
            "The code had changes that were not committed, so the commit is not all of it."
        )
    if len(commits) > 1:
        conditions.append("The run went on with other code than it began with: see the starts.")
    scale = config.get("scale")
    if isinstance(scale, Mapping) and scale.get("order") == FRESH:
        conditions.append(
            "Plays were learnt from in the order in which they came (scale.order: fresh), so this "
            "run cannot be repeated: the same seed gives other figures. Pinned order repeats."
        )
        return conditions
    threads = f"threads: {config.get('threads') or '0, one per core'}"
    conditions.append(
        f"The seed is {config.get('seed', 0)}. Metrics are the same bytes on one kind of machine "
        f"with one number of threads ({threads}) and the same packages."
    )
    return conditions


def _machines(begun: Lines) -> dict[str, Any]:
    """Return the machines and packages of all starts, a column for each that differs."""
    machines: list[dict[str, str]] = []
    for start in begun:
        machine = {"host": _text(start.get("host"))}
        for part in (start.get("machine"), start.get("versions")):
            pairs = part.items() if isinstance(part, dict) else ()
            machine |= {str(name): _text(value) for name, value in pairs}
        if machine not in machines:
            machines.append(machine)
    several = len(machines) > 1
    names = dict.fromkeys(name for machine in machines for name in machine)
    numbers = range(1, len(machines) + 1)
    return {
        "machine_head": ["", *(f"machine {n}" if several else "machine" for n in numbers)],
        "machines": [[name, *(m.get(name, "-") for m in machines)] for name in names],
    }


def _text(value: Any) -> str:
    return "" if value is None else str(value)
