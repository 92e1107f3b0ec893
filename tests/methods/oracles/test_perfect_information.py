from functools import reduce
from operator import xor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.oracles.positions import brute_force_action_values, random_states, state_after

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, OracleError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel.generic import openspiel_game
from sparring.environments.openspiel.solve import Search
from sparring.methods.oracles.base import SolverResult, verdict_from_solver


def make_minimax(**options):
    return registry.bind("oracles", "minimax", options)()


TIC = make_game("tic_tac_toe")
ORACLE = make_minimax()
SMALL_FOUR = openspiel_game("connect_four", {"rows": 3, "columns": 3, "x_in_row": 3})


@pytest.mark.parametrize(
    ("game", "min_plies"),
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
def test_minimax_equals_brute_force(game, min_plies):
    states = random_states(game, 12, min_plies=min_plies)
    for state, verdict in zip(states, make_minimax().judge(states), strict=True):
        assert verdict.values == brute_force_action_values(state)
        assert verdict.actions == state.legal_actions()
        assert verdict.best == {
            a for a, value in zip(verdict.actions, verdict.values, strict=True) if value == max(verdict.values)
        }
        assert (verdict.certainty, verdict.bound) == (1.0, 0.0)


def test_the_known_values_of_tic_tac_toe():
    opening, centre, fork = ORACLE.judge([state_after(TIC), state_after(TIC, "b2"), state_after(TIC, "a1", "b1")])
    assert opening.values == (0.0,) * 9
    assert centre.best == {"a1", "c1", "a3", "c3"}
    assert set(centre.values) == {0.0, -1.0}
    assert fork.best == {"a2", "b2", "a3"}


def test_four_by_four_connect_four_is_a_draw():
    oracle = make_minimax()
    verdict = oracle.judge([openspiel_game("connect_four", {"rows": 4, "columns": 4}).reset(Stream.from_seed(0))])[0]
    assert set(verdict.values) == {0.0}


def test_finished_positions_count_against_the_budget():
    """A trade of 10 turns has 200 moves at each, most of which end it."""
    trade = make_game("simple_negotiation")
    search = Search(trade, 2000)
    assert search.bounds(trade.first_node()) == (trade.min_utility, trade.max_utility) and search.is_incomplete
    max_children = 2 + len(trade.first_node().legal_actions())
    assert 2000 <= len(search.table) + search.num_finished <= 2000 + 10 * max_children
    large_enough = Search(TIC, 4520 + 2862)  # decision positions and the final positions after them
    assert large_enough.bounds(TIC.first_node()) == (0.0, 0.0) and not large_enough.is_incomplete
    too_small = Search(TIC, 7000)
    too_small.bounds(TIC.first_node())
    assert too_small.is_incomplete


def test_a_position_reached_in_two_ways_is_judged_once():
    oracle = make_minimax()
    verdict, verdict_of_other_order = oracle.judge(
        [state_after(TIC, "a1", "b2", "c3"), state_after(TIC, "c3", "b2", "a1")]
    )
    assert verdict is verdict_of_other_order
    assert (
        oracle.judge([state_after(make_game("tic_tac_toe", options={"style": "full"}), "a1", "b2", "c3")])[0] == verdict
    )
    assert oracle.metrics == {"judged": 3.0, "abstained": 0.0, "searched": 1.0}


@pytest.mark.parametrize("max_states", [1, 5, 40, 300])
def test_a_budget_that_runs_out_abstains_and_is_counted(max_states):
    oracle, states = make_minimax(max_states=max_states), random_states(TIC, 10)
    verdicts = oracle.judge(states)
    for state, verdict, exact_verdict in zip(states, verdicts, ORACLE.judge(states), strict=True):
        assert verdict is None or verdict == exact_verdict
        assert verdict is not None or state.plies < 8
    assert verdicts[0] is None
    assert oracle.metrics["abstained"] == verdicts.count(None)
    assert oracle.metrics["over_budget"] == len(
        {oracle.key(s) for s, v in zip(states, verdicts, strict=True) if v is None}
    )


@settings(max_examples=15, deadline=None)
@given(max_states=st.integers(1, 3000), seed=st.integers(0, 1000))
def test_bounds_contain_the_exact_value(max_states, seed):
    oracle, states = make_minimax(max_states=max_states, over_budget="bound"), random_states(TIC, 2, seed)
    for verdict, exact_verdict in zip(oracle.judge(states), ORACLE.judge(states), strict=True):
        assert all(
            abs(a - b) <= verdict.bound + 1e-12 for a, b in zip(verdict.values, exact_verdict.values, strict=True)
        )
        assert 0.0 <= verdict.certainty <= 1.0
        assert (verdict.certainty < 1.0) == (verdict.bound > 0.0)
        assert verdict.bound > 0.0 or verdict == exact_verdict
    assert oracle.metrics["abstained"] == 0.0


@pytest.mark.parametrize("over_budget", ["abstain", "bound"])
def test_a_verdict_does_not_depend_on_earlier_requests(over_budget):
    states = random_states(TIC, 8)
    options = {"max_states": 60, "over_budget": over_budget}
    joint_verdicts, reversed_oracle = make_minimax(**options).judge(states), make_minimax(**options)
    assert [reversed_oracle.judge([state])[0] for state in reversed(states)][::-1] == joint_verdicts
    assert [make_minimax(**options).judge([state])[0] for state in states] == joint_verdicts


def test_long_games_and_cycles_stop_at_the_budget():
    for name in ("chess", "nine_mens_morris"):
        game = make_game(name)
        oracle = make_minimax(max_states=700)
        assert oracle.judge([game.reset(Stream.from_seed(0))]) == [None]
        assert oracle.metrics["over_budget"] == 1.0


def test_minimax_refuses_hidden_information_and_chance():
    for name, reason in [("kuhn_poker", "hidden"), ("pig", "chance")]:
        with pytest.raises(OracleError, match=f"'{name}': .*{reason}.*use oracle mcts"):
            ORACLE.judge([make_game(name).reset(Stream.from_seed(0))])
    assert "two opposed seats" in ORACLE.covers(make_game("chinese_checkers", options={"players": 3}))
    assert ORACLE.covers(TIC) == ""
    for option, value in [("max_states", 0), ("over_budget", "guess")]:
        with pytest.raises(ConfigError, match=option):
            make_minimax(**{option: value})


def test_clearing_the_cache_changes_no_verdict(monkeypatch):
    states = random_states(TIC, 10)
    monkeypatch.setattr("sparring.methods.oracles.base.MAX_CACHED", 5)
    monkeypatch.setattr("sparring.methods.oracles.minimax.MAX_CACHED_BOUNDS", 50)
    oracle = make_minimax()
    for seed in range(30):
        assert oracle.judge(states[seed : seed + 3]) == ORACLE.judge(states[seed : seed + 3])
    assert oracle.metrics["searched"] > len({oracle.key(state) for state in states[:32]})


def make_mcts(**options):
    return registry.bind("oracles", "mcts", options)()


def test_values_that_mcts_proves_equal_brute_force():
    oracle, states = make_mcts(simulations=3000), random_states(TIC, 12, min_plies=5)
    verdicts = oracle.judge(states)
    proven = [(state, verdict) for state, verdict in zip(states, verdicts, strict=True) if verdict.certainty == 1.0]
    assert len(proven) > 15
    for state, verdict in proven:
        assert verdict.values == brute_force_action_values(state)
        assert verdict.bound == 0.0
    assert oracle.metrics["proven"] == len({oracle.key(state) for state, _ in proven})


def test_the_certainty_is_below_1_without_proof():
    for verdict in make_mcts(solve=False, simulations=50).judge(
        [state for state in random_states(TIC, 5) if state.plies < 7]
    ):
        assert 0.0 <= verdict.certainty < 1.0
        assert verdict.bound == 2.0


def test_mcts_mostly_finds_a_best_action_and_more_simulations_help():
    states = random_states(TIC, 25)
    hit_rates = []
    for simulations in (10, 1000):
        pairs = zip(make_mcts(simulations=simulations).judge(states), ORACLE.judge(states), strict=True)
        hit_rates.append(sum(bool(verdict.best & exact_verdict.best) for verdict, exact_verdict in pairs) / len(states))
    assert hit_rates[1] > 0.93
    assert hit_rates[0] < hit_rates[1] - 0.05


def test_values_are_means_over_visits_and_certainty_is_the_share_of_the_best():
    oracle = make_mcts(simulations=60, solve=False)
    state = state_after(TIC, "b2", "a1")
    verdict = oracle.judge([state])[0]
    root = oracle.searcher.search(state, oracle._stream.child(str(TIC.spiel)).child(oracle.key(state)))
    by_action = {child.action: child for child in root.children}
    children = [by_action[index] for index in state.spiel.legal_actions()]
    assert verdict.values == tuple(child.total_reward / child.explore_count for child in children)
    best_child = max(children, key=lambda child: child.total_reward / child.explore_count)
    assert verdict.best == {TIC.words[best_child.action]}
    assert verdict.certainty == pytest.approx(
        best_child.explore_count / (1 + sum(child.explore_count for child in children))
    )


def test_an_untried_action_has_the_lowest_value():
    verdict = make_mcts(simulations=4, solve=False).judge([state_after(TIC)])[0]
    assert sorted(verdict.values)[:5] == [-1.0] * 5


def test_a_margin_makes_nearly_equal_actions_best():
    state = state_after(TIC, "b2")
    without_margin, with_margin = (
        make_mcts(simulations=2000, margin=margin, solve=False).judge([state])[0] for margin in (0.0, 0.2)
    )
    assert len(without_margin.best) == 1
    assert with_margin.values == without_margin.values
    assert with_margin.best == {
        action
        for action, value in zip(with_margin.actions, with_margin.values, strict=True)
        if value >= max(with_margin.values) - 0.2
    }
    assert with_margin.best > without_margin.best
    assert with_margin.certainty > without_margin.certainty


def test_the_verdict_is_a_function_of_seed_and_position():
    states = random_states(TIC, 4)
    assert make_mcts(simulations=40, seed=1).judge(states) != make_mcts(simulations=40).judge(states)
    verdict, verdict_of_other_order = make_mcts(simulations=40).judge(
        [state_after(TIC, "a1", "b2", "c3"), state_after(TIC, "c3", "b2", "a1")]
    )
    assert verdict is verdict_of_other_order


def test_games_of_chance_are_judged_but_chance_nodes_are_refused():
    game = make_game("pig")
    verdict = make_mcts(simulations=50).judge([game.reset(Stream.from_seed(0))])[0]
    assert len(verdict.values) == 2
    chance_node = game.state_of(game.spiel.new_initial_state())
    chance_node.apply_index(0)
    assert chance_node.seat == -1
    with pytest.raises(OracleError, match="waits for chance"):
        make_mcts().judge([chance_node])


def test_mcts_refuses_games_that_it_cannot_search():
    with pytest.raises(OracleError, match="hidden information; use oracle cfr"):
        make_mcts().judge([make_game("kuhn_poker").reset(Stream.from_seed(0))])
    for option, value in [("simulations", 0), ("rollouts", 0), ("uct_c", -1.0), ("margin", -0.1)]:
        with pytest.raises(ConfigError, match=option):
            make_mcts(**{option: value})


def is_lost(piles, misere):
    """Return whether the seat to act loses Nim: by the exclusive or of the piles, or by their number if all have at most one stone."""
    if misere and max(piles) <= 1:
        return sum(piles) % 2 == 1
    return reduce(xor, piles) == 0


def values_by_theory(state, misere):
    """Return the value of each legal action; a move wins if the opponent loses the next position."""
    values = []
    for word in state.legal_actions():
        piles = list(state.game.piles(state))
        piles["abcdefgh".index(word[0])] -= int(word[1:])
        values.append(1.0 if is_lost(piles, misere) else -1.0)
    return tuple(values)


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), misere=st.booleans(), seed=st.integers(0, 999))
def test_the_best_moves_of_any_piles_are_those_of_the_theory(sizes, misere, seed):
    game = make_game("nim", options={"pile_sizes": ";".join(map(str, sizes)), "is_misere": misere})
    states = random_states(game, 4, seed=seed)
    for state, verdict in zip(states, make_minimax().judge(states), strict=True):
        assert verdict.values == values_by_theory(state, misere)


def test_best_actions_have_the_largest_value_unless_the_judgement_names_others():
    verdict = verdict_from_solver(("a", "b", "c"), SolverResult(values=[1.0, 3, 3.0], bound=0.5, certainty=0.25))
    assert verdict.best == {"b", "c"} and verdict.values == (1.0, 3.0, 3.0)
    assert (verdict.certainty, verdict.bound, verdict.entropy) == (0.25, 0.5, None)
    explicit = verdict_from_solver(
        ("a", "b", "c"), SolverResult(values=[1.0, 3.0, 3.0], best=[True, False, False], entropy=0.7)
    )
    assert explicit.best == {"a"} and explicit.entropy == 0.7 and (explicit.certainty, explicit.bound) == (1.0, 0.0)


@pytest.mark.parametrize(
    "judgement", [SolverResult(values=[1.0]), SolverResult(values=[1.0, 2.0], best=[True])], ids=["values", "best"]
)
def test_a_judgement_of_another_length_is_refused(judgement):
    with pytest.raises(ValueError, match="argument"):
        verdict_from_solver(("a", "b"), judgement)
