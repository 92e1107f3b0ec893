"""The study of WideSeek-R1: who learns in each arm, equal budgets, what is kept of a run, and what its tables say."""

import json
import shlex
from pathlib import Path

import pytest

from sparring.config import recipe, resolve
from sparring.environments.catalogue import make_game
from studies.common import self_played
from studies.common.result_figures import Results
from studies.common.results_file import row_faults
from studies.wideseek import study
from studies.wideseek import tables as page
from tests.studies.told_run import told_run

WIDTHS = (1, 2, 4, 8)
ROOT = Path(__file__).parents[2]


def config_of(name, changes=()):
    return resolve(recipe.apply_overrides(recipe.load_recipe(name), ["seed=0", *changes]))


@pytest.mark.parametrize(("name", "learns", "stays"), [(study.LEAD, "lead", "worker"), (study.WORKERS, "worker", "lead")])
def test_one_of_two_policies_learns_as_that_of_the_joint_arm_does_and_the_other_has_the_warm_up_alone(name, learns, stays):
    joint, config = config_of("wideseek/tiny"), config_of(*study.ARMS[name])
    assert {*config.policies} == {"lead", "worker"}
    assert not any(policy.frozen for policy in config.policies.values())  # a frozen one has no warm-up
    assert config.policies[learns].learner.learning_rate == joint.learner.learning_rate
    assert config.policies[stays].learner.learning_rate == 0.0
    assert config.roles == {"lead": "lead", **{f"worker {number}": "worker" for number in range(1, 9)}}
    same = {"environments", "rollout", "warmup", "steps", "credit", "losses", "matchmaker"}
    own, other = config.model_dump(), joint.model_dump()
    assert {key: own[key] for key in same} == {key: other[key] for key in same}
    assert own["policies"][learns]["learner"]["reduction"] == "agent_mean"


def test_scripted_workers_sit_in_every_seat_but_the_leads_and_nobody_learns_there():
    (line,) = (line for line in (ROOT / "docs" / "teams.md").read_text().splitlines() if line.startswith("sparring train") and "searcher" in line)
    _, _, name, *changes = shlex.split(line)
    config = config_of(name, changes[: changes.index("--run")])
    assert config.policies["worker"].frozen and not config.policies["lead"].frozen
    assert {key: config.bots["workers"].options[key] for key in ("slips", "quits")} == {"slips": 0.1, "quits": 0.05}
    assert config.matchmaker.options == {"past": 0.0, "bots": {"workers": 1.0}}


def test_one_agent_has_as_many_turns_as_lead_and_workers_together_and_its_fewest_are_the_critical_steps():
    teams, alone = (config_of(f"wideseek/{name}").environments for name in ("tiny", "tiny-single"))
    rows = [one for one in alone if not one.label.startswith(study.SHOWN)]
    assert [(one.label, one.options["items"]) for one in rows] == [("rows-2", 2), ("rows-1", 1)]  # as workers meet them
    alone = [one for one in alone if one.label.startswith(study.SHOWN)]
    for team, one in zip(teams, alone, strict=True):
        given, own = team.options, one.options
        assert own["turns"] == 1 + given["workers"] * given["turns"] and own["workers"] == 0
        assert (own["items"], own["columns"], own["worlds"]) == (given["items"], given["columns"], given["worlds"])
        assert one.label == f"total-{given['workers']}" and team.label == f"width-{given['workers']}"
        assert make_game("wide_search", options=own).roles == ("single",)
    assert min(one.options["turns"] for one in alone) == 1 + teams[0].options["turns"]


def test_the_start_is_what_the_warm_up_left():
    for arm, trained in ((study.START, study.JOINT), (study.ALONE_START, study.ALONE)):
        (name, changes), (other, none) = study.ARMS[arm], study.ARMS[trained]
        config = config_of(name, changes)
        assert name == other and none == () and (config.steps, config.learner.learning_rate) == (1, 0.0)
        assert config.warmup == config_of(name).warmup and config.warmup.updates


def test_the_released_sizes_are_those_of_the_paper():
    config = config_of("wideseek/paper")
    (environment,) = config.environments
    assert {key: environment.options[key] for key in ("workers", "turns", "waves")} == {"workers": 10, "turns": 20, "waves": 10}
    assert config.rollout.group_size == 8 and config.rollout.games_per_step == 128 * 8
    clip, divergence = config.losses
    assert clip.options == {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 10.0}
    assert (divergence.name, divergence.options["estimator"], divergence.weight) == ("kl_penalty", "k3", 0.001)
    assert (config.learner.learning_rate, config.learner.reduction, config.learner.minibatches) == (1e-6, "agent_mean", 1)
    assert config.credit.name == "grpo" and config.model.name == "Qwen/Qwen3-4B" and config.model.context == 32000


def told(game, mean):
    return {"game": game, "starts": "unseen", "figures": {name: {"mean": mean} for name in study.FIGURES}}


def test_a_run_is_measured_by_self_play_in_order_of_widths_with_the_tokens_that_it_sampled(tmp_path, monkeypatch):
    lines = [{"step": step, "turns_per_game": 5.0, "reply_tokens": 3.0} for step in (1, 2)]
    told_run(monkeypatch, self_played, lines, {"rollout": {"games_per_step": 10}})
    asked = []

    def ask(words):
        asked.extend(words)
        return json.dumps({"self_plays": [told("width-8", 0.8), told("rows-2", 0.9), told("width-1", 0.1)]})

    found = study.measured(tmp_path, "", ask, plays=7, seed=3)
    assert [one["workers"] for one in found] == [1, 8] and {one["starts"] for one in found} == {"unseen"}
    assert found[0]["figures"] == {**dict.fromkeys(study.FIGURES, 0.1), study.TOKENS: 300.0}
    assert asked[:3] == ["sparring", "evaluate", str(tmp_path)] and asked[asked.index("--self-plays") + 1] == "7"
    assert "--seed=3" in asked and "--json" in asked


def document(f1, seeds=3):
    """Return the rows of item F1 by arm and width; seeds differ by the same amount in every arm."""
    kept = {
        (arm, seed): {
            "seconds": 60.0,
            "found": [
                {"workers": width, "starts": "unseen", "figures": {**dict.fromkeys(study.FIGURES, value + seed / 100), study.TOKENS: 2e6}}
                for width, value in zip(WIDTHS, values, strict=True)
            ],
        }
        for arm, values in f1.items()
        for seed in range(seeds)
    }
    setting = {**study.STUDY.setting, "arms": list(f1), "seeds": seeds}
    return Results({"rows": study.rows(setting, kept)})


GOOD = {
    study.START: (0.1, 0.2, 0.3, 0.2),
    study.JOINT: (0.2, 0.4, 0.7, 0.9),
    study.LEAD: (0.2, 0.2, 0.2, 0.2),
    study.WORKERS: (0.2, 0.3, 0.8, 0.4),
    study.ALONE_START: (0.1, 0.1, 0.1, 0.1),
    study.ALONE: (0.3, 0.4, 0.6, 0.95),
}


def test_rows_hold_every_value_by_seed():
    rows = document(GOOD).rows()
    assert len(rows) == 6 * 4 and all(row_faults(row) == [] for row in rows)
    assert rows[4] == {
        "arm": "joint",
        "workers": 1,
        "starts": "unseen",
        "plays": 300,
        "values": {
            **{name: {str(seed): 0.2 + seed / 100 for seed in range(3)} for name in study.FIGURES},
            study.TOKENS: {"0": 2e6, "1": 2e6, "2": 2e6},
            "seconds": {"0": 60.0, "1": 60.0, "2": 60.0},
        },
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


def test_tables_name_what_rises_and_falls_and_who_is_ahead():
    results = document(GOOD)
    widths = page.widths(results)
    assert "| nobody yet | 8 less 4 | -0.10 [-0.10, -0.10] | -0.10 [-0.10, -0.10] | falls |" in widths
    assert "| lead and workers | 8 less 1 | 0.70 [0.70, 0.70] | 0.70 [0.70, 0.70] | rises |" in widths
    alone = page.alone(results)
    assert "| lead and workers | 8 | as many turns in all | 25 | -0.05 [-0.05, -0.05] | behind |" in alone
    assert "| lead and workers | 8 | the critical steps | 4 | 0.60 [0.60, 0.60] | ahead |" in alone
    assert "| 4 | the workers | -0.10 [-0.10, -0.10] | -0.10 [-0.10, -0.10] | refuted |" in page.both(results)
    assert "| one agent | 2.00 | 1.0 |" in page.costs(results)
    assert page.found(results).count("\n") == 1 + 24


def test_a_study_of_a_few_arms_has_its_tables_too():
    results = document({arm: GOOD[arm] for arm in study.STUDY.quick["arms"]}, seeds=1)
    assert all(make(results) for make in page.SHOWN.values())
    assert "| It is the worse one before training | not measured |" in page.claims(results)
    assert "held" not in page.both(results).replace("verdict", "")  # of one seed nothing is decided
