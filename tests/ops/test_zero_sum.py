"""Values of opposed games at equilibrium, against theory and against CFR."""

import numpy as np
import pytest

from sparring.environments.catalogue import make_game
from sparring.environments.openspiel.solvers import average_policy
from sparring.measure.exploitability import from_table, nash_conv
from sparring.measure.info_states import enumerate_info_states
from sparring.ops.sequence_form import equilibrium_value


def value_of(game):
    states = enumerate_info_states(game)
    seats = np.array([query.seat for query in states.queries])
    return equilibrium_value(states.tree, seats, np.array([len(query.legal_actions) for query in states.queries]))


@pytest.mark.parametrize(
    ("name", "options", "value"),
    [
        ("kuhn_poker", {}, -1 / 18),  # Kuhn, 1950
        ("nim", {"pile_sizes": "1;2", "is_misere": False}, 1.0),  # the exclusive or is not 0
        ("nim", {"pile_sizes": "1;1", "is_misere": False}, -1.0),
        ("tic_tac_toe", {"start": "a1 b2 c1"}, 0.0),
        ("matrix_rps", {}, 0.0),
    ],
)
def test_known_values(name, options, value):
    assert value_of(make_game(name, options=options)) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(("name", "options"), [("leduc_poker", {}), ("liars_dice", {"sides": 3})])
def test_cfr_comes_to_the_same(name, options):
    game = make_game(name, options=options)
    states = enumerate_info_states(game)
    report = nash_conv(game, states, from_table(states, average_policy(game, "cfr", 100)))
    assert abs(report.values[0] - value_of(game)) <= report.nash_conv
    assert report.nash_conv < 0.2
