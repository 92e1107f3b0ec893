"""The league of a run: snapshots are taken, some leave, and their results leave with them."""

import json

import pytest

from sparring.config import resolve
from sparring.core.errors import UnknownNameError
from sparring.core.refs import LEARNER, snapshot
from sparring.engine.local import LocalEngine
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.run.league_step import league_step
from sparring.run.state import RunState
from sparring.run.step import Methods


def config(**league):
    return resolve(
        {
            "environments": [{"name": "kuhn_poker"}], "steps": 9, "threads": 1, "model": {"hidden_size": 8, "layers": 1, "heads": 1},
            "league": {"every": 1, **league},
        }
    )


def league_of(setting, steps):
    engine, methods, state = LocalEngine(setting), Methods.of(setting), RunState()
    for step in steps:
        rows = {**state.payoffs.rows, Row("kuhn_poker", 0, LEARNER, snapshot(step)): Results(games=1, wins=1)}
        state = RunState(step=step).remembering(payoffs=Payoffs(rows).to_json(), credit={"x": 1.0})
        state = league_step(setting, engine, methods, state)
    return engine, state


@pytest.mark.parametrize(("keeping", "left"), [("spread", (1, 4)), ("newest", (3, 4))])
def test_who_stays_is_the_rule_s_choice_and_results_of_others_are_dropped(keeping, left):
    engine, state = league_of(config(keep=2, keeping={"name": keeping}), (1, 2, 3, 4))
    assert engine.members == tuple(map(snapshot, left))
    assert {row.opponent for row in state.payoffs.rows} == set(engine.members)
    assert state.step == 4 and state.json("credit") == {"x": 1.0}


def test_the_book_grows_no_further_than_its_members():
    sizes = [len(json.dumps(league_of(config(keep=2), range(1, steps + 1))[1].json("payoffs"))) for steps in (3, 6)]
    assert sizes[0] == sizes[1]


def test_an_unknown_rule_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'spread'"):
        config(keeping={"name": "spred"})
