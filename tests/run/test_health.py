"""Health rules by hand, on metrics of a collapsed run, and in stopped, killed and resumed runs."""

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
    matches,
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
ALWAYS = {"metric": "legal_rate", "below": 2.0}  # unhealthy at every step


def monitor(*rules, steps=100, lines=(), **options):
    return HealthMonitor(HealthConfig(rules=[HealthRule(**rule) for rule in rules], **options), steps, lines)


def acts(watched, values, metric="x"):
    rows = [{} if value is None else {metric: value} for value in values]
    return [step for step, row in enumerate(rows, 1) if watched.observe(step, row)]


START, BEST = {"metric": "x", "times_start": True}, {"metric": "x", "times_best": True}
# a Kuhn run that lost an action
SEED_3 = [
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
GOOD = [0.674, 0.661, 0.3, 0.12, 0.08, 0.1, 0.07, 0.05, 0.06, 0.04, 0.09, 0.05]


@pytest.mark.parametrize(
    ("rule", "values", "steps"),
    [
        ({"above": 1}, [1, 1.5], [2]),  # the bound itself is healthy
        ({"below": 1}, [1, 0.5], [2]),
        ({"above": 1, "for_steps": 3}, [2, 2, 0, 2, 2, 2, 2], [6]),  # a healthy value begins the count anew
        (
            {"above": 1, "for_steps": 2},
            [2, None, 2],
            [3],
        ),  # a step that does not record the metric neither counts nor resets
        ({"above": 1}, [2, 0, 2], [1]),  # once per run
        ({"above": 1, "after_step": 2}, [2, 2, 2], [3]),
        ({"above": 1, "after_step": 2, "for_steps": 2}, [2, 2, 2, 2], [4]),  # what is not looked at is not counted
        ({"above": 1, "after_step": 0.03}, [2, 2, 2, 2], [4]),  # a share of the 100 steps
        ({"above": 1}, [math.nan], [1]),
        ({"below": 1}, [math.inf], [1]),
        (
            {**START, "above": 3, "for_steps": 2},
            [10, 10, 10, 12, 8, 30, 31, 31],
            [8],
        ),  # the start is 10, its triple is healthy
        ({**START, "above": 3}, [90, 1, 1, 1, 1, 1, 60], [7]),  # a mean: 18.8, three of it are 56.4
        ({**START, "above": 3}, [1, 1, None, 1, 1, 1, 4], [7]),  # five records, whenever they come
        (
            {**START, "above": 3, "after_step": 2},
            [100, 100, 1, 1, 1, 1, 1, 4],
            [8],
        ),  # what is not looked at is no start
        ({**START, "below": 0.5}, [2, 2, 2, 2, 2, 1, 0.9], [7]),
        ({**START, "above": 3}, [1, 1, math.nan, 1, 1, 1, math.nan], [7]),
        ({**BEST, "above": 2.0, "for_steps": 2}, [4, 1, 2, 2.1, 2.1], [5]),
        ({**BEST, "above": 2.0, "for_steps": 2}, [1, 3, 2, 3, 3], [5]),
        ({**BEST, "above": 2.0}, [1, 0.1, 0.3], [3]),  # the best moves
        ({**BEST, "above": 2.0, "after_step": 1}, [0.1, 1, 1.5, 2.5], [4]),  # what is not looked at is no best
        ({**BEST, "below": 0.5}, [1, 4, 1.9], [3]),
        ({**BEST, "above": 2.0}, [math.nan, 1], [1]),
        ({**BEST, "above": 2.0, "for_steps": 5}, SEED_3, [12]),
        ({**BEST, "above": 2.0, "for_steps": 5}, GOOD, []),
    ],
)
def test_a_rule_acts_after_so_many_unhealthy_values_in_a_row(rule, values, steps):
    assert acts(monitor({"metric": "x", **rule}), values) == steps


def test_each_game_has_its_own_count_and_warning():
    watched = monitor({"metric": "seat_asymmetry/GAME", "above": 1, "for_steps": 2})
    names = []
    for step, (first_value, second_value) in enumerate([(2, 0), (2, 2), (2, 2), (0, 0)], 1):
        names += [
            (step, event.metric)
            for event in watched.observe(
                step, {"seat_asymmetry/a": first_value, "seat_asymmetry/b": second_value, "x": 9}
            )
        ]
    assert names == [(2, "seat_asymmetry/a"), (3, "seat_asymmetry/b")]


@pytest.mark.parametrize(
    ("stop", "action", "stops"), [(False, "warn", False), (False, "stop", True), (True, "warn", True)]
)
def test_a_rule_stops_the_run_by_its_action_or_by_health_stop(stop, action, stops):
    events = monitor({"metric": "x", "above": 1, "action": action}, stop=stop).observe(1, {"x": 2})
    assert events[0].stops is stops
    assert stop_message(events) == (events[0].message if stops else "")


def test_the_message_has_metric_step_and_remedy():
    rule = {"metric": "seat_asymmetry/GAME", "above": 1.5, "for_steps": 2}
    watched = monitor(rule)
    watched.observe(1, {"seat_asymmetry/g": 1.75})
    (event,) = watched.observe(2, {"seat_asymmetry/g": 2.0})
    assert event.message.startswith(
        "seat_asymmetry/g is 2 at step 2: above 1.5 for 2 records in a row. Usual remedy: snapshots"
    )
    assert event.event() == {"metric": "seat_asymmetry/g", "value": 2.0, "stops": False, "message": event.message}
    (unknown,) = monitor({"metric": "x", "below": 0}).observe(7, {"x": math.nan})
    assert unknown.message == f"x is no number at step 7. Usual remedy: {events.OTHERWISE}." and unknown.value is None


def test_a_missing_metric_is_reported_once_and_stops_nothing():
    watched = monitor(
        {"metric": "seat_asymmetry/chess", "above": 1, "action": "stop"}, {"metric": "rare", "above": 1}, stop=True
    )
    events = [
        event
        for step in range(1, 4 * UNRECORDED_AFTER)
        for event in watched.observe(step, {"rare": 0.0} if step == 3 else {"x": 0.0})
    ]
    assert [(event.step, event.metric, event.stops) for event in events] == [
        (UNRECORDED_AFTER, "seat_asymmetry/chess", False)
    ]
    assert "No step up to 10 has recorded seat_asymmetry/chess" in events[0].message


@pytest.mark.parametrize("num_lines", range(8))
def test_reading_the_lines_again_gives_the_same_decisions_from_any_step(num_lines):
    rules = [{"metric": "x", "above": 1, "for_steps": 3}, {"metric": "x", "below": -1}, {"metric": "y", "above": 0}]
    # None: no number
    lines = [{"step": step, "x": value} for step, value in enumerate([2, 2, -3, 2, 2, None, 0, -2], 1)]
    full_monitor, resumed_monitor = monitor(*rules), monitor(*rules, lines=lines[:num_lines])
    decisions = [(line["step"], full_monitor.observe(line["step"], {"x": line["x"]})) for line in lines]
    assert [resumed_monitor.observe(line["step"], {"x": line["x"]}) for line in lines[num_lines:]] == [
        events for _, events in decisions[num_lines:]
    ]
    assert [step for step, events in decisions if events] == [3, 6]


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("legal_rate", "legal_rate", True),
        ("legal_rate", "legal_rate/g", False),
        ("legal_rate/GAME", "legal_rate/g", True),
        ("legal_rate/GAME", "legal_rate", False),
        ("match/G/BOT/ROLE/...", "match/g/random/first/win", True),
        ("return/GAME/first", "return/g/second", False),
    ],
)
def test_patterns(pattern, name, fits):
    assert matches(pattern, name) is fits


USUAL = {
    "legal_rate/g": 1.0, "unparsable_rate": 0.0, "truncated_rate": 0.0, "seat_asymmetry/g": 0.0, "advantage_std": 1.0, "sampled_entropy": 1.0,
    "ratio_tail": 0.0, "gradient_norm": 1.0, "reply_tokens": 10.0,
}  # fmt: skip


def warnings_of(rows, steps=600):
    """Return what the rules of every run say of these figures of its steps."""
    watched = HealthMonitor(HealthConfig(), steps)
    return [event for step, row in enumerate(rows, 1) for event in watched.observe(step, row)]


def mirror_collapse(step):
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
    events = warnings_of(mirror_collapse(step) for step in range(1, 601))
    assert [(event.step, event.metric, event.stops) for event in events] == [
        (310, "advantage_std", False),
        (320, "seat_asymmetry/tic_tac_toe", False),
    ]


@pytest.mark.parametrize(
    ("metric", "value", "at"),
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
def test_every_other_rule_warns_only_of_its_metric(metric, value, at):
    events = warnings_of({**mirror_collapse(step), metric: value} for step in range(1, 300))
    assert [(event.step, event.metric) for event in events] == [(at, metric)]


def test_every_default_rule_has_an_existing_metric_and_a_remedy(tmp_path):
    run(tmp_path / "run", steps=1)
    (line,) = read_lines(tmp_path / "run" / METRICS)
    for rule in HealthConfig().rules:
        assert rule.if_recorded or any(matches(rule.metric, name) for name in line), rule.metric
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


def run(path, *, resume=False, watch=None, **changes):
    config = resolve({**CONFIG, **changes})
    folder = RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config))
    with folder:
        check_same(folder, config.model_dump(mode="json"))
        return train(config, LocalEngine(config), folder, resume=resume, watch=watch)


def fingerprint(path):
    figures, latest, _ = builders.fingerprint(path)
    return figures, (path / HEALTH).read_bytes(), latest


STOPPING = {
    "rules": [{**ALWAYS, "for_steps": 3, "action": "stop"}, {"metric": "advantage_std", "above": -1.0, "for_steps": 5}]
}


def test_a_stopped_and_resumed_run_equals_an_uninterrupted_one(tmp_path):
    warnings = []
    summary = run(
        tmp_path / "stopped",
        health=STOPPING,
        watch=lambda report: warnings.extend((report.step, text) for text in report.warnings),
    )
    assert (summary.steps, summary.finished, checkpoint.load_latest(tmp_path / "stopped").step) == (3, False, 3)
    assert summary.stopped_by.startswith("legal_rate is") and warnings == [(3, summary.stopped_by)]
    (event,) = read_lines(tmp_path / "stopped" / HEALTH)
    assert (event["step"], event["metric"], event["stops"]) == (3, "legal_rate", True)
    summary = run(tmp_path / "stopped", resume=True, health=STOPPING)
    assert (summary.steps, summary.finished, summary.stopped_by) == (6, True, "")
    warning = {"rules": [{**rule, "action": "warn"} for rule in STOPPING["rules"]]}
    assert run(tmp_path / "whole", health=warning).finished
    stopped_run, uninterrupted_run = fingerprint(tmp_path / "stopped"), fingerprint(tmp_path / "whole")
    assert (stopped_run[0], stopped_run[2]) == (uninterrupted_run[0], uninterrupted_run[2])
    assert [line["step"] for line in read_lines(tmp_path / "stopped" / HEALTH)] == [3, 5]
    assert stopped_run[1].replace(b'"stops": true', b'"stops": false') == uninterrupted_run[1]


@pytest.mark.parametrize("at", [2, 4])
def test_a_kill_changes_no_decision(tmp_path, at):
    rules = {"rules": [{**ALWAYS, "for_steps": 3}, {"metric": "advantage_std", "above": -1.0, "for_steps": 5}]}
    run(tmp_path / "run", health=rules, checkpoint={"every": 1, "keep": 9})
    expected = fingerprint(tmp_path / "run")
    assert [line["step"] for line in read_lines(tmp_path / "run" / HEALTH)] == [3, 5]
    for resumed_monitor in (tmp_path / "run" / "checkpoints").iterdir():
        if int(resumed_monitor.name.removeprefix("step_")) > at:
            (resumed_monitor / checkpoint.MANIFEST).unlink()
    run(tmp_path / "run", resume=True, health=rules, checkpoint={"every": 1, "keep": 9})
    assert fingerprint(tmp_path / "run") == expected


def test_rules_do_not_change_training_and_may_change_on_resume(tmp_path):
    run(tmp_path / "run", health={"rules": [{**ALWAYS, "for_steps": 2}], "stop": True})
    assert run(tmp_path / "run", resume=True, health={"rules": []}).finished
    run(tmp_path / "plain", health={"rules": []})
    assert fingerprint(tmp_path / "run")[0] == fingerprint(tmp_path / "plain")[0]
    assert fingerprint(tmp_path / "run")[2] == fingerprint(tmp_path / "plain")[2]
    assert (tmp_path / "plain" / HEALTH).read_bytes() == b""


def test_a_rule_that_stops_in_the_last_step_leaves_a_finished_run(tmp_path):
    summary = run(tmp_path / "run", steps=2, health={"rules": [{**ALWAYS, "for_steps": 2, "action": "stop"}]})
    assert (summary.steps, summary.finished) == (2, True)
    assert json.loads((tmp_path / "run" / HEALTH).read_text())["step"] == 2


@pytest.mark.parametrize(
    ("rule", "values", "value", "words"),
    [
        (START, [10.0] * 5, 25.0, "x is 25 at step 6: above 20"),
        (BEST, [5.0, 1.0, 1.5], 2.5, "x is 2.5 at step 4: above 2"),
    ],
)
def test_first_and_best_values_are_restored_from_the_metrics(rule, values, value, words):
    lines = [{"step": step, "x": past} for step, past in enumerate(values, 1)]
    (event,) = monitor({**rule, "above": 2.0}, lines=lines).observe(len(values) + 1, {"x": value})
    assert words in event.message and not event.stops


def test_growing_replies_and_equal_groups_are_warned_of():
    events = warnings_of(
        {**USUAL, "reply_tokens": 40.0 if step > 20 else 10.0, "group_equal_share": 1.0} for step in range(1, 41)
    )
    assert warnings_of([USUAL] * 40) == []  # no groups, and nothing said about it
    assert [(event.metric, event.step, event.stops) for event in events] == [
        ("group_equal_share", 20, False),
        ("reply_tokens", 30, False),
    ]
    assert "larger rollout.group_size" in events[0].message and "rollout.max_new_tokens" in events[1].message


def test_lasting_rises_of_exploitability_are_warned_of_by_default():
    for values, expected in ((SEED_3, ["nash_conv/kuhn_poker"]), (GOOD, [])):
        assert [
            event.metric for event in warnings_of(({**USUAL, "nash_conv/kuhn_poker": value} for value in values), 12)
        ] == expected
