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
MATCH_MODULE = "studies.common.cross_play"  # it plays the matches
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
    parents: Mapping[str, str] | None = None,
    shares: int = 1,
) -> list[Cell]:
    """Return the cells, ordered by seed: the runs of the arms, then the matches between them.

    Args:
        setting: setting of the study: "seeds", "arms", "games" of a match, "changes" to all arms.
        arms: recipe and changes of each arm, by name; the setting lists the arms to run.
        always: changes to all arms, besides the seed.
        bots: text of each bot as on the command line, by name.
        pairs: the pairs of players that play a match.
        measure: function that returns the results of a run.
        starts: arm of each player that has the weights after the warm-up of the arm's run, by name.
        parents: for an arm that begins with the weights of another arm's run, the name of that arm.
        shares: number of cells over which the matches of a seed are divided, so that long matches
            use several cores.
    """
    result, parent_arms = list[Cell](), parents or {}
    for seed in range(setting["seeds"]):
        runs = dict[str, Cell]()
        for arm in setting["arms"]:
            recipe, arm_changes = arms[arm]
            overrides = [f"seed={seed}", "threads=1", *always, *arm_changes, *setting["changes"]]
            measure_of = with_export(measure) if arm in parent_arms.values() else measure
            parent_run = runs[parent_arms[arm]] if arm in parent_arms else None
            key, name = (arm, seed), f"{arm}-{seed}"
            runs[arm] = training_cell(key, name, recipe, overrides, measure_of, parent=parent_run)
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
    """Return the cells of the matches of a seed.

    Args:
        inputs: the inputs of ``cross_play``, except the pairs.
        pairs: the pairs of players; share k has the pairs k, k + shares, k + 2 shares, ...
        seed: seed of the runs.
        shares: number of cells.
        after: keys of the cells of the runs, which must finish first.
    """
    result = []
    for share in range(shares):
        pair_inputs = {**inputs, "pairs": [list(pair) for pair in pairs[share::shares]]}
        name = f"{MATRIX}-{seed}" + (f"-{share}" if shares > 1 else "")
        result.append(
            module_cell(
                MATCH_MODULE, pair_inputs, key=(MATRIX, seed, share), name=name, after=after
            )
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
    """Return a row for each arm and one for each pair, with the values of each seed.

    The column `starts` is "all": deals are drawn at random and not from a bank of initial states.

    Args:
        setting: setting of the study.
        records: records of all cells.
        pairs: the pairs of players.
        labels: function that returns the labels of a pair.
        figures: function from a match of ``cross_play.play_matrix`` to its figures.
    """
    run_records = {key: record for key, record in records.items() if key[0] != MATRIX}
    result = seed_rows(run_records, lambda arm: {"arm": arm, "starts": "all"}, dict)
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
