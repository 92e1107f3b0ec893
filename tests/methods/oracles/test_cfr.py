import itertools

import numpy as np
import pyspiel
import pytest
from tests.methods.oracles.positions import random_states

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, OracleError
from sparring.environments.catalogue import make_game
from sparring.environments.tree_arrays import walk

KUHN = make_game("kuhn_poker")


def make_oracle(name="cfr", **options):
    return registry.bind("oracles", name, options)()


def kuhn_state(*ids, game=KUHN):
    state = game.state_of(game.spiel.new_initial_state())
    for index in ids:
        state.apply_index(index)
    return state


def values_by_recursion(game, policies):
    """Return {(seat, information state): values} with seat p playing policies[p](seat, key, legal), by a recursion over states."""
    sums = {}

    def visit(state, reach):
        if state.is_terminal():
            return np.array(state.returns())
        if state.is_chance_node():
            return sum(p * visit(state.child(a), reach * p) for a, p in state.chance_outcomes())
        seat, legal = state.current_player(), state.legal_actions()
        key = (seat, state.information_state_string(seat))
        policy, action_returns = policies[seat](*key, state), []
        for action, probability in zip(legal, policy, strict=True):
            factor = np.full(game.num_seats, probability)
            factor[seat] = 1.0
            action_returns.append(visit(state.child(action), reach * factor))
        total = sums.setdefault(key, np.zeros((len(legal), 2)))
        total += [[reach[seat] * returns[seat], reach[seat]] for returns in action_returns]
        return sum(p * returns for p, returns in zip(policy, action_returns, strict=True))

    root = visit(game.spiel.new_initial_state(), np.ones(game.num_seats))
    return {key: total[:, 0] / total[:, 1] if total[0, 1] > 0 else None for key, total in sums.items()}, root


def average_of(oracle, game):
    table = oracle.solver.policy(game)
    return lambda seat, key, state: [table.action_probabilities(state)[index] for index in state.legal_actions()]


def pure_policies(seat):
    keys = [key for player, key in walk(KUHN).index_of if player == seat]
    for choices in itertools.product((0, 1), repeat=len(keys)):
        table = dict(zip(keys, choices, strict=True))
        yield lambda seat, key, state, table=table: np.eye(2)[table[key]]


@pytest.mark.parametrize(
    ("name", "iterations"), [("kuhn_poker", 3), ("kuhn_poker", 100), ("leduc_poker", 3), ("tiny_hanabi", 20)]
)
def test_values_equal_a_plain_recursion(name, iterations):
    game = make_game(name)
    oracle = make_oracle(iterations=iterations, variant="cfr")
    expected, _ = values_by_recursion(game, [average_of(oracle, game)] * game.num_seats)
    for state in random_states(game, 30):
        verdict = oracle.judge([state])[0]
        values = expected[state.seat, state.spiel.information_state_string(state.seat)]
        assert verdict.values == pytest.approx(values, abs=1e-9)
        assert (verdict.certainty, verdict.actions) == (1.0, state.legal_actions())


@pytest.mark.always
def test_values_of_kuhn_poker_are_the_published_ones():
    oracle = make_oracle(iterations=2000)
    openings = oracle.judge([kuhn_state(card, (card + 1) % 3) for card in range(3)])
    assert np.mean([max(verdict.values) for verdict in openings]) == pytest.approx(-1 / 18, abs=1e-3)
    jack, queen, king = oracle.judge(
        [kuhn_state(2, 0, 1), kuhn_state(2, 1, 1), kuhn_state(0, 2, 1)]
    )  # the second seat faces a bet
    assert jack.values == pytest.approx((-1.0, -2.0))
    assert jack.best == {"pass"}
    assert king.values == pytest.approx((-1.0, 2.0))
    assert king.best == {"bet"}
    assert queen.values == pytest.approx((-1.0, -1.0), abs=0.05)  # indifferent in equilibrium
    assert make_oracle(iterations=2000, margin=0.1).judge([kuhn_state(2, 1, 1)])[0].best == {"pass", "bet"}
    assert 0.0 <= queen.bound < 1e-3
    assert openings[2].values == pytest.approx(
        make_oracle("best_response", iterations=2000).judge([kuhn_state(2, 0)])[0].values, abs=0.01
    )


@pytest.mark.parametrize("iterations", [2, 50])
def test_a_best_response_is_the_best_of_all_pure_policies(iterations):
    oracle = make_oracle("best_response", iterations=iterations, variant="cfr")
    average = average_of(oracle, KUHN)
    for seat in (0, 1):
        values_of_policies = [
            values_by_recursion(KUHN, [pure_policy, average] if seat == 0 else [average, pure_policy])[0]
            for pure_policy in pure_policies(seat)
        ]
        for state in (state for state in random_states(KUHN, 40) if state.seat == seat):
            key = seat, state.spiel.information_state_string(seat)
            expected = np.max([values[key] for values in values_of_policies], axis=0)
            assert oracle.judge([state])[0].values == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("name", "options"), [("leduc_poker", {}), ("kuhn_poker", {"players": 3})])
def test_nash_conv_equals_the_best_response_values_of_openspiel(name, options):
    game = make_game(name, options=options)
    oracle = make_oracle("best_response", iterations=3, variant="cfr")
    oracle.judge(random_states(game, 1))
    values, table = oracle._values_of_rules[str(game.spiel)], oracle.solver.policy(game)
    best_response_sum = 0.0
    for seat in range(game.num_seats):
        response = pyspiel.TabularBestResponse(game.spiel, seat, table)
        best_response_sum += response.value_from_state(game.spiel.new_initial_state())
    assert values.nash_conv == pytest.approx(
        best_response_sum, abs=1e-9
    )  # zero-sum: the values of the average policy sum to 0


def test_against_best_responses_the_others_do_not_play_the_average():
    oracle = make_oracle(against="best_response", iterations=5, variant="cfr")
    average, states = average_of(oracle, KUHN), random_states(KUHN, 60)
    verdicts = oracle.judge(states)
    rows, history_tree = {}, walk(KUHN)
    response = make_oracle("best_response", iterations=5, variant="cfr")
    for (seat, key), index in history_tree.index_of.items():
        verdict = response.judge([KUHN.state_of(history_tree.examples[index])])[0]
        rows[seat, key] = np.eye(2)[int(np.argmax(verdict.values))]

    def best(seat, key, state):
        return rows[seat, key]

    expected = [values_by_recursion(KUHN, policies)[0] for policies in ([average, best], [best, average])]
    for state, verdict in zip(states, verdicts, strict=True):
        values = expected[state.seat][state.seat, state.spiel.information_state_string(state.seat)]
        assert (verdict is None) == (values is None)
        assert verdict is None or verdict.values == pytest.approx(values, abs=1e-9)
    assert None in verdicts
    assert oracle.metrics["abstained"] == verdicts.count(None)
    assert oracle.metrics["unreached"] > 0
    assert [v for v in verdicts if v] != [v for v in make_oracle(iterations=5, variant="cfr").judge(states) if v]


def test_states_with_one_information_state_have_one_verdict():
    oracle = make_oracle(iterations=20)
    verdict, equal_verdict = oracle.judge([kuhn_state(1, 0), kuhn_state(1, 2)])
    assert verdict is equal_verdict
    assert oracle.metrics["searched"] == 1.0


@pytest.mark.parametrize("name", ["cfr", "best_response"])
def test_games_that_the_oracle_cannot_solve_are_refused(name):
    with pytest.raises(OracleError, match="max_histories=1000"):
        make_oracle(name, max_histories=1000).judge(random_states(make_game("tic_tac_toe"), 1))
    with pytest.raises(OracleError, match="no information states"):
        make_oracle(name).judge(random_states(make_game("hanabi"), 1)[:1])
    with pytest.raises(OracleError, match="waits for chance"):
        make_oracle(name, iterations=1).judge([kuhn_state(0)])
    for option in ("iterations", "max_histories"):
        with pytest.raises(ConfigError, match=option):
            make_oracle(name, **{option: 0})
    with pytest.raises(ConfigError, match="against"):
        make_oracle(against="nobody")
