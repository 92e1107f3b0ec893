"""The study of WideSeek-R1: who learns in each arm, equal budgets, what is kept of a run, and what its tables say."""

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
    ("name", "learns", "stays"), [(study.LEAD, "lead", "worker"), (study.WORKERS, "worker", "lead")]
)
def test_one_of_two_policies_learns_as_that_of_the_joint_arm_does_and_the_other_has_the_warm_up_alone(
    name, learns, stays
):
    joint, config = config_of("wideseek/tiny"), config_of(*study.ARMS[name])
    assert {*config.policies} == {"lead", "worker"}
    assert not any(policy.frozen for policy in config.policies.values())  # a frozen one has no warm-up
    assert config.policies[learns].learner.learning_rate == joint.learner.learning_rate
    assert config.policies[stays].learner.learning_rate == 0.0
    assert config.roles == {"lead": "lead", **{f"worker {number}": "worker" for number in range(1, 9)}}
    same = {"environments", "rollout", "warmup", "steps", "credit", "losses", "matchmaker"}
    dumped, other = config.model_dump(), joint.model_dump()
    assert {key: dumped[key] for key in same} == {key: other[key] for key in same}
    assert dumped["policies"][learns]["learner"]["reduction"] == "agent_mean"


def test_scripted_workers_sit_in_every_seat_but_the_leads_and_nobody_learns_there():
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


def test_one_agent_has_as_many_turns_as_lead_and_workers_together_and_its_fewest_are_the_critical_steps():
    teams, alone = (config_of(f"wideseek/{name}").environments for name in ("tiny", "tiny-single"))
    rows = [environment for environment in alone if not environment.label.startswith(study.SHOWN)]
    assert [(environment.label, environment.options["items"]) for environment in rows] == [
        ("rows-2", 2),
        ("rows-1", 1),
    ]  # as workers meet them
    alone = [environment for environment in alone if environment.label.startswith(study.SHOWN)]
    for team, environment in zip(teams, alone, strict=True):
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
    assert min(environment.options["turns"] for environment in alone) == 1 + teams[0].options["turns"]


def test_the_start_is_what_the_warm_up_left():
    for arm, trained in ((study.START, study.JOINT), (study.ALONE_START, study.ALONE)):
        (name, changes), (other, none) = study.ARMS[arm], study.ARMS[trained]
        config = config_of(name, changes)
        assert name == other and none == () and (config.steps, config.learner.learning_rate) == (1, 0.0)
        assert config.warmup == config_of(name).warmup and config.warmup.updates


def self_play(game, mean):
    return {"game": game, "starts": "unseen", "figures": {name: {"mean": mean} for name in study.FIGURES}}


def test_a_run_is_measured_by_self_play_in_order_of_widths_with_the_tokens_that_it_sampled(tmp_path, monkeypatch):
    lines = [{"step": step, "turns_per_game": 5.0, "reply_tokens": 3.0} for step in (1, 2)]
    stub_run(monkeypatch, self_played, lines, {"rollout": {"games_per_step": 10}})
    ask = Commands({"self_plays": [self_play("width-8", 0.8), self_play("rows-2", 0.9), self_play("width-1", 0.1)]})
    rows = study.measured(tmp_path, "", ask, plays=7, seed=3)
    assert [row["workers"] for row in rows] == [1, 8] and {row["starts"] for row in rows} == {"unseen"}
    assert rows[0]["figures"] == {**dict.fromkeys(study.FIGURES, 0.1), study.TOKENS: 300.0}
    assert (
        ask.words[:3] == ["sparring", "evaluate", str(tmp_path)]
        and ask.words[ask.words.index("--self-plays") + 1] == "7"
    )
    assert "--seed=3" in ask.words and "--json" in ask.words


def document(f1, seeds=3):
    """Return the rows of item F1 by arm and width; seeds differ by the same amount in every arm."""
    cells = {
        (arm, seed): {
            "seconds": 60.0,
            "found": [
                {
                    "workers": width,
                    "starts": "unseen",
                    "figures": {**dict.fromkeys(study.FIGURES, value + seed / 100), study.TOKENS: 2e6},
                }
                for width, value in zip(WIDTHS, values, strict=True)
            ],
        }
        for arm, values in f1.items()
        for seed in range(seeds)
    }
    setting = {**study.STUDY.setting, "arms": list(f1), "seeds": seeds}
    return Results({"rows": study.rows(setting, cells)})


GOOD = {
    study.START: (0.1, 0.2, 0.3, 0.2),
    study.JOINT: (0.2, 0.4, 0.7, 0.9),
    study.LEAD: (0.2, 0.2, 0.2, 0.2),
    study.WORKERS: (0.2, 0.3, 0.8, 0.4),
    study.ALONE_START: (0.1, 0.1, 0.1, 0.1),
    study.ALONE: (0.3, 0.4, 0.6, 0.95),
}


def test_claims_are_counted_over_widths_paired_by_seed():
    lines = page.claims(document(GOOD)).splitlines()[2:-2]
    assert [line.split(" | ")[1].removesuffix(" |") for line in lines] == [
        "3 of 3 comparisons",  # 0.2, 0.4, 0.7, 0.9
        "1 of 3 comparisons",  # it falls from 4 to 8 workers
        "1 of 3 comparisons",  # 0.4, 0.7, 0.9 against 0.4, 0.6, 0.95
        "3 of 3 comparisons",  # against 0.3
        "3 of 3 comparisons",
        "2 of 3 comparisons",  # 0.7 against 0.8
    ]
    level = document({study.START: (0.2, 0.2, 0.2, 0.2)})  # what is not decided is not held
    assert "| It is the worse one before training | 0 of 3 comparisons |" in page.claims(level)


def test_a_study_of_a_few_arms_has_its_tables_too():
    results = document({arm: GOOD[arm] for arm in study.STUDY.quick["arms"]}, seeds=1)
    assert all(make(results) for make in page.SHOWN.values())
    assert "| It is the worse one before training | not measured |" in page.claims(results)
    assert "held" not in page.both(results).replace("verdict", "")  # of one seed nothing is decided
