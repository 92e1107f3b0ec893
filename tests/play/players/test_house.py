"""House: the partner that an environment brings along."""

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.base import PendingTurn
from sparring.play.players.house import house


def test_it_says_what_the_play_says():
    play, stream = make_game("bargain").reset(Stream.from_seed(1)), Stream.from_seed(2)
    (reply,) = house().act([PendingTurn(state=play, seat=0, stream=stream)])
    assert reply.text == play.house(0, stream) and reply.text.startswith("offer ")


def test_a_game_without_one_is_refused_by_name():
    play = make_game("kuhn_poker").reset(Stream.from_seed(1))
    with pytest.raises(GameError, match=r"State in .* has no partner of its own"):
        registry.bind("players", "house", {})().act([PendingTurn(state=play, seat=0, stream=Stream.from_seed(2))])
