"""Runs of one configuration with other seeds on one page: means with 95 % intervals.

Two runs are two lines, as two numbers have no interval worth the name; from three on a line is the
mean over the runs, and the band around it the interval of the mean by Student's t. Only steps that
all runs have are drawn so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sparring.config.scale import BINDING, ScaleConfig
from sparring.errors import ConfigError, quoted
from sparring.ops.statistics import mean_interval
from sparring.report.curves import CHARTS, drawn, names_of, series_of
from sparring.report.known import RANDOM, Known, cells_of
from sparring.report.page import paragraphs, table
from sparring.report.svg import Series
from sparring.run.changes import FIXED, differences
from sparring.run.events import METRICS, read_figures
from sparring.run.folder import RunFolder

FREE = ("seed", "name", "summary", "checkpoint", "store", "health", "logging", "scale", "threads")
BANDED = 3  # runs from which on there is a mean with an interval


class Seed(NamedTuple):
    """A run among several.

    Attributes:
        path: its folder.
        seed: of the run.
        lines: of its metrics.jsonl.
    """

    path: Path
    seed: int
    lines: Sequence[Mapping[str, Any]]


def seeds_of(paths: Sequence[Path]) -> list[Seed]:
    """Return the runs in order of their seeds.

    Raises:
        RunError: one is no run folder.
        ConfigError: two are of one seed, or of configurations that differ in more than the seed.
    """
    configs = [RunFolder.open(path).config() for path in paths]
    for path, config in zip(paths[1:], configs[1:], strict=True):
        changes = differences(_with_scale(configs[0]), _with_scale(config))
        other = [one for one in changes if not _free(one.key)]
        if other:
            raise ConfigError(
                f"{path} is no other seed of {paths[0]}: {other[0]}. Name runs of one "
                "configuration, or report each by itself."
            )
    found = [
        Seed(path, int(config.get("seed", 0)), read_figures(path / METRICS))
        for path, config in zip(paths, configs, strict=True)
    ]
    seeds = [one.seed for one in found]
    twice = [seed for seed in seeds if seeds.count(seed) > 1]
    if twice:
        raise ConfigError(f"Two of the runs have seed {quoted(twice[0])}; name each seed once.")
    return sorted(found, key=lambda one: one.seed)


def _free(key: str) -> bool:
    """Return whether a setting may differ between the seeds of a configuration."""
    return key.split(".")[0] in FREE and key not in FIXED


def _with_scale(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that says how old its plays are, also where it left that out."""
    own, usual = config.get("scale"), ScaleConfig()
    told = own if isinstance(own, dict) else {}
    return {**config, "scale": {**{key: getattr(usual, key) for key in BINDING}, **told}}


def over_seeds(name: str, seeds: Sequence[Seed]) -> list[Series]:
    """Return a figure of several runs as lines: the mean with its band, or a line per run."""
    points = [
        {line["step"]: line[name] for line in one.lines if line.get(name) is not None}
        for one in seeds
    ]
    if len(seeds) < BANDED:
        return [
            Series(name=f"{name}, seed {one.seed}", points=sorted(own.items()))
            for one, own in zip(seeds, points, strict=True)
            if own
        ]
    steps = sorted(set.intersection(*map(set, points)))
    means = [(step, mean_interval([own[step] for own in points])) for step in steps]
    if not means:
        return []
    return [
        Series(
            name=name,
            points=[(step, found.mean) for step, found in means],
            band=[(step, found.low, found.high) for step, found in means],
        )
    ]


def charts_over_seeds(seeds: Sequence[Seed], known: Known, weights: str) -> str:
    """Return the charts of several runs, which measure the same weights."""
    parts = []
    for chart in CHARTS:
        names = {one.name for seed in seeds for one in series_of(seed.lines, chart.prefixes)}
        ordered = sorted(names)
        series = [line for name in ordered for line in over_seeds(name, seeds)]
        parts.append(drawn(chart, series, known, (), names=ordered, weights=weights))
    body = "".join(parts)
    return f'<div class="charts">{body}</div>' if body else ""


def results_over_seeds(seeds: Sequence[Seed], known: Known, prefixes: tuple[str, ...]) -> str:
    """Return the last values of several runs: mean with interval, each seed, what is known.

    Args:
        seeds: the runs.
        known: of ``known_values``.
        prefixes: of the figures' names.
    """
    names = sorted({name for one in seeds for name in names_of(one.lines)})
    rows = []
    for name in (name for name in names if name.startswith(prefixes)):
        last = [_last(one.lines, name) for one in seeds]
        there = [value for value in last if value is not None]
        if not there:
            continue
        found = mean_interval(there)
        mean = f"{found.mean:.4g}"
        if len(there) >= BANDED:
            mean += f"\u00a0[{found.low:.4g},\u00a0{found.high:.4g}]"
        each = ["-" if value is None else f"{value:.4g}" for value in last]
        rows.append((name, mean, *each, *cells_of(known, name)))
    head = (
        "figure",
        "mean of the last",
        *(f"seed {one.seed}" for one in seeds),
        RANDOM,
        "best play",
    )
    title = "Last values"
    title += ", with 95 % intervals of the mean" if len(seeds) >= BANDED else " and their mean"
    return table(head, rows, title, tight=True) if rows else ""


def _last(lines: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Return the last value of a figure."""
    return next((line[name] for line in reversed(lines) if line.get(name) is not None), None)


def said_of(seeds: Sequence[Seed]) -> str:
    """Return what runs a page is of, what a line is, and that the rest is of one of them."""
    listed = ", ".join(f"{one.path.name} (seed {one.seed})" for one in seeds)
    lines = "means over them, with the 95 % interval of the mean (Student's t) as a band"
    drawn_as = lines if len(seeds) >= BANDED else "those of each run"
    return paragraphs(
        [
            f"{len(seeds)} runs of one configuration: {listed}. Lines are {drawn_as}.",
            f"Results and curves are of all of them; all other parts are of seed {seeds[0].seed}.",
        ]
    )
