"""The costs of illegal replies."""

import pytest

from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game


def forfeit_returns(name, offender, payoff, actions=(), **options):
    game = make_game(name, options=options, illegal={"payoff": payoff})
    state = game.reset(Stream.from_seed(0))
    for action in actions:
        state.apply(action)
    return game.illegal.forfeit_returns(game, state, offender)


def test_forfeit_returns_by_hand():
    assert forfeit_returns("tic_tac_toe", 0, "zero_sum") == (-1.0, 1.0)
    assert forfeit_returns("kuhn_poker", 1, "zero_sum") == (2.0, -2.0)
    assert forfeit_returns("kuhn_poker", 1, "zero_sum", players=3) == (1.0, -2.0, 1.0)
    assert forfeit_returns("tiny_hanabi", 0, "zero_sum") == (0.0, 0.0)
    assert forfeit_returns("matrix_pd", 0, "zero_sum") == (0.0, 0.0)
    assert forfeit_returns("kuhn_poker", 2, "offender_only", players=3) == (0.0, 0.0, -2.0)
    assert forfeit_returns("kuhn_poker", 2, "spiral", players=3) == (0.5, 0.5, -1.5)
    assert forfeit_returns("tic_tac_toe", 1, "mars") == (0.0, -11.0)
    assert forfeit_returns("kuhn_poker", 0, "mars", actions=("bet",)) == (-12.0, 0.0)


@pytest.mark.parametrize("options", [{"rule": "forfit"}, {"payoff": "zero-sum"}, {"penalti": 1.0}])
def test_unknown_names_get_a_suggestion(options):
    with pytest.raises(UnknownNameError, match="Did you mean"):
        make_game("tic_tac_toe", illegal=options)


@pytest.mark.parametrize(
    "options", [{"penalty": -1.0}, {"penalty": "x"}, {"retries": 1.5}, {"penalty": float("nan")}, {"retries": True}]
)
def test_invalid_numbers_are_refused(options):
    with pytest.raises(ConfigError, match=r"write illegal\."):
        make_game("tic_tac_toe", illegal=options)
