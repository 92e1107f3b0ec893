"""The progress line: what it shows where there is little room, and of environments of free text."""

import io
import re

import pytest

from sparring.config import resolve
from sparring.config.recipe import load_recipe
from sparring.report import progress
from sparring.report.progress import Watcher, key_figures
from sparring.report.terminal import PlainConsole
from sparring.run.loop import StepReport


def screen(monkeypatch, tmp_path, width, metrics):
    """Return the last progress line on a terminal of a width, after step 22 of 450."""
    stream = io.StringIO()
    monkeypatch.setattr(progress, "PlainConsole", lambda file: PlainConsole(file=file, force_terminal=True, width=width, color_system=None))
    with Watcher(resolve(load_recipe("kuhn-tiny")), tmp_path, stream=stream) as watcher:
        watcher(StepReport(step=22, steps=450, metrics=metrics, seconds=1.0, games=1024))
        watcher._progress.refresh()
    lines = [line for line in stream.getvalue().replace("\r", "\n").splitlines() if "22/450" in line]
    return lines[-1]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_steps_and_time_left_stay_where_there_is_little_room(monkeypatch, tmp_path, width):
    line = screen(monkeypatch, tmp_path, width, {"nash_conv/kuhn_poker": 0.688, "legal_rate": 0.997})
    assert "22/450" in line and "left" in line and "NashConv 0.688" in line
    assert ("games/s" in line) == (width >= 80)
    assert len(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line)) <= width


def test_where_replies_are_free_text_returns_stand_in_the_place_of_legal_replies():
    returns = ["return/sums/first", "return/sums/second"]
    assert key_figures([*returns, "loss"]) == returns
    assert key_figures([*returns, "legal_rate", "nash_conv/x"]) == ["legal_rate", "nash_conv/x"]
