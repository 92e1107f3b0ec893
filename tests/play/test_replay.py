"""Recorded games played again: the same states, whatever became of illegal replies; foreign records are refused."""

from dataclasses import replace

import pytest

from sparring.core.errors import RolloutError
from sparring.environments.catalogue import make_game
from sparring.play.replay import replay
from tests.play.plays import played


@pytest.mark.parametrize("name", ["tic_tac_toe", "kuhn_poker", "leduc_poker", "kuhn_rounds", "tiny_hanabi", "minesweeper", "signalling"])
def test_the_states_are_those_the_turns_were_taken_in(name):
    game = make_game(name)
    for episode in played(game):
        states = replay(game, episode)
        assert [state.seat for state in states] == [turn.seat for turn in episode.turns]
        assert [state.observe(state.seat).key for state in states] == [turn.state_key for turn in episode.turns]
        final = states[-1].clone()
        final.apply(episode.turns[-1].action)
        assert final.done and final.returns == episode.returns


@pytest.mark.parametrize(
    "illegal", [{"rule": "forfeit"}, {"rule": "retry", "retries": 2}, {"rule": "random"}], ids=lambda rule: rule["rule"]
)
def test_illegal_replies_are_played_again_as_they_were(illegal):
    game = make_game("tic_tac_toe", illegal=illegal)
    games = played(game, agent="scripted", moves=["b2", "a1"])  # the second seat is always late
    for episode in games:
        states = replay(game, episode)
        assert any(turn.event == "illegal" for turn in episode.turns)
        assert [state.legal_actions() for state in states] == [turn.legal_actions for turn in episode.turns]


def test_foreign_records_are_refused():
    tic, kuhn = make_game("tic_tac_toe"), make_game("kuhn_poker")
    episode = played(kuhn, 1)[0]
    with pytest.raises(RolloutError, match=r"'kuhn_poker'.*at turn 0.*tic_tac_toe"):
        replay(tic, episode)
    game = played(tic, 1)[0]
    wrong = (game.turns[0], game.turns[1]._replace(action=game.turns[0].action), *game.turns[2:])
    with pytest.raises(RolloutError, match="not legal at ply 1"):
        replay(tic, replace(game, turns=wrong))
    later = (*game.turns[:1], game.turns[1]._replace(seat=0), *game.turns[2:])
    with pytest.raises(RolloutError, match="at turn 1: another decision"):
        replay(tic, replace(game, turns=later))
