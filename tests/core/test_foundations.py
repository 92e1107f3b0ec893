"""Errors, streams, schedules, the registry and the configuration."""

import math
import shlex
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sparring import config
from sparring.config import recipe, resolve
from sparring.core import rng, schedule
from sparring.core.errors import ConfigError, UnknownNameError, nearest
from sparring.core.rng import Stream
from sparring.environments.catalogue import configured_game
from tests.cases import every_case

ROOT = Path(__file__).parents[2]
KEYS = st.integers(0, 2**64 - 1)


@given(st.lists(KEYS, min_size=1, max_size=5), st.integers(0, 10**6))
def test_vectorised_draws_equal_the_scalar_ones_bit_for_bit(keys, counter):
    draws = rng.uniforms(np.array(keys, dtype=np.uint64), counter)
    assert draws.tolist() == [Stream(key).uniform(counter) for key in keys]
    assert all(0 <= draw < 1 for draw in draws)


@given(KEYS, st.sampled_from(["deal", 0, 1, 17]), st.sampled_from(["play", "1", 2, 3]))
def test_child_streams_differ_from_each_other_and_from_their_parent(key, first_word, second_word):
    stream = Stream(key)
    assert len({stream.key, stream.child(first_word).key, stream.child(second_word).key}) == 3
    assert stream.child(first_word).key == Stream(key).child(first_word).key


@pytest.mark.parametrize("seed", [-1, 2**64, 2**64 + 1, 10**400])
def test_a_seed_beyond_64_bits_is_refused(seed):
    with pytest.raises(ConfigError, match="is not a number of 64 bits"):
        Stream.from_seed(seed)
    with pytest.raises(ConfigError, match=r"^seed: "):
        resolve({"environments": [{"name": "kuhn_poker"}], "seed": seed})


def test_the_largest_seed_is_accepted():
    assert resolve({"environments": [{"name": "kuhn_poker"}], "seed": 2**64 - 1}).seed == 2**64 - 1
    assert Stream.from_seed(2**64 - 1).key != Stream.from_seed(0).key


def test_equal_keys_give_equal_streams_and_others_differ():
    keys = {Stream.from_seed(seed).child(number).key for seed in range(100) for number in range(100)}
    assert len(keys) == 10_000
    first_generator, second_generator = Stream(5).generator(), Stream(5).generator()
    assert first_generator.random() == second_generator.random() != Stream(6).generator().random()


def test_integers_and_shuffles_are_uniform():
    assert {Stream.from_seed(1).integer(i, 3) for i in range(50)} == {0, 1, 2}
    orders = Counter(tuple(Stream.from_seed(seed).shuffled("abc")) for seed in range(1200))
    assert len(orders) == 6 and min(orders.values()) > 150
    pairs = Counter(tuple(Stream.from_seed(seed).shuffled(range(4), 2)) for seed in range(2400))
    assert len(pairs) == 12 and min(pairs.values()) > 140


def test_a_short_shuffle_is_the_start_of_the_full_one():
    stream = Stream.from_seed(5)
    assert (
        stream.shuffled(range(9), 4) == stream.shuffled(range(9))[:4]
        and stream.shuffled([]) == stream.shuffled("ab", 0) == []
    )


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_a_device_that_the_tiny_model_does_not_run_on_is_refused(device):
    with pytest.raises(ConfigError, match=f"the tiny model runs on the CPU and not on device='{device}'"):
        resolve({"environments": [{"name": "kuhn_poker"}], "model": {"device": device}})
    resolve({"environments": [{"name": "kuhn_poker"}], "model": {"device": "cpu"}})


@pytest.mark.parametrize(
    "draw", [lambda i: Stream.from_seed(0).uniform(i), lambda i: Stream.from_seed(i).child("x").uniform(0)]
)
def test_draws_are_uniform_along_counters_and_across_streams(draw):
    counts = np.histogram([draw(i) for i in range(20_000)], bins=50, range=(0, 1))[0]
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(
    ("value", "values"),
    [
        (0.5, {0: 0.5, 1: 0.5}),
        ({"schedule": "constant", "value": 2}, {0.3: 2.0}),
        ({"schedule": "linear", "start": 1.0, "end": 0.0}, {-1: 1.0, 0: 1.0, 0.25: 0.75, 1: 0.0, 2: 0.0}),
        ({"schedule": "linear", "start": 0.0, "end": 1.0, "until": 0.5}, {0.25: 0.5, 0.5: 1.0, 0.9: 1.0}),
        (
            {"schedule": "cosine", "start": 1.0, "end": 0.0},
            {0: 1.0, 0.5: 0.5, 1: 0.0, 0.25: (1 + math.cos(math.pi / 4)) / 2},
        ),
        (
            {"schedule": "linear", "start": 2.0, "end": 0.0, "rise": 0.5},
            {0: 0.0, 0.25: 1.0, 0.5: 2.0, 0.75: 1.0, 1: 0.0},
        ),
        (
            {"schedule": "linear", "start": 2.0, "end": 1.0, "rise": 0.2, "until": 0.6},
            {0.1: 1.0, 0.4: 1.5, 0.6: 1.0, 1: 1.0},
        ),
        ({"schedule": "cosine", "start": 1.0, "end": 0.0, "rise": 0.2}, {0: 0.0, 0.1: 0.5, 0.2: 1.0, 0.6: 0.5, 1: 0.0}),
        (
            {"schedule": "staircase", "values": [3, 2, 1], "at": [0.5, 0.8]},
            {0: 3.0, 0.49: 3.0, 0.5: 2.0, 0.8: 1.0, 1: 1.0},
        ),
    ],
)
def test_schedules_by_hand(value, values):
    parsed_schedule = schedule.parse(value)
    assert {progress: parsed_schedule(progress) for progress in values} == pytest.approx(values)


@pytest.mark.parametrize(
    "value",
    [
        "fast",
        True,
        None,
        {"schedule": "quadratic"},
        {"schedule": "linear", "start": 1.0},
        {"schedule": "linear", "start": 1.0, "end": 0.0, "slope": 1},
        {"schedule": "linear", "start": "a", "end": 0.0},
        {"schedule": "linear", "start": 1.0, "end": 0.0, "until": 0},
        {"schedule": "linear", "start": 1.0, "end": 0.0, "rise": 1.0},
        {"schedule": "cosine", "start": 1.0, "end": 0.0, "rise": -0.1},
        {"schedule": "staircase", "values": [1, 2], "at": [0.5, 0.7], "rise": 0.1},
        {"schedule": "staircase", "values": [1, 2], "at": [0.5, 0.7]},
        {"schedule": "staircase", "values": [1, 2, 3], "at": [0.7, 0.5]},
    ],
)
def test_bad_schedules_are_refused_with_the_key(value):
    with pytest.raises(ConfigError, match="learner"):
        schedule.parse(value, "learner.learning_rate")


@given(st.text(max_size=8))
def test_the_nearest_names_of_any_text_are_at_most_three(text):
    assert len(nearest(text, ["mars", "grpo", "rae"])) <= 3


def test_an_unknown_name_is_refused_with_the_nearest_one():
    assert "Did you mean" in str(UnknownNameError("x", "marz", ["mars"]))
    assert "There are none" in str(UnknownNameError("x", "marz", []))


SMALLEST_CONFIG = {"environments": [{"name": "kuhn_poker"}]}


def test_every_recipe_resolves_and_reads_back_equal():
    for name in recipe.recipe_names():
        resolved = config.resolve(recipe.load_recipe(name))
        assert config.resolve(yaml.safe_load(recipe.to_yaml(resolved))) == resolved
        assert resolved.name == name and resolved.summary


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sede": 1}, "Did you mean 'seed'"),
        ({"learner": {"epoch": 1}}, "Did you mean 'epochs'"),
        ({"environments": [{"name": "kuhn_poker", "ilegal": {}}]}, "Did you mean 'illegal'"),
        ({"environments": []}, "environments"),
        ({"environments": [{"name": "kuhn_poker"}] * 2}, "listed twice.*label"),
        ({"environments": [{"name": "kuhn_poker"}, {"name": "leduc_poker", "label": "kuhn_poker"}]}, "listed twice"),
        ({"environments": [{"name": "kuhn_poker", "weight": 0}]}, "held out by weight 0"),
        ({"environments": [{"name": "kuhn_poker", "weight": -1}]}, "weight"),
        ({"steps": 0}, "steps"),
        ({"losses": [{"name": "ppo_clap"}]}, "Did you mean 'ppo_clip'"),
        ({"losses": [{"name": "ppo_clip", "weight": "heavy"}]}, "losses.0.weight"),
        ({"learner": {"learning_rate": {"schedule": "linear"}}}, "learner.learning_rate"),
        ({"model": {"heads": 5}}, "must divide"),
        ({"rollout": {"temperature": 0}}, "temperature"),
    ],
)
def test_wrong_configurations_are_refused_with_the_key(changes, message):
    with pytest.raises(ConfigError, match=message):
        config.resolve({**SMALLEST_CONFIG, **changes})


def test_overrides_change_list_items_and_replace_plugins_completely():
    data = {"a": {"b": [{"c": 1}]}}
    assert recipe.apply_overrides(data, ["a.b.0.c=2", "x.y=[1, 2]", "z={k: v}"]) == {
        "a": {"b": [{"c": 2}]},
        "x": {"y": [1, 2]},
        "z": {"k": "v"},
    }
    assert data == {"a": {"b": [{"c": 1}]}}
    base_config = {"credit": {"name": "rae", "decay": 0.9}, "learner": {"epochs": 2, "betas": [0.9, 0.9]}}
    merged_config = recipe.merge(base_config, {"credit": {"name": "mars"}, "learner": {"epochs": 1}})
    assert merged_config == {"credit": {"name": "mars"}, "learner": {"epochs": 1, "betas": [0.9, 0.9]}}


@pytest.mark.parametrize("override", ["a", "=1", "a.b.7.c=1", "a.b.x=1", "s.t=1", "a=[1"])
def test_overrides_of_missing_keys_are_refused(override):
    with pytest.raises(ConfigError, match="Override"):
        recipe.apply_overrides({"a": {"b": [{"c": 1}]}, "s": 3}, [override])


@pytest.mark.parametrize("name", [name for name in recipe.recipe_names() if name.startswith(("mars/", "spiral/"))])
def test_recipes_of_chat_models_state_what_happens_to_thoughts(name):
    renderer = config.resolve(recipe.load_recipe(name)).renderer
    assert renderer.name == "plain" or {"thinking", "history"} <= renderer.options.keys()


@pytest.mark.parametrize("name", ["spiral/kuhn-paper", "spiral/multi-game-paper"])
def test_published_settings_of_spiral(name):
    """Every turn is one sample, an update has 128 samples, and a forfeit (-1.5) is worse than a loss (-1)."""
    resolved = config.resolve(recipe.load_recipe(name))
    assert resolved.renderer.options["history"] == "strip" and resolved.learner.reduction == "constant"
    games = [configured_game(section) for section in resolved.environments]
    assert all((game.min_utility, game.max_utility) == (-1, 1) for game in games)
    # mean length of a random episode, measured
    mean_turns = {
        "tic_tac_toe": 7.75,
        "kuhn_rounds": 11.2,
        "simple_negotiation": 10,
    }
    assert resolved.rollout.games_per_step * sum(mean_turns[game.name] for game in games) / len(games) == pytest.approx(
        128, rel=0.1
    )


def test_recipes_are_read_once_and_returned_as_copies(monkeypatch):
    recipe_data = recipe.load_recipe("mars/kuhn-tiny")
    monkeypatch.setattr(recipe, "read_text", lambda *_: pytest.fail("read again"))
    assert "extends" in recipe._read_built_in(recipe.FOLDER / "mars" / "kuhn-tiny.yaml", "Recipe 'mars/kuhn-tiny'")
    recipe_data["environments"][0]["name"] = recipe_data["credit"]["name"] = "changed"
    data_again = recipe.load_recipe("mars/kuhn-tiny")
    assert "changed" not in (data_again["environments"][0]["name"], data_again["credit"]["name"])


def test_a_recipe_may_extend_several(tmp_path):
    (tmp_path / "one.yaml").write_text(
        "environments: [{name: tic_tac_toe}, {name: kuhn_poker, weight: 0}]\nrollout: {games_per_step: 128}\n"
    )
    (tmp_path / "both.yaml").write_text(f"extends: [spiral/multi-game-tiny, {tmp_path / 'one.yaml'}]\nsteps: 7\n")
    merged_config = recipe.load_recipe(str(tmp_path / "both.yaml"))
    assert (merged_config["credit"]["name"], merged_config["steps"], merged_config["rollout"]["games_per_step"]) == (
        "rae",
        7,
        128,
    )
    assert [game.get("weight", 1) for game in merged_config["environments"]] == [1, 0]


def test_recipes_are_named_by_path():
    names = recipe.recipe_names()
    assert "mars/kuhn-tiny" in names and "spiral/kuhn-paper" in names
    assert not any(name.rpartition("/")[2].startswith("_") for name in names)


def test_parts_of_recipes_are_no_recipes():
    with pytest.raises(UnknownNameError, match="recipe"):
        recipe.load_recipe("mars/_tiny")
    with pytest.raises(UnknownNameError, match="mars/kuhn-tiny"):
        recipe.load_recipe("mars/kuhn-tini")
    assert recipe.load_recipe("mars/_tiny", may_be_incomplete=True)["credit"] == {"name": "mars"}


def test_a_removed_recipe_is_refused_with_its_replacement():
    with pytest.raises(ConfigError) as error:
        recipe.load_recipe("mars/ablations/rae")
    assert "It is part of the study mars. Instead: sparring train mars/multi-game-tiny steps=300" in str(error.value)
    assert not REMOVED.keys() & {*recipe.recipe_names()}


REMOVED = recipe.parse_yaml((recipe.FOLDER / "_removed.yaml").read_text(), "removed")


@every_case("name", REMOVED)
def test_the_replacement_of_a_removed_recipe_is_a_valid_recipe(name):
    recipe_name, *overrides = shlex.split(REMOVED[name]["write"])
    data = recipe.apply_overrides(recipe.load_recipe(recipe_name), overrides)
    assert config.resolve(data) and data != recipe.load_recipe(recipe_name)
    assert (
        "study" not in REMOVED[name]
        or (ROOT / "studies" / REMOVED[name]["study"].replace("-", "_") / "study.py").is_file()
    )
