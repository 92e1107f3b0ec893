"""The study of SmolLM2 in Werewolf: its arms, matches, and tables."""

import json

import pytest

from studies.common.cross_play import read_needs
from studies.common.crossed import MATRIX
from studies.common.result_figures import CORRECTION_NOTE, Results
from studies.common.results_file import errors_of_row
from studies.werewolf_smol import study
from studies.werewolf_smol import tables as page
from tests.studies.builders import config_of


def test_the_start_arm_ends_after_warm_up_and_lspo_has_one_iteration():
    lspo = config_of(study, study.LSPO)
    assert lspo.warmup.updates and lspo.warmup.player.options["sentences"]
    assert lspo.league.start and lspo.matchmaker.options == {"past": 0.75}
    assert lspo.rollout.candidates.count == 3 and lspo.credit.name == "candidate_value"
    environment, _ = read_needs(lspo)
    assert environment.options["players"] == 4 and environment.options["speech"] == "text"
    assert lspo.rollout.max_new_tokens == 16  # limit of one speech
    assert lspo.knowledge.options["every"] == lspo.steps and lspo.knowledge.options["iterations"] == 1


def test_both_arms_play_200_games_in_both_roles():
    matches = [cell for cell in study.cells(study.STUDY.setting) if cell.key[0] == MATRIX]
    assert len(matches) == 6 == len({cell.folder for cell in matches})
    for cell in matches:
        spec = json.loads(cell.command[3])
        assert spec["pairs"] == [[["LSPO", "start"], ["start", "LSPO"]][cell.key[2]]] and spec["games"] == 200
        assert spec["starts"] == {"start": "LSPO"}
        assert set(cell.after) == {(arm, cell.key[1]) for arm in study.ARMS}


def results(lspo_wolf_wins, start_wolf_wins, seeds=3):
    """Return results with win rates of the wolf, LSPO as wolf and the start policy as wolf; 0.01 more per seed."""
    cells = {
        (arm, seed): {"found": {"legal replies": 0.75}, "seconds": 60.0} for arm in study.ARMS for seed in range(seeds)
    }
    speech = {"texts": 100, "distinct": 7, "commonest": 25}
    for seed in range(seeds):
        win_rates = (lspo_wolf_wins, start_wolf_wins)
        for index, ((wolf, village), win_rate) in enumerate(zip(study.PAIRS, win_rates, strict=True)):
            match = {
                "first": wolf,
                "second": village,
                "won": win_rate + 0.01 * seed,
                "legal": [0.9, 0.8],
                "said": [speech, dict.fromkeys(speech, 0)],
            }
            cells[MATRIX, seed, index] = {"found": [match]}
    rows = study.rows({**study.STUDY.setting, "seeds": seeds}, cells)
    assert not [error for row in rows for error in errors_of_row(row)]
    return Results({"rows": rows})


@pytest.mark.parametrize(
    ("lspo_wolf_wins", "start_wolf_wins", "first_row", "last_row"),
    [
        (
            0.9,
            0.3,
            "| 0 | 0.90 [0.85, 0.93] | 0.70 [0.63, 0.76] | 0.80 [0.76, 0.84] | 400 | ahead |",
            "| all | 0.91 [0.89, 0.93] | 0.69 [0.67, 0.71] | 0.80 [0.80, 0.80] | 1200 | ahead |",
        ),
        (
            0.5,
            0.5,
            "| 0 | 0.50 [0.43, 0.57] | 0.50 [0.43, 0.57] | 0.50 [0.45, 0.55] | 400 | not decided |",
            "| all | 0.51 [0.49, 0.53] | 0.49 [0.47, 0.51] | 0.50 [0.50, 0.50] | 1200 | not decided |",
        ),
    ],
)
def test_wins_are_counted_for_both_sides(lspo_wolf_wins, start_wolf_wins, first_row, last_row):
    lines = page.wins(results(lspo_wolf_wins, start_wolf_wins)).splitlines()
    assert (lines[2], lines[5]) == (first_row, last_row) and lines[6:] == ["", CORRECTION_NOTE]
