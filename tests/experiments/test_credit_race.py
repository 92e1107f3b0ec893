"""Races of estimators: equal games, resumable, refusals said, verdicts paired by seed."""

import json
import math

import pytest

from sparring.errors import CheckpointError, ConfigError, UnknownNameError
from sparring.experiments import credit_race
from sparring.experiments.credit_race import RacePlan, cell_config, curve, race, run_cell
from sparring.ops.statistics import mean_interval
from sparring.report import credit_race_page
from sparring.report.credit_race_page import write_page
from sparring.report.race_claims import correlations, judged, lab_rows, verdicts
from sparring.run import checkpoint
from sparring.run.events import read_lines

SMALL = ("steps=3", "rollout.games_per_step=16", "rollout.group_size=4", "evaluation.every=2", "model.hidden_size=8", "model.heads=1")


def plan(folder, *estimators, **changes):
    return RacePlan(**{"recipe": "kuhn-tiny", "overrides": SMALL, "estimators": estimators, "seeds": 2, "folder": folder, **changes})


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("race")
    said = []
    return folder, race(plan(folder, "outcome", "ppr process=steps", "gae lam=0.5", "mars:no_turn_level"), watch=said.append), said


def test_every_estimator_has_its_figures_or_its_reason(raced):
    _, result, said = raced
    rows = {row["estimator"]: row for row in result["rows"]}
    assert set(rows) == {"outcome", "ppr process=steps", "gae lam=0.5", "mars:no_turn_level"}
    assert "reads the reward component 'steps'" in rows["ppr process=steps"]["refused"]
    assert result["rows"][-1]["estimator"] == "ppr process=steps"
    finals = [row["final"]["mean"] for row in result["rows"][:-1]]
    assert finals == sorted(finals)
    for row in result["rows"][:-1]:
        assert [games for games, _ in row["curve"]] == [16.0, 32.0, 48.0]
        assert row["final"]["mean"] == pytest.approx(sum(row["ends"]) / 2)
        assert row["curve"][-1][1] == pytest.approx(row["final"]["mean"])
        assert row["final"]["low"] < row["final"]["mean"] < row["final"]["high"]
        assert row["mean"]["mean"] == pytest.approx(sum(value for _, value in row["curve"]) / 3)
    assert len(said) == 8
    json.dumps(result)


@pytest.mark.parametrize("estimator", ["ppr", "spae", "ssl", "vpr"])
def test_estimators_of_judged_turns_are_given_a_judge_and_run(estimator, tmp_path):
    one = plan(tmp_path, estimator, "outcome", seeds=1)
    config = cell_config(one, estimator, 0)
    assert [reward.name for reward in config.rewards] == ["best_action"]
    assert [game.oracle.name for game in config.environments] == ["cfr"]
    assert config.reorder_outcomes
    assert not cell_config(one, "outcome", 0).rewards
    assert len(run_cell(one, estimator, 0)["curve"]) == 3


def test_a_process_model_is_trained_in_the_race(tmp_path):
    one = plan(tmp_path, "oprl", seeds=1)
    assert len(run_cell(one, "oprl", 0)["curve"]) == 3
    assert sum(line["process/pairs"] for line in read_lines(tmp_path / "oprl-0" / "metrics.jsonl")) > 0


def test_a_recipe_with_its_own_judge_keeps_it(tmp_path):
    own = ("rewards=[{name: best_action, weight: 0.5}]", "environments=[{name: kuhn_poker, oracle: {name: best_response}}]")
    config = cell_config(plan(tmp_path, "vpr", overrides=(*SMALL, *own)), "vpr", 0)
    assert [(reward.name, reward.weight) for reward in config.rewards] == [("best_action", 0.5)]
    assert not config.reorder_outcomes
    judged = cell_config(plan(tmp_path, "vpr", overrides=(*SMALL, own[1])), "vpr", 0)
    assert [game.oracle.name for game in judged.environments] == ["best_response"]
    assert judged.reorder_outcomes


def test_a_race_that_is_done_is_read_and_one_that_was_cut_off_goes_on(raced, monkeypatch):
    folder, result, _ = raced
    monkeypatch.setattr(credit_race, "train", lambda *args, **kwargs: pytest.fail("trained again"))
    again = plan(folder, "outcome", "gae lam=0.5", "mars:no_turn_level")
    assert race(again)["rows"] == result["rows"][:-1]
    monkeypatch.undo()
    path = folder / "outcome-0"
    (path / "checkpoints" / "step_000003" / checkpoint.MANIFEST).unlink()
    with pytest.raises(CheckpointError):
        checkpoint.load_latest(path)
    ends = {row["estimator"]: row["ends"] for row in result["rows"] if "refused" not in row}
    assert run_cell(again, "outcome", 0)["curve"][-1][1] == ends["outcome"][0]


@pytest.mark.slow
def test_workers_give_the_same_figures(raced, tmp_path):
    _, result, _ = raced
    rows = race(plan(tmp_path, "outcome", "mars:no_turn_level", workers=2))["rows"]
    expected = {row["estimator"]: row["ends"] for row in result["rows"] if "refused" not in row}
    assert {row["estimator"]: row["ends"] for row in rows} == {name: expected[name] for name in ("outcome", "mars:no_turn_level")}


def test_a_critic_gets_its_loss_and_only_once():
    losses = [loss.name for loss in cell_config(plan(None), "gae", 3).losses]
    assert losses == ["ppo_clip", "legal_magnet", "value_loss"]
    assert [loss.name for loss in cell_config(plan(None), "mars", 3).losses] == losses[:2]
    assert cell_config(plan(None), "mars", 3).seed == 3
    twice = plan(None, overrides=(*SMALL, "losses=[{name: ppo_clip}, {name: value_loss}]"))
    assert [loss.name for loss in cell_config(twice, "gae", 0).losses] == ["ppo_clip", "value_loss"]


def test_wrong_input_is_told_before_anything_runs(tmp_path):
    with pytest.raises(UnknownNameError, match="recipe"):
        race(plan(tmp_path / "a", "mars", recipe="kuhn-tny"))
    with pytest.raises(UnknownNameError, match="mrs"):
        race(plan(tmp_path / "a", "mars", "mrs"))
    with pytest.raises(ConfigError, match="exact distance"):
        race(plan(tmp_path / "b", "mars", seeds=1, overrides=(*SMALL, "evaluation.exact=false")))
    assert not (tmp_path / "a").exists()


def test_the_distance_of_a_cooperative_game_is_its_gap():
    lines = [
        {"step": 1, "nash_conv/a": 5.0, "optimality_gap/a": 1.0},
        {"step": 2},
        {"step": 3, "optimality_gap/a": 0.5, "nash_conv/a": 4.0},
    ]
    assert curve(lines, 10) == [[10.0, 1.0], [30.0, 0.5]]
    assert curve([{"step": 2, "nash_conv/a": 5.0, "nash_conv/b": 1.0}], 10) == [[20.0, 3.0]]


def result_of(**ends):
    rows = [
        {"estimator": name, "ends": own, "final": credit_race._interval(own), "mean": credit_race._interval(own), "curve": [[1.0, own[0]]]}
        for name, own in ends.items()
    ]
    return {
        "settings": {"recipe": "kuhn-tiny", "overrides": ["steps=3"], "seeds": 3},
        "rows": [*rows, {"estimator": "ppr", "refused": "why"}],
    }


def test_verdicts_by_hand():
    found = {
        v["compared"]: v
        for v in verdicts(result_of(mars=[0.1, 0.2, 0.3], rae=[0.2, 0.31, 0.4], grpo=[0.05, 0.16, 0.24], outcome=[0.0, 0.9, 0.2]))
    }
    assert found["rae - mars"]["verdict"] == "held"
    assert found["grpo - mars"]["verdict"] == "the reverse"
    assert found["outcome - rae"]["verdict"] == "not decided"
    assert found["rae - mars"]["difference"].startswith("0.103 [")
    assert (found["rae - mars"]["p"], found["rae - mars"]["corrected"]) == ("0.001", "0.003")
    assert "salt" not in json.dumps(list(found))


def test_what_one_of_many_comparisons_decides_alone_is_not_held():
    gain = mean_interval([0.2, 0.25, 0.3, 0.1])
    assert judged([gain])[0]["verdict"] == "held"
    many = judged([gain, *[mean_interval([0.1, -0.2, 0.15, 0.0])] * 9])
    assert many[0]["verdict"] == "not decided"
    assert many[0]["p"] == judged([gain])[0]["p"] < "0.05" < many[0]["corrected"]
    assert many[1]["verdict"] == "not decided"


@pytest.mark.parametrize(
    ("gains", "difference"), [([0.2], "0.200"), ([0.01, 0.01], "0.010 [0.010, 0.010]")]
)
def test_fewer_than_three_seeds_decide_nothing(gains, difference):
    said = judged([mean_interval(gains)])[0]
    expected = (difference, "1.000", "not decided")
    assert (said["difference"], said["p"], said["verdict"]) == expected


def test_the_page_says_how_it_was_made_and_joins_the_lab(tmp_path):
    result = result_of(mars=[0.1, 0.2, 0.3], rae=[0.2, 0.3, 0.4], grpo=[0.3, 0.4, 0.5])
    figures = {name: {"mean": value} for name, value in (("bias_scaled", 0.1), ("variance_scaled", 2.0), ("cosine", 0.9))}
    lab = lab_rows({"games": [{"rows": [{"estimator": "mars", **figures}, {"estimator": "x", "refused": "no"}]}]})
    files = write_page(result, tmp_path / "race.md", "sparring credit race", lab)
    text = files[0].read_text()
    assert "Made by `sparring credit race`" in text
    assert "| mars | 0.200 [-0.048, 0.448] | 0.200 [-0.048, 0.448] | 0.1 | 2 | 0.9 |" in text
    assert "| rae | 0.300 [0.052, 0.548] | 0.300 [0.052, 0.548] | - | - | - |" in text
    assert "Not raced: `ppr`: why" in text
    assert "2 comparisons are made" in text
    assert [file.name for file in files[1:]] == ["credit-race.svg", "credit-race-lab.svg"]
    assert all(file.read_text().startswith("<svg") for file in files[1:])
    assert len(write_page(result, tmp_path / "alone.md", "x")) == 2
    with pytest.raises(ConfigError, match="--lab"):
        lab_rows({"games": []})
    with pytest.raises(ConfigError, match="cannot be written"):
        write_page(result, tmp_path / "race.md" / "below.md", "x")


def test_rank_correlation_by_hand():
    result = result_of(mars=[0.1] * 3, rae=[0.2] * 3, grpo=[0.3] * 3)
    lab = {
        name: {key: {"mean": sign * value} for key, sign in (("bias_scaled", 1), ("variance_scaled", -1), ("cosine", 0))}
        for name, value in (("mars", 1.0), ("rae", 2.0), ("grpo", 9.0))
    }
    found = correlations(result, lab)
    assert (found["bias_scaled"], found["variance_scaled"]) == (pytest.approx(1.0), pytest.approx(-1.0))
    assert math.isnan(found["cosine"])
    assert all(math.isnan(value) for value in correlations(result, {}).values())


def test_the_chart_shows_the_best_and_the_worst():
    ends = {f"e{n}": [float(n)] * 3 for n in range(12)}
    text = credit_race_page.chart(result_of(**ends))
    assert all(f">e{n} =" in text for n in (0, 1, 2, 3, 4, 5, 6, 11))
    assert ">e7 =" not in text


def test_losses_and_rewards_of_a_recipe_may_be_texts(tmp_path):
    texts = (*SMALL, "losses=[ppo_clip, value_loss weight=0.5]", "rewards=[format_bonus bonus=0.1]", "environments.0.oracle=cfr", "reorder_outcomes=true")
    config = cell_config(plan(tmp_path, "gae", overrides=texts), "gae", 0)
    assert [(loss.name, loss.weight) for loss in config.losses] == [("ppo_clip", 1.0), ("value_loss", 0.5)]
    config = cell_config(plan(tmp_path, "vpr", overrides=texts[:-3]), "gae lam=0.5", 0)
    assert [loss.name for loss in config.losses] == ["ppo_clip", "value_loss"] and config.credit.options == {"lam": 0.5}
    config = cell_config(plan(tmp_path, "vpr", overrides=(*SMALL, "losses=[ppo_clip]", *texts[-3:])), "vpr", 0)
    assert [reward.name for reward in config.rewards] == ["format_bonus", "best_action"] and config.credit.name == "vpr"
