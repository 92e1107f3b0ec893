"""The scripted agent: moves as written, then preferences."""

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec


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


PREFERENCE = ["b2", "a1", "c3", "c1", "a3", "a2", "b1", "c2", "b3"]


def bot(**options):
    return registry.bind("players", "scripted", options)()


def test_a_preferred_cell_player_plays_every_attempt_of_a_trial_alike():
    game = make_game("trial", options={"environment": {"name": "tic_tac_toe"}, "reflect": False, "redeal": "fresh"})
    root, marks = Stream.from_seed(3), {}
    spec = EpisodeSpec(game=game, episode_id=0, group_id=0, deal=root, stream=root.child(1), seats=("x", "o"), trained=(True, False))
    (episode,) = play([spec], {"x": bot(preference=PREFERENCE[::-1]), "o": bot(preference=PREFERENCE)})
    for turn in episode.turns:
        marks.setdefault((turn.attempt, turn.seat), []).append(turn.action)
    assert len(marks) == 6
    for seat in (0, 1):
        assert marks[0, seat] == marks[1, seat] == marks[2, seat]
    taken = []
    for number, cell in enumerate(turn.action for turn in episode.turns if turn.attempt == 0):
        order = PREFERENCE[::-1] if number % 2 == 0 else PREFERENCE
        assert cell == next(one for one in order if one not in taken)
        taken.append(cell)


def test_it_says_exactly_how_it_plays_where_it_can():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    assert bot(preference=["b2"]).chances(state, 0) == bot(moves=["b2", "a1"]).chances(state, 0) == {"b2": 1.0}
    state.apply("b2")
    assert bot(moves=["a1", "c3"]).chances(state, 1) == {"a1": 1.0}
    with pytest.raises(GameError, match=r"says 'b2' at its turn 0, which is not legal there"):
        bot(moves=["b2"]).chances(state, 1)
    with pytest.raises(GameError, match=r"Throw, which does not count a seat's turns; write preference"):
        bot(moves=["rock"]).chances(make_game("rock_paper_scissors").reset(Stream.from_seed(0)), 0)


def test_where_a_play_counts_no_turns_preferences_are_played_and_moves_are_refused():
    throw = make_game("rock_paper_scissors").reset(Stream.from_seed(0))
    assert bot(preference=["scissors"]).choose(throw, 1, Stream.from_seed(0)) == "scissors"
    with pytest.raises(GameError, match=r"which of moves=\('rock',\) is due cannot be told from Throw alone.*write preference"):
        bot(moves=["rock"]).choose(throw, 0, Stream.from_seed(0))
