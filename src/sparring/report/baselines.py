"""Reference values for a run's metrics: exact values of random play and of best play.

References exist in small environments for the metrics of ``measure/references.py`` and for the
return of each seat. Metrics of judged turns have their best possible value as reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparring.config import EnvironmentConfig
from sparring.config.plugins import registry
from sparring.environments.base import Environment
from sparring.environments.catalogue import configured_game
from sparring.measure.references import References, reference_values, references_of
from sparring.report.svg import Reference

RANDOM = "random play"
SMALLER_IS_BETTER = ("nash_conv/", "exploitability/", "optimality_gap/", "regret/")
LARGER_IS_BETTER = ("optimal_rate/",)
PERFECT = {"regret": 0.0, "optimal_rate": 1.0}  # metrics of judged turns
Baselines = Mapping[str, Sequence[Reference]]  # by metric: first random play, then the best value


def baselines_of(config: Mapping[str, Any], names: Sequence[str]) -> Baselines:
    """Return the reference values of a run's metrics.

    Args:
        config: stored configuration of the run; environments that cannot be made are skipped.
        names: names of the metrics.
    """
    references: dict[str, list[Reference]] = {}
    for game, game_references in _solved_games(config, names):
        best_label = game_references.best
        for name, (uniform, value) in reference_values(game, game_references).items():
            references[name] = [Reference(label=RANDOM, value=uniform)]
            references[name] += [] if value is None else [Reference(label=best_label, value=value)]
        for seat, role in enumerate(game.roles):
            values = [Reference(label=RANDOM, value=game_references.uniform.values[seat])]
            if game_references.values is not None:
                values.append(Reference(label=best_label, value=game_references.values[seat]))
            references[f"return/{game.name}/{role}"] = values
    for name in names:
        if (first_part := name.split("/")[0]) in PERFECT:
            references[name] = [Reference(label="perfect play", value=PERFECT[first_part])]
    return {name: references[name] for name in names if name in references}


def _solved_games(
    config: Mapping[str, Any], names: Sequence[str]
) -> Iterator[tuple[Environment, References]]:
    sections = config.get("environments", config.get("games"))
    for section in sections if isinstance(sections, list) else ():
        try:  # the folder may be of another version or another origin
            entry = EnvironmentConfig.model_validate(section)
            if entry.name not in registry.built_in("environments") or not any(
                name.startswith(f"nash_conv/{entry.display_name}") for name in names
            ):
                continue
            game = configured_game(entry)
            game_references = references_of(game)
        except ValueError:
            continue
        if game_references is not None:
            yield game, game_references


def reference_lines(references: Baselines, names: Sequence[str]) -> list[Reference]:
    """Return the reference lines of a chart of these metrics, without duplicates.

    If a label has several values, the environments or seats are added to it.
    """
    figures_of: dict[tuple[str, float], list[str]] = {}
    for name in names:
        for reference in references.get(name, ()):
            figures_of.setdefault((reference.label, round(reference.value, 6) + 0.0), []).append(
                name
            )
    labels = [label for label, _ in figures_of]
    return [
        Reference(
            label=label
            if labels.count(label) == 1
            else f"{label}, {_games_or_seats(figures, names)}",
            value=value,
            dots=label == RANDOM,
        )
        for (label, value), figures in figures_of.items()
    ]


def _games_or_seats(figures: Sequence[str], names: Sequence[str]) -> str:
    parts = [name.split("/")[1:] for name in figures]
    games = {name.split("/")[1] for name in names if "/" in name}
    labels = ["/".join(part if len(games) > 1 else part[1:] or part) for part in parts]
    return ", ".join(dict.fromkeys(labels))


def cells_of(references: Baselines, name: str) -> list[str]:
    """Return two cells of a table: the values of random play and of best play."""
    values = references.get(name, ())
    random_cells = [
        f"{reference.value:.4g}" for reference in values if reference.label == RANDOM
    ] or ["-"]
    best_cells = [
        f"{reference.value:.4g} ({reference.label})"
        for reference in values
        if reference.label != RANDOM
    ] or ["-"]
    return [*random_cells, *best_cells]


def better_direction(name: str) -> str:
    """Return "lower" or "higher", the good direction of a metric; "-" if it has none."""
    if name.startswith(SMALLER_IS_BETTER):
        return "lower"
    return "higher" if name.startswith((*LARGER_IS_BETTER, "legal_rate", "return/")) else "-"


def best_of(name: str, points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the best (step, value) of a metric; None if it has no good direction."""
    if not points or not name.startswith((*SMALLER_IS_BETTER, *LARGER_IS_BETTER)):
        return None
    choose_best = min if name.startswith(SMALLER_IS_BETTER) else max
    return choose_best(points, key=lambda point: point[1])
