import numpy as np
import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.exploitability import best_response_values
from sparring.measure.info_states import enumerate_info_states, exact_values
from sparring.measure.lab_episodes import random_table
from sparring.ops.sequence_form import equilibrium, equilibrium_value, sequence_form


@pytest.fixture(params=["matrix_brps", "kuhn_poker", "leduc_poker"])
def game_and_form(request):
    game = make_game(request.param)
    states = enumerate_info_states(game)
    table = random_table(states, Stream.from_seed(3))
    seats = np.array([query.seat for query in states.queries])
    widths = np.array([len(row) for row in table.rows])
    form = sequence_form(states.tree, seats, widths)
    policies = [np.concatenate([[1.0], *(table.rows[number] for number in seat.states)]) for seat in form.seats]
    return game, states, table, form, policies


def test_payoffs_and_best_responses_are_those_of_the_tree(game_and_form):
    game, states, table, form, policies = game_and_form
    plans = [seat.plan(policy) for seat, policy in zip(form.seats, policies, strict=True)]
    best_values = best_response_values(game, states, table.rows)
    values = exact_values(states, table.rows)
    for side, seat in enumerate(form.seats):
        matrix = form.matrix(states.tree.returns[:, side])
        payoff = matrix @ plans[1] if side == 0 else matrix.T @ plans[0]
        assert plans[side] @ payoff == pytest.approx(values.returns[side], abs=1e-12)
        policy, value = seat.best_response(payoff)
        assert value == pytest.approx(best_values[side], abs=1e-9)
        assert seat.plan(policy) @ payoff == pytest.approx(best_values[side], abs=1e-9)
        np.testing.assert_allclose(seat.policy(plans[side], policies[side]), policies[side], atol=1e-12)
        action_values, state = seat.values(payoff, policies[side])
        reach_of_play = seat.reach @ plans[1 - side]
        np.testing.assert_allclose(state / reach_of_play, values.state[seat.states], atol=1e-9)
        np.testing.assert_allclose(
            action_values[1:] / np.repeat(reach_of_play, seat.width),
            np.concatenate([values.action[n] for n in seat.states]),
            atol=1e-9,
        )


def test_an_equilibrium_has_plans_that_no_best_response_beats(game_and_form):
    _, states, _, form, _ = game_and_form
    matrix = form.matrix(states.tree.returns[:, 0])
    solution = equilibrium(form.seats, matrix)
    best_value = form.seats[0].best_response(matrix @ solution.plans[1])[1]
    worst = -form.seats[1].best_response(-(matrix.T @ solution.plans[0]))[1]
    assert best_value == pytest.approx(solution.value, abs=1e-6)
    assert worst == pytest.approx(solution.value, abs=1e-6)


def test_an_equilibrium_of_fewer_actions_uses_only_these(game_and_form):
    _, states, _, form, _ = game_and_form
    matrix = form.matrix(states.tree.returns[:, 0])
    allowed_masks = [np.zeros(seat.size, dtype=bool) for seat in form.seats]
    for mask, seat in zip(allowed_masks, form.seats, strict=True):
        mask[0] = True
        mask[seat.first] = True
    solution = equilibrium(form.seats, matrix, tuple(allowed_masks))
    for mask, plan in zip(allowed_masks, solution.plans, strict=True):
        np.testing.assert_array_equal(plan[~mask], 0.0)
        assert plan[0] == pytest.approx(1.0)
    assert solution.value == pytest.approx(solution.plans[0] @ (matrix @ solution.plans[1]), abs=1e-9)


def value_of(game):
    states = enumerate_info_states(game)
    seats = np.array([query.seat for query in states.queries])
    return equilibrium_value(states.tree, seats, np.array([len(query.legal_actions) for query in states.queries]))


@pytest.mark.parametrize(
    ("name", "options", "value"),
    [
        ("kuhn_poker", {}, -1 / 18),  # Kuhn, 1950
        ("nim", {"pile_sizes": "1;2", "is_misere": False}, 1.0),  # the XOR of the piles is not 0
        ("nim", {"pile_sizes": "1;1", "is_misere": False}, -1.0),
        ("tic_tac_toe", {"start": "a1 b2 c1"}, 0.0),
        ("matrix_rps", {}, 0.0),
    ],
)
def test_known_game_values(name, options, value):
    assert value_of(make_game(name, options=options)) == pytest.approx(value, abs=1e-9)
