"""The race of estimators: all play equally many games, refused estimators give a reason, verdicts are paired by seed."""

import json
import math

import pytest

from sparring.core.errors import ConfigError
from sparring.ops.statistics import mean_interval
from sparring.run.events import read_lines
from studies.common.claims import correlations, judge_claims, judge_differences
from studies.credit_race import race_page as credit_race_page
from studies.credit_race import study
from studies.credit_race.race import curve, run, run_config

SMALL_OVERRIDES = (
    "steps=3",
    "rollout.games_per_step=16",
    "rollout.group_size=4",
    "evaluation.every=2",
    "model.hidden_size=8",
    "model.heads=1",
)


def config_of(estimator, seed=0, overrides=SMALL_OVERRIDES):
    return run_config("kuhn-tiny", overrides, estimator, seed)


@pytest.fixture(scope="module")
def race_results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("race")
    estimators = ("outcome", "ppr process=steps", "gae lam=0.5")
    return {
        (estimator, seed): run(folder / "run", "kuhn-tiny", SMALL_OVERRIDES, estimator, seed)
        for estimator in estimators
        for seed in (0, 1)
    }


def test_every_estimator_has_results_or_a_reason_for_its_refusal(race_results):
    setting = {
        **study.STUDY.setting,
        "estimators": "outcome,ppr process=steps,gae lam=0.5",
        "seeds": 2,
        "changes": list(SMALL_OVERRIDES),
    }
    lab_results = {"rows": [{"estimator": "outcome", **{key: {"mean": 0.5} for key in study.LAB_KEYS}}]}
    results = {(study.GAME,): {"found": {"game": lab_results}}} | {
        key: {"found": result} for key, result in race_results.items()
    }
    rows = study.rows(setting, results)
    assert {*results} == {cell.key for cell in study.cells(setting)}
    assert rows[-1]["estimator"] == "ppr process=steps" and "reads the reward component 'steps'" in rows[-1]["refused"]
    total_final_distances = [sum(row["values"]["final"].values()) for row in rows[:-1]]
    assert total_final_distances == sorted(total_final_distances)
    for row in rows[:-1]:
        (curve_0, curve_1) = (race_results[row["estimator"], seed]["curve"] for seed in (0, 1))
        assert [games for games, _ in row["curve"]] == [16.0, 32.0, 48.0]
        assert row["values"]["final"] == {"0": curve_0[-1][1], "1": curve_1[-1][1]}
        assert row["values"]["mean"]["0"] == pytest.approx(sum(distance for _, distance in curve_0) / 3)
        assert row["curve"][0][1] == pytest.approx((curve_0[0][1] + curve_1[0][1]) / 2)
    assert {row["estimator"]: row.get("lab", {}).get("cosine") for row in rows} == {
        "outcome": 0.5,
        "gae lam=0.5": None,
        "ppr process=steps": None,
    }
    assert study.fields(setting, results)["setting"] == {
        "recipe": "kuhn-tiny",
        "overrides": [*SMALL_OVERRIDES],
        "seeds": 2,
    }


@pytest.mark.parametrize("estimator", ["ppr", "spae", "ssl", "vpr"])
def test_estimators_that_need_verdicts_get_an_oracle_and_run(estimator, tmp_path):
    config = config_of(estimator)
    assert [reward.name for reward in config.rewards] == ["best_action"]
    assert [game.oracle.name for game in config.environments] == ["cfr"]
    assert config.reorder_outcomes
    assert not config_of("outcome").rewards
    assert len(run(tmp_path, "kuhn-tiny", SMALL_OVERRIDES, estimator, 0)["curve"]) == 3


def test_the_process_reward_model_of_oprl_is_trained(tmp_path):
    assert len(run(tmp_path, "kuhn-tiny", SMALL_OVERRIDES, "oprl", 0)["curve"]) == 3
    assert sum(line["process/pairs"] for line in read_lines(tmp_path / "metrics.jsonl")) > 0


def test_a_recipe_with_an_oracle_keeps_it():
    overrides = (
        "rewards=[{name: best_action, weight: 0.5}]",
        "environments=[{name: kuhn_poker, oracle: {name: best_response}}]",
    )
    config = config_of("vpr", overrides=(*SMALL_OVERRIDES, *overrides))
    assert [(reward.name, reward.weight) for reward in config.rewards] == [("best_action", 0.5)]
    assert not config.reorder_outcomes
    config_with_oracle = config_of("vpr", overrides=(*SMALL_OVERRIDES, overrides[1]))
    assert [game.oracle.name for game in config_with_oracle.environments] == ["best_response"]
    assert config_with_oracle.reorder_outcomes


def test_value_loss_is_added_once_for_estimators_with_a_critic():
    losses = [loss.name for loss in config_of("gae", 3).losses]
    assert losses == ["ppo_clip", "legal_magnet", "value_loss"]
    assert [loss.name for loss in config_of("mars", 3).losses] == losses[:2]
    assert config_of("mars", 3).seed == 3
    overrides_with_value_loss = (*SMALL_OVERRIDES, "losses=[{name: ppo_clip}, {name: value_loss}]")
    assert [loss.name for loss in config_of("gae", overrides=overrides_with_value_loss).losses] == [
        "ppo_clip",
        "value_loss",
    ]


def test_a_run_without_exact_distances_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="exact distance"):
        run(tmp_path, "kuhn-tiny", (*SMALL_OVERRIDES, "evaluation.exact=false"), "mars", 0)


def test_the_distance_of_a_cooperative_game_is_the_gap_to_the_optimum():
    lines = [
        {"step": 1, "nash_conv/a": 5.0, "optimality_gap/a": 1.0},
        {"step": 2},
        {"step": 3, "optimality_gap/a": 0.5, "nash_conv/a": 4.0},
    ]
    assert curve(lines, 10) == [[10.0, 1.0], [30.0, 0.5]]
    assert curve([{"step": 2, "nash_conv/a": 5.0, "nash_conv/b": 1.0}], 10) == [[20.0, 3.0]]


def interval_fields(values):
    interval = mean_interval(values)
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def result_of(**final_distances):
    rows = [
        {
            "estimator": name,
            "ends": values,
            "final": interval_fields(values),
            "mean": interval_fields(values),
            "curve": [[1.0, values[0]]],
        }
        for name, values in final_distances.items()
    ]
    return {
        "settings": {"recipe": "kuhn-tiny", "overrides": ["steps=3"], "seeds": 3},
        "rows": [*rows, {"estimator": "ppr", "refused": "a reason"}],
    }


def test_verdicts_by_hand():
    verdict_rows = {
        verdict["compared"]: verdict
        for verdict in judge_claims(
            result_of(
                mars=[0.1, 0.2, 0.3],
                rae=[0.2, 0.31, 0.4],
                grpo=[0.05, 0.16, 0.24],
                outcome=[0.0, 0.9, 0.2],
            )
        )
    }
    assert verdict_rows["rae - mars"]["verdict"] == "held"
    assert verdict_rows["grpo - mars"]["verdict"] == "the reverse"
    assert verdict_rows["outcome - rae"]["verdict"] == "not decided"
    # mean of rae - mars over the seeds: (0.1 + 0.11 + 0.1) / 3 = 0.103
    assert verdict_rows["rae - mars"]["difference"].startswith("0.103 [")
    assert (verdict_rows["rae - mars"]["p"], verdict_rows["rae - mars"]["corrected"]) == ("0.001", "0.003")
    # salt did not run, so its claim has no verdict
    assert "salt" not in json.dumps(list(verdict_rows))


@pytest.mark.parametrize(("differences", "difference"), [([0.2], "0.200"), ([0.01, 0.01], "0.010 [0.010, 0.010]")])
def test_fewer_than_three_seeds_decide_nothing(differences, difference):
    row = judge_differences([mean_interval(differences)])[0]
    expected = (difference, "1.000", "not decided")
    assert (row["difference"], row["p"], row["verdict"]) == expected


def test_rank_correlation_by_hand():
    result = result_of(mars=[0.1] * 3, rae=[0.2] * 3, grpo=[0.3] * 3)
    lab = {
        name: {
            key: {"mean": sign * value} for key, sign in (("bias_scaled", 1), ("variance_scaled", -1), ("cosine", 0))
        }
        for name, value in (("mars", 1.0), ("rae", 2.0), ("grpo", 9.0))
    }
    # The order of mars, rae, grpo is the same for the bias and reversed for the variance.
    ranks = correlations(result, lab)
    assert (ranks["bias_scaled"], ranks["variance_scaled"]) == pytest.approx((1.0, -1.0))
    assert math.isnan(ranks["cosine"])
    assert all(math.isnan(value) for value in correlations(result, {}).values())


def test_the_chart_shows_the_best_seven_and_the_worst():
    final_distances = {f"e{n}": [float(n)] * 3 for n in range(12)}
    chart_text = credit_race_page.chart(result_of(**final_distances))
    assert all(f">e{n} =" in chart_text for n in (0, 1, 2, 3, 4, 5, 6, 11))
    assert ">e7 =" not in chart_text


def test_losses_and_rewards_of_a_recipe_can_be_written_as_text():
    config = config_of("gae", overrides=(*SMALL_OVERRIDES, "losses=[ppo_clip, value_loss weight=0.5]"))
    assert [(loss.name, loss.weight) for loss in config.losses] == [("ppo_clip", 1.0), ("value_loss", 0.5)]
    overrides = ("rewards=[format_bonus bonus=0.1]", "environments.0.oracle=cfr", "reorder_outcomes=true")
    config = config_of("vpr", overrides=(*SMALL_OVERRIDES, *overrides))
    assert [reward.name for reward in config.rewards] == ["format_bonus", "best_action"]
