"""A probe there and back, and the plan made of it."""

import json
from dataclasses import replace

import pytest

from sparring.errors import ConfigError
from sparring.experiments.scale_plan import limit_in_words, plan, units_of
from sparring.experiments.scale_probe import Probe

PROBE = Probe(recipe="r", steps=2, plays=32, unit_games=4, units=8, unit=1.0, units_seconds=(1.0, 1.0), learner=2.0, message=0.0, task_bytes=1, answer_bytes=1, weights_bytes=1 << 20)


def test_a_probe_comes_back_from_its_file(tmp_path):
    PROBE.save(tmp_path / "scale.json")
    assert Probe.read(tmp_path / "scale.json") == PROBE


def changed(**values):
    def text(path):
        PROBE.save(path)
        return json.dumps({**json.loads(path.read_text()), **values})

    return text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda path: "{", "holds no probe"),
        (lambda path: "[]", "holds no probe"),
        (changed(version=2), "version 2, not 1"),
        (changed(unit="x"), "no number"),
        (changed(learner=-1), "no number"),
        (changed(units_seconds=[]), "no unit"),
        (changed(units=0), "no unit"),
        (changed(more=1), "holds no probe"),
    ],
)
def test_another_file_is_one_line_that_says_what_to_do(tmp_path, content, said):
    path = tmp_path / "scale.json"
    path.write_text(content(path))
    with pytest.raises(ConfigError, match=f"{said}.*sparring scale probe"):
        Probe.read(path)
    with pytest.raises(ConfigError, match="sparring scale probe"):
        Probe.read(tmp_path / "none.json")


def test_the_smallest_lag_near_the_best_is_taken():
    """8 units of a second on 4 workers, 2 seconds of learning: 4 seconds a step, 2 with any lag."""
    found = plan(PROBE, workers=4, lags=[1, 2, 4])
    assert [row.lag for row in found.rows] == [0, 1, 2, 4]
    assert found.lag == 1
    assert found.rows[0].outcome.step_seconds == pytest.approx(4.0, rel=0.03)
    assert found.rows[1].gain == pytest.approx(2.0, rel=0.1)
    assert found.alone == pytest.approx(32 / 10)
    assert found.rows[0].weights == pytest.approx(1.0, rel=0.05)  # 4 workers, 1 MiB each, in 4 seconds


def test_where_learning_is_nothing_no_lag_is_taken():
    assert plan(replace(PROBE, learner=1e-6), workers=1, lags=[1, 4]).lag == 0


def test_what_limits_is_said_with_its_figure():
    slow = replace(PROBE, learner=50.0)
    row = plan(slow, workers=4, lags=[1]).rows[1]
    assert limit_in_words(slow, row, 4) == "the learner: it needs 50 s for a step; more workers do not help"


def test_units_have_the_mean_and_the_spread_that_were_measured():
    spread = replace(PROBE, units_seconds=(0.5, 1.0, 2.0) * 10)
    draws = [units_of(spread, 0)(unit) for unit in range(4000)]
    assert sum(draws) / len(draws) == pytest.approx(3.5 / 3, rel=0.05)
    assert units_of(PROBE, 0)(7) == 1.0
