"""The cache of positions that episodes of one game share."""

import pyspiel

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel import position
from sparring.environments.openspiel.position import BISECT_ABOVE, Position, pick_outcome
from tests.environments.worlds import state_after


def record_random_episode(game, seed):
    """Return all observations, legal actions and returns of a random episode."""
    stream = Stream.from_seed(seed)
    state, record = game.reset(stream.child("deal")), []
    while not state.done:
        observations = [state.observe(state.seat, since) for since in (0, state.plies)]
        assert [((observation.prompt, observation.ask), observation.key) for observation in observations] == [
            (game.tell_seat(state, state.seat, since), game.key(state, state.seat)) for since in (0, state.plies)
        ]
        record.append((state.seat, observations, state.legal_actions(), state.returns))
        state.apply(state.legal_actions()[stream.integer(state.plies, len(state.legal_actions()))])
    return [*record, state.returns, state.trail]


def test_episodes_are_the_same_with_and_without_the_cache(monkeypatch):
    for name in ("kuhn_poker", "leduc_poker", "tic_tac_toe", "hanabi", "tiny_hanabi", "first_sealed_auction"):
        cached_game = make_game(name)
        with monkeypatch.context() as patch:
            records = [record_random_episode(cached_game, seed) for seed in (0, 1, 0)]
            patch.setattr(position, "MAX_CACHED_POSITIONS", 0)
            uncached_game = make_game(name)
            assert records == [record_random_episode(uncached_game, seed) for seed in (0, 1, 0)]
            assert uncached_game.num_cached_positions == 0 < cached_game.num_cached_positions


def test_episodes_share_positions_that_match_openspiel():
    game = make_game("tic_tac_toe")
    first_state, second_state = game.reset(Stream.from_seed(0)), game.reset(Stream.from_seed(1))
    first_state.apply(first_state.legal_actions()[0])
    assert (first_state.plies, second_state.plies) == (1, 0)
    second_state.apply(second_state.legal_actions()[0])
    assert first_state.spiel is second_state.spiel
    copy = first_state.clone()
    copy.apply(copy.legal_actions()[0])
    assert (first_state.plies, copy.plies, first_state.spiel.history()) == (1, 2, [0])
    game = make_game("leduc_poker")
    state, openspiel_state = (
        game.reset(Stream.from_seed(3)),
        pyspiel.load_game("leduc_poker", {"suit_isomorphism": True}).new_initial_state(),
    )
    for event in state.trail:
        openspiel_state.apply_action(event.action)
    while not state.done:
        assert str(state.spiel) == str(openspiel_state) and list(state.returns) == openspiel_state.returns()
        num_events = len(state.trail)
        state.apply(state.legal_actions()[-1])
        for event in state.trail[num_events:]:
            openspiel_state.apply_action(event.action)
    assert openspiel_state.is_terminal()
    first_state, second_state = (
        state_after(make_game("tic_tac_toe"), *moves).observe(1) for moves in (("a1", "b2", "c3"), ("c3", "b2", "a1"))
    )
    assert first_state.key != second_state.key and first_state.view == second_state.view
    hanabi = make_game("hanabi").reset(Stream.from_seed(0))
    assert hanabi.observe(hanabi.seat).view


def count_cached(position):
    return sum(1 + count_cached(child) for child in position._children.values())


def test_the_cache_is_bounded_and_keeps_positions_of_recent_episodes(monkeypatch):
    monkeypatch.setattr(position, "MAX_CACHED_POSITIONS", 20)
    game = make_game("tic_tac_toe")
    for seed in range(20):
        record_random_episode(game, seed)
        assert count_cached(game.opening) <= game.num_cached_positions <= 20
    num_reused = 0
    for seed in range(20, 40):
        num_before = game.num_cached_positions
        record_random_episode(game, seed)
        num_after = game.num_cached_positions
        record_random_episode(game, seed)
        num_reused += num_after > num_before and game.num_cached_positions == num_after
    assert num_reused >= 5


def test_both_ways_to_sample_chance_outcomes_agree():
    class Dice:
        def __init__(self, weights):
            self.faces = [(10 * face, weight / sum(weights)) for face, weight in enumerate(weights)]

        def current_player(self):
            return pyspiel.PlayerId.CHANCE

        def chance_outcomes(self):
            return self.faces

    for weights in (
        [1] * (BISECT_ABOVE + 1),
        [face % 7 for face in range(3 * BISECT_ABOVE)],
        [0] * BISECT_ABOVE + [1, 0],
    ):
        dice = Dice(weights)
        position = Position(dice, ())
        for number in range(400):
            uniform = Stream.from_seed(number).uniform(0)
            assert position.outcome_at(uniform) == pick_outcome(dice.faces, uniform)
        assert position.outcome_at(1.0 - 2**-53) == pick_outcome(dice.faces, 1.0 - 2**-53)
