import xml.etree.ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring import registry
from sparring.report.catalogue import entries, explanation, glossary
from sparring.report.html import write_report
from sparring.report.svg import Series, line_chart, ticks
from sparring.run.events import MetricsWriter
from sparring.run.folder import RunFolder

EVIL = "<script>alert(1)</script>"


def test_a_page_needs_nothing_and_escapes_everything(tmp_path):
    folder = RunFolder.create(tmp_path / "run", f'name: "{EVIL}"\nsummary: "{EVIL}"\n')
    writer = MetricsWriter(folder.path)
    for step in (1, 2):
        match = {f"match/g/random/{EVIL.replace('/', '')}/{key}": 0.5 for key in ("win", "win_or_draw", "return")}
        metrics = {"nash_conv/kuhn_poker": 1.0 / step, f"return/{EVIL}/x": 1.0, "legal_rate": 1.0, **match}
        writer.write(step, metrics, {"seconds/round": 1.0})
    writer.close()
    page = write_report(folder.path).read_text()
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "nash_conv/kuhn_poker" in page and "2 steps in 2 s" in page


def test_a_run_without_steps_has_a_page_too(tmp_path):
    folder = RunFolder.create(tmp_path / "run", "name: x\n")
    assert "No step has been recorded yet" in write_report(folder.path).read_text()


POINTS = st.lists(st.tuples(st.integers(0, 10**6), st.floats(-1e9, 1e9) | st.just(float("nan"))), min_size=1, max_size=30)


@given(st.lists(POINTS, max_size=4))
def test_any_series_gives_well_formed_svg(series):
    chart = line_chart([Series(name=f"s<{i}>&", points=points) for i, points in enumerate(series)], title="<&>", standalone=True)
    xml.etree.ElementTree.fromstring(chart)
    assert "nan" not in chart


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_round_and_few(low, span):
    marks = ticks(low, low + span)
    assert 2 <= len(marks) <= 9
    assert marks == sorted(marks)


def test_every_metric_of_a_real_step_is_documented():
    from sparring.config import resolve
    from sparring.engine.local import LocalEngine
    from sparring.report.catalogue import _matches
    from sparring.run.evaluation import Evaluator
    from sparring.run.step import Methods, play_round

    losses = [{"name": "ppo_clip"}, {"name": "entropy_bonus", "weight": 0.1}]
    config = resolve({"games": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 8}, "losses": losses, "threads": 1})
    engine = LocalEngine(config)
    outcome = play_round(config, engine, Methods.of(config), 0, {})
    measured = Evaluator([game for game, _ in engine.games], config.evaluation).measure(engine.agent("policy"), engine.root)
    known = glossary()
    for name in {**outcome.metrics, **outcome.timing, **measured}:
        pattern = next((pattern for pattern in known if _matches(pattern, name)), None)
        assert pattern is not None, name
        if pattern.split("/")[0] in registry.names("losses"):
            assert name.split("/")[1] in known[pattern], name


@pytest.mark.parametrize("kind", ["games", "methods", "recipes"])
def test_everything_listed_can_be_explained(kind):
    for entry in entries(kind):
        assert entry["summary"]
        assert explanation(entry["name"])
