"""Bluff: claims in words and free text, payoffs, and the equilibrium in closed form."""

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

test_environment_contract = make_contract_test(
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


def test_free_text_is_read_as_a_claim():
    assert [
        claimed_card(text)
        for text in ("HIGH!", "not low, it is strong", "my card is great... no, weak", "trust me", "")
    ] == ["high", "high", "low", "low", "low"]
    episode = episode_after_lines("low", "Believe me: it is a STRONG one", "believe", speech="free")
    assert episode.returns == (1.0, -1.0)
    assert episode_after_lines("low", "hm", speech="free").returns == (-1.0, 1.0)
    assert episode.legal(0) is None and episode.legal(1) == ("believe", "call")


def test_the_listener_sees_the_claim_and_not_the_card():
    for style in ("brief", "full"):
        honest, dishonest = (episode_after_lines(card, "high", style=style) for card in ("high", "low"))
        assert honest.observe(1) == dishonest.observe(1)
        assert honest.observe(0).key != dishonest.observe(0).key
    assert "high" in episode_after_lines("low", "high").observe(1).prompt


def test_kinds_of_turns_and_shares_of_cards():
    episode = episode_after_lines("high")
    assert (episode.kind(0), episode.kind(1)) == ("claim", "")
    cards = [bluff().reset(Stream.from_seed(seed)).card for seed in range(200)]
    assert 70 < cards.count("high") < 130


def episode_after_lines(card, *lines, **options):
    rules = bluff(**options)
    episode = next(episode for _, episode in rules.openings() if episode.card == card)
    for line in lines:
        episode.step({episode.due()[0]: line})
    return episode


@pytest.mark.parametrize(
    ("card", "lines", "payoff"),
    [
        ("high", ("low",), -1),
        ("low", ("low",), -1),
        ("high", ("high", "believe"), 1),
        ("low", ("high", "believe"), 1),
        ("high", ("high", "call"), 3),
        ("low", ("high", "call"), -3),
    ],
)
def test_payoffs_by_hand(card, lines, payoff):
    episode = episode_after_lines(card, *lines, stake=2.0)
    assert episode.done and episode.due() == () and episode.returns == (payoff, -payoff)


@pytest.mark.parametrize("stake", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("phrases", [1, 2])
def test_game_value_matches_the_closed_form(stake, phrases):
    states = enumerate_info_states(make_game("bluff", options={"stake": stake, "phrases": phrases}))
    assert equilibrium_value(states.tree, states.seats, states.widths) == pytest.approx(stake / (2 + stake))


@pytest.mark.parametrize("stake", [1.0, 3.0])
def test_equilibrium_policy_matches_the_closed_form(stake):
    arrays = walk(tree_of(make_game("bluff", options={"stake": stake})))
    widths = np.array([len(legal) for legal in arrays.legal])
    policy = average_strategies(arrays.tree, arrays.seats, widths, 3000)
    probabilities = {key: row for (_, key), row in zip(arrays.index_of, policy, strict=True)}
    assert probabilities["0 speaker card high"][0] == pytest.approx(1.0, abs=0.01)
    assert probabilities["0 speaker card low"][0] == pytest.approx(stake / (2 + stake), abs=0.02)
    assert probabilities["1 listener heard high"][1] == pytest.approx(2 / (2 + stake), abs=0.02)
    assert policy_values(arrays.tree, arrays.seats, policy).returns[0] == pytest.approx(stake / (2 + stake), abs=0.005)
