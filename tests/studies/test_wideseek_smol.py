"""The study of SmolLM2 as a searching team: its arms, figures of a run, and tables."""

import json

import pytest

from sparring.config.parts import parse_named
from studies.common import self_played
from studies.common.result_figures import Results
from studies.common.results_file import errors_of_row
from studies.wideseek_smol import study
from studies.wideseek_smol import tables as page
from tests.studies.builders import Commands, config_of, stub_run


def test_every_seed_has_every_arm_with_random_training():
    keys = [cell.key for cell in study.cells({**study.STUDY.setting, "seeds": 2})]
    drawing = (study.WARM_UP, study.TRAINED)
    assert keys == [
        (study.PRETRAINED, 0),
        (study.TEACHER, 0),
        *((arm, 0) for arm in drawing),
        *((arm, 1) for arm in drawing),
    ]


def test_the_teacher_arm_evaluates_the_player_that_warm_up_imitates():
    (cell,) = (cell for cell in study.cells(study.STUDY.setting) if cell.key[0] == study.TEACHER)
    trained_config, words = config_of(study, study.TRAINED), list(cell.command)
    agent, environment = (parse_named(words[words.index(word) + 1], "", "") for word in ("--agent", "--environment"))
    player, game = trained_config.warmup.player, trained_config.environments[0]
    assert agent == (player.name, player.options) and player.options["slips"] == 0.4
    assert (
        environment[0] == game.name and environment[1].pop("bank") == 2**31 - 1 and environment[1].pop("worlds") == 1000
    )
    assert environment[1] == {name: value for name, value in game.options.items() if name not in ("bank", "worlds")}
    assert words[words.index("--self-plays") + 1] == "200"


def test_arms_differ_only_in_their_training():
    trained_config, warm_up_config, base_model_config = (
        config_of(study, arm).model_dump() for arm in (study.TRAINED, study.WARM_UP, study.PRETRAINED)
    )
    assert {key for key in trained_config if trained_config[key] != warm_up_config[key]} == {
        "steps",
        "learner",
        "rollout",
    }
    assert {key for key, value in trained_config["rollout"].items() if value != warm_up_config["rollout"][key]} == {
        "games_per_step"
    }
    assert {key for key in warm_up_config if warm_up_config[key] != base_model_config[key]} == {"warmup"}
    assert warm_up_config["learner"]["learning_rate"] == 0.0 and base_model_config["warmup"]["updates"] == 0


def interval_around(mean, width=0.1):
    return {"mean": mean, "low": mean - width, "high": mean + width}


def self_plays(illegal):
    figures = {**{name: {"mean": 0.5} for name in study.FIGURES}, study.BARE: interval_around(0.25)}
    return {
        "self_plays": [{"game": "wide_search", "starts": "unseen", "figures": figures, "illegal": {"mean": illegal}}]
    }


def test_a_run_is_measured_by_self_play_with_intervals_over_games(tmp_path, monkeypatch):
    lines = [{"step": step, "turns_per_game": 5.0, "reply_tokens": 3.0} for step in (1, 2)]
    stub_run(monkeypatch, self_played, lines, {"rollout": {"games_per_step": 10}})
    commands = Commands(self_plays(0.25))
    result = study.run_figures(tmp_path, "", commands, plays=7, seed=3)
    bare_figures = {study.BARE: 0.25, f"{study.BARE} low": 0.15, f"{study.BARE} high": 0.35}
    assert result["starts"] == "unseen"
    assert result["figures"] == pytest.approx(
        {**dict.fromkeys(study.FIGURES, 0.5), **bare_figures, "legal": 0.75, study.TOKENS_FIGURE: 300.0}
    )
    assert commands.words[commands.words.index("--self-plays") + 1] == "7" and "--seed=3" in commands.words


def test_the_teacher_arm_has_no_sampled_tokens():
    (cell,) = (cell for cell in study.cells(study.STUDY.setting) if cell.key[0] == study.TEACHER)
    result = cell.measure(None, json.dumps(self_plays(0.0)), None)
    assert (
        result["figures"][study.TOKENS_FIGURE] == 0.0
        and result["figures"][study.BARE] == 0.25
        and result["starts"] == "unseen"
    )


def results(**arms):
    """Return results with these shares of cells per arm."""
    cells = {}
    for arm, means in arms.items():
        for seed, mean in enumerate(means):
            interval = interval_around(mean)
            figures = {
                **dict.fromkeys(study.FIGURES, 0.5),
                study.BARE: mean,
                f"{study.BARE} low": interval["low"],
                f"{study.BARE} high": interval["high"],
            }
            cells[arm.replace("_", "-"), seed] = {
                "seconds": 600.0,
                "found": {"starts": "unseen", "figures": {**figures, "legal": 1.0, study.TOKENS_FIGURE: 2e6}},
            }
    return Results({"rows": study.rows({**study.STUDY.setting, "arms": list(arms)}, cells)})


def test_rows_have_a_value_for_each_seed():
    rows = results(pretrained=[0.1, 0.2], trained=[0.5, 0.6]).rows()
    assert [(row["arm"], row["starts"], row["plays"]) for row in rows] == [
        ("pretrained", "unseen", 200),
        ("trained", "unseen", 200),
    ]
    assert rows[1]["values"][study.BARE] == {"0": 0.5, "1": 0.6}
    assert not [error for row in rows for error in errors_of_row(row)]


@pytest.mark.parametrize(
    ("before", "after", "seed_verdicts", "verdict"),
    [
        ([0.1, 0.1, 0.1], [0.5, 0.6, 0.7], ["above", "above", "above"], "above"),
        ([0.1, 0.1, 0.1], [0.2, 0.6, 0.7], ["not decided", "above", "above"], "not decided"),
        ([0.25, 0.6, 0.7], [0.1, 0.1, 0.1], ["not decided", "below", "below"], "not decided"),
    ],
)
def test_before_and_after_differ_if_intervals_over_games_do_not_overlap(before, after, seed_verdicts, verdict):
    lines = page.apart(results(warm_up=before, trained=after)).splitlines()[2:-2]
    assert [line.rsplit("|", 2)[1].strip() for line in lines] == [*seed_verdicts, verdict]
    assert f"| after the warm-up | 0 | {before[0]:.2f} [{before[0] - 0.1:.2f}, {before[0] + 0.1:.2f}] |" in lines[0]


def test_tables_work_without_the_arms_that_the_quick_setting_omits():
    quick_results = results(warm_up=[0.2])
    assert (
        "| after the warm-up |" in page.figures_by_model(quick_results)
        and len(page.apart(quick_results).splitlines()) == 2
    )
