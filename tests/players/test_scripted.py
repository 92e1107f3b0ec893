"""The scripted agent: moves as written, then preferences."""

from sparring import registry
from sparring.environments.catalogue import make_game
from sparring.rng import Stream


def say(state, **options):
    return registry.bind("players", "scripted", options)().choose(state, state.seat, Stream.from_seed(0))


def test_moves_are_said_in_order_legal_or_not():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    assert say(state, moves=["b2", "nonsense"]) == "b2"
    state.apply("b2")
    assert say(state, moves=["b2"]) == "b2"  # the other seat's first turn; illegal, said as written
    state.apply("a1")
    assert say(state, moves=["b2", "nonsense"]) == "nonsense"


def test_after_the_moves_the_first_legal_preference_is_played():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    state.apply("b2")
    assert say(state, preference=["b2", "c3", "a1"]) == "c3"
    assert say(state, preference=["b2"]) == say(state) == "a1"
