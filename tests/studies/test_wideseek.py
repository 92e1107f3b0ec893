"""The WideSeek-R1 study: learning policies of each arm, equal budgets, figures of a run, and tables."""

import shlex
from pathlib import Path

import pytest

from sparring.config import recipe, resolve
from sparring.environments.catalogue import make_game
from studies.common import self_played
from studies.common.result_figures import Results
from studies.wideseek import study
from studies.wideseek import tables as page
from tests.studies.builders import Commands, stub_run

WIDTHS = (1, 2, 4, 8)
ROOT = Path(__file__).parents[2]


def config_of(name, changes=()):
    return resolve(recipe.apply_overrides(recipe.load_recipe(name), ["seed=0", *changes]))


@pytest.mark.parametrize(
    ("name", "learning_policy", "fixed_policy"), [(study.LEAD, "lead", "worker"), (study.WORKERS, "worker", "lead")]
)
def test_one_policy_learns_as_in_the_joint_arm_and_the_other_only_warms_up(name, learning_policy, fixed_policy):
    joint, config = config_of("wideseek/tiny"), config_of(*study.ARMS[name])
    assert {*config.policies} == {"lead", "worker"}
    assert not any(policy.frozen for policy in config.policies.values())  # a frozen one has no warm-up
    assert config.policies[learning_policy].learner.learning_rate == joint.learner.learning_rate
    assert config.policies[fixed_policy].learner.learning_rate == 0.0
    assert config.roles == {"lead": "lead", **{f"worker {index}": "worker" for index in range(1, 9)}}
    equal_sections = {"environments", "rollout", "warmup", "steps", "credit", "losses", "matchmaker"}
    settings, joint_settings = config.model_dump(), joint.model_dump()
    assert {key: settings[key] for key in equal_sections} == {key: joint_settings[key] for key in equal_sections}
    assert settings["policies"][learning_policy]["learner"]["reduction"] == "agent_mean"


def test_scripted_workers_have_all_seats_except_the_leads_and_do_not_learn():
    (line,) = (
        line
        for line in (ROOT / "docs" / "teams.md").read_text().splitlines()
        if line.startswith("sparring train") and "searcher" in line
    )
    _, _, name, *changes = shlex.split(line)
    config = config_of(name, changes[: changes.index("--run")])
    assert config.policies["worker"].frozen and not config.policies["lead"].frozen
    assert {key: config.bots["workers"].options[key] for key in ("slips", "quits")} == {"slips": 0.1, "quits": 0.05}
    assert config.matchmaker.options == {"past": 0.0, "bots": {"workers": 1.0}}


def test_a_single_agent_has_as_many_turns_as_lead_and_workers():
    teams, single_agent_environments = (config_of(f"wideseek/{name}").environments for name in ("tiny", "tiny-single"))
    row_environments = [
        environment for environment in single_agent_environments if not environment.label.startswith(study.SHOWN)
    ]
    assert [(environment.label, environment.options["items"]) for environment in row_environments] == [
        ("rows-2", 2),
        ("rows-1", 1),
    ]  # these environments have the prompts that a worker sees
    total_environments = [
        environment for environment in single_agent_environments if environment.label.startswith(study.SHOWN)
    ]
    for team, environment in zip(teams, total_environments, strict=True):
        team_options, options = team.options, environment.options
        assert options["turns"] == 1 + team_options["workers"] * team_options["turns"] and options["workers"] == 0
        assert (options["items"], options["columns"], options["worlds"]) == (
            team_options["items"],
            team_options["columns"],
            team_options["worlds"],
        )
        assert (
            environment.label == f"total-{team_options['workers']}" and team.label == f"width-{team_options['workers']}"
        )
        assert make_game("wide_search", options=options).roles == ("single",)
    assert min(environment.options["turns"] for environment in total_environments) == 1 + teams[0].options["turns"]


def test_the_start_arm_ends_after_warm_up():
    for arm, trained_arm in ((study.START, study.JOINT), (study.ALONE_START, study.ALONE)):
        (name, changes), (trained_name, trained_changes) = study.ARMS[arm], study.ARMS[trained_arm]
        config = config_of(name, changes)
        assert (
            name == trained_name and trained_changes == () and (config.steps, config.learner.learning_rate) == (1, 0.0)
        )
        assert config.warmup == config_of(name).warmup and config.warmup.updates


def self_play(game, mean):
    return {"game": game, "starts": "unseen", "figures": {name: {"mean": mean} for name in study.FIGURES}}


def test_a_run_is_measured_by_self_play_per_width_and_its_tokens(tmp_path, monkeypatch):
    lines = [{"step": step, "turns_per_game": 5.0, "reply_tokens": 3.0} for step in (1, 2)]
    stub_run(monkeypatch, self_played, lines, {"rollout": {"games_per_step": 10}})
    commands = Commands(
        {"self_plays": [self_play("width-8", 0.8), self_play("rows-2", 0.9), self_play("width-1", 0.1)]}
    )
    rows = study.run_figures(tmp_path, "", commands, plays=7, seed=3)
    assert [row["workers"] for row in rows] == [1, 8] and {row["starts"] for row in rows} == {"unseen"}
    assert rows[0]["figures"] == {**dict.fromkeys(study.FIGURES, 0.1), study.TOKENS_FIGURE: 300.0}
    assert (
        commands.words[:3] == ["sparring", "evaluate", str(tmp_path)]
        and commands.words[commands.words.index("--self-plays") + 1] == "7"
    )
    assert "--seed=3" in commands.words and "--json" in commands.words


def study_results(f1, seeds=3):
    """Return the rows of item F1 by arm and width; seeds differ by the same amount in every arm."""
    cells = {
        (arm, seed): {
            "seconds": 60.0,
            "found": [
                {
                    "workers": width,
                    "starts": "unseen",
                    "figures": {**dict.fromkeys(study.FIGURES, value + seed / 100), study.TOKENS_FIGURE: 2e6},
                }
                for width, value in zip(WIDTHS, values, strict=True)
            ],
        }
        for arm, values in f1.items()
        for seed in range(seeds)
    }
    setting = {**study.STUDY.setting, "arms": list(f1), "seeds": seeds}
    return Results({"rows": study.rows(setting, cells)})


F1_BY_ARM = {
    study.START: (0.1, 0.2, 0.3, 0.2),
    study.JOINT: (0.2, 0.4, 0.7, 0.9),
    study.LEAD: (0.2, 0.2, 0.2, 0.2),
    study.WORKERS: (0.2, 0.3, 0.8, 0.4),
    study.ALONE_START: (0.1, 0.1, 0.1, 0.1),
    study.ALONE: (0.3, 0.4, 0.6, 0.95),
}


def test_claims_count_comparisons_over_widths_paired_by_seed():
    lines = page.claims(study_results(F1_BY_ARM)).splitlines()[2:-2]
    assert [line.split(" | ")[1].removesuffix(" |") for line in lines] == [
        "3 of 3 comparisons",  # 0.2, 0.4, 0.7, 0.9
        "1 of 3 comparisons",  # it falls from 4 to 8 workers
        "1 of 3 comparisons",  # 0.4, 0.7, 0.9 against 0.4, 0.6, 0.95
        "3 of 3 comparisons",  # 0.4, 0.7, 0.9 against 0.3
        "3 of 3 comparisons",
        "2 of 3 comparisons",  # 0.7 against 0.8
    ]
    equal_arms = study_results({study.START: (0.2, 0.2, 0.2, 0.2)})  # an undecided claim is not counted as confirmed
    assert "| A wider team is worse before training | 0 of 3 comparisons |" in page.claims(equal_arms)


def test_a_study_of_a_few_arms_also_has_tables():
    results = study_results({arm: F1_BY_ARM[arm] for arm in study.STUDY.quick["arms"]}, seeds=1)
    assert all(make(results) for make in page.SECTIONS.values())
    assert "| A wider team is worse before training | not measured |" in page.claims(results)
    assert "held" not in page.both(results).replace("verdict", "")  # one seed decides nothing
