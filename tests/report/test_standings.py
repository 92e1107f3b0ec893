"""The payoff book as a table, and the command that shows it."""

import json

import pytest
from typer.testing import CliRunner

import sparring
from sparring import cli
from sparring.core.errors import CheckpointError, RunError
from sparring.core.records import LEARNER, bot, snapshot
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.ops.statistics import mean_interval
from sparring.report.ratings import HEAD, PairResults, league_rows, standings_of

OLD = snapshot(10)
BOOK = Payoffs(
    {
        RowKey("kuhn_poker", 0, LEARNER, OLD): Results(games=3, wins=2, losses=1, returns=1.5, squares=2.125),
        RowKey("kuhn_poker", 1, LEARNER, OLD): Results(games=1, draws=1),
        RowKey("kuhn_poker", 1, OLD, LEARNER): Results(games=3, wins=1, losses=2, returns=-1.5, squares=None),
        RowKey("nim", 0, LEARNER, OLD): Results(games=1, losses=1, returns=-1.0),
        RowKey("tiny_hanabi", 0, LEARNER, bot("random")): Results(games=2.5, returns=10.0, squares=40.0),
    }
)


def test_rows_cover_all_seats_and_exact_results_have_no_games():
    low, high = Results(games=4, wins=2, draws=1, losses=1).rate_interval()
    learner_row, member_row, other_game, team_row = standings_of(BOOK)
    expected = mean_interval([1.25, -0.5, 0.5, 0.25])  # by hand: sum 1.5, sum of squares 2.125
    assert learner_row[:8] == ("kuhn_poker", "learner", "past-000010", 4, 0.375, 0.625, low, high)
    assert learner_row[8:] == (False, pytest.approx(expected.low), pytest.approx(expected.high))
    assert member_row[:6] == ("kuhn_poker", "past-000010", "learner", 3, -0.5, 1 / 3)
    assert other_game[:6] == ("nim", "learner", "past-000010", 1, -1.0, 0.0)
    assert team_row == PairResults("tiny_hanabi", "learner", "bot-random", 2.5, 4.0, None, 0.0, 1.0, False, 4.0, 4.0)
    assert member_row.return_low is member_row.return_high is other_game.return_low is None  # unknown squares; one game
    assert standings_of(Payoffs()) == []
    exact_results = Results(games=1, wins=0.25, losses=0.75, returns=-0.5, exact=True)
    payoffs = Payoffs({RowKey("kuhn_poker", seat, OLD, snapshot(20)): exact_results for seat in (0, 1)})
    (pair,) = standings_of(payoffs)
    assert pair == PairResults("kuhn_poker", "past-000010", "past-000020", 0, -0.5, 0.25, 0.25, 0.25, True, -0.5, -0.5)
    assert league_rows([pair])[1][3:] == ("exact", "-0.500", "exact", "0.250", "exact")
    assert league_rows(standings_of(BOOK)) == [
        HEAD,
        ("kuhn_poker", "learner", "past-000010", "4", "+0.375", "[-0.773, +1.523]", "0.625", "[0.219, 0.908]"),
        ("kuhn_poker", "past-000010", "learner", "3", "-0.500", "-", "0.333", "[0.061, 0.792]"),
        ("nim", "learner", "past-000010", "1", "-1.000", "-", "0.000", "[0.000, 0.793]"),
        ("tiny_hanabi", "learner", "bot-random", "2.5", "+4.000", "[+4.000, +4.000]", "-", "-"),
    ]


SMALL = (
    "steps=4",
    "threads=1",
    "rollout.games_per_step=16",
    "model.hidden_size=8",
    "model.layers=1",
    "model.heads=1",
    "warmup.updates=1",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    league = (
        "matchmaker={name: mixed, past: 0.5}",
        "league.every=2",
        "league.payoff_decay=0.5",
        "checkpoint.every=2",
        "checkpoint.keep=9",
        "environments.0.illegal={rule: random}",
    )
    return sparring.train("kuhn-tiny", *SMALL, *league, run=tmp_path_factory.mktemp("league") / "run")


def show(run, *words):
    return CliRunner().invoke(cli.app, ["show", str(run.path), "--league", *map(str, words)])


def test_the_command_shows_the_newest_or_an_earlier_payoff_table(run):
    result = show(run)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "Results of training episodes up to step 4:" and lines[2].split()[:3] == [
        "environment",
        "player",
        "against",
    ]
    assert any(line.startswith("kuhn_poker   learner      past-000002") for line in lines)
    document = json.loads(show(run, "--step", 2, "--json").stdout)
    assert document["step"] == 2 and [(row["player"], row["opponent"]) for row in document["standings"]] == [
        ("learner", "learner")
    ]
    # 16 plays per step in both seats; the plays of the step before have weight 0.5
    assert document["standings"][0]["games"] == 32 * 0.5 + 32
    assert document["standings"][0]["mean_return"] == pytest.approx(0)


def test_missing_leagues_and_steps_give_one_line(run, tmp_path, monkeypatch):
    assert isinstance(show(run, "--step", 99).exception, CheckpointError)
    (tmp_path / "sparring-run.json").write_text("{}")
    result = CliRunner().invoke(cli.app, ["show", str(tmp_path), "--league"])
    assert isinstance(result.exception, RunError)
    monkeypatch.setattr("sparring.cli.show.standings_of", lambda payoffs: [])
    assert "No episodes count yet" in show(run).stdout
