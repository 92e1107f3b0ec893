"""The minimax agent: exact values, uniform among the best, refusals."""

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError, TooLargeError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game


def made(**options):
    return registry.bind("players", "minimax", options)()


def after(*moves, name="tic_tac_toe"):
    state = make_game(name).reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


AGENT = made()


def test_tic_tac_toe_is_a_draw_from_every_first_cell():
    assert set(AGENT.action_values(after()).values()) == {0.0}


def test_values_are_the_moving_seats():
    assert AGENT.action_values(after("a1", "b1")) == {"c1": 0.0, "a2": 1.0, "b2": 1.0, "c2": 0.0, "a3": 1.0, "b3": 0.0, "c3": 0.0}
    values = AGENT.action_values(after("b2"))  # the centre is answered by a corner
    assert {action for action, value in values.items() if value == 0.0} == {"a1", "c1", "a3", "c3"}
    assert {value for action, value in values.items() if action[0] == "b" or action[1] == "2"} == {-1.0}


def test_it_draws_uniformly_among_the_best_actions():
    chosen = {AGENT.choose(after("b2"), 1, Stream.from_seed(seed)) for seed in range(60)}
    assert chosen == {"a1", "c1", "a3", "c3"}


def test_random_moves_are_as_many_as_asked_for():
    state, root, agent = after("a1", "b1"), Stream.from_seed(1), made(random_moves=0.4)
    said = [agent.choose(state, 0, root.child(number)) for number in range(4000)]
    for action, share in {"a2": 0.6 / 3 + 0.4 / 7, "c1": 0.4 / 7}.items():
        assert said.count(action) / 4000 == pytest.approx(share, abs=0.03)
    assert {agent.choose(state, 0, root.child(number)) for number in range(200)} == set(state.legal_actions())
    with pytest.raises(ConfigError, match=r"players 'minimax', option 'random_moves': Input should be less than or equal to 1, got 2\.0"):
        made(random_moves=2.0)


def test_it_never_loses_to_random_play():
    other = registry.bind("players", "random")()
    for episode in range(100):
        state, seat = after(), episode % 2
        while not state.done:
            mover = AGENT if state.seat == seat else other
            state.apply(mover.choose(state, state.seat, Stream.from_seed(episode).child(state.plies)))
        assert state.returns[seat] >= 0.0


def test_games_it_does_not_fit_are_refused():
    with pytest.raises(GameError, match="write agent mcts or cfr"):
        AGENT.choose(make_game("kuhn_poker").reset(Stream.from_seed(0)), 0, Stream.from_seed(0))
    with pytest.raises(TooLargeError, match="max_states=500"):
        made(max_states=500).choose(after(), 0, Stream.from_seed(0))
    with pytest.raises(ConfigError, match="max_states"):
        made(max_states=0)
