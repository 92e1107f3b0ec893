"""Bluff: the equilibrium lies with a share that is known, in words and in free text."""

import numpy as np
import pytest

from sparring.core.rng import Stream
from sparring.environments.bluff import bluff, claimed_card
from sparring.environments.catalogue import make_game
from sparring.environments.history_tree import tree_of
from sparring.environments.tree_arrays import walk
from sparring.measure.info_states import enumerate_info_states
from sparring.ops.game_tree import average_strategies, policy_values
from sparring.ops.sequence_form import equilibrium_value
from tests.environments.worlds import make_contract_test

test_it_keeps_the_contract = make_contract_test(
    bluff,
    [
        {},
        {"style": "full"},
        {"phrases": 3, "stake": 2.5},
        {"speech": "free"},
        {"speech": "free", "style": "full"},
    ],
    plays=10,
)


def test_what_is_heard_and_dealt():
    assert [
        claimed_card(text)
        for text in ("HIGH!", "not low, it is strong", "my card is great... no, weak", "trust me", "")
    ] == ["high", "high", "low", "low", "low"]
    play = played("low", "Believe me: it is a STRONG one", "believe", speech="free")
    assert play.returns == (1.0, -1.0)
    assert played("low", "hm", speech="free").returns == (-1.0, 1.0)
    assert play.legal(0) is None and play.legal(1) == ("believe", "call")
    for style in ("brief", "full"):
        honest, lie = (played(card, "high", style=style) for card in ("high", "low"))
        assert honest.observe(1) == lie.observe(1)
        assert honest.observe(0).key != lie.observe(0).key
    assert "high" in played("low", "high").observe(1).prompt
    play = played("high")
    assert (play.kind(0), play.kind(1)) == ("claim", "")
    cards = [bluff().reset(Stream.from_seed(seed)).card for seed in range(200)]
    assert 70 < cards.count("high") < 130


def played(card, *lines, **options):
    rules = bluff(**options)
    play = next(play for _, play in rules.openings() if play.card == card)
    for line in lines:
        play.step({play.due()[0]: line})
    return play


@pytest.mark.parametrize(
    ("card", "lines", "won"),
    [
        ("high", ("low",), -1),
        ("low", ("low",), -1),
        ("high", ("high", "believe"), 1),
        ("low", ("high", "believe"), 1),
        ("high", ("high", "call"), 3),
        ("low", ("high", "call"), -3),
    ],
)
def test_what_is_won(card, lines, won):
    play = played(card, *lines, stake=2.0)
    assert play.done and play.due() == () and play.returns == (won, -won)


@pytest.mark.parametrize("stake", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("phrases", [1, 2])
def test_the_value_is_the_one_that_the_page_says(stake, phrases):
    states = enumerate_info_states(make_game("bluff", options={"stake": stake, "phrases": phrases}))
    assert equilibrium_value(states.tree, states.seats, states.widths) == pytest.approx(stake / (2 + stake))


@pytest.mark.parametrize("stake", [1.0, 3.0])
def test_the_equilibrium_lies_and_calls_as_the_page_says(stake):
    arrays = walk(tree_of(make_game("bluff", options={"stake": stake})))
    widths = np.array([len(legal) for legal in arrays.legal])
    policy = average_strategies(arrays.tree, arrays.seats, widths, 3000)
    rows = {key: row for (_, key), row in zip(arrays.number, policy, strict=True)}
    assert rows["0 speaker card high"][0] == pytest.approx(1.0, abs=0.01)
    assert rows["0 speaker card low"][0] == pytest.approx(stake / (2 + stake), abs=0.02)
    assert rows["1 listener heard high"][1] == pytest.approx(2 / (2 + stake), abs=0.02)
    assert policy_values(arrays.tree, arrays.seats, policy).returns[0] == pytest.approx(stake / (2 + stake), abs=0.005)
