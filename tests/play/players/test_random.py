"""The random agent: uniform over the legal actions, one draw per decision."""

from collections import Counter

from scipy import stats

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game


def test_each_legal_action_is_equally_likely():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    state.apply("b2")
    agent, root = registry.bind("players", "random")(), Stream.from_seed(1)
    count = Counter(agent.choose(state, 1, root.child(number)) for number in range(4000))
    assert set(count) == set(state.legal_actions())
    assert stats.chisquare(list(count.values())).pvalue > 0.01


def test_the_choice_is_the_streams_first_draw():
    state = make_game("connect_four").reset(Stream.from_seed(0))
    agent, stream = registry.bind("players", "random")(), Stream.from_seed(3)
    assert agent.choose(state, 0, stream) == state.legal_actions()[stream.integer(0, 7)]
