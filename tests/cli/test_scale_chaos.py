"""`sparring scale chaos` compares a harmed run with a quiet one, and fails where their bytes differ."""

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from sparring.cli import app
from sparring.engine.admission import Account
from sparring.experiments import scale_chaos

SMALL = (
    *("steps=3", "warmup.updates=0", "rollout.games_per_step=32", "evaluation.exact=false", "scale.unit_games=4"),
    *("model.hidden_size=16", "model.layers=1", "model.heads=2"),
)
HARM = ("--fleet", "simulated", "--kills", "4", "--duplicates", "--delays", "--rubbish")


def chaos(*more):
    return CliRunner().invoke(app, ["scale", "chaos", "kuhn-tiny", *SMALL, *HARM, *more])


def test_it_prints_what_was_done_what_was_counted_and_that_the_bytes_are_the_same():
    found = chaos()
    assert found.exit_code == 0 and "The bytes are the same." in found.output
    assert "workers killed                    4\n" in found.output and "lost_workers" in found.output


def test_as_json_and_both_runs_are_kept(tmp_path):
    found = chaos("--json", "--keep", str(tmp_path))
    record = json.loads(found.stdout.splitlines()[-1])
    assert record["same"] and record["quiet"]["weights"] == record["harmed"]["weights"]
    assert record["done"]["killed"] == 4 <= record["counted"]["lost_workers"]
    assert {path.name for path in tmp_path.iterdir()} == {"quiet", "harmed"}


@pytest.mark.parametrize("part", ["weights", "metrics"])
def test_bytes_that_differ_are_a_failure(monkeypatch, part):
    trained = scale_chaos.trained

    def other(config, path, through=None):
        ended = trained(config, path, through)
        return ended if through is None else dataclasses.replace(ended, **{part: "0" * 64})

    monkeypatch.setattr(scale_chaos, "trained", other)
    found = chaos()
    assert found.exit_code == 1 and "THE BYTES DIFFER." in found.output


def test_more_kills_than_a_run_has_room_for_are_said():
    assert "The run was over before 5000 workers were killed" in chaos("--kills", "5000").output


def test_simulated_workers_cannot_be_stopped():
    found = chaos("--hangs")
    assert found.exit_code != 0 and "--hangs" in str(found.exception)


FRESH = ("scale.order=fresh", "scale.lag=2")


def test_in_fresh_order_every_play_is_accounted_for(monkeypatch):
    found = chaos(*FRESH)
    assert found.exit_code == 0 and "Every play is accounted for." in found.output, found.output
    assert "issued   learned  withheld      lost      open" in found.output and "step 3" in found.output
    record = json.loads(chaos(*FRESH, "--json").stdout.splitlines()[-1])
    assert record["balances"] and len(record["accounts"]) == 3 and record["accounts"][-1]["learned"] == 96
    monkeypatch.setattr(scale_chaos, "account_of", lambda line: Account(issued=1))
    missing = chaos(*FRESH)
    assert missing.exit_code == 1 and "PLAYS ARE MISSING." in missing.output
