"""Bluff: the equilibrium lies with a share that is known, in words and in free text."""

import numpy as np
import pytest

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.base import spec_of
from sparring.environments.bluff import MEANT, bluff, claimed_card
from sparring.environments.catalogue import from_spec, make_game
from sparring.environments.history_tree import tree_of
from sparring.environments.tree_arrays import walk
from sparring.measure.info_states import enumerate_info_states
from sparring.ops.game_tree import average_strategies, policy_values
from sparring.ops.sequence_form import equilibrium_value
from sparring.testing import check_picture
from tests.environments.worlds import keeping

test_it_keeps_the_contract = keeping(bluff, [
    {}, {"style": "full"}, {"phrases": 3, "stake": 2.5}, {"speech": "free"}, {"speech": "free", "style": "full"},
], plays=10)


def test_what_is_heard_dealt_and_made_again():
    assert [claimed_card(text) for text in ("HIGH!", "not low, it is strong", "my card is great... no, weak", "trust me", "")] == ["high", "high", "low", "low", "low"]
    play = played("low", "Believe me: it is a STRONG one", "believe", speech="free")
    assert play.returns == (1.0, -1.0)
    assert played("low", "hm", speech="free").returns == (-1.0, 1.0)
    assert play.legal(0) is None and play.legal(1) == ("believe", "call")
    for style in ("brief", "full"):
        one, other = (played(card, "high", style=style) for card in ("high", "low"))
        assert one.observe(1) == other.observe(1)
        assert one.observe(0).key != other.observe(0).key
    assert "high" in played("low", "high").observe(1).told
    play = played("high")
    assert (play.kind(0), play.kind(1)) == ("claim", "")
    game = bluff(phrases=3)
    for word in (one for words in MEANT.values() for one in words):
        for answer in ("believe", "call"):
            play, told = played("low", phrases=3), []
            for line in (word, answer):
                if play.due():
                    told += play.observe(play.due()[0]).text.split()
                    play.step({play.due()[0]: line})
            told += [line for seat in (0, 1) for line in play.ending(seat).split()]
            assert {*told, *play.replies} <= set(game.vocabulary())
    made = make_game("bluff", options={"stake": 2.0, "phrases": 2})
    assert from_spec(spec_of(made)).claims == ("high", "strong", "low", "weak")
    with pytest.raises(ConfigError, match=r"option .stake.: Input should be greater than or equal to 0.000001"):
        make_game("bluff", options={"stake": 0.0})
    cards = [bluff().reset(Stream.from_seed(seed)).card for seed in range(200)]
    assert 70 < cards.count("high") < 130
    check_picture(bluff, plays=4, deals=4)


def played(card, *said, **options):
    rules = bluff(**options)
    play = next(play for _, play in rules.openings() if play.card == card)
    for line in said:
        play.step({play.due()[0]: line})
    return play


@pytest.mark.parametrize(("card", "said", "won"), [
    ("high", ("low",), -1), ("low", ("low",), -1), ("high", ("high", "believe"), 1), ("low", ("high", "believe"), 1), ("high", ("high", "call"), 3), ("low", ("high", "call"), -3),
])
def test_what_is_won(card, said, won):
    play = played(card, *said, stake=2.0)
    assert play.done and play.due() == () and play.returns == (won, -won)


@pytest.mark.parametrize("stake", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("phrases", [1, 2])
def test_the_value_is_the_one_that_the_page_says(stake, phrases):
    states = enumerate_info_states(make_game("bluff", options={"stake": stake, "phrases": phrases}))
    assert equilibrium_value(states.tree, states.seats, states.widths) == pytest.approx(stake / (2 + stake))


@pytest.mark.parametrize("stake", [1.0, 3.0])
def test_the_equilibrium_lies_and_calls_as_the_page_says(stake):
    found = walk(tree_of(make_game("bluff", options={"stake": stake})))
    widths = np.array([len(legal) for legal in found.legal])
    policy = average_strategies(found.tree, found.seats, widths, 3000)
    said = {key: row for (_, key), row in zip(found.number, policy, strict=True)}
    assert said["0 speaker card high"][0] == pytest.approx(1.0, abs=0.01)
    assert said["0 speaker card low"][0] == pytest.approx(stake / (2 + stake), abs=0.02)
    assert said["1 listener heard high"][1] == pytest.approx(2 / (2 + stake), abs=0.02)
    assert policy_values(found.tree, found.seats, policy).returns[0] == pytest.approx(stake / (2 + stake), abs=0.005)
