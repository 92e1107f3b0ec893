"""Positions shared among plays."""

import pyspiel

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel import position
from sparring.environments.openspiel.position import MANY, Position, pick
from tests.environments.worlds import state_after


def playthrough(game, seed):
    """Return everything that is told and paid in a random play."""
    stream = Stream.from_seed(seed)
    state, record = game.reset(stream.child("deal")), []
    while not state.done:
        observations = [state.observe(state.seat, since) for since in (0, state.plies)]
        assert [((seen.prompt, seen.ask), seen.key) for seen in observations] == [
            (game.tell_seat(state, state.seat, since), game.key(state, state.seat)) for since in (0, state.plies)
        ]
        record.append((state.seat, observations, state.legal_actions(), state.returns))
        state.apply(state.legal_actions()[stream.integer(state.plies, len(state.legal_actions()))])
    return [*record, state.returns, state.trail]


def test_what_is_kept_changes_nothing(monkeypatch):
    for name in ("kuhn_poker", "leduc_poker", "tic_tac_toe", "hanabi", "tiny_hanabi", "first_sealed_auction"):
        shared = make_game(name)
        with monkeypatch.context() as patch:
            plays = [playthrough(shared, seed) for seed in (0, 1, 0)]
            patch.setattr(position, "KEPT", 0)
            fresh = make_game(name)
            assert plays == [playthrough(fresh, seed) for seed in (0, 1, 0)]
            assert fresh.positions_kept == 0 < shared.positions_kept


def test_plays_share_positions_that_agree_with_openspiel():
    game = make_game("tic_tac_toe")
    first, second = game.reset(Stream.from_seed(0)), game.reset(Stream.from_seed(1))
    first.apply(first.legal_actions()[0])
    assert (first.plies, second.plies) == (1, 0)
    second.apply(second.legal_actions()[0])
    assert first.spiel is second.spiel
    copy = first.clone()
    copy.apply(copy.legal_actions()[0])
    assert (first.plies, copy.plies, first.spiel.history()) == (1, 2, [0])
    game = make_game("leduc_poker")
    state, plain = (
        game.reset(Stream.from_seed(3)),
        pyspiel.load_game("leduc_poker", {"suit_isomorphism": True}).new_initial_state(),
    )
    for event in state.trail:
        plain.apply_action(event.action)
    while not state.done:
        assert str(state.spiel) == str(plain) and list(state.returns) == plain.returns()
        before = len(state.trail)
        state.apply(state.legal_actions()[-1])
        for event in state.trail[before:]:
            plain.apply_action(event.action)
    assert plain.is_terminal()
    first, second = (
        state_after(make_game("tic_tac_toe"), *moves).observe(1) for moves in (("a1", "b2", "c3"), ("c3", "b2", "a1"))
    )
    assert first.key != second.key and first.view == second.view
    hanabi = make_game("hanabi").reset(Stream.from_seed(0))
    assert hanabi.observe(hanabi.seat).view


def num_kept(position):
    return sum(1 + num_kept(child) for child in position._children.values())


def test_no_more_positions_are_kept_than_allowed_and_those_are_of_the_latest_plays(monkeypatch):
    monkeypatch.setattr(position, "KEPT", 20)
    game = make_game("tic_tac_toe")
    for seed in range(20):
        playthrough(game, seed)
        assert num_kept(game.opening) <= game.positions_kept <= 20
    known = 0
    for seed in range(20, 40):
        before = game.positions_kept
        playthrough(game, seed)
        num_kept_now = game.positions_kept
        playthrough(game, seed)
        known += num_kept_now > before and game.positions_kept == num_kept_now
    assert known >= 5


def test_many_chance_outcomes_are_drawn_as_few_are():
    class Dice:
        def __init__(self, weights):
            self.faces = [(10 * face, weight / sum(weights)) for face, weight in enumerate(weights)]

        def current_player(self):
            return pyspiel.PlayerId.CHANCE

        def chance_outcomes(self):
            return self.faces

    for weights in ([1] * (MANY + 1), [face % 7 for face in range(3 * MANY)], [0] * MANY + [1, 0]):
        dice = Dice(weights)
        position = Position(dice, ())
        for number in range(400):
            uniform = Stream.from_seed(number).uniform(0)
            assert position.outcome_at(uniform) == pick(dice.faces, uniform)
        assert position.outcome_at(1.0 - 2**-53) == pick(dice.faces, 1.0 - 2**-53)
