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
from sparring.core.errors import ConfigError, quoted
from sparring.ops.statistics import mean_interval
from sparring.report.baselines import RANDOM, Known, cells_of
from sparring.report.curves import CHARTS, drawn, names_of, series_of
from sparring.report.svg import Series
from sparring.run.config_checks import FIXED, differences
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
        for change in differences(_with_scale(configs[0]), _with_scale(config)):
            if change.key.split(".")[0] not in FREE or change.key in FIXED:
                raise ConfigError(
                    f"{path} is no other seed of {paths[0]}: {change}. Name runs of one "
                    "configuration, or report each by itself."
                )
    numbers = [int(config.get("seed", 0)) for config in configs]
    for number in numbers:
        if numbers.count(number) > 1:
            raise ConfigError(f"Two of the runs have seed {quoted(number)}; name each seed once.")
    seeds = [
        Seed(path, number, read_figures(path / METRICS))
        for path, number in zip(paths, numbers, strict=True)
    ]
    return sorted(seeds, key=lambda seed: seed.seed)


def _with_scale(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that says how old its plays are, also where it left that out."""
    scale, usual = config.get("scale"), ScaleConfig()
    written = scale if isinstance(scale, dict) else {}
    return {**config, "scale": {**{key: getattr(usual, key) for key in BINDING}, **written}}


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


def charts_over_seeds(seeds: Sequence[Seed], known: Known, weights: str) -> list[str]:
    """Return the charts of several runs, which measure the same weights."""
    svgs = []
    for chart in CHARTS:
        lines = (line for seed in seeds for line in series_of(seed.lines, chart.prefixes))
        names = sorted({line.name for line in lines})
        series = [line for name in names for line in over_seeds(name, seeds)]
        svgs.append(drawn(chart, series, known, names=names, weights=weights))
    return list(filter(None, svgs))


def results_over_seeds(
    seeds: Sequence[Seed], known: Known, prefixes: tuple[str, ...]
) -> dict[str, Any]:
    """Return the table of the last values of several runs: mean with interval, seeds, baselines.

    Args:
        seeds: the runs.
        known: of ``known_values``.
        prefixes: of the figures' names.
    """
    rows = []
    for name in sorted({name for seed in seeds for name in names_of(seed.lines)}):
        last = [
            next((line[name] for line in reversed(seed.lines) if line.get(name) is not None), None)
            for seed in seeds
        ]
        values = [value for value in last if value is not None]
        if not values or not name.startswith(prefixes):
            continue
        interval = mean_interval(values)
        mean = f"{interval.mean:.4g}"
        if len(values) >= BANDED:
            mean += f"\u00a0[{interval.low:.4g},\u00a0{interval.high:.4g}]"
        each = ["-" if value is None else f"{value:.4g}" for value in last]
        rows.append((name, mean, *each, *cells_of(known, name)))
    columns = [f"seed {seed.seed}" for seed in seeds]
    how = ", with 95 % intervals of the mean" if len(seeds) >= BANDED else " and their mean"
    return {
        "head": ("figure", "mean of the last", *columns, RANDOM, "best play"),
        "rows": rows,
        "caption": f"Last values{how}",
    }


def about_seeds(seeds: Sequence[Seed]) -> list[str]:
    """Return what runs a page is of, what a line is, and that the rest is of one of them."""
    runs = ", ".join(f"{seed.path.name} (seed {seed.seed})" for seed in seeds)
    means = "means over them, with the 95 % interval of the mean (Student's t) as a band"
    lines = means if len(seeds) >= BANDED else "those of each run"
    return [
        f"{len(seeds)} runs of one configuration: {runs}. Lines are {lines}.",
        f"Results and curves are of all of them; all other parts are of seed {seeds[0].seed}.",
    ]
