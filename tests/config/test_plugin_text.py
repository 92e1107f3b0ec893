"""One way to name a plug-in with options: a mapping, or a text, in recipes, in suites and on the command line."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparring.config import LossConfig, PluginConfig, resolve
from sparring.config.parts import parse_named, written
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import ConfigError
from sparring.measure.agent_spec import parse_agent
from sparring.measure.suite import OpponentEntry, OracleEntry, check_suite, load_suite, suite_names

TEXTS = {  # text -> the mapping that says the same
    "mirror": {"name": "mirror"},
    "mars:as_released": {"name": "mars", "preset": "as_released"},
    "mars gamma=0.9 by_role=false": {"name": "mars", "gamma": 0.9, "by_role": False},
    "grpo:dr_grpo over=turns": {"name": "grpo", "preset": "dr_grpo", "over": "turns"},
    "package.module.function most=3": {"name": "package.module.function", "most": 3},
    "llm_judge system='You play games.'": {"name": "llm_judge", "system": "You play games."},
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_says_what_a_mapping_says(text):
    assert PluginConfig.model_validate(text) == PluginConfig.model_validate(TEXTS[text])


def test_plug_ins_are_named_by_text_in_recipes():
    found = LossConfig.model_validate("entropy_bonus weight=0.25")
    assert (found.name, found.weight, found.options) == ("entropy_bonus", 0.25, {})
    changes = ["credit=grpo:dr_grpo", "losses=[ppo_clip, entropy_bonus weight=0.1]", "selection=variance_filter", "rollout.group_size=8"]
    changes += ["evaluation.opponents=[random games_per_seat=5]", "environments.0.oracle='cfr iterations=50'", "bots.b=random"]
    long = ["credit={name: grpo, preset: dr_grpo}", "losses=[{name: ppo_clip}, {name: entropy_bonus, weight: 0.1}]"]
    long += ["selection={name: variance_filter}", "rollout.group_size=8", "evaluation.opponents=[{name: random, games_per_seat: 5}]"]
    long += ["environments.0.oracle={name: cfr, iterations: 50}", "bots.b={name: random}"]
    short, written = (resolve(apply_overrides(load_recipe("kuhn-tiny"), found)) for found in (changes, long))
    assert short == written
    with pytest.raises(ValueError, match="Out of range"):
        written("x", {"a": float("inf")})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("mars 'gamma", "cannot be read"),
        ("mars gamma", "'gamma' is no option; write key=value"),
        ("mars =3", "is no option"),
        ("mars:as_released preset=x", "names it twice"),
        ("mars name=grpo", "names it twice"),
        ("marz", "Did you mean 'mars'"),
        ("mars gama=1", "gamma"),
        ("mars gamma=[", "is no value"),
    ],
)
def test_a_text_that_names_nothing_is_one_line(text, said):
    with pytest.raises(ConfigError) as caught:
        resolve({"environments": [{"name": "kuhn_poker"}], "credit": text})
    assert said in str(caught.value) and "\n" not in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_a_plug_in_or_one_line(text):
    try:
        resolve({"environments": [{"name": "kuhn_poker"}], "credit": text})
    except ConfigError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("entry", [OpponentEntry, OracleEntry])
def test_a_suite_takes_options_beside_the_name_below_options_or_as_text(entry):
    forms = ({"name": "cfr", "iterations": 7}, {"name": "cfr", "options": {"iterations": 7}}, "cfr iterations=7")
    assert [entry.model_validate(form).model_dump() for form in forms] == [{"name": "cfr", "options": {"iterations": 7}}] * 3
    with pytest.raises(ValueError, match="iterations stands beside the name and below options"):
        entry.model_validate({"name": "cfr", "iterations": 7, "options": {"iterations": 8}})


def test_an_unknown_option_in_a_suite_is_named_by_its_nearest():
    row = {"name": "k", "game": "kuhn_poker", "role": "trained", "kind": "match", "opponent": {"name": "cfr", "iteration": 7}}
    with pytest.raises(ConfigError, match="iterations"):
        check_suite("x", {"rows": [row]})


@pytest.mark.parametrize("name", suite_names())
def test_suites_are_written_as_recipes_are(name):
    for row in load_suite(name)[1].rows:
        for entry in filter(None, (row.opponent, row.oracle)):
            text = " ".join([entry.name, *(f"{key}={value!r}" for key, value in entry.options.items())])
            assert parse_named(text, "x", "x")[1] == entry.options
            if entry is row.opponent:
                assert parse_agent(text) == entry.spec


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(-1e6, 1e6) | st.text(), lambda inner: st.lists(inner, max_size=2), max_leaves=4)


@given(st.text(min_size=1), st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), VALUES, max_size=4))
@example("my player", {"system": "\U0001f600 \u00e9\n\x85\x7f"})
def test_what_is_written_is_read_as_it_was(name, options):
    assert parse_named(written(name, options), "x", "x") == (name, options)
    assert written(name if name.isascii() else "x", options).isascii()
