import json
import math

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sparring.run.events import METRICS, TIMING, MetricsWriter, read_lines


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


def test_tensorboard_reads_the_curves_and_forgets_what_was_cut(tmp_path):
    written(tmp_path)
    writer = MetricsWriter(tmp_path)
    writer.truncate_after(1)
    writer.write(2, {"a": 9.0}, {})
    writer.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("a")] == [(1, 1.0), (2, 9.0)]
