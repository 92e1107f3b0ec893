"""Health rules: examples by hand, metrics of a collapsed run, and stopped, killed and resumed runs."""

import json
import math

import pytest

from sparring.config import HealthConfig, HealthRule, resolve
from sparring.config.recipe import to_yaml
from sparring.core.errors import ConfigError
from sparring.engine.local import LocalEngine
from sparring.run import checkpoint, events
from sparring.run.config_checks import check_same
from sparring.run.events import (
    HEALTH,
    METRICS,
    UNRECORDED_AFTER,
    HealthMonitor,
    fits,
    read_lines,
    stop_message,
)
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from tests.run import builders

CONFIG = {
    "steps": 6,
    "threads": 1,
    "environments": [{"name": "kuhn_poker"}],
    "rollout": {"games_per_step": 8},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "evaluation": {"every": 6, "exact": False},
    "checkpoint": {"every": 2},
}
ALWAYS_UNHEALTHY = {"metric": "legal_rate", "below": 2.0}  # unhealthy at every step


def monitor(*rules, steps=100, lines=(), **options):
    return HealthMonitor(HealthConfig(rules=[HealthRule(**rule) for rule in rules], **options), steps, lines)


def steps_with_event(health_monitor, values, metric="x"):
    rows = [{} if value is None else {metric: value} for value in values]
    return [step for step, row in enumerate(rows, 1) if health_monitor.observe(step, row)]


TIMES_START, TIMES_BEST = {"metric": "x", "times_start": True}, {"metric": "x", "times_best": True}
# NashConv of a Kuhn run whose policy stopped using one action
COLLAPSING_NASH_CONV = [
    0.668,
    0.64,
    0.368,
    0.218,
    0.153,
    0.191,
    0.291,
    0.461,
    0.486,
    0.493,
    0.496,
    0.497,
]
FALLING_NASH_CONV = [0.674, 0.661, 0.3, 0.12, 0.08, 0.1, 0.07, 0.05, 0.06, 0.04, 0.09, 0.05]


@pytest.mark.parametrize(
    ("rule", "values", "steps"),
    [
        ({"above": 1}, [1, 1.5], [2]),  # a value equal to the bound is healthy
        ({"below": 1}, [1, 0.5], [2]),
        ({"above": 1, "for_steps": 3}, [2, 2, 0, 2, 2, 2, 2], [6]),  # a healthy value restarts the count
        (
            {"above": 1, "for_steps": 2},
            [2, None, 2],
            [3],
        ),  # a step that does not record the metric neither counts nor resets
        ({"above": 1}, [2, 0, 2], [1]),  # an event is reported once per run
        ({"above": 1, "after_step": 2}, [2, 2, 2], [3]),
        ({"above": 1, "after_step": 2, "for_steps": 2}, [2, 2, 2, 2], [4]),  # steps up to after_step are not counted
        ({"above": 1, "after_step": 0.03}, [2, 2, 2, 2], [4]),  # 0.03 is a share of the 100 steps
        ({"above": 1}, [math.nan], [1]),
        ({"below": 1}, [math.inf], [1]),
        (
            {**TIMES_START, "above": 3, "for_steps": 2},
            [10, 10, 10, 12, 8, 30, 31, 31],
            [8],
        ),  # the start is 10, and three times the start is healthy
        (
            {**TIMES_START, "above": 3},
            [90, 1, 1, 1, 1, 1, 60],
            [7],
        ),  # the start is the mean of 5 values, 18.8; the bound is 56.4
        ({**TIMES_START, "above": 3}, [1, 1, None, 1, 1, 1, 4], [7]),  # the start is the mean of five recorded values
        (
            {**TIMES_START, "above": 3, "after_step": 2},
            [100, 100, 1, 1, 1, 1, 1, 4],
            [8],
        ),  # steps up to after_step do not count for the start
        ({**TIMES_START, "below": 0.5}, [2, 2, 2, 2, 2, 1, 0.9], [7]),
        ({**TIMES_START, "above": 3}, [1, 1, math.nan, 1, 1, 1, math.nan], [7]),
        ({**TIMES_BEST, "above": 2.0, "for_steps": 2}, [4, 1, 2, 2.1, 2.1], [5]),
        ({**TIMES_BEST, "above": 2.0, "for_steps": 2}, [1, 3, 2, 3, 3], [5]),
        ({**TIMES_BEST, "above": 2.0}, [1, 0.1, 0.3], [3]),  # the best value falls to 0.1, so the bound is 0.2
        (
            {**TIMES_BEST, "above": 2.0, "after_step": 1},
            [0.1, 1, 1.5, 2.5],
            [4],
        ),  # steps up to after_step do not count for the best
        ({**TIMES_BEST, "below": 0.5}, [1, 4, 1.9], [3]),
        ({**TIMES_BEST, "above": 2.0}, [math.nan, 1], [1]),
        ({**TIMES_BEST, "above": 2.0, "for_steps": 5}, COLLAPSING_NASH_CONV, [12]),
        ({**TIMES_BEST, "above": 2.0, "for_steps": 5}, FALLING_NASH_CONV, []),
    ],
)
def test_a_rule_reports_an_event_after_for_steps_unhealthy_values_in_a_row(rule, values, steps):
    assert steps_with_event(monitor({"metric": "x", **rule}), values) == steps


def test_each_game_has_its_own_count_and_warning():
    health_monitor = monitor({"metric": "seat_asymmetry/GAME", "above": 1, "for_steps": 2})
    names = []
    for step, (first_value, second_value) in enumerate([(2, 0), (2, 2), (2, 2), (0, 0)], 1):
        names += [
            (step, event.metric)
            for event in health_monitor.observe(
                step, {"seat_asymmetry/a": first_value, "seat_asymmetry/b": second_value, "x": 9}
            )
        ]
    assert names == [(2, "seat_asymmetry/a"), (3, "seat_asymmetry/b")]


@pytest.mark.parametrize(
    ("stop", "action", "is_stopping"), [(False, "warn", False), (False, "stop", True), (True, "warn", True)]
)
def test_a_rule_stops_the_run_by_its_action_or_by_health_stop(stop, action, is_stopping):
    events = monitor({"metric": "x", "above": 1, "action": action}, stop=stop).observe(1, {"x": 2})
    assert events[0].stops is is_stopping
    assert stop_message(events) == (events[0].message if is_stopping else "")


def test_the_message_has_metric_step_and_remedy():
    rule = {"metric": "seat_asymmetry/GAME", "above": 1.5, "for_steps": 2}
    health_monitor = monitor(rule)
    health_monitor.observe(1, {"seat_asymmetry/g": 1.75})
    (event,) = health_monitor.observe(2, {"seat_asymmetry/g": 2.0})
    assert event.message.startswith(
        "seat_asymmetry/g is 2 at step 2: above 1.5 for 2 records in a row. Usual remedy: snapshots"
    )
    assert event.event() == {"metric": "seat_asymmetry/g", "value": 2.0, "stops": False, "message": event.message}
    (nan_event,) = monitor({"metric": "x", "below": 0}).observe(7, {"x": math.nan})
    assert (
        nan_event.message == f"x is no number at step 7. Usual remedy: {events.DEFAULT_REMEDY}."
        and nan_event.value is None
    )


def test_a_missing_metric_is_reported_once_and_stops_nothing():
    health_monitor = monitor(
        {"metric": "seat_asymmetry/chess", "above": 1, "action": "stop"}, {"metric": "rare", "above": 1}, stop=True
    )
    events = [
        event
        for step in range(1, 4 * UNRECORDED_AFTER)
        for event in health_monitor.observe(step, {"rare": 0.0} if step == 3 else {"x": 0.0})
    ]
    assert [(event.step, event.metric, event.stops) for event in events] == [
        (UNRECORDED_AFTER, "seat_asymmetry/chess", False)
    ]
    assert "No step up to 10 has recorded seat_asymmetry/chess" in events[0].message


@pytest.mark.parametrize("num_lines", range(8))
def test_reading_the_lines_again_gives_the_same_decisions_from_any_step(num_lines):
    rules = [{"metric": "x", "above": 1, "for_steps": 3}, {"metric": "x", "below": -1}, {"metric": "y", "above": 0}]
    # None: the value is not a number
    lines = [{"step": step, "x": value} for step, value in enumerate([2, 2, -3, 2, 2, None, 0, -2], 1)]
    full_monitor, resumed_monitor = monitor(*rules), monitor(*rules, lines=lines[:num_lines])
    decisions = [(line["step"], full_monitor.observe(line["step"], {"x": line["x"]})) for line in lines]
    assert [resumed_monitor.observe(line["step"], {"x": line["x"]}) for line in lines[num_lines:]] == [
        events for _, events in decisions[num_lines:]
    ]
    assert [step for step, events in decisions if events] == [3, 6]


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("legal_rate", "legal_rate", True),
        ("legal_rate", "legal_rate/g", False),
        ("legal_rate/GAME", "legal_rate/g", True),
        ("legal_rate/GAME", "legal_rate", False),
        ("match/G/BOT/ROLE/...", "match/g/random/first/win", True),
        ("return/GAME/first", "return/g/second", False),
    ],
)
def test_placeholders_of_metric_patterns_match_one_part(pattern, name, is_match):
    assert fits(pattern, name) is is_match


HEALTHY_METRICS = {
    "legal_rate/g": 1.0, "unparsable_rate": 0.0, "truncated_rate": 0.0, "seat_asymmetry/g": 0.0, "advantage_std": 1.0, "sampled_entropy": 1.0,
    "ratio_tail": 0.0, "gradient_norm": 1.0, "reply_tokens": 10.0,
}  # fmt: skip


def events_of_default_rules(rows, steps=600):
    """Return the events that the default rules report for the metrics of each step."""
    health_monitor = HealthMonitor(HealthConfig(), steps)
    return [event for step, row in enumerate(rows, 1) for event in health_monitor.observe(step, row)]


def metrics_of_collapse(step):
    is_collapsed = step > 300
    return {
        "legal_rate": 1.0 if is_collapsed else 0.92,
        "legal_rate/tic_tac_toe": 1.0 if is_collapsed else 0.92,
        "unparsable_rate": 0.02,
        "truncated_rate": 0.0,
        "reply_tokens": 2.0,
        "seat_asymmetry/tic_tac_toe": 2.0 if is_collapsed else 0.21,
        "advantage_std": 0.0 if is_collapsed else 1.17,
        "sampled_entropy": 0.11 if is_collapsed else 0.15,
        "ratio_tail": 0.01,
        "gradient_norm": 0.3,
    }


def test_the_collapse_of_self_play_is_detected_within_twenty_steps():
    events = events_of_default_rules(metrics_of_collapse(step) for step in range(1, 601))
    assert [(event.step, event.metric, event.stops) for event in events] == [
        (310, "advantage_std", False),
        (320, "seat_asymmetry/tic_tac_toe", False),
    ]


@pytest.mark.parametrize(
    ("metric", "value", "first_step"),
    [
        ("legal_rate/tic_tac_toe", 0.4, 125),
        ("unparsable_rate", 0.3, 125),
        ("truncated_rate", 0.6, 130),
        ("sampled_entropy", 0.001, 10),
        ("ratio_tail", 0.2, 5),
        ("gradient_norm", math.nan, 3),
        ("withheld_share", 0.25, 5),
    ],
)
def test_every_other_rule_warns_only_of_its_metric(metric, value, first_step):
    events = events_of_default_rules({**metrics_of_collapse(step), metric: value} for step in range(1, 300))
    assert [(event.step, event.metric) for event in events] == [(first_step, metric)]


def test_every_default_rule_has_an_existing_metric_and_a_remedy(tmp_path):
    train_run(tmp_path / "run", steps=1)
    (line,) = read_lines(tmp_path / "run" / METRICS)
    for rule in HealthConfig().rules:
        assert rule.if_recorded or any(fits(rule.metric, name) for name in line), rule.metric
        assert rule.metric.split("/")[0] in events.REMEDIES
        assert rule.action == "warn"


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"rules": [{"metric": "x"}]}, "rule on 'x' needs exactly one of above and below"),
        ({"rules": [{"metric": "x", "above": 1, "below": 0}]}, "needs exactly one of above and below"),
        ({"rules": [{"metric": "x", "above": 1, "action": "panic"}]}, "'warn' or 'stop', got 'panic'"),
        (
            {"rules": [{"metric": "x", "above": 1, "times_start": True, "times_best": True}]},
            "times_start and times_best",
        ),
        ({"rules": [{"metric": "x", "above": math.nan}]}, r"health\.rules\.0\.above"),
    ],
)
def test_wrong_rules_are_refused_with_what_to_write(section, message):
    with pytest.raises(ConfigError, match=message):
        resolve({**CONFIG, "health": section})


def train_run(path, *, resume=False, watch=None, **changes):
    config = resolve({**CONFIG, **changes})
    folder = RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config))
    with folder:
        check_same(folder, config.model_dump(mode="json"))
        return train(config, LocalEngine(config), folder, resume=resume, watch=watch)


def fingerprint(path):
    metrics, checkpoint_files, _ = builders.fingerprint(path)
    return metrics, (path / HEALTH).read_bytes(), checkpoint_files


STOP_RULES = {
    "rules": [
        {**ALWAYS_UNHEALTHY, "for_steps": 3, "action": "stop"},
        {"metric": "advantage_std", "above": -1.0, "for_steps": 5},
    ]
}


def test_a_stopped_and_resumed_run_equals_an_uninterrupted_one(tmp_path):
    warnings = []
    summary = train_run(
        tmp_path / "stopped",
        health=STOP_RULES,
        watch=lambda report: warnings.extend((report.step, text) for text in report.warnings),
    )
    assert (summary.steps, summary.finished, checkpoint.load_latest(tmp_path / "stopped").step) == (3, False, 3)
    assert summary.stopped_by.startswith("legal_rate is") and warnings == [(3, summary.stopped_by)]
    (event,) = read_lines(tmp_path / "stopped" / HEALTH)
    assert (event["step"], event["metric"], event["stops"]) == (3, "legal_rate", True)
    summary = train_run(tmp_path / "stopped", resume=True, health=STOP_RULES)
    assert (summary.steps, summary.finished, summary.stopped_by) == (6, True, "")
    warning = {"rules": [{**rule, "action": "warn"} for rule in STOP_RULES["rules"]]}
    assert train_run(tmp_path / "whole", health=warning).finished
    stopped_run, uninterrupted_run = fingerprint(tmp_path / "stopped"), fingerprint(tmp_path / "whole")
    assert (stopped_run[0], stopped_run[2]) == (uninterrupted_run[0], uninterrupted_run[2])
    assert [line["step"] for line in read_lines(tmp_path / "stopped" / HEALTH)] == [3, 5]
    assert stopped_run[1].replace(b'"stops": true', b'"stops": false') == uninterrupted_run[1]


@pytest.mark.parametrize("last_step", [2, 4])
def test_a_kill_changes_no_decision(tmp_path, last_step):
    rules = {
        "rules": [{**ALWAYS_UNHEALTHY, "for_steps": 3}, {"metric": "advantage_std", "above": -1.0, "for_steps": 5}]
    }
    train_run(tmp_path / "run", health=rules, checkpoint={"every": 1, "keep": 9})
    expected = fingerprint(tmp_path / "run")
    assert [line["step"] for line in read_lines(tmp_path / "run" / HEALTH)] == [3, 5]
    for checkpoint_folder in (tmp_path / "run" / "checkpoints").iterdir():
        if int(checkpoint_folder.name.removeprefix("step_")) > last_step:
            (checkpoint_folder / checkpoint.MANIFEST).unlink()
    train_run(tmp_path / "run", resume=True, health=rules, checkpoint={"every": 1, "keep": 9})
    assert fingerprint(tmp_path / "run") == expected


def test_rules_do_not_change_training_and_may_change_on_resume(tmp_path):
    train_run(tmp_path / "run", health={"rules": [{**ALWAYS_UNHEALTHY, "for_steps": 2}], "stop": True})
    assert train_run(tmp_path / "run", resume=True, health={"rules": []}).finished
    train_run(tmp_path / "plain", health={"rules": []})
    assert fingerprint(tmp_path / "run")[0] == fingerprint(tmp_path / "plain")[0]
    assert fingerprint(tmp_path / "run")[2] == fingerprint(tmp_path / "plain")[2]
    assert (tmp_path / "plain" / HEALTH).read_bytes() == b""


def test_a_rule_that_stops_in_the_last_step_leaves_a_finished_run(tmp_path):
    summary = train_run(
        tmp_path / "run", steps=2, health={"rules": [{**ALWAYS_UNHEALTHY, "for_steps": 2, "action": "stop"}]}
    )
    assert (summary.steps, summary.finished) == (2, True)
    assert json.loads((tmp_path / "run" / HEALTH).read_text())["step"] == 2


@pytest.mark.parametrize(
    ("rule", "values", "value", "message"),
    [
        (TIMES_START, [10.0] * 5, 25.0, "x is 25 at step 6: above 20"),
        (TIMES_BEST, [5.0, 1.0, 1.5], 2.5, "x is 2.5 at step 4: above 2"),
    ],
)
def test_first_and_best_values_are_restored_from_the_metrics(rule, values, value, message):
    lines = [{"step": step, "x": recorded_value} for step, recorded_value in enumerate(values, 1)]
    (event,) = monitor({**rule, "above": 2.0}, lines=lines).observe(len(values) + 1, {"x": value})
    assert message in event.message and not event.stops


def test_growing_replies_and_equal_groups_give_warnings():
    events = events_of_default_rules(
        {**HEALTHY_METRICS, "reply_tokens": 40.0 if step > 20 else 10.0, "group_equal_share": 1.0}
        for step in range(1, 41)
    )
    assert events_of_default_rules([HEALTHY_METRICS] * 40) == []  # healthy metrics without groups give no event
    assert [(event.metric, event.step, event.stops) for event in events] == [
        ("group_equal_share", 20, False),
        ("reply_tokens", 30, False),
    ]
    assert "larger rollout.group_size" in events[0].message and "rollout.max_new_tokens" in events[1].message


def test_a_lasting_rise_of_exploitability_gives_a_warning_by_default():
    for values, expected in ((COLLAPSING_NASH_CONV, ["nash_conv/kuhn_poker"]), (FALLING_NASH_CONV, [])):
        assert [
            event.metric
            for event in events_of_default_rules(
                ({**HEALTHY_METRICS, "nash_conv/kuhn_poker": value} for value in values), 12
            )
        ] == expected
