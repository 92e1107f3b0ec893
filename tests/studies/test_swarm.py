"""The Agent Swarm study: which policies learn in teams of models, and figures of a run."""

import pytest

from sparring.config import recipe, resolve
from studies.common import self_played
from studies.common.results_file import errors_of_row
from studies.swarm import study
from tests.studies.builders import Commands, stub_run


def config_of(name, changes=()):
    return resolve(recipe.apply_overrides(recipe.load_recipe(name), [*changes, "seed=0"]))


@pytest.mark.parametrize(
    ("name", "learning_policy", "fixed_policy"), [(study.LEAD, "lead", "worker"), (study.WORKERS, "worker", "lead")]
)
def test_one_policy_learns_as_in_the_joint_arm_and_the_other_only_warms_up(name, learning_policy, fixed_policy):
    joint, config = config_of("swarm/tiny-joint"), config_of(*study.TEAMS[name])
    assert not any(policy.frozen for policy in (*joint.policies.values(), *config.policies.values()))
    assert config.policies[learning_policy].learner.learning_rate == joint.learner.learning_rate
    assert config.policies[fixed_policy].learner.learning_rate == 0.0
    settings, joint_settings = config.model_dump(), joint.model_dump()
    for key in ("environments", "rollout", "warmup", "steps", "credit", "losses", "rewards", "matchmaker", "roles"):
        assert settings[key] == joint_settings[key]
    assert {name: section["model"] for name, section in settings["policies"].items()} == {
        name: section["model"] for name, section in joint_settings["policies"].items()
    }


def test_teams_of_models_have_no_scripted_player():
    joint, scripted = config_of("swarm/tiny-joint"), config_of("swarm/tiny")
    assert joint.matchmaker.name == "mirror" and scripted.matchmaker.options["bots"] == {"workers": 1.0}
    assert joint.environments == scripted.environments and joint.roles == scripted.roles
    assert scripted.policies["worker"].frozen


def test_a_row_has_the_self_play_figures_of_each_seed(tmp_path, monkeypatch):
    stub_run(
        monkeypatch,
        self_played,
        [{"step": 1, "turns_per_game": 10.0, "reply_tokens": 2.0}],
        {"rollout": {"games_per_step": 8}},
    )
    figures = {name: {"mean": index / 10} for index, name in enumerate(study.TEAM_FIGURES)}
    self_plays = [{"game": shape, "returns": {"lead": {"mean": 0.75}}, "figures": figures} for shape in study.SHAPES]
    commands = Commands({"self_plays": self_plays})
    result = study.team_figures(tmp_path, "", commands, plays=5, seed=3)
    assert (
        commands.words[:5] == ["sparring", "evaluate", str(tmp_path), "--self-plays", "5"]
        and "--seed=3" in commands.words
    )
    setting = {"arms": [], "teams": [study.JOINT], "seeds": 2}
    rows = study.rows(setting, {(study.JOINT, seed): {"found": result, "seconds": 60.0} for seed in (0, 1)})
    assert [row["shape"] for row in rows] == list(study.SHAPES)
    assert (
        rows[1]["values"]["return"] == {"0": 0.75, "1": 0.75}
        and rows[1]["values"]["tokens sampled in training"]["0"] == 160.0
    )
    assert not any(errors_of_row(row) for row in rows)


def test_every_cell_begins_with_the_same_seed_and_one_thread():
    cells = study.cells(study.STUDY.setting)
    assert len(cells) == 5 * (len(study.ARMS) + len(study.TEAMS)) == len({cell.key for cell in cells})
    assert [cell.key[1] for cell in cells] == sorted(cell.key[1] for cell in cells)
    start = next(cell for cell in cells if cell.key == (study.START, 2))
    assert start.command[:3] == ("sparring", "train", "swarm/tiny-joint") and set(study.UNTRAINED) < set(start.command)
    assert {"seed=2", "threads=1"} < set(start.command)
