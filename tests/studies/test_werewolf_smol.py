"""The study of SmolLM2 in Werewolf: what its arms are, who meets whom, and what its tables say."""

import json

import pytest

from sparring.config import recipe, resolve
from studies.common.cross_play import read
from studies.common.crossed import MATRIX
from studies.common.result_figures import CORRECTED, Results
from studies.common.results_file import row_faults
from studies.werewolf_smol import study
from studies.werewolf_smol import tables as page

CELLS = study.cells(study.STUDY.setting)


def config_of(arm):
    """Return the configuration of an arm's first seed."""
    cell = next(cell for cell in CELLS if cell.key == (arm, 0))
    return resolve(recipe.apply_overrides(recipe.load_recipe(cell.command[2]), cell.command[3:]))


def test_the_start_is_what_the_same_warm_up_left():
    lspo = config_of(study.LSPO)
    assert lspo.warmup.updates and lspo.warmup.player.options["sentences"]
    assert lspo.league.start and lspo.matchmaker.options == {"past": 0.75}
    assert lspo.rollout.candidates.count == 3 and lspo.credit.name == "candidate_value"
    base, _ = read(lspo)
    assert base.options["players"] == 4 and base.options["speech"] == "text"
    assert lspo.rollout.max_new_tokens == 16  # of a speech


def test_one_iteration_is_solved_once():
    lspo = config_of(study.LSPO)
    assert lspo.knowledge.options["every"] == lspo.steps and lspo.knowledge.options["iterations"] == 1


def test_both_meet_both_ways_with_200_games():
    matches = [cell for cell in CELLS if cell.key[0] == MATRIX]
    assert len(matches) == 6 == len({cell.folder for cell in matches})
    for cell in matches:
        given = json.loads(cell.command[3])
        assert given["pairs"] == [[["LSPO", "start"], ["start", "LSPO"]][cell.key[2]]] and given["games"] == 200
        assert given["starts"] == {"start": "LSPO"}
        assert set(cell.after) == {(arm, cell.key[1]) for arm in study.ARMS}


def results(as_wolf, against_wolf, seeds=3):
    """Return results in which the wolf wins these shares of games, a hundredth more by each seed."""
    kept = {(arm, seed): {"found": {"legal replies": 0.75}, "seconds": 60.0} for arm in study.ARMS for seed in range(seeds)}
    said = {"texts": 100, "distinct": 7, "commonest": 25}
    for seed in range(seeds):
        for share, ((one, two), won) in enumerate(zip(study.PAIRS, (as_wolf, against_wolf), strict=True)):
            match = {"first": one, "second": two, "won": won + 0.01 * seed, "legal": [0.9, 0.8], "said": [said, dict.fromkeys(said, 0)]}
            kept[MATRIX, seed, share] = {"found": [match]}
    found = study.rows({**study.STUDY.setting, "seeds": seeds}, kept)
    assert not [fault for row in found for fault in row_faults(row)]
    return Results({"rows": found})


@pytest.mark.parametrize(
    ("as_wolf", "against_wolf", "first", "last"),
    [
        (
            0.9,
            0.3,
            "| 0 | 0.90 [0.85, 0.93] | 0.70 [0.63, 0.76] | 0.80 [0.76, 0.84] | 400 | ahead |",
            "| all | 0.91 [0.89, 0.93] | 0.69 [0.67, 0.71] | 0.80 [0.80, 0.80] | 1200 | ahead |",
        ),
        (
            0.2,
            0.4,
            "| 0 | 0.20 [0.15, 0.26] | 0.60 [0.53, 0.67] | 0.40 [0.35, 0.45] | 400 | behind |",
            "| all | 0.21 [0.19, 0.23] | 0.59 [0.57, 0.61] | 0.40 [0.40, 0.40] | 1200 | behind |",
        ),
        (
            0.5,
            0.5,
            "| 0 | 0.50 [0.43, 0.57] | 0.50 [0.43, 0.57] | 0.50 [0.45, 0.55] | 400 | not decided |",
            "| all | 0.51 [0.49, 0.53] | 0.49 [0.47, 0.51] | 0.50 [0.50, 0.50] | 1200 | not decided |",
        ),
    ],
)
def test_wins_are_of_both_sides(as_wolf, against_wolf, first, last):
    lines = page.wins(results(as_wolf, against_wolf)).splitlines()
    assert (lines[2], lines[5]) == (first, last) and lines[6:] == ["", CORRECTED]


def test_speeches_are_shown_by_policy_and_side():
    lines = page.speeches(results(0.5, 0.5)).splitlines()
    assert lines[2:] == [
        "| the start | wolf | 0.90 [0.90, 0.90] | 300 | 7 7 7 | 0.25 [0.25, 0.25] |",
        "| the start | village | 0.80 [0.80, 0.80] | 0 | 0 0 0 | 0.00 [0.00, 0.00] |",
        "| LSPO | wolf | 0.90 [0.90, 0.90] | 300 | 7 7 7 | 0.25 [0.25, 0.25] |",
        "| LSPO | village | 0.80 [0.80, 0.80] | 0 | 0 0 0 | 0.00 [0.00, 0.00] |",
    ]


def test_what_it_took_is_shown_by_seed():
    assert "| LSPO | 0.75 [0.75, 0.75] | 1 1 1 |" in page.took(results(0.5, 0.5))
