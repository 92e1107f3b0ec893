"""References to players are written as text or JSON and read back; anything else is refused with one line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.records import (
    DEMONSTRATOR,
    LEARNER,
    PREFIXED_KINDS,
    PUBLISHED,
    SINGLE_KINDS,
    PlayerRef,
    bot,
    ref,
    refs,
    snapshot,
)

PLAYERS_BY_TEXT = {
    "learner": LEARNER,
    "policy": PUBLISHED,
    "demonstrator": DEMONSTRATOR,
    "past-000100": PlayerRef("snapshot", step=100),
    "past-1234567": PlayerRef("snapshot", step=1_234_567),
    "learner-leader": PlayerRef("learner", "leader"),
    "policy-leader": PlayerRef("policy", "leader"),
    "demonstrator-leader": PlayerRef("demonstrator", "leader"),
    "past-leader-000100": PlayerRef("snapshot", "leader", 100),
    "past-a-000001-000100": PlayerRef("snapshot", "a-000001", 100),
    "past-leader-12": PlayerRef("named", "past-leader-12"),  # the step of a snapshot has at least six digits
    "bot-random": PlayerRef("bot", "random"),
    "bot-bot-x": PlayerRef("bot", "bot-x"),
    "bot-past-000100": PlayerRef("bot", "past-000100"),
    "person-ada": PlayerRef("person", "ada"),
    "random": PlayerRef("named", "random"),
    "mcts simulations=100": PlayerRef("named", "mcts simulations=100"),
    "past-12": PlayerRef("named", "past-12"),  # the step of a snapshot has at least six digits
    "past-0000012": PlayerRef("named", "past-0000012"),
    "bot-": PlayerRef("named", "bot-"),
}


@pytest.mark.parametrize(("text", "player"), PLAYERS_BY_TEXT.items())
def test_a_text_and_its_player_are_converted_into_each_other(text, player):
    assert ref(text) == player and str(player) == text
    assert ref(player) is player
    assert PlayerRef.from_json(json.loads(json.dumps(player.to_json()))) == player


PLAYERS = st.one_of(
    st.sampled_from((LEARNER, PUBLISHED, DEMONSTRATOR)),
    st.builds(snapshot, st.integers(0, 10**18 - 1), st.text(min_size=1)),
    st.builds(PlayerRef, st.sampled_from(SINGLE_KINDS), st.text()),
    st.builds(PlayerRef, st.sampled_from(PREFIXED_KINDS), st.text(min_size=1)),
    st.builds(ref, st.text(min_size=1)),
)


@given(player=PLAYERS)
def test_a_player_survives_text_and_json(player):
    assert ref(str(player)) == player and hash(ref(str(player))) == hash(player)
    assert PlayerRef.from_json(json.loads(json.dumps(player.to_json()))) == player


@given(first_player=PLAYERS, second_player=PLAYERS)
def test_different_players_have_different_texts(first_player, second_player):
    assert (str(first_player) == str(second_player)) == (first_player == second_player)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("king",), "Unknown kind of player 'king'"),
        (("learner", 3), "give it a policy's name, or none"),
        (("learner", "main"), "a reference to the policy 'main' needs no name"),
        (("bot",), "give it a name"),
        (("bot", 3), "name=3 does not fit"),
        (("named", ""), "give it a name"),
        (("snapshot",), "give it the step"),
        (("snapshot", "", -1), "step=-1 does not fit"),
        (("snapshot", "", True), "step=True does not fit"),
        (("snapshot", "", 10**18), "give it the step"),
        (("snapshot", "main", 1), "leave out name='main'"),
        (("learner", "", 1), "give it no step"),
        (("named", "learner"), "is the name of another kind of player"),
        (("named", "past-000100"), r"write ref\('past-000100'\)"),
    ],
)
def test_a_reference_with_wrong_fields_is_refused(parts, message):
    with pytest.raises(ConfigError, match=message):
        PlayerRef(*parts)


@pytest.mark.parametrize("value", [None, "learner", [], {}, {"name": "x"}, {"kind": "bot", "name": "x", "age": 3}])
def test_json_that_is_not_a_reference_is_refused(value):
    with pytest.raises(ConfigError, match="is not a reference to a player"):
        PlayerRef.from_json(value)
    with pytest.raises(UnknownNameError):
        PlayerRef.from_json({"kind": "king"})


@pytest.mark.parametrize("value", ["", None, 3, ("learner",)])
def test_a_value_that_is_not_a_player_is_refused(value):
    with pytest.raises(ConfigError, match="is not a player"):
        ref(value)


def test_references_are_compared_by_their_fields_and_immutable():
    assert (
        LEARNER.for_policy("leader") == PlayerRef("learner", "leader")
        and LEARNER.for_policy("leader").for_policy("main") == LEARNER
    )
    assert snapshot(3, "leader") == snapshot(3).for_policy("leader") != snapshot(3) == snapshot(3, "main")
    assert bot("random").for_policy("leader") == bot("random")
    assert refs(["learner", bot("random")]) == (LEARNER, bot("random"))
    for value in ("learner", 3):
        with pytest.raises(ConfigError, match="is not a list of players; write one per seat"):
            refs(value)
    with pytest.raises(AttributeError):
        LEARNER.kind = "policy"
