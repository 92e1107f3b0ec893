"""The progress line, and the part about workers on it and on a run's page."""

import io
import re

import pytest

from sparring.config import resolve
from sparring.config.recipe import load_recipe
from sparring.report import progress
from sparring.report.progress import ProgressLine, key_figures
from sparring.report.terminal import PlainConsole
from sparring.report.worker_status import find_bottleneck, format_status, idle_share_of_learner, workers_section
from sparring.run.loop import StepReport
from tests.report.builders import page_of, write_run


def screen(monkeypatch, tmp_path, width, metrics):
    stream = io.StringIO()
    monkeypatch.setattr(
        progress,
        "PlainConsole",
        lambda file: PlainConsole(file=file, force_terminal=True, width=width, color_system=None),
    )
    with ProgressLine(resolve(load_recipe("kuhn-tiny")), tmp_path, stream=stream) as watcher:
        watcher(StepReport(step=22, steps=450, metrics=metrics, seconds=1.0, games=1024))
        watcher._progress.refresh()
    lines = [line for line in stream.getvalue().replace("\r", "\n").splitlines() if "22/450" in line]
    return lines[-1]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_narrow_progress_line_keeps_steps_and_remaining_time(monkeypatch, tmp_path, width):
    line = screen(monkeypatch, tmp_path, width, {"nash_conv/kuhn_poker": 0.688, "legal_rate": 0.997})
    assert "22/450" in line and "left" in line and "NashConv 0.688" in line
    assert ("games/s" in line) == (width >= 80)
    assert len(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line)) <= width


def test_for_free_text_the_line_shows_returns_instead_of_legal_replies():
    returns = ["return/sums/first", "return/sums/second"]
    assert key_figures([*returns, "loss"]) == returns
    assert key_figures([*returns, "legal_rate", "nash_conv/x"]) == ["legal_rate", "nash_conv/x"]


LINE = {
    "workers": 2.0,
    "workers_idle": 0.25,
    "seconds/play": 1.0,
    "seconds/round": 4.0,
    "lost_workers": 1.0,
    "resent_units": 3.0,
}


@pytest.mark.parametrize(
    ("players", "learner", "word"),
    [
        (0.0, 0.0, "nothing"),
        (0.19, 0.2, "players"),
        (0.2, 0.19, "learner"),
        (0.2, 0.2, "waiting"),
        (1.0, 1.0, "waiting"),
    ],
)
def test_idle_shares_name_the_bottleneck(players, learner, word):
    assert find_bottleneck(players, learner)[0] == word


def test_the_status_line_reports_workers_and_the_fate_of_games():
    assert idle_share_of_learner(LINE) == 0.25
    assert idle_share_of_learner({}) == 0.0
    assert (
        format_status(LINE, {"lag": 2.0}) == "2 workers  lag 2  idle: players 25%, learner 25%  limit: waiting  1 lost"
    )
    assert (
        format_status({**LINE, "lost_workers": 0.0}, {}) == "2 workers  idle: players 25%, learner 25%  limit: waiting"
    )
    assert format_status({"seconds/play": 1.0, "seconds/round": 4.0}, {}) == ""
    assert format_status(LINE, PLAYS).endswith("1 lost  plays: issued 44 = learned 32 + withheld 4 + lost 2 + open 6")
    account = workers_section([{"step": 1, **LINE}], [{"step": 1, **PLAYS}])["account"]
    for text, number in (
        ("issued to workers", 44),
        ("trained on", 32),
        ("withheld because they were too stale", 4),
        ("lost with a worker, a group or the training process", 2),
        ("not finished, or not yet used by a step", 6),
    ):
        assert (text, str(number)) in account
    for incomplete in ({**PLAYS, "open_games": None}, {"issued_games": 1.0}):
        assert "issued" not in format_status(LINE, incomplete)
        assert workers_section([{"step": 1, **LINE}], [{"step": 1, **incomplete}])["account"] == []
    assert workers_section([{"step": 1, "workers": None}, {"step": 2, "workers": 2.0}], []) is None
    assert (
        "2 workers played"
        in workers_section([{"step": 1, "workers": 2.0, "workers_idle": 0.5, "seconds/play": None}], [])["sentence"]
    )


PLAYS = {"issued_games": 44.0, "learned_games": 32.0, "withheld_games": 4.0, "lost_games": 2.0, "open_games": 6.0}


def test_a_report_has_the_worker_part_only_for_runs_with_workers(tmp_path):
    without_workers = ({"legal_rate": 1.0}, {"seconds/play": 1.0, "seconds/round": 4.0})
    assert "<h2>Workers</h2>" not in page_of(write_run(tmp_path / "alone", without_workers))
    page = page_of(write_run(tmp_path / "run", without_workers, ({"lag": 1.0}, LINE), ({"lag": 1.0}, LINE)))
    assert "2 workers played, with weights that were 1 steps old" in page
    assert "<td>units played again</td><td>6</td>" in page and "<td>workers lost</td><td>2</td>" in page
