"""The minimax oracle: exact against brute force, true bounds, a function of the position, refusals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.oracles.positions import after, played, solved_actions

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, OracleError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel.generic import openspiel_game
from sparring.environments.openspiel.solve import Search


def made(**options):
    return registry.bind("oracles", "minimax", options)()


TIC = make_game("tic_tac_toe")
ORACLE = made()
SMALL_FOUR = openspiel_game("connect_four", {"rows": 3, "columns": 3, "x_in_row": 3})


@pytest.mark.parametrize(
    ("game", "least"),
    [
        (TIC, 3),
        (make_game("nim", options={"pile_sizes": "1;2;3"}), 0),
        (make_game("nim", options={"pile_sizes": "2;3", "is_misere": False}), 0),
        (SMALL_FOUR, 0),
        (make_game("dots_and_boxes", options={"num_rows": 1, "num_cols": 2}), 1),
        (make_game("hex", options={"board_size": 2}), 0),
    ],
    ids=["tic_tac_toe", "nim_misere", "nim_normal", "connect_four", "dots_and_boxes", "hex"],
)
def test_brute_force_says_the_same(game, least):
    states = played(game, 12, least=least)
    for state, found in zip(states, made().judge(states), strict=True):
        assert found.values == solved_actions(state)
        assert found.actions == state.legal_actions()
        assert found.best == {a for a, value in zip(found.actions, found.values, strict=True) if value == max(found.values)}
        assert (found.certainty, found.bound) == (1.0, 0.0)


def test_the_known_values_of_tic_tac_toe():
    opening, centre, fork = ORACLE.judge([after(TIC), after(TIC, "b2"), after(TIC, "a1", "b1")])
    assert opening.values == (0.0,) * 9
    assert centre.best == {"a1", "c1", "a3", "c3"}
    assert set(centre.values) == {0.0, -1.0}
    assert fork.best == {"a2", "b2", "a3"}


def test_four_by_four_connect_four_is_a_draw_by_its_first_search():
    oracle = made()
    found = oracle.judge([openspiel_game("connect_four", {"rows": 4, "columns": 4}).reset(Stream.from_seed(0))])[0]
    assert set(found.values) == {0.0}


def test_finished_positions_count_against_the_budget():
    """A trade of 10 turns has 200 moves at each: of 200,000 positions to be looked at it looked at 40 million that end it."""
    trade = make_game("simple_negotiation")
    search = Search(trade, 2000)
    assert search.bounds(trade.first_node()) == (trade.min_utility, trade.max_utility) and search.cut
    widest = 2 + len(trade.first_node().legal_actions())
    assert 2000 <= len(search.table) + search.finished <= 2000 + 10 * widest
    whole = Search(TIC, 4520 + 2862)  # positions where play goes on, and ends of play from these
    assert whole.bounds(TIC.first_node()) == (0.0, 0.0) and not whole.cut
    short = Search(TIC, 7000)
    short.bounds(TIC.first_node())
    assert short.cut


def test_a_position_is_judged_once_however_it_was_reached():
    oracle = made()
    first, second = oracle.judge([after(TIC, "a1", "b2", "c3"), after(TIC, "c3", "b2", "a1")])
    assert first is second
    assert oracle.judge([after(make_game("tic_tac_toe", options={"style": "full"}), "a1", "b2", "c3")])[0] == first
    assert oracle.metrics == {"judged": 3.0, "abstained": 0.0, "searched": 1.0}


@pytest.mark.parametrize("max_states", [1, 5, 40, 300])
def test_a_budget_that_runs_out_abstains_and_is_counted(max_states):
    oracle, states = made(max_states=max_states), played(TIC, 10)
    found = oracle.judge(states)
    for state, verdict, exact in zip(states, found, ORACLE.judge(states), strict=True):
        assert verdict is None or verdict == exact
        assert verdict is not None or state.plies < 8
    assert found[0] is None
    assert oracle.metrics["abstained"] == found.count(None)
    assert oracle.metrics["over_budget"] == len({oracle.key(s) for s, v in zip(states, found, strict=True) if v is None})


@settings(max_examples=15, deadline=None)
@given(max_states=st.integers(1, 3000), seed=st.integers(0, 1000))
def test_bounds_hold_the_truth(max_states, seed):
    oracle, states = made(max_states=max_states, over_budget="bound"), played(TIC, 2, seed)
    for verdict, exact in zip(oracle.judge(states), ORACLE.judge(states), strict=True):
        assert all(abs(a - b) <= verdict.bound + 1e-12 for a, b in zip(verdict.values, exact.values, strict=True))
        assert 0.0 <= verdict.certainty <= 1.0
        assert (verdict.certainty < 1.0) == (verdict.bound > 0.0)
        assert verdict.bound > 0.0 or verdict == exact
    assert oracle.metrics["abstained"] == 0.0


@pytest.mark.parametrize("over_budget", ["abstain", "bound"])
def test_the_verdict_does_not_depend_on_what_was_asked_before(over_budget):
    states = played(TIC, 8)
    options = {"max_states": 60, "over_budget": over_budget}
    together, backwards = made(**options).judge(states), made(**options)
    assert [backwards.judge([state])[0] for state in reversed(states)][::-1] == together
    assert [made(**options).judge([state])[0] for state in states] == together


def test_long_games_and_games_with_cycles_end_by_their_budget():
    for name in ("chess", "nine_mens_morris"):
        game = make_game(name)
        oracle = made(max_states=700)
        assert oracle.judge([game.reset(Stream.from_seed(0))]) == [None]
        assert oracle.metrics["over_budget"] == 1.0


def test_what_it_cannot_judge_is_refused():
    finished = after(TIC, "a1", "a2", "b1", "b2", "c1")
    with pytest.raises(OracleError, match="is finished, at ply 5"):
        ORACLE.judge([after(TIC), finished])
    for name, why in [("kuhn_poker", "hidden"), ("pig", "chance")]:
        with pytest.raises(OracleError, match=f"'{name}': .*{why}.*use oracle mcts"):
            ORACLE.judge([make_game(name).reset(Stream.from_seed(0))])
    assert "two opposed seats" in ORACLE.covers(make_game("chinese_checkers", options={"players": 3}))
    assert ORACLE.covers(TIC) == ""
    with pytest.raises(ConfigError, match="max_states"):
        made(max_states=0)
    with pytest.raises(ConfigError, match="over_budget"):
        made(over_budget="guess")


def test_forgetting_changes_no_verdict(monkeypatch):
    states = played(TIC, 10)
    monkeypatch.setattr("sparring.methods.oracles.base.KEPT", 5)
    monkeypatch.setattr("sparring.methods.oracles.minimax.KEPT_BOUNDS", 50)
    oracle = made()
    for start in range(30):
        assert oracle.judge(states[start : start + 3]) == ORACLE.judge(states[start : start + 3])
    assert oracle.metrics["searched"] > len({oracle.key(state) for state in states[:32]})
