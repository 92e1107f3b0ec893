"""What a run's figures are compared with: random play and the best there is, where both are exact.

Known are the figures of ``measure/references.py``, for environments that are small enough, the
values of play in every seat, and the ends of a judged turn's scales.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparring.config import EnvironmentConfig
from sparring.config.plugins import registry
from sparring.environments.base import Environment
from sparring.environments.catalogue import configured_game
from sparring.measure.references import References, beside, references_of
from sparring.report.svg import Reference

RANDOM = "random play"
LEAST = ("nash_conv/", "exploitability/", "optimality_gap/", "regret/")  # the smaller the better
MOST = ("optimal_rate/",)
ENDS = {"regret": 0.0, "optimal_rate": 1.0}  # of judged turns
Known = Mapping[str, Sequence[Reference]]  # by the metric's name: random play first, then the best


def known_values(config: Mapping[str, Any], names: Sequence[str]) -> Known:
    """Return what is known beside the figures of a run.

    Args:
        config: of the run, from its folder; environments that cannot be made are passed over.
        names: of the figures.
    """
    found: dict[str, list[Reference]] = {}
    for game, known in _solved(config, names):
        best = known.best
        for name, (uniform, value) in beside(game, known).items():
            found[name] = [Reference(label=RANDOM, value=uniform)]
            found[name] += [] if value is None else [Reference(label=best, value=value)]
        for seat, role in enumerate(game.roles):
            values = [Reference(label=RANDOM, value=known.uniform.values[seat])]
            if known.values is not None:
                values.append(Reference(label=best, value=known.values[seat]))
            found[f"return/{game.name}/{role}"] = values
    for name in names:
        if (kind := name.split("/")[0]) in ENDS:
            found[name] = [Reference(label="perfect play", value=ENDS[kind])]
    return {name: found[name] for name in names if name in found}


def _solved(
    config: Mapping[str, Any], names: Sequence[str]
) -> Iterator[tuple[Environment, References]]:
    sections = config.get("environments", config.get("games"))
    for given in sections if isinstance(sections, list) else ():
        try:  # the folder may be of another version, or a stranger's
            entry = EnvironmentConfig.model_validate(given)
            if entry.name not in registry.built_in("environments") or not any(
                name.startswith(f"nash_conv/{entry.known_as}") for name in names
            ):
                continue
            game = configured_game(entry)
            known = references_of(game)
        except ValueError:
            continue
        if known is not None:
            yield game, known


def across(known: Known, names: Sequence[str]) -> list[Reference]:
    """Return the values to draw across a chart of these figures, each value of a label once.

    Where figures of several environments or seats differ, the label says of which they are.
    """
    found: dict[tuple[str, float], list[str]] = {}
    for name in names:
        for one in known.get(name, ()):
            found.setdefault((one.label, round(one.value, 6) + 0.0), []).append(name)
    labels = [label for label, _ in found]
    return [
        Reference(
            label=label if labels.count(label) == 1 else f"{label}, {_place(of, names)}",
            value=value,
            dots=label == RANDOM,
        )
        for (label, value), of in found.items()
    ]


def _place(of: Sequence[str], names: Sequence[str]) -> str:
    parts = [name.split("/")[1:] for name in of]
    games = {name.split("/")[1] for name in names if "/" in name}
    shown = ["/".join(part if len(games) > 1 else part[1:] or part) for part in parts]
    return ", ".join(dict.fromkeys(shown))


def cells_of(known: Known, name: str) -> list[str]:
    """Return two cells of a table: what random play has of a figure, and what the best play has."""
    values = known.get(name, ())
    random = [f"{one.value:.4g}" for one in values if one.label == RANDOM] or ["-"]
    best = [f"{one.value:.4g} ({one.label})" for one in values if one.label != RANDOM] or ["-"]
    return [*random, *best]


def best_of(name: str, points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the best (step, value) of a figure; None where neither end of it is the better."""
    if not points or not name.startswith((*LEAST, *MOST)):
        return None
    choose = min if name.startswith(LEAST) else max
    return choose(points, key=lambda point: point[1])
