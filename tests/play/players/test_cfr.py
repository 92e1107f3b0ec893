"""The CFR agent: near equilibrium, sampled with the average policy's probabilities."""

from collections import Counter

import pyspiel
import pytest
from open_spiel.python.algorithms import expected_game_score, exploitability

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError, TooLargeError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel import solvers


def made(**options):
    return registry.bind("players", "cfr", options)()


@pytest.mark.parametrize(("variant", "most"), [("cfr", 0.01), ("cfr_plus", 0.001)])
def test_kuhn_poker_is_nearly_solved_and_worth_minus_one_eighteenth(variant, most):
    game = make_game("kuhn_poker")
    policy = made(variant=variant, iterations=400).policy(game)
    assert exploitability.nash_conv(game.spiel, policy) < most
    value = expected_game_score.policy_value(game.spiel.new_initial_state(), [policy, policy])
    assert value[0] == pytest.approx(-1 / 18, abs=most)


@pytest.mark.parametrize(
    ("name", "options", "most"), [("kuhn_poker", {"players": 3}, 0.01), ("tiny_hanabi", {}, 0.01), ("matrix_rps", {}, 0.01)]
)
def test_other_small_games(name, options, most):
    game = make_game(name, options=options)
    assert exploitability.nash_conv(game.spiel, made(iterations=200).policy(game)) < most


@pytest.mark.parametrize("variant", ["cfr", "cfr_plus"])
@pytest.mark.parametrize(
    ("name", "options"),
    [("kuhn_poker", {}), ("leduc_poker", {}), ("ordinal_2x2", {"game": "prisoners_dilemma"}), ("signalling", {}), ("repeated_dilemma", {})],
)
def test_the_policy_is_that_of_openspiels_solver(name, options, variant):
    game = make_game(name, options=options)
    solver = {"cfr": pyspiel.CFRSolver, "cfr_plus": pyspiel.CFRPlusSolver}[variant](game.spiel)
    for _ in range(25):
        solver.evaluate_and_update_policy()
    theirs = solver.tabular_average_policy()
    ours = made(variant=variant, iterations=25).policy(game)
    stack, met = [game.spiel.new_initial_state()], set()
    while stack:
        state = stack.pop()
        if not (state.is_terminal() or state.is_chance_node()):
            met.add(state.information_state_string())
            assert ours.action_probabilities(state) == pytest.approx(theirs.action_probabilities(state), abs=1e-9)
        stack += [state.child(action) for action in state.legal_actions()]
    assert len(met) > 1


def test_a_game_of_one_seat_is_solved():
    """OpenSpiel's solver comes to 0.5 here: it does not look below actions that no seat takes, and one seat is all of them."""
    game = make_game("urn", options={"urns": 2, "draws": 2})
    policy = made(iterations=200).policy(game)
    (value,) = expected_game_score.policy_value(game.spiel.new_initial_state(), [policy])
    best = solvers.best_response_value(game, 0, policy)
    assert best == pytest.approx(0.742125) and value == pytest.approx(best, abs=1e-3)


def test_actions_are_drawn_with_the_policys_probabilities():
    game, agent = make_game("kuhn_poker"), made()
    spiel = game.spiel.new_initial_state()
    for action in (1, 2, 0, 1):  # queen against king: first passes, second bets
        spiel.apply_action(action)
    state, root = game.state_of(spiel), Stream.from_seed(5)
    count = Counter(agent.choose(state, 0, root.child(number)) for number in range(4000))
    call = agent.policy(game).action_probabilities(state.spiel)[1]
    assert 0.25 < call < 0.75
    assert count["bet"] / 4000 == pytest.approx(call, abs=0.03)


def test_a_game_is_solved_once_per_rules_not_per_object():
    agent = made(iterations=2)
    assert agent.policy(make_game("kuhn_poker")) is agent.policy(make_game("kuhn_poker", options={"style": "full"}))
    assert agent.policy(make_game("kuhn_poker")) is not agent.policy(make_game("kuhn_poker", options={"players": 3}))


def test_games_it_does_not_fit_are_refused():
    with pytest.raises(TooLargeError, match="max_histories=1000"):
        made(max_histories=1000).policy(make_game("connect_four"))
    with pytest.raises(GameError, match="information states"):
        made().policy(make_game("hanabi"))
    with pytest.raises(ConfigError, match="iterations"):
        made(iterations=0)
    with pytest.raises(ConfigError, match="variant"):
        made(variant="cfr++")


def test_the_size_limit_counts_histories():
    from sparring.play.players.cfr import fits

    game = make_game("kuhn_poker")
    assert (fits(game, 58), fits(game, 57)) == (True, False)  # 1 + 3 + 6 deals, then 8 action sequences and their openings per deal
