"""Members that play each other, and a learner that begins anew from its start."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest

import sparring
from sparring.config import resolve
from sparring.core.errors import ConfigError
from sparring.core.refs import LEARNER, snapshot
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.methods.selection.replay.base import ReplayBuffer
from sparring.play.team import play_teams
from sparring.run import payoff_plays
from sparring.run.league_step import begun_anew
from sparring.run.payoff_plays import next_pairs, with_plays
from sparring.run.state import RunState
from tests.engine.fleet.simulated import simulated_workers
from tests.run_with_members import BASE as MADE
from tests.run_with_members import engine_of, last, run

BASE = {
    "name": "anew", "steps": 4, "threads": 1, "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}], "rollout": {"games_per_step": 16},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "matchmaker": {"name": "pfsp", "past": 0.5},
    "league": {"every": 2, "keep": 3, "start": True, "plays": 12}, "credit": {"name": "rae"}, "replay": {"name": "r3"}, "learner": {"average": 0.9},
    "warmup": {"updates": 1, "games": 8}, "evaluation": {"every": 9, "exact": False}, "checkpoint": {"every": 1, "keep": 9}, "store": {"every": 1},
}


def config_of(**league):
    return resolve({**BASE, "league": {**BASE["league"], **league}})


def tensors(model):
    return [tensor.numpy().copy() for tensor in model.tensors().values()]


def same(first, second):
    return all(np.array_equal(one, other) for one, other in zip(tensors(first), tensors(second), strict=True))


def test_members_play_each_other_and_the_start_stays(tmp_path):
    engine = run(tmp_path / "run", config_of(every=1))
    assert engine.members[0] == snapshot(0) and len(engine.members) == 3
    book = Payoffs.from_json(json.loads(last(tmp_path / "run")[1])["payoffs"])
    first, second, third = engine.members
    games = [book.results(*pair).games for pair in ((first, second), (first, third), (second, third))]
    assert min(games) >= 4 and sum(games) >= 12  # an illegal reply ends a play with a result
    one, other = book.results(first, third), book.results(third, first)
    assert (one.games, one.wins, one.returns) == (other.games, other.losses, pytest.approx(-other.returns))
    seats = [book.results(first, third, seat=seat).games for seat in (0, 1)]
    assert abs(seats[0] - seats[1]) <= 1 + one.games // 4
    assert book.results(LEARNER, first).games > 0  # training's own plays are there as before


def test_plays_change_no_weights(tmp_path):
    """Whether members play each other is nothing that training sees, where the matchmaker does not look at it."""
    quiet = {**BASE, "matchmaker": {"name": "mixed", "past": 0.5}}
    found = []
    for plays in (0, 12):
        config = resolve({**quiet, "league": {**BASE["league"], "plays": plays}})
        run(tmp_path / str(plays), config)
        found.append(last(tmp_path / str(plays)))
    assert found[0][0] == found[1][0] and found[0][2] == found[1][2] and found[0][1] != found[1][1]


def test_a_learner_begins_anew_with_nothing_of_before(tmp_path):
    config = config_of(restart=True)
    engine = run(tmp_path / "run", config, until=2)
    learner, start = engine.policies["main"].trained, engine.policies["main"].past[0].model
    state = RunState(step=2, owners={"credit": {"x": 1}, "curriculum": {"y": 2}, "replay": ReplayBuffer((1,))})
    before = learner.model.version
    assert same(learner.model, engine.policies["main"].past[2].model) and not same(learner.model, start)
    assert begun_anew(config, engine, RunState(step=1)) == RunState(step=1) and learner.optimizer.state
    after = begun_anew(config, engine, state)
    assert same(learner.model, start) and same(learner.average.model, start)
    assert not learner.optimizer.state and learner.model.version > before  # so that samplers take the weights
    assert after.owners["credit"] == {} and after.owners["curriculum"] == {"y": 2} and not len(after.replay.stored)


def test_the_step_after_a_snapshot_is_played_by_the_start(tmp_path):
    run(tmp_path / "run", config_of(restart=True))
    whole = run(tmp_path / "other", resolve({**BASE, "matchmaker": {"name": "mirror"}, "replay": {"name": "none"}, "league": {**BASE["league"], "restart": True}}))
    lines = [json.loads(line) for line in (tmp_path / "other" / "metrics.jsonl").read_text().splitlines()]
    assert [line["logprob_difference_max"] < 1e-4 for line in lines if "logprob_difference_max" in line] == [True] * 4
    assert not same(whole.policies["main"].model, whole.policies["main"].past[0].model)
    assert same(whole.policies["main"].model, whole.policies["main"].past[4].model)
    assert json.loads(last(tmp_path / "run")[1])["league"]["members"] == {f"past-00000{step}": {"parent": "past-000000"} for step in (2, 4)}


@pytest.mark.parametrize("until", [1, 2, 3])
@pytest.mark.parametrize("restart", [False, True])
def test_a_run_that_goes_on_ends_as_one_that_was_not_interrupted(tmp_path, restart, until):
    config = config_of(restart=restart)
    run(tmp_path / "whole", config)
    run(tmp_path / "parts", config, until=until)
    run(tmp_path / "parts", config, resume=True)
    assert last(tmp_path / "whole") == last(tmp_path / "parts")


@pytest.mark.parametrize("restart", [False, True])
def test_workers_change_no_byte_of_it(tmp_path, restart):
    config = config_of(restart=restart)
    run(tmp_path / "here", config)
    workers = {"fleet": "processes", "workers": 3, "unit_games": 4}
    with simulated_workers():
        run(tmp_path / "workers", config.model_copy(update={"scale": config.scale.model_copy(update=workers)}))
    assert last(tmp_path / "here") == last(tmp_path / "workers")


def test_those_meet_next_who_have_met_least():
    names = [snapshot(step) for step in (0, 2, 4)]
    rows = {Row("kuhn", 0, names[0], names[1]): Results(games=3, wins=3), Row("other", 0, names[1], names[2]): Results(games=9, draws=9)}
    pairs = next_pairs(Payoffs(rows), names, "kuhn")
    found = [next(pairs) for _ in range(9)]
    met = [frozenset(pair) for pair in found]
    assert met[:6].count(frozenset(names[:2])) == 0 and {met.count(frozenset(pair)) for pair in (names[:2],)} == {1}
    assert found.count((names[0], names[2])) - found.count((names[2], names[0])) in (0, 1)
    assert list(next_pairs(Payoffs(), names[:1], "kuhn")) == []
    sides = next_pairs(Payoffs(), names, "kuhn", itself=True)  # nine cells, alike
    assert Counter(next(sides) for _ in range(90)) == Counter({(one, other): 10 for one in names for other in names})


def test_pairs_meet_by_their_shares():
    """Of 100 plays, 90 of which are there, so many that each pair has its share; one of share 0 plays once."""
    names = [snapshot(step) for step in (0, 2, 4)]
    rows = {Row("kuhn", 0, names[0], names[1]): Results(games=60), Row("kuhn", 0, names[0], names[2]): Results(games=30)}
    pairs = next_pairs(Payoffs(rows), names, "kuhn", [0.6, 0.3, 0.1])
    found = [frozenset(next(pairs)) for _ in range(10)]
    assert found == [frozenset(names[1:])] * 10
    pairs = next_pairs(Payoffs(), names, "kuhn", [0.75, 0.25, 0.0])
    met = [frozenset(next(pairs)) for _ in range(9)]
    assert [met.count(frozenset(pair)) for pair in itertools.combinations(names, 2)] == [6, 2, 1]


def test_shares_that_are_equal_are_the_order_of_those_who_have_met_least():
    names = [snapshot(step) for step in (0, 2, 4, 6)]
    rows = {Row("kuhn", 0, names[0], names[1]): Results(games=3), Row("kuhn", 1, names[2], names[3]): Results(games=0.5)}
    for itself in (False, True):  # a member with itself has the mean share of the pairs
        orders = [list(itertools.islice(next_pairs(Payoffs(rows), names, "kuhn", shares, itself=itself), 40)) for shares in (None, [1 / 4] * 6)]
        assert orders[0] == orders[1]
        assert any(own == other for own, other in orders[0]) == itself


def played_in_one_call(config, engine, book, step):
    """Return the book as it was before there was a focus: all plays at once, those next who have met least."""
    (game, _), root = engine.environments[0], engine.root.child("payoffs").child(step).child(0)
    pairs = itertools.islice(next_pairs(book, engine.members, game.name), config.league.plays)
    specs = [payoff_plays._spec(game, ((0,), (1,)), pair, number, root) for number, pair in enumerate(pairs)]
    return book.after(play_teams(specs, {str(one): engine.agent(one) for one in engine.members}), {game.name: (0, 1)})


def test_without_focus_plays_are_those_of_before_to_the_bit_and_with_it_those_who_weigh_play_more():
    setting = {**MADE, "matchmaker": {"name": "meta_strategy", "solver": "last"}}
    config = resolve({**setting, "league": {**MADE["league"], "plays": 60}})
    engine = engine_of(config)
    plain = with_plays(config, engine, Payoffs(), 3)
    assert plain.to_json() == played_in_one_call(config, engine, Payoffs(), 3).to_json()
    focused = resolve({**setting, "league": {**MADE["league"], "plays": 60, "focus": 1.0}})
    found = with_plays(focused, engine, Payoffs(), 3)
    assert found.to_json() == with_plays(focused, engine, Payoffs(), 3).to_json() != plain.to_json()
    games = [found.results(*pair).games for pair in itertools.combinations(engine.members, 2)]
    assert sum(games) == 60 and games[0] == 5 and min(games[1:]) > 20  # the newest has all weight
    assert with_plays(focused.model_copy(update={"league": focused.league.model_copy(update={"plays": 2})}), engine, Payoffs(), 3).rows


def test_a_focus_and_sides_apart_share_the_plays_between_pairs_and_members_with_themselves():
    matchmaker = {"name": "meta_strategy", "solver": "last", "sides": "apart"}
    config = resolve({**MADE, "matchmaker": matchmaker, "league": {**MADE["league"], "plays": 60, "focus": 1.0}})
    engine = engine_of(config)
    found = with_plays(config, engine, Payoffs(), 3)
    pairs = [found.results(*pair).games for pair in itertools.combinations(engine.members, 2)]
    alone = [found.results(one, one).games / 2 for one in engine.members]  # each is in the book once for each side
    assert sum(pairs) + sum(alone) == 60 and min(alone) > 5 and min(pairs[1:]) > pairs[0]


def test_a_focus_without_a_solver_is_refused_at_the_start(tmp_path):
    with pytest.raises(ConfigError, match=r"league\.focus weighs members.*write league\.answer: nash"):
        sparring.train({**MADE, "league": {**MADE["league"], "focus": 0.5}}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("league", "said"),
    [
        ({"start": True}, "every: 20"),
        ({"plays": 4}, "every: 20"),
        ({"every": 2, "restart": True}, "start: true"),
        ({"every": 2, "start": True, "keep": 1}, "keep: 2"),
        ({"every": 2, "focus": 0.5}, "plays: 0 plays none; write plays: 2000"),
        ({"every": 2, "plays": "exact", "focus": 0.5}, "plays: exact plays none; write plays: 2000"),
        ({"every": 2, "plays": 4, "focus": 1.5}, "league.focus"),
    ],
)
def test_what_does_not_fit_is_refused(league, said):
    with pytest.raises(ConfigError, match=said):
        resolve({**BASE, "league": league})


def test_a_restart_with_a_lag_is_refused():
    with pytest.raises(ConfigError, match="restart: false"):
        resolve({**BASE, "league": {**BASE["league"], "restart": True}, "scale": {"lag": 1}, "replay": {"name": "none"}})
