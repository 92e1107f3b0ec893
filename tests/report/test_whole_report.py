"""The report page of a real run and of incomplete runs."""

import json
import re
import shutil

import pytest
from typer.testing import CliRunner

import sparring
from sparring import cli
from sparring.core.records import LEARNER, snapshot
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.report import ratings
from sparring.report.run_page import write_report
from sparring.run.provenance import PROVENANCE
from tests.report.builders import page_of, write_run

SMALL = (
    "steps=4",
    "threads=1",
    "rollout.games_per_step=16",
    "model.hidden_size=8",
    "model.layers=1",
    "model.heads=1",
    "warmup.updates=1",
)
LEAGUE = (
    "matchmaker={name: mixed, past: 0.5}",
    "league.every=2",
    "store.every=1",
    "evaluation.opponents=[{name: random, games_per_seat: 4}]",
)


@pytest.fixture(scope="module")
def trained_run_folder(tmp_path_factory):
    return sparring.train("kuhn-tiny", *SMALL, *LEAGUE, run=tmp_path_factory.mktemp("report") / "run").path


@pytest.fixture
def run(trained_run_folder, tmp_path):
    return shutil.copytree(trained_run_folder, tmp_path / "run")


def missing_parts(run):
    match = re.search(r'<div class="missing">(.*?)</div>', page_of(run), re.DOTALL)
    return match[1] if match else ""


def test_the_report_has_all_parts_and_no_script(run):
    text = page_of(run)
    for heading in (
        "Results",
        "Curves",
        "Ratings",
        "Sample plays",
        "Health",
        "To repeat it",
        "Configuration",
        "Glossary",
    ):
        assert f"<h2>{heading}</h2>" in text
    assert "random play: 0.9167" in text and "equilibrium: 0<" in text and "0 (equilibrium)" in text
    assert (
        "Early: step 1" in text and "Middle: step 2" in text and "Late: step 4" in text and "Chosen by a rule" in text
    )
    assert "Latest matches, 95 % intervals" in text and "League, 95 % intervals" in text and ">Against bots<" in text
    assert "threads: 1" in text and "torch</th>" in text and "The whole configuration (config.yaml)" in text
    assert "of 4" in text and ">64<" in text  # steps and plays
    assert (
        "<script" not in text
        and " style=" not in text
        and not re.search(r"<[^>]* on\w+=", text)
        and "What is missing" not in text
    )
    assert not re.search(r"(src|href)=\"(?!#)", text) and len(text) < 200_000
    assert text.count("<svg") == text.count('role="img"') == len(re.findall(r"<svg[^>]*><title>[^<]+</title>", text))


def test_the_page_depends_only_on_the_folder_and_can_be_named(run, tmp_path):
    first = write_report(run).read_bytes()
    assert write_report(run).read_bytes() == first
    assert write_report(shutil.copytree(run, tmp_path / "copy"), tmp_path / "page.html").read_bytes() == first
    completed = CliRunner().invoke(
        cli.app, ["report", str(run), "--out", str(tmp_path / "paper.html"), "--svg", str(tmp_path / "x.svg")]
    )
    assert completed.exit_code == 0 and (tmp_path / "paper.html").read_bytes() == write_report(run).read_bytes()
    assert (tmp_path / "x.svg").read_text().startswith("<svg")


def test_the_command_to_repeat_the_run_and_changes_are_listed(run):
    start = {
        "date": "2026-01-01",
        "command": "sparring train kuhn-tiny 'x={a: 1}'",
        "commit": "abc123-dirty",
        "after_step": 0,
    }
    (run / PROVENANCE).write_text(json.dumps({"starts": [start, {**start, "commit": "def"}]}))
    text = page_of(run)
    assert "git checkout abc123    # of Sparring\nsparring train kuhn-tiny &#39;x={a: 1}&#39;\n" in text
    assert "changes that were not committed" in text and "other code than at its start" in text
    with open(run / "changes.jsonl", "a") as stream:
        stream.write('{"key": "steps", "new": 4, "old": 2, "step": 2}\n')
    assert '<th scope="row">steps</th><td>2</td><td>2</td><td>4</td>' in page_of(run)


def test_an_empty_run_has_a_page_and_ratings_their_intervals(tmp_path):
    text = page_of(write_run(tmp_path / "run", config="name: x\nsteps: 5\n"))
    assert (
        "No step has been recorded yet." in text
        and "No episodes are stored" in text
        and "provenance.json is missing" in text
    )
    rows = [ratings.RateInterval(f"<{index}>" + "x" * 99, 0.5, 0.25, 0.75) for index in range(99)]
    chart = ratings.dot_chart([*rows, ratings.RateInterval("none", float("nan"), 0.0, 1.0)], title="t", note="n")
    assert chart.count("<circle") == ratings.MAX_ROWS and "<0>" not in chart and "nan" not in chart


def test_missing_truncated_and_strange_files_are_reported(run, monkeypatch):
    def none(path):
        raise sparring.core.errors.ModelError("the model is not on this machine")

    monkeypatch.setattr("sparring.run.folder.load_tokenizers", none)
    assert "Tokens are shown as ids: the model is not on this machine" in missing_parts(run)
    monkeypatch.undo()
    monkeypatch.setattr("sparring.report.run_page.play_values", lambda *_: None.count)
    assert re.search(r"Episode \d+ of step 4 is an invalid record", missing_parts(run))
    monkeypatch.undo()
    path = run / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    assert "metrics.jsonl cannot be read after step 3" in missing_parts(run)
    for path in (run / "episodes").iterdir():
        path.write_bytes(path.read_bytes()[:-30])
    for path in (run / "checkpoints").glob("*/state.json"):
        path.write_text("{")
    text = page_of(run)
    assert "The episodes of step 4 cannot be read" in missing_parts(run) and "The payoff book cannot be read" in text
    shutil.rmtree(run / "episodes")
    shutil.rmtree(run / "credit")
    assert "No episodes are stored" in missing_parts(run) and "Sample plays</h2>" not in page_of(run)
    (run / "sparring-run.json").write_text('{"format": 99}')
    completed = CliRunner().invoke(cli.app, ["report", str(run)])
    assert completed.exit_code == 1 and "format 99" in str(completed.output) + str(completed.exception)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"starts": 3}', '{"starts": [3, {"versions": 3, "machine": [], "commit": 7}]}']
)
def test_a_strange_provenance_has_a_page(run, text):
    (run / PROVENANCE).write_text(text)
    assert "To repeat it" in page_of(run)


def test_the_league_is_drawn_for_the_learner_and_listed_for_all(run, monkeypatch):
    rows = {
        RowKey("g", 0, LEARNER, snapshot(10)): Results(games=4, wins=3, losses=1, returns=2.0),
        RowKey("g", 1, snapshot(10), LEARNER): Results(games=4, wins=1, losses=3, returns=-2.0),
        RowKey("g", 1, LEARNER, LEARNER): Results(games=4, wins=2, losses=2),
    }
    monkeypatch.setattr(ratings.RunState, "payoffs", property(lambda self: Payoffs(rows)))
    values = ratings.league(run)
    (chart,) = values["charts"]
    assert chart.count("<circle") == 1 and "g: learner against past-000010 0.75 [0.30, 0.95]" in chart
    assert len(values["rows"]) == 2 and "up to step 4" in values["caption"]
    monkeypatch.setattr(ratings.RunState, "payoffs", property(lambda self: Payoffs()))
    assert ratings.league(run) is None
