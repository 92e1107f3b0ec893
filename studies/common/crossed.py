"""Cells and rows of studies whose runs play matches against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparring.api.cells import (
    Cell,
    CellRecords,
    Measure,
    Row,
    by_seed,
    module_cell,
    seed_rows,
    training_cell,
    with_export,
)
from studies.common.self_played import Arm
from studies.common.study import Setting

MATRIX = "matrix"
PLAYED = "studies.common.cross_play"  # the module that plays matches
Pair = tuple[str, str]
"""Who plays the first team, and who the second: arms or bots."""


def cells(
    setting: Setting,
    arms: Mapping[str, Arm],
    *,
    always: Sequence[str],
    bots: Mapping[str, str],
    pairs: Sequence[Pair],
    measure: Measure,
    starts: Mapping[str, str] | None = None,
    begins: Mapping[str, str] | None = None,
    shares: int = 1,
) -> list[Cell]:
    """Return the cells, seeds outermost: the runs of the arms, then the matches between them.

    Args:
        setting: of the study: "seeds", "arms", "games" of a match, "changes" to all arms.
        arms: by name; those that the setting lists are run.
        always: changes to all arms, beside the seed.
        bots: as on a command line, by name.
        pairs: who meets whom.
        measure: what is kept of a run.
        starts: players who are what the warm-up of an arm's run left, by name.
        begins: the arm whose run of the same seed an arm begins from, which comes before it.
        shares: cells that a seed's matches are shared out to, so that a study of long matches does
            not end on one core.
    """
    result, origin = list[Cell](), begins or {}
    for seed in range(setting["seeds"]):
        runs = dict[str, Cell]()
        for arm in setting["arms"]:
            recipe, arm_changes = arms[arm]
            overrides = [f"seed={seed}", "threads=1", *always, *arm_changes, *setting["changes"]]
            measure_of = with_export(measure) if arm in origin.values() else measure
            first = runs[origin[arm]] if arm in origin else None
            key, name = (arm, seed), f"{arm}-{seed}"
            runs[arm] = training_cell(key, name, recipe, overrides, measure_of, parent=first)
        inputs = {
            "runs": {arm: run.folder for arm, run in runs.items()},
            "bots": dict(bots),
            "games": setting["games"],
            "seed": seed,
            **({"starts": dict(starts)} if starts else {}),
        }
        result += runs.values()
        result += _matches(inputs, pairs, seed, shares, [run.key for run in runs.values()])
    return result


def _matches(
    inputs: Mapping[str, Any],
    pairs: Sequence[Pair],
    seed: int,
    shares: int,
    after: Sequence[tuple[Any, ...]],
) -> list[Cell]:
    """Return the cells of a seed's matches.

    Args:
        inputs: the inputs of ``cross_play``, except the pairs.
        pairs: who meets whom; share k has the pairs k, k + shares, k + 2 shares, ...
        seed: of the runs.
        shares: number of cells.
        after: keys of the runs.
    """
    result = []
    for share in range(shares):
        pair_inputs = {**inputs, "pairs": [list(pair) for pair in pairs[share::shares]]}
        name = f"{MATRIX}-{seed}" + (f"-{share}" if shares > 1 else "")
        result.append(
            module_cell(PLAYED, pair_inputs, key=(MATRIX, seed, share), name=name, after=after)
        )
    return result


def rows(
    setting: Setting,
    records: CellRecords,
    *,
    pairs: Sequence[Pair],
    labels: Callable[[Pair], Row],
    figures: Callable[[Mapping[str, Any]], Mapping[str, float]],
) -> list[Row]:
    """Return a row for each arm's runs, and one for each pair, with the values of each seed.

    The column `starts` is "all": deals are drawn at random and not from a bank of initial states.

    Args:
        setting: of the study.
        records: of all cells.
        pairs: who met whom.
        labels: of a pair.
        figures: of a match, see ``cross_play.matrix``.
    """
    runs = {key: record for key, record in records.items() if key[0] != MATRIX}
    result = seed_rows(runs, lambda arm: {"arm": arm, "starts": "all"}, dict)
    shares = 1 + max(key[2] for key in records if key[0] == MATRIX)
    for pair_index, pair in enumerate(pairs):
        match_index, share = divmod(pair_index, shares)
        matches = [
            records[MATRIX, seed, share]["found"][match_index] for seed in range(setting["seeds"])
        ]
        values = by_seed([figures(record) for record in matches])
        games = setting["games"] * setting["seeds"]
        result.append({**labels(pair), "starts": "all", "games": games, "values": values})
    return result
