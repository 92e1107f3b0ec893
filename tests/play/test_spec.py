import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.records import LEARNER, PlayerRef, Segment, Turn, Verdict, bot, ref, snapshot
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.random import random
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec, turn_of, turn_record
from tests.cases import every_case

ENVIRONMENTS = [*registry.names("environments"), "matrix_pd", "pig"]
LONGEST_NAME = "x" * 100  # the longest name of a player and the longest label
MAX_BYTES = 4096  # largest size of the JSON of a spec without a prefix


def make_spec(name="kuhn_poker", *, seat="a", **fields):
    game = make_game(name)
    root = Stream.from_seed(7)
    defaults = {
        "episode_id": 3,
        "group_id": 1,
        "deal": root,
        "stream": root.child(2),
        "seats": (seat,) * game.num_seats,
        "trained": (True,) * game.num_seats,
    }
    return EpisodeSpec(**{"game": game, **defaults, **fields})


def json_text(value):
    return json.dumps(value.to_json())


def to_json_and_back(value):
    return EpisodeSpec.from_json(json.loads(json_text(value)))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_spec_of_every_environment_survives_json_and_plays_the_same(name):
    spec = make_spec(name)
    text = json_text(spec)
    episodes = play(
        [
            replace(
                spec,
                stream=spec.stream.child(number),
                deal=spec.deal.child(number),
                episode_id=number,
                group_id=number,
            )
            for number in range(20)
        ],
        {"a": random()},
    )
    assert json_text(spec) == text and len(text) <= MAX_BYTES
    restored = to_json_and_back(spec)
    assert (
        restored == spec
        and restored.game is not spec.game
        and hash(restored) == hash(spec)
        and json_text(restored) == text
    )
    (first_episode,), (second_episode,) = (play([each_spec], {"a": random()}) for each_spec in (spec, restored))
    assert first_episode == second_episode and len(episodes) == 20


@every_case("name", ENVIRONMENTS)
def test_a_spec_with_long_names_stays_below_the_size_limit(name):
    longest_spec = make_spec(
        name, seat=PlayerRef("endpoint", LONGEST_NAME), arm=f"{LONGEST_NAME}:{2**63}", max_turns=2**31
    )
    longest_spec.game.name = LONGEST_NAME
    largest_id = 2**64 - 1
    longest_spec = replace(
        longest_spec, episode_id=largest_id, group_id=largest_id, deal=Stream(largest_id), stream=Stream(largest_id)
    )
    assert len(json_text(longest_spec)) <= MAX_BYTES and to_json_and_back(longest_spec) == longest_spec


def test_the_json_of_a_spec_by_hand():
    assert make_spec(seats=("learner", "past-000010"), trained=(True, False), arm="kuhn_poker").to_json() == {
        "version": 1,
        "environment": {
            "name": "kuhn_poker",
            "options": {},
            "illegal": {"rule": "forfeit", "penalty": 0.0, "retries": 2, "payoff": "zero_sum"},
            "label": "",
            "version": 1,
        },
        "episode_id": 3,
        "group_id": 1,
        "deal": Stream.from_seed(7).key,
        "stream": Stream.from_seed(7).child(2).key,
        "seats": [{"kind": "learner"}, {"kind": "snapshot", "step": 10}],
        "trained": [True, False],
        "max_turns": None,
        "arm": "kuhn_poker",
        "prefix": [],
        "redealt": False,
    }


def game_with_change(change):
    game = make_game(
        "kuhn_poker",
        options={"players": 3} if change == "options" else {},
        illegal={"rule": "random"} if change == "illegal" else {},
    )
    if change == "label":
        game.name = "other"
    return game


CHANGED_FIELDS = {
    "episode_id": 4,
    "group_id": 2,
    "deal": Stream(1),
    "stream": Stream(1),
    "seats": ("a", "b"),
    "trained": (True, False),
    "max_turns": 1,
    "arm": "x",
    "prefix": (Turn(0, 0, "a", "k", (), "x", "x", "ok", {}),),
    "redealt": True,
}


def test_specs_are_equal_if_fields_and_environment_specs_are():
    first_spec = make_spec()
    assert first_spec == make_spec() and first_spec.game is not make_spec().game and first_spec != "spec"
    for field, value in CHANGED_FIELDS.items():
        assert replace(first_spec, **{field: value}) != first_spec, field
    for change in ("options", "illegal", "label"):
        assert replace(first_spec, game=game_with_change(change)) != first_spec, change


def test_rules_without_a_name_are_only_equal_to_themselves():
    first_spec, second_spec = make_spec(), make_spec()
    del first_spec.game.made_by, second_spec.game.made_by
    assert first_spec == replace(first_spec) and first_spec != second_spec
    with pytest.raises(ConfigError, match="was not made by its name"):
        first_spec.to_json()


def test_environments_are_made_once_if_a_cache_is_given():
    games = {}
    first_spec, second_spec, third_spec = (
        EpisodeSpec.from_json(spec.to_json(), games=games)
        for spec in (make_spec(), make_spec(episode_id=9), make_spec("nim"))
    )
    assert first_spec.game is second_spec.game and len(games) == 2 and third_spec.game in games.values()


def test_a_prefix_is_sent_and_replayed():
    spec_without_prefix = make_spec("tic_tac_toe", episode_id=0, group_id=0)
    (episode,) = play([spec_without_prefix], {"a": random()})
    spec = replace(spec_without_prefix, prefix=episode.turns[:3], redealt=True)
    assert to_json_and_back(spec) == spec
    (first_episode,), (second_episode,) = (
        play([each_spec], {"a": random()}) for each_spec in (spec, to_json_and_back(spec))
    )
    assert first_episode == second_episode and first_episode.turns[:3] == episode.turns[:3]


words = st.text(st.characters(codec=None), max_size=8)  # lone surrogates included
floats = st.floats(allow_nan=False)
ids = st.lists(st.integers(0, 2**31), max_size=3).map(tuple)
segments = st.builds(
    Segment,
    kind=st.sampled_from(["prompt", "context", "sampled", "boundary"]),
    ids=ids,
    logprobs=st.lists(floats, max_size=3).map(tuple),
    support=st.lists(ids, max_size=2).map(tuple),
    weights_version=st.integers(0, 9),
)
verdicts = st.builds(
    Verdict,
    actions=st.lists(words, max_size=3).map(tuple),
    values=st.lists(floats, max_size=3).map(tuple),
    best=st.frozensets(words, max_size=2),
    certainty=floats,
    bound=floats,
    entropy=st.none() | floats,
)
replies = st.builds(
    Turn,
    seat=st.integers(0, 5),
    turn_index=st.integers(0, 99),
    agent=words,
    state_key=words,
    legal_actions=st.lists(words, max_size=3).map(tuple),
    reply=words,
    action=st.none() | words,
    event=st.sampled_from(["ok", "illegal", "unparsable"]),
    rewards=st.dictionaries(words, floats, max_size=2),
    segments=st.lists(segments, max_size=3).map(tuple),
    conversation=st.integers(0, 9),
    truncated=st.booleans(),
    weights_version=st.integers(0, 9),
    view=words,
    prompt=words,
    moment=st.integers(0, 99),
    verdict=st.none() | verdicts,
    playout=st.none() | floats,
    attempt=st.integers(0, 9),
    candidate=st.integers(0, 3),
    score=st.none() | floats,
    candidates=st.just(()),
    playout_before=st.none() | floats,
    note=st.booleans(),
)
turns = replies | st.tuples(replies, replies).map(lambda pair: pair[0]._replace(candidates=(pair[1],)))


@settings(max_examples=80, deadline=None)
@given(turns)
def test_any_turn_survives_json(turn):
    assert turn_of(json.loads(json.dumps(turn_record(turn)))) == turn


def test_the_best_actions_of_a_verdict_are_in_order():
    verdict = Verdict(actions=tuple("zyxabc"), values=(0.0,) * 6, best=frozenset("zyxabc"))
    assert turn_record(CHANGED_FIELDS["prefix"][0]._replace(verdict=verdict))["verdict"]["best"] == list("abcxyz")


@settings(max_examples=60, deadline=None)
@given(
    keys_and_ids=st.tuples(*[st.integers(0, 2**64 - 1)] * 4),
    seats=st.tuples(
        *[st.sampled_from([LEARNER, snapshot(3), bot("x"), ref("random"), PlayerRef("mixture", "ünï")])] * 2
    ),
    trained=st.tuples(st.booleans(), st.booleans()),
    max_turns=st.none() | st.integers(1, 10**6),
    arm=words,
    prefix=st.lists(turns, max_size=2).map(tuple),
    redealt=st.booleans(),
)
def test_any_spec_survives_json(keys_and_ids, seats, trained, max_turns, arm, prefix, redealt):
    deal, stream, episode, group = keys_and_ids
    spec = make_spec(
        deal=Stream(deal),
        stream=Stream(stream),
        episode_id=episode,
        group_id=group,
        seats=seats,
        trained=trained,
        max_turns=max_turns,
        arm=arm,
        prefix=prefix,
        redealt=redealt,
    )
    assert to_json_and_back(spec) == spec


WRONG_FIELDS = [
    *[
        (field, value, field)
        for field in ("episode_id", "group_id", "deal", "stream")
        for value in (-1, 2**64, "1", 1.0, True, None)
    ],
    ("version", 0, "version 1"),
    ("version", 2, "reads up to 1"),
    ("trained", [True], "2 players"),
    ("trained", [1, 1], "true or false"),
    ("seats", [{"kind": "learner"}], "2 players"),
    ("seats", [{"kind": "learner"}, "a"], "not a reference to a player"),
    ("seats", "ab", "seats="),
    ("max_turns", 0, "max_turns=0"),
    ("max_turns", 1.5, "max_turns=1.5"),
    ("arm", None, "arm=None"),
    ("redealt", 1, "redealt=1"),
    ("environment", None, "environment=None"),
    ("environment", {"name": "kuhn_poker", "colour": 1}, "EnvironmentSpec"),
    ("environment", {"name": 5}, "name=5"),
    ("prefix", {}, "prefix="),
    *[
        ("prefix", [turn], "is not a record of a turn")
        for turn in (
            None,
            {},
            "x",
            {**turn_record(CHANGED_FIELDS["prefix"][0]), "seat": "0"},
            {**turn_record(CHANGED_FIELDS["prefix"][0]), "more": 0},
        )
    ],
    *[
        ("prefix", [{**turn_record(CHANGED_FIELDS["prefix"][0]), field: value}], "is not a record of a turn")
        for field, value in (
            ("event", "won"),
            ("reply", None),
            ("action", 1),
            ("segments", [{}]),
            ("verdict", []),
            ("rewards", []),
            ("legal_actions", "ab"),
        )
    ],
]


@every_case(("field", "value", "match"), WRONG_FIELDS)
def test_a_wrong_field_of_a_record_is_refused(field, value, match):
    with pytest.raises(ConfigError, match=match):
        EpisodeSpec.from_json({**make_spec().to_json(), field: value})


@pytest.mark.parametrize("value", [None, [], "x", 3, {}, {"version": 1}, {**make_spec().to_json(), "more": 1}])
def test_json_that_is_not_a_record_is_refused(value):
    with pytest.raises(ConfigError, match="is not an EpisodeSpec of version 1"):
        EpisodeSpec.from_json(value)


def test_a_missing_environment_is_refused_by_name(monkeypatch):
    record = make_spec().to_json()
    with pytest.raises(UnknownNameError, match="kuhn_poker"):
        EpisodeSpec.from_json({**record, "environment": {**record["environment"], "name": "khun_poker"}})
    with pytest.raises(GameError, match="the record has version 2"):
        EpisodeSpec.from_json({**record, "environment": {**record["environment"], "version": 2}})
