"""The contract of oracles: verdicts have the right shape, depend only on the position, and do not change it."""

import math

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import OracleError
from sparring.core.records import Verdict
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game, searchable_names
from tests.cases import every_case
from tests.contract.positions import positions

# planning judges environments outside OpenSpiel; see tests/methods/oracles/test_puzzles.py
NAMES = [name for name in registry.names("oracles") if name != "planning"]
OPTIONS = {  # small searches and small trees
    "minimax": {"max_states": 1000},
    "mcts": {"simulations": 30},
    "cfr": {"iterations": 10, "max_histories": 3000},
    "best_response": {"iterations": 10, "max_histories": 3000},
    "parallel": {"oracle": "minimax", "options": {"max_states": 1000}},
    "noisy": {"options": {"max_states": 1000}, "abstain": 0.1},
}
SLOW = {"simple_negotiation"}  # each of its decisions has hundreds of legal actions
GAMES = {name: make_game(name) for name in searchable_names() if name not in SLOW}


def oracle_of(name):
    return registry.bind("oracles", name, OPTIONS.get(name, {}))()


def games_covered(name):
    oracle = oracle_of(name)
    return [game for game in GAMES.values() if not oracle.covers(game)]


COVERED = {name: games_covered(name) for name in NAMES}
PAIRS = [(name, game) for name in NAMES for game in COVERED[name]]
IDS = [f"{name}-{game.name}" for name, game in PAIRS]


@pytest.mark.parametrize("name", NAMES)
def test_an_oracle_judges_some_game_and_refuses_others_with_a_reason(name):
    oracle = oracle_of(name)
    assert any(
        verdict is not None for game in COVERED[name] for verdict in oracle.judge(positions(game, plays=3, most=12))
    )
    assert oracle.name == name
    assert oracle.judge([]) == []
    for game in (game for game in GAMES.values() if game not in COVERED[name]):
        assert oracle.covers(game)
        with pytest.raises(OracleError, match=name):
            oracle.judge(positions(game, plays=3, most=12)[:1])


@every_case(("name", "game"), PAIRS, ids=IDS)
def test_a_verdict_has_a_value_per_legal_action_and_the_best_ones(name, game):
    states = positions(game, plays=3, most=12)
    verdicts = oracle_of(name).judge(states)
    assert len(verdicts) == len(states)
    for state, verdict in zip(states, verdicts, strict=True):
        if verdict is None:
            continue
        assert isinstance(verdict, Verdict)
        assert verdict.actions == state.legal_actions()
        assert len(verdict.values) == len(verdict.actions)
        assert all(math.isfinite(value) for value in verdict.values)
        top = max(verdict.values)
        assert verdict.best == {
            a
            for a, value in zip(verdict.actions, verdict.values, strict=True)
            if value >= top - 1e-9 * max(1, abs(top))
        }
        assert 0.0 <= verdict.certainty <= 1.0
        assert verdict.bound >= 0.0


@every_case(("name", "game"), PAIRS, ids=IDS, parts=2)
def test_verdicts_depend_only_on_the_state(name, game):
    states = positions(game, plays=3, most=12)
    joint_verdicts, oracle = oracle_of(name).judge(states), oracle_of(name)
    assert [oracle.judge([state])[0] for state in reversed(states)][::-1] == joint_verdicts
    assert oracle.judge(states) == joint_verdicts


@every_case(("name", "game"), PAIRS, ids=IDS)
def test_judging_does_not_change_the_states(name, game):
    states = positions(game, plays=3, most=12)
    states_before = [(s.spiel.history(), s.trail, s.seat, s.done, s.draws, s.plies) for s in states]
    oracle_of(name).judge(states)
    assert [(s.spiel.history(), s.trail, s.seat, s.done, s.draws, s.plies) for s in states] == states_before


@every_case(("name", "game"), PAIRS, ids=IDS)
def test_a_finished_state_is_refused(name, game):
    state = game.reset(Stream.from_seed(1))
    while not state.done:
        state.apply(state.legal_actions()[-1])
    with pytest.raises(OracleError, match="finished"):
        oracle_of(name).judge([state])
