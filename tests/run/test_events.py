import errno
import json
import logging
import math

import pytest

from sparring.core.errors import RunError
from sparring.run import events
from sparring.run.events import HEALTH, METRICS, TIMING, MetricsWriter, read_lines


def written(folder):
    writer = MetricsWriter(folder)
    for step in (1, 2, 3):
        writer.write(step, {"b": step / 3, "a": 1.0}, {"seconds": 0.5})
    writer.close()
    return folder / METRICS


def test_lines_are_exact_and_sorted(tmp_path):
    lines = written(tmp_path).read_text().splitlines()
    assert lines[0] == '{"a": 1.0, "b": 0.3333333333333333, "step": 1}'
    assert [line["seconds"] for line in read_lines(tmp_path / TIMING)] == [0.5] * 3


def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path):
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:-7])
    assert [line["step"] for line in read_lines(path)] == [1, 2]
    writer = MetricsWriter(tmp_path)
    writer.truncate_after(2)
    writer.write(3, {"a": 5.0}, {})
    writer.close()
    assert [line["step"] for line in read_lines(path)] == [1, 2, 3]
    assert writer.latest() == {"a": 5.0, "b": 2 / 3}


def test_later_steps_are_cut_off(tmp_path):
    path = written(tmp_path)
    whole = path.read_text().splitlines(keepends=True)
    writer = MetricsWriter(tmp_path)
    writer.truncate_after(1)
    writer.close()
    assert path.read_text() == whole[0]
    writer = MetricsWriter(tmp_path)
    writer.truncate_after(0)
    writer.close()
    assert path.read_text() == ""


def test_what_is_no_number_becomes_null(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(1, {"a": math.nan, "b": math.inf}, {})
    writer.close()
    assert json.loads((tmp_path / METRICS).read_text()) == {"a": None, "b": None, "step": 1}


def test_a_full_disk_is_said_and_the_run_can_go_on(tmp_path, monkeypatch):
    writer = MetricsWriter(tmp_path)
    writer.write(1, {"a": 1.0}, {"b": 1.0})

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(events, "open", full, raising=False)
        with pytest.raises(RunError, match="disk is full"):
            writer.write(2, {"a": 2.0}, {"b": 2.0})
    writer = MetricsWriter(tmp_path)
    writer.truncate_after(1)
    writer.write(2, {"a": 2.0}, {"b": 2.0})
    writer.close()
    assert [line["a"] for line in read_lines(tmp_path / METRICS)] == [1.0, 2.0]


@pytest.mark.parametrize("cut", range(1, 60))
def test_wherever_the_last_line_is_torn_the_run_goes_on_with_the_same_bytes(tmp_path, cut):
    path = written(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    writer = MetricsWriter(tmp_path)
    writer.truncate_after(1)
    writer.write(2, {"b": 2 / 3, "a": 1.0}, {"seconds": 0.5})
    writer.write(3, {"b": 3 / 3, "a": 1.0}, {"seconds": 0.5})
    writer.close()
    assert path.read_bytes() == whole


def test_figures_lost_before_the_checkpoint_are_said(tmp_path, caplog):
    path = written(tmp_path)
    path.write_bytes(b"{" + path.read_bytes())  # the first line is damaged: nothing after it can be trusted
    writer = MetricsWriter(tmp_path)
    with caplog.at_level(logging.WARNING):
        writer.truncate_after(3)
    writer.close()
    assert "metrics.jsonl" in caplog.text and "steps up to 3" in caplog.text
    assert "timing.jsonl" not in caplog.text


@pytest.mark.parametrize("line", ['{"step": "two"}', '{"step": null}', "[1]", "7", "\x00\x00"])
def test_a_line_of_another_shape_is_left_out(tmp_path, line):
    path = written(tmp_path)
    path.write_text(path.read_text() + line + "\n")
    writer = MetricsWriter(tmp_path)
    writer.truncate_after(3)
    writer.close()
    assert [line["step"] for line in read_lines(path)] == [1, 2, 3]


def test_the_last_value_of_what_was_no_number_is_no_number_after_reading(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(1, {"a": math.nan, "b": 1.0}, {})
    assert math.isnan(writer.latest()["a"])
    writer.close()


def test_events_of_health_rules_are_cut_off_like_figures_and_need_none(tmp_path, caplog):
    writer = MetricsWriter(tmp_path)
    for step, metrics in ((2, ["a", "b"]), (5, ["a"])):
        writer.record(step, [{"metric": metric} for metric in metrics])
    for step in range(1, 6):
        writer.write(step, {}, {})
    writer.truncate_after(4)
    assert [(line["step"], line["metric"]) for line in read_lines(tmp_path / HEALTH)] == [(2, "a"), (2, "b")]
    writer.truncate_after(1)
    assert (tmp_path / HEALTH).read_bytes() == b""
    writer.close()
    assert not caplog.records
