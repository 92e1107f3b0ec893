"""The MCTS oracle: exact where it proves, near the truth elsewhere, a function of the position."""

import pytest
from tests.methods.oracles.positions import after, played, solved_actions

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, OracleError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game


def made(**options):
    return registry.bind("oracles", "mcts", options)()


TIC = make_game("tic_tac_toe")
EXACT = registry.bind("oracles", "minimax")()


def test_what_it_proves_is_what_brute_force_says():
    oracle, states = made(simulations=3000), played(TIC, 12, least=5)
    verdicts = oracle.judge(states)
    proven = [(state, found) for state, found in zip(states, verdicts, strict=True) if found.certainty == 1.0]
    assert len(proven) > 15
    for state, found in proven:
        assert found.values == solved_actions(state)
        assert found.bound == 0.0
    assert oracle.metrics["proven"] == len({oracle.key(state) for state, _ in proven})


def test_nothing_is_certain_without_proof():
    for found in made(solve=False, simulations=50).judge([state for state in played(TIC, 5) if state.plies < 7]):
        assert 0.0 <= found.certainty < 1.0
        assert found.bound == 2.0


def test_its_best_action_is_mostly_a_best_one_and_more_simulations_help():
    states = played(TIC, 25)
    right = []
    for simulations in (10, 1000):
        pairs = zip(made(simulations=simulations).judge(states), EXACT.judge(states), strict=True)
        right.append(sum(bool(found.best & exact.best) for found, exact in pairs) / len(states))
    assert right[1] > 0.93
    assert right[0] < right[1] - 0.05


def test_values_are_means_over_visits_and_certainty_is_the_share_of_the_best():
    oracle = made(simulations=60, solve=False)
    state = after(TIC, "b2", "a1")
    found = oracle.judge([state])[0]
    root = oracle.searcher.search(state, oracle._stream.child(str(TIC.spiel)).child(oracle.key(state)))
    by_action = {child.action: child for child in root.children}
    children = [by_action[index] for index in state.spiel.legal_actions()]
    assert found.values == tuple(child.total_reward / child.explore_count for child in children)
    best = max(children, key=lambda child: child.total_reward / child.explore_count)
    assert found.best == {TIC.words[best.action]}
    assert found.certainty == pytest.approx(best.explore_count / (1 + sum(child.explore_count for child in children)))


def test_an_action_never_tried_is_worth_least():
    found = made(simulations=4, solve=False).judge([after(TIC)])[0]
    assert sorted(found.values)[:5] == [-1.0] * 5


def test_a_margin_lets_near_equals_be_best():
    state = after(TIC, "b2")
    one, four = (made(simulations=2000, margin=margin, solve=False).judge([state])[0] for margin in (0.0, 0.2))
    assert len(one.best) == 1
    assert four.values == one.values
    assert four.best == {action for action, value in zip(four.actions, four.values, strict=True) if value >= max(four.values) - 0.2}
    assert four.best > one.best
    assert four.certainty > one.certainty


def test_the_verdict_is_a_function_of_seed_and_position():
    states = played(TIC, 4)
    together, backwards = made(simulations=40).judge(states), made(simulations=40)
    assert [backwards.judge([state])[0] for state in reversed(states)][::-1] == together
    assert made(simulations=40, seed=1).judge(states) != together
    first, second = made(simulations=40).judge([after(TIC, "a1", "b2", "c3"), after(TIC, "c3", "b2", "a1")])
    assert first is second


def test_games_of_chance_are_judged_and_states_that_wait_for_chance_refused():
    game = make_game("pig")
    found = made(simulations=50).judge([game.reset(Stream.from_seed(0))])[0]
    assert len(found.values) == 2
    waiting = game.state_of(game.spiel.new_initial_state())
    waiting.apply_index(0)
    assert waiting.seat == -1
    with pytest.raises(OracleError, match="waits for chance"):
        made().judge([waiting])


def test_what_it_cannot_judge_is_refused():
    with pytest.raises(OracleError, match="is finished"):
        made().judge([after(TIC, "a1", "a2", "b1", "b2", "c1")])
    with pytest.raises(OracleError, match="hidden from a seat; use oracle cfr"):
        made().judge([make_game("kuhn_poker").reset(Stream.from_seed(0))])
    for option, value in [("simulations", 0), ("rollouts", 0), ("uct_c", -1.0), ("margin", -0.1)]:
        with pytest.raises(ConfigError, match=option):
            made(**{option: value})
