"""report.html: a self-contained page of a run that can be attached to a paper.

The same run folder always gives the same bytes. The page names files that cannot be read and shows
all others; it has no script, and its content security policy allows only its inline style. Jinja
escapes every value in the templates.

A page of two seeds draws a line per seed. A page of three or more seeds draws the mean at their
common steps, with the 95 % interval of the mean (Student's t) as a band.
"""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup, escape

from sparring.config import RunConfig
from sparring.config.checks import LIVE, measured_weights
from sparring.config.sections import FRESH, REPRODUCIBILITY_KEYS, ScaleConfig
from sparring.core.errors import ConfigError, quoted
from sparring.core.files import write_bytes_atomic
from sparring.core.foreign_text import HIDDEN, JOINERS, LINE_LETTERS, escape_controls, in_words
from sparring.measure.references import run_verdicts
from sparring.ops.statistics import mean_interval
from sparring.report.baselines import (
    RANDOM,
    Baselines,
    baselines_of,
    best_of,
    better_direction,
    cells_of,
)
from sparring.report.curves import CHARTS, charts, draw_chart, names_of, points_of, series_of
from sparring.report.episode_text import INVALID_RECORD_ERRORS, UNSENT, token_decoder
from sparring.report.explanations import glossary
from sparring.report.ratings import league, matches
from sparring.report.sample_plays import RULE, judged_games, play_values, sample_plays
from sparring.report.svg import Series
from sparring.report.worker_status import workers_section
from sparring.run.config_checks import CHANGES, FIXED_NESTED, START, differences
from sparring.run.evaluation import FAMILIES
from sparring.run.events import HEALTH, METRICS, TIMING, read_figures, read_lines, readable_until
from sparring.run.folder import CONFIG, RunFolder
from sparring.run.provenance import PROVENANCE, starts

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent
_MARK = Markup('<span class="mark">U+{:04X}</span>')


def render_page(template: str, title: str, **values: Any) -> bytes:
    """Return a complete page.

    Args:
        template: a file of the folder ``templates``.
        title: title of the window.
        values: variables of the template.
    """
    policy = (
        f"default-src 'none'; style-src {csp_source(style())}; base-uri 'none'; form-action 'none'"
    )
    page_values = {
        "title": escape_controls(title, lines=False),
        "policy": Markup(policy),
        "style": Markup(style()),
    }
    text = templates().get_template(template).render(page_values | values)
    return text.encode("utf-8", "backslashreplace")


@cache
def templates() -> Environment:
    """Return the page templates, which escape every value."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        finalize=lambda value: mark_invisible(value) if isinstance(value, str) else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def mark_invisible(text: object) -> Markup:
    """Return a text as markup, with invisible characters as marks that show their numbers.

    Invisible characters are controls, formats such as bidirectional marks, lone surrogates and
    separators. Marks keep the text direction of the page.
    """
    if isinstance(text, Markup):
        return text
    text = str(text)
    if text.isprintable():
        return escape(text)
    return Markup("").join(
        _MARK.format(ord(letter))
        if letter not in LINE_LETTERS + JOINERS and unicodedata.category(letter) in HIDDEN
        else letter
        for letter in text
    )


@cache
def style() -> str:
    """Return the style sheet of the page."""
    return (FOLDER / "report.css").read_text(encoding="utf-8")


def csp_source(text: str) -> str:
    """Return the source for a content security policy that allows this inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


MAY_DIFFER = (  # configuration keys in which runs of one page may differ
    *("seed", "name", "summary", "checkpoint", "store", "health", "logging", "scale", "threads"),
)
MIN_RUNS = 3  # runs that a mean with an interval needs


class SeedRun(NamedTuple):
    """One of several runs that differ only in the seed.

    Attributes:
        path: folder of the run.
        seed: seed of the run.
        lines: lines of its metrics.jsonl.
    """

    path: Path
    seed: int
    lines: Sequence[Mapping[str, Any]]


def seeds_of(paths: Sequence[Path]) -> list[SeedRun]:
    """Return the runs in order of their seeds.

    Raises:
        RunError: a path is not a run folder.
        ConfigError: two runs share a seed, or their configurations differ in more than the seed.
    """
    configs = [RunFolder.open(path).config() for path in paths]
    for path, config in zip(paths[1:], configs[1:], strict=True):
        for change in differences(_with_scale(configs[0]), _with_scale(config)):
            if change.key.split(".")[0] not in MAY_DIFFER or change.key in FIXED_NESTED:
                raise ConfigError(
                    f"{path} is not another seed of {paths[0]}: {change}. Name runs of one "
                    "configuration, or report each run alone."
                )
    numbers = [int(config.get("seed", 0)) for config in configs]
    for number in numbers:
        if numbers.count(number) > 1:
            raise ConfigError(f"Two runs have seed {quoted(number)}; name each seed once.")
    seeds = [
        SeedRun(path, number, read_figures(path / METRICS))
        for path, number in zip(paths, numbers, strict=True)
    ]
    return sorted(seeds, key=lambda seed: seed.seed)


def _with_scale(config: Mapping[str, Any]) -> dict[str, Any]:
    scale, default = config.get("scale"), ScaleConfig()
    options = scale if isinstance(scale, dict) else {}
    return {
        **config,
        "scale": {**{key: getattr(default, key) for key in REPRODUCIBILITY_KEYS}, **options},
    }


def series_over_seeds(name: str, seeds: Sequence[SeedRun]) -> list[Series]:
    """Return a metric of several runs: the mean with a band, or a line per run."""
    points = [
        {line["step"]: line[name] for line in seed.lines if line.get(name) is not None}
        for seed in seeds
    ]
    if len(seeds) < MIN_RUNS:
        return [
            Series(name=f"{name}, seed {seed.seed}", points=sorted(values.items()))
            for seed, values in zip(seeds, points, strict=True)
            if values
        ]
    steps = sorted(set.intersection(*map(set, points)))
    means = [(step, mean_interval([values[step] for values in points])) for step in steps]
    if not means:
        return []
    return [
        Series(
            name=name,
            points=[(step, interval.mean) for step, interval in means],
            band=[(step, interval.low, interval.high) for step, interval in means],
        )
    ]


def charts_over_seeds(seeds: Sequence[SeedRun], references: Baselines, weights: str) -> list[str]:
    """Return the charts of several runs of one configuration."""
    svgs = []
    for chart in CHARTS:
        lines = (line for seed in seeds for line in series_of(seed.lines, chart.prefixes))
        names = sorted({line.name for line in lines})
        series = [line for name in names for line in series_over_seeds(name, seeds)]
        if series:
            svgs.append(draw_chart(chart, series, references, names=names, weights=weights))
    return svgs


def results_over_seeds(
    seeds: Sequence[SeedRun], references: Baselines, prefixes: tuple[str, ...]
) -> dict[str, Any]:
    """Return the table of the last values of several runs: mean, seeds, references.

    Args:
        seeds: the runs.
        references: result of ``baselines_of``.
        prefixes: beginnings of the names of the listed metrics.
    """
    rows = []
    for name in sorted({name for seed in seeds for name in names_of(seed.lines)}):
        last_values = [
            next((line[name] for line in reversed(seed.lines) if line.get(name) is not None), None)
            for seed in seeds
        ]
        values = [value for value in last_values if value is not None]
        if not values or not name.startswith(prefixes):
            continue
        interval = mean_interval(values)
        mean = f"{interval.mean:.4g}"
        if len(values) >= MIN_RUNS:
            mean += f"\u00a0[{interval.low:.4g},\u00a0{interval.high:.4g}]"
        cells = ["-" if value is None else f"{value:.4g}" for value in last_values]
        rows.append((name, mean, *cells, *cells_of(references, name), better_direction(name)))
    columns = [f"seed {seed.seed}" for seed in seeds]
    suffix = ", with 95 % intervals of the mean" if len(seeds) >= MIN_RUNS else " and their mean"
    return {
        "head": ("figure", "mean at the last step", *columns, RANDOM, "best play", "better is"),
        "rows": rows,
        "caption": f"Last values{suffix}",
    }


def about_seeds(seeds: Sequence[SeedRun]) -> list[str]:
    """Return sentences that say which runs the page shows, and how."""
    runs = ", ".join(f"{seed.path.name} (seed {seed.seed})" for seed in seeds)
    means_text = "means over them, with the 95 % interval of the mean (Student's t) as a band"
    lines_text = means_text if len(seeds) >= MIN_RUNS else "the values of each run"
    return [
        f"{len(seeds)} runs of one configuration: {runs}. Lines are {lines_text}.",
        f"Results and curves show all runs; all other parts show seed {seeds[0].seed}.",
    ]


Lines = Sequence[Mapping[str, Any]]  # the lines of a file of figures
RESULTS = (  # figures in the table of results
    *("nash_conv/", "exploitability/", "optimality_gap/", "return/"),
    *("regret/", "optimal_rate/", "legal_rate"),
)
LEGEND = (
    "Under each sampled token is its probability; ␣ is a space, ⏎ a line end, … an incomplete "
    "character. An invisible character is shown by its number."
)


def write_report(path: Path, target: Path | None = None, other_seeds: Sequence[Path] = ()) -> Path:
    """Write the page of a run and return its path.

    Args:
        path: the run folder.
        target: path of the page; None: ``report.html`` in the run folder.
        other_seeds: run folders of the same configuration with other seeds; results and curves use
            all runs.

    Raises:
        RunError: the path is not a run folder, or the file cannot be written.
        ConfigError: the configurations differ in more than the seed.
    """
    target = path / "report.html" if target is None else target
    seeds = seeds_of([path, *other_seeds]) if other_seeds else []
    path = seeds[0].path if seeds else path
    config = RunFolder.open(path).config()
    lines, timing = read_figures(path / METRICS), read_figures(path / TIMING)
    events = read_lines(path / HEALTH)
    references = baselines_of(config, names_of(lines))
    weights = _weights(config)
    policies = config.get("policies")
    policies = policies if isinstance(policies, dict) else {}
    plays, troubles = _chosen_plays(path)
    if seeds:
        results = results_over_seeds(seeds, references, RESULTS) | {"notes": []}
        curves = charts_over_seeds(seeds, references, weights)
    else:
        results = _results(lines, references) | {"notes": list(run_verdicts(config, lines))}
        curves = charts(lines, references, events, policies, weights)
    if results["rows"] or results["notes"]:
        results["notes"].append(weights_note(config, names_of(lines)))
    matchmaker = config.get("matchmaker")
    name = matchmaker.get("name", "") if isinstance(matchmaker, dict) else matchmaker or ""
    has_opponents = str(name).split(" ")[0] not in ("", "mirror")
    run_starts = starts(path)
    name = str(config.get("name", "run"))
    page = render_page(
        "run.html",
        name,
        name=name,
        about=[*filter(None, [config.get("summary")]), *(about_seeds(seeds) if seeds else ())],
        facts=_facts(config, lines, timing, run_starts),
        troubles=list(dict.fromkeys(troubles)),
        results=results,
        curves=curves,
        matches=matches(lines),
        league=league(path) if lines and has_opponents else None,
        play_notes=[RULE, LEGEND],
        plays=plays,
        unsent=UNSENT,
        judged=judged_games(path / "episodes"),
        has_health=bool(events) or "health" in config,
        events=[(event["step"], event.get("message", "")) for event in events],
        failed_sinks=sum(1 for line in timing if line.get("failed_sinks")),
        workers=workers_section(timing, lines),
        provenance=PROVENANCE,
        repeat=_reproduction(path, config, run_starts),
        config_name=CONFIG,
        config=(path / CONFIG).read_text(encoding="utf-8", errors="replace"),
        glossary=list(glossary(names_of(lines)).items()) if lines else [],
    )
    write_bytes_atomic(target, page)
    return target


def write_chart(path: Path, target: Path) -> Path:
    """Write a run's main chart as an SVG file and return its path.

    This is exploitability beside uniform play and equilibrium if the run has it, else returns and
    legal replies.

    Raises:
        RunError: the path is not a run folder, or the file cannot be written.
    """
    config, lines = RunFolder.open(path).config(), read_figures(path / METRICS)
    learning, exploitability = CHARTS[:2]
    chart = exploitability if series_of(lines, exploitability.prefixes) else learning
    series = series_of(lines, chart.prefixes)
    names = [line.name for line in series]
    references = baselines_of(config, names)
    svg = draw_chart(
        chart, series, references, names=names, weights=_weights(config), standalone=True
    )
    write_bytes_atomic(target, (svg + "\n").encode())
    return target


def weights_note(config: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return a sentence that says which weights the figures ``names`` of a run measure."""
    families_with_figures = {name.split("/")[0] for name in names} & {*FAMILIES}
    if (weights := _weights(config)) == LIVE or not families_with_figures:
        return f"All figures measure the {LIVE}, which play and learn."
    families = ", ".join(family for family in FAMILIES if family in families_with_figures)
    return f"Figures of {families} measure the {weights}. Other figures measure the {LIVE}."


def _weights(config: Mapping[str, Any]) -> str:
    """Return which weights a run measures, in words; live ones if the configuration is invalid."""
    try:  # another version may have written the folder
        return measured_weights(RunConfig.model_validate(config))
    except ValueError:
        return LIVE


def _facts(
    config: Mapping[str, Any], lines: Lines, timing: Lines, run_starts: Lines
) -> dict[str, str]:
    if not lines:
        return {}

    def total_of(name: str, times: str = "") -> float:
        return sum(
            (line.get(name) or 0.0) * (line.get(times) or 0.0 if times else 1) for line in timing
        )

    training, evaluation = total_of("seconds/round"), total_of("seconds/evaluation")
    counts = {
        "Episodes": total_of("games_per_second", "seconds/round"),
        "Tokens trained on": total_of("tokens_per_second", "seconds/round"),
    }
    facts = {"Steps": f"{lines[-1]['step']} of {config.get('steps', '?')}"}
    facts |= {name: f"{round(count):,}" for name, count in counts.items() if count}
    facts["Time"] = (
        f"{in_words((training + evaluation) / 60)}: {training:.0f} s of training, "
        f"{evaluation:.0f} s of measuring"
    )
    facts["Seed"] = str(config.get("seed", 0))
    if run_starts:
        versions = run_starts[-1].get("versions")
        number = versions.get("sparring") if isinstance(versions, dict) else None
        commit, _, dirty_suffix = str(run_starts[-1].get("commit") or "not known").partition("-")
        changes_note = " and changes" if dirty_suffix else ""
        facts["Sparring"] = f"{number or '?'}, commit {commit[:12]}{changes_note}"
    return facts


def _results(lines: Lines, references: Baselines) -> dict[str, Any]:
    rows = []
    for name in names_of(lines):
        points = points_of(lines, name)
        if points and name.startswith(RESULTS):
            best = best_of(name, points)
            pairs = (points[-1], best)
            cells = [
                "-" if point is None else f"{point[1]:.4g}\u00a0(step\u00a0{point[0]})"
                for point in pairs
            ]
            rows.append((name, *cells, *cells_of(references, name), better_direction(name)))
    head = ("figure", "last", "best of the run", RANDOM, "best play", "better is")
    return {"head": head, "rows": rows, "caption": ""}


def _chosen_plays(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    samples, troubles = sample_plays(path)
    damage_notes = [
        f"{name} cannot be read after step {step}: later lines are left out."
        for name in (METRICS, TIMING, HEALTH)
        if (step := readable_until(path / name)) is not None
    ]
    troubles = [*damage_notes, *troubles]
    if not samples:
        return [], troubles
    decode, decoder_error = token_decoder(path)
    plays = []
    for sample in samples:
        try:
            plays.append(play_values(sample, decode))
        except INVALID_RECORD_ERRORS:
            number = sample.episode.episode_id
            troubles.append(f"Episode {number} of step {sample.step} is an invalid record.")
    return plays, [*troubles, *filter(None, [decoder_error])]


def _reproduction(path: Path, config: Mapping[str, Any], run_starts: Lines) -> dict[str, Any]:
    first_start = run_starts[0] if run_starts else {}
    commit, command = str(first_start.get("commit") or ""), str(first_start.get("command") or "")
    commands = [f"git checkout {commit.removesuffix('-dirty')}    # of Sparring"] if commit else []
    if command:
        is_command = command.startswith("sparring train")
        commands.append(command if is_command else f"# started from Python: {command}")
    commands += [
        "# or, with the configuration below in a file run.yaml:",
        "sparring train run.yaml --run again",
    ]
    changes = [line for line in read_lines(path / CHANGES) if START not in line]
    columns = ("date", "after_step", "command", "commit", "replies", "decoding")
    return {
        "commands": "\n".join(commands),
        "conditions": _conditions(config, run_starts),
        "changes": [
            (line.get("key"), line["step"], line.get("old"), line.get("new")) for line in changes
        ],
        "start_head": ("started", "after step", "command", "commit", "replies", "decoding"),
        "starts": [[_text(start.get(name)) for name in columns] for start in run_starts],
        **_machines(run_starts),
    }


def _conditions(config: Mapping[str, Any], run_starts: Lines) -> list[str]:
    conditions = []
    commits = {str(start.get("commit")) for start in run_starts if start.get("commit")}
    if any(commit.endswith("-dirty") for commit in commits):
        conditions.append(
            "The code had changes that were not committed, so the commit alone does not give it."
        )
    if len(commits) > 1:
        conditions.append("The run was resumed with other code than at its start: see the starts.")
    scale = config.get("scale")
    if isinstance(scale, Mapping) and scale.get("order") == FRESH:
        conditions.append(
            "The learner took episodes in the order of their arrival (scale.order: fresh), so this "
            "run cannot be repeated: the same seed gives other figures. Pinned order is repeatable."
        )
        return conditions
    threads = f"threads: {config.get('threads') or '0, one per core'}"
    conditions.append(
        f"The seed is {config.get('seed', 0)}. Metrics are the same bytes on one kind of machine "
        f"with one number of threads ({threads}) and the same packages."
    )
    return conditions


def _machines(run_starts: Lines) -> dict[str, Any]:
    machines: list[dict[str, str]] = []
    for start in run_starts:
        machine = {"host": _text(start.get("host"))}
        for fields in (start.get("machine"), start.get("versions")):
            pairs = fields.items() if isinstance(fields, dict) else ()
            machine |= {str(name): _text(value) for name, value in pairs}
        if machine not in machines:
            machines.append(machine)
    has_several = len(machines) > 1
    names = dict.fromkeys(name for machine in machines for name in machine)
    numbers = range(1, len(machines) + 1)
    return {
        "machine_head": ["", *(f"machine {n}" if has_several else "machine" for n in numbers)],
        "machines": [[name, *(m.get(name, "-") for m in machines)] for name in names],
    }


def _text(value: Any) -> str:
    return "" if value is None else str(value)
