"""A probe there and back, and the plan made of it."""

import json
from dataclasses import replace

import pytest

from sparring.config import resolve
from sparring.errors import ConfigError
from sparring.experiments.scale_file import Probe
from sparring.experiments.scale_plan import limit_in_words, plan, units_of
from sparring.experiments.scale_probe import probe
from sparring.recipe import apply_overrides, load_recipe

PROBE = Probe(
    recipe="r", steps=2, plays=32, unit_games=4, units=8, unit=1.0, log_mean=0.0, log_sigma=0.0, play=0.25, together=0.0, learner=1.5, seating=0.3, write=0.2,
    load=0.0, message=0.0, alone=10.0, task_bytes=1, answer_bytes=1, weights_bytes=1 << 20, memory_bytes=3 << 20,
)  # fmt: skip


def test_a_probe_comes_back_from_its_file(tmp_path):
    PROBE.save(tmp_path / "scale.json")
    assert Probe.read(tmp_path / "scale.json") == PROBE
    assert json.loads((tmp_path / "scale.json").read_text())["version"] == 1


def changed(*without, **values):
    def text(path):
        PROBE.save(path)
        found = {**json.loads(path.read_text()), **values}
        return json.dumps({name: value for name, value in found.items() if name not in without})

    return text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda path: "{", "holds no probe"),
        (lambda path: "[]", "holds no probe"),
        (lambda path: "[" * 100_000, "holds no probe"),
        (changed(version=2), "version 2, not 1"),
        (changed("version"), "version None, not 1"),
        (changed("learner"), "learner is missing"),
        (changed(unit="x"), "unit is no number"),
        (changed(unit=True), "unit is no number"),
        (changed(unit=float("nan")), "unit is no number"),
        (changed(unit=0), "unit or alone is 0"),
        (changed(learner=-1), "learner is no number from 0 up"),
        (changed(units=0), "units is not 1 or more"),
        (changed(units=2.5), "units is no whole number"),
        (changed(recipe=5), "recipe is no text"),
        (changed(more=1), "'more' is no figure"),
    ],
)
def test_another_file_is_one_line_that_says_what_to_do(tmp_path, content, said):
    path = tmp_path / "scale.json"
    path.write_text(content(path))
    with pytest.raises(ConfigError, match=f"{said}.*sparring scale probe") as found:
        Probe.read(path)
    assert "\n" not in str(found.value)


def test_no_file_is_one_line_that_says_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match=r"No such file.*sparring scale probe"):
        Probe.read(tmp_path / "none.json")
    with pytest.raises(ConfigError, match=r"Is a directory.*sparring scale probe"):
        Probe.read(tmp_path)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"holds no probe.*sparring scale probe"):
        Probe.read(tmp_path / "bytes.json")


def test_a_probe_measures_every_unit_of_the_steps_but_the_first():
    small = ["warmup.updates=1", "rollout.games_per_step=16", "model.hidden_size=8", "model.layers=1", "model.heads=1", "scale.unit_games=4", "scale.fleet=processes", "scale.workers=2"]
    said = []
    found = probe(resolve(apply_overrides(load_recipe("kuhn-tiny"), small)), steps=2, tell=said.append)
    assert (found.plays, found.unit_games, found.units, found.steps) == (16, 4, 4, 2)
    assert found.play == pytest.approx(found.unit / 4)
    for name in ("unit", "learner", "seating", "write", "load", "message", "alone", "task_bytes", "answer_bytes"):
        assert getattr(found, name) > 0, name
    assert 0 <= found.together <= found.unit and found.log_sigma >= 0
    assert found.weights_bytes > 1000 and found.memory_bytes > 50 << 20
    assert said[1:] == ["one step to begin with", *(f"step {n} of 2 with a worker" for n in (1, 2)), *(f"step {n} of 2 without" for n in (1, 2))]


def test_the_smallest_lag_near_the_best_is_taken():
    """8 units of a second on 4 workers, 2 seconds of learning: 4 seconds a step, 2 with any lag."""
    found = plan(PROBE, workers=4, lags=[1, 2, 4])
    assert [row.lag for row in found.rows] == [0, 1, 2, 4]
    assert found.lag == 1
    assert found.rows[0].outcome.step_seconds == pytest.approx(4.0, rel=0.03)
    assert found.rows[1].gain == pytest.approx(2.0, rel=0.1)
    assert found.alone == pytest.approx(32 / 10)
    assert found.chosen.over_one == pytest.approx(5.0, rel=0.1)
    assert found.memory == pytest.approx(12.0)
    assert found.rows[0].weights == pytest.approx(1.0, rel=0.05)  # 4 workers, 1 MiB each, in 4 seconds


def test_where_learning_is_nothing_no_lag_is_taken():
    assert plan(replace(PROBE, learner=1e-6, seating=0.0, write=0.0), workers=1, lags=[1, 4]).lag == 0


def test_more_workers_help_where_players_limit_and_not_where_the_learner_does():
    """2 workers: 4 seconds of play against 2 of learning; 8: 1 against 2."""
    few, many = (plan(PROBE, workers=workers, lags=[2]) for workers in (2, 8))
    assert few.more_help and few.twice == pytest.approx(2.0, rel=0.1) and "more workers help" in few.chosen.limit
    assert not many.more_help and many.twice == pytest.approx(1.0, rel=0.03)


def test_reading_the_weights_and_being_sent_several_units_count():
    base = plan(PROBE, workers=1, lags=[]).rows[0].outcome.step_seconds
    assert plan(replace(PROBE, load=0.5), workers=1, lags=[]).rows[0].outcome.step_seconds == pytest.approx(base + 0.5)
    short = replace(PROBE, unit=0.01, learner=0.0, seating=0.0, write=0.0)  # 8 come as 4, 2, 1 and 1
    assert plan(replace(short, together=0.005), workers=1, lags=[]).rows[0].outcome.step_seconds == pytest.approx(0.08 - 4 * 0.005)


def test_deaths_slow_a_run():
    slow = replace(PROBE, unit=100.0)
    quiet, harmed = (plan(slow, workers=4, lags=[1], deaths=deaths).rows[1] for deaths in (0.0, 4.0))
    assert harmed.plays < quiet.plays and harmed.outcome.resent > 0 and quiet.outcome.resent == 0


def test_what_limits_is_said_with_its_figure():
    slow = replace(PROBE, learner=49.5)
    assert plan(slow, workers=4, lags=[1]).rows[1].limit == "the learner: it needs 50 s for a step; more workers do not help"
    outcome = plan(replace(PROBE, message=0.9), workers=8, lags=[2]).rows[1].outcome
    assert limit_in_words(replace(PROBE, message=0.9), outcome, 8).startswith("the training process: it needs 9e+02 ms for each of 8 units")
    row = plan(PROBE, workers=5, lags=[]).rows[0]
    assert row.limit.startswith("waiting: ") and row.limit.endswith("A step has 8 units for 5 workers: smaller ones, or a larger lag, help")


def test_units_have_the_mean_and_the_spread_that_were_measured():
    draws = [units_of(replace(PROBE, unit=1.2, log_sigma=0.5), 0)(unit) for unit in range(4000)]
    assert sum(draws) / len(draws) == pytest.approx(1.2, rel=0.05)
    assert units_of(PROBE, 0)(7) == 1.0
