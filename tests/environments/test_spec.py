"""Environment specs: written as JSON, checked, and turned into an equal environment."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparring
from sparring.core.errors import ConfigError, GameError
from sparring.core.records import EnvironmentSpec
from sparring.environments.base import spec_of, to_json_data
from sparring.environments.catalogue import from_spec, make_game


def test_another_version_of_the_rules_is_refused(monkeypatch):
    spec = spec_of(make_game("kuhn_poker"))
    monkeypatch.setattr("sparring.environments.catalogue.version_of", lambda game: 2)
    with pytest.raises(GameError, match="'kuhn_poker' has version 2 here, but the record has version 1"):
        from_spec(spec)


def test_an_environment_without_a_maker_has_no_spec():
    game = make_game("kuhn_poker")
    game.made_by = None
    assert spec_of(game) is None
    game = make_game("nim", options={"pile_sizes": "1;2"})
    del game.made_by
    (episode,) = sparring.play_episodes(game, ["random", "random"])
    assert episode.environment is None


def test_keys_become_text_and_tuples_become_lists():
    assert to_json_data({1: (2, {3: {4}})}) == {"1": [2, {"3": "{4}"}]}


def test_the_spec_of_an_episode_makes_an_equal_environment():
    (episode,) = sparring.play_episodes(sparring.make_environment("nim", pile_sizes="1;2"), ["random", "random"])
    assert spec_of(sparring.make_environment(episode.environment)) == episode.environment
    with pytest.raises(ConfigError, match="leave the other arguments out"):
        sparring.make_environment(episode.environment, pile_sizes="1;2")


def test_a_spec_is_kept_until_the_name_changes():
    game = make_game("kuhn_poker")
    first_spec = spec_of(game)
    assert spec_of(game) is first_spec
    game.name = "other"
    assert spec_of(game).label == "other" and first_spec.label == ""


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists, max_leaves=5
    )
)
def test_json_values_are_unchanged(value):
    assert to_json_data({"a": value}) == json.loads(json.dumps({"a": value}))


@pytest.mark.parametrize(("version", "expected"), [(3, 3), ("1.0.2", 1), (None, 1), (2.7, 1), (True, 1), (len, 1)])
def test_versions_that_are_not_integers_become_1(version, expected):
    game = make_game("kuhn_poker")
    game.version = version
    assert spec_of(game).version == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"name": 5},
        {"name": ["a"]},
        {"options": [1]},
        {"illegal": "x"},
        {"label": 5},
        {"label": "\x1b"},
        {"version": "1"},
        {"version": True},
    ],
)
def test_invalid_fields_of_a_spec_are_refused(fields):
    with pytest.raises(ConfigError) as error:
        sparring.make_environment(EnvironmentSpec(**{"name": "kuhn_poker", **fields}))
    assert next(iter(fields)) in str(error.value)
