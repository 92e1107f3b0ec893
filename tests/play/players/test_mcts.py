"""The MCTS agent: takes wins, repeats itself, refuses to peek."""

import pyspiel
import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game


def made(**options):
    return registry.bind("players", "mcts", options)()


def after(*moves, name="tic_tac_toe"):
    state = make_game(name).reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


@pytest.mark.parametrize("options", [{}, {"solve": True}, {"rollouts": 4, "uct_c": 1.4}])
def test_it_takes_a_win_and_blocks_a_loss(options):
    agent = made(simulations=1000, **options)
    for seed in range(5):
        stream = Stream.from_seed(seed)
        assert agent.choose(after("a1", "a2", "b1", "b2"), 0, stream) == "c1"
        assert agent.choose(after("a1", "b2", "b1"), 1, stream) == "c1"
        assert agent.choose(after(*"112233", name="connect_four"), 0, stream) == "4"


def test_the_choice_is_a_function_of_the_stream():
    agent, state = made(simulations=5), after()
    chosen = [[agent.choose(state, 0, Stream.from_seed(seed)) for seed in range(20)] for _ in range(2)]
    assert chosen[0] == chosen[1]
    assert len(set(chosen[0])) > 1


def test_search_and_rollouts_are_both_seeded_by_the_stream(monkeypatch):
    seeds, bot, evaluator = [], pyspiel.MCTSBot, pyspiel.RandomRolloutEvaluator
    monkeypatch.setattr(pyspiel, "MCTSBot", lambda *args: seeds.append(args[6]) or bot(*args))
    monkeypatch.setattr(pyspiel, "RandomRolloutEvaluator", lambda *args: seeds.append(args[1]) or evaluator(*args))
    for seed in (0, 1, 0):
        made(simulations=2).choose(after(), 0, Stream.from_seed(seed))
    assert seeds[:2] == seeds[4:]
    assert len(set(seeds)) == 4


def test_more_simulations_play_better_against_random():
    def score(agent):
        other, total = registry.bind("players", "random")(), 0.0
        for episode in range(60):
            state, seat = after(), episode % 2
            while not state.done:
                mover = agent if state.seat == seat else other
                state.apply(mover.choose(state, state.seat, Stream.from_seed(episode).child(state.plies)))
            total += state.returns[seat]
        return total / 60

    assert score(made(simulations=200)) > max(0.7, score(made(simulations=2)))


def test_hidden_information_is_refused():
    with pytest.raises(GameError, match="write agent cfr or random"):
        made().choose(make_game("kuhn_poker").reset(Stream.from_seed(0)), 0, Stream.from_seed(0))


@pytest.mark.parametrize("options", [{"simulations": 0}, {"rollouts": 0}, {"uct_c": -1.0}])
def test_numbers_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match="mcts"):
        made(**options)
