"""Recipe files: layers over a recipe, allowed YAML, plug-ins written as text, and old recipes."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from sparring.config import LossConfig, PluginConfig, recipe, resolve, yaml_text
from sparring.config.parts import parse_named, to_option_text
from sparring.config.recipe import apply_overrides, layers, load_recipe, recipe_names
from sparring.config.yaml_text import dump_yaml, parse_value, parse_yaml, read_text
from sparring.core.errors import ConfigError, UnknownNameError, quoted
from sparring.measure.agent_spec import parse_agent
from sparring.measure.suite import OpponentEntry, OracleEntry, check_suite, load_suite, suite_names
from sparring.report.explanations import entries, explanation


def test_layers_are_applied_over_a_recipe_in_order(tmp_path):
    recipe_data = load_recipe("mars/kuhn-paper")
    layered = apply_overrides(recipe_data, ["learner.micro_tokens=99", "learner.ranks=2", "with=scale/8-gpus"])
    assert (
        layered["learner"]["ranks"] == 2
        and layered["learner"]["micro_tokens"] == 99
        and layered["learner"]["sharding"] == "fsdp2"
    )
    assert (
        layered["learner"]["minibatches"] == 16
        and layered["model"]["name"] == "Qwen/Qwen3-4B"
        and layered["sampler"]["name"] == "vllm"
    )
    assert "sharding" not in recipe_data["learner"], "the recipe itself is not changed"
    with pytest.raises(
        ConfigError, match=r"is a layer for another recipe; write for example mars/kuhn-paper with=scale/8-gpus"
    ):
        load_recipe("scale/8-gpus")
    assert not {*layers()} & {*recipe_names()}
    rows = {row["name"]: row for row in entries("recipes")}
    assert rows["scale/ray-gpus"]["kind"] == "layer" and "with=scale/ray-gpus" in rows["scale/ray-gpus"]["summary"]
    assert "sharding: fsdp2" in explanation("scale/8-gpus")
    (own_layer := tmp_path / "mine.yaml").write_text("learner: {ranks: 8}\nmodel: {context: 99}\n")
    layered = apply_overrides(load_recipe("mars/kuhn-paper"), [f"with=[scale/8-gpus, {own_layer}]"])
    assert (
        layered["learner"]["ranks"] == 8 and layered["model"]["device"] == "cuda" and layered["model"]["context"] == 99
    )
    layered_twice = apply_overrides(load_recipe("mars/kuhn-paper"), ["with=scale/8-gpus", f"with={own_layer}"])
    assert layered_twice == layered
    (extending := tmp_path / "both.yaml").write_text("extends: [mars/kuhn-paper, scale/8-gpus]\n")
    assert load_recipe(str(extending)) == apply_overrides(load_recipe("mars/kuhn-paper"), ["with=scale/8-gpus"])


@pytest.mark.parametrize("text", ["3", "null", "{a: b}", "[scale/8-gpus, 3]"])
def test_a_value_that_is_no_layer_is_refused(text):
    with pytest.raises(ConfigError, match=r"must name layers: write with=scale/8-gpus"):
        apply_overrides({}, [f"with={text}"])
    with pytest.raises(UnknownNameError, match=r"Unknown layer 'scale/8-gpu'. Did you mean 'scale/8-gpus'"):
        apply_overrides({}, ["with=scale/8-gpu"])
    with pytest.raises(UnknownNameError, match="layer"):
        apply_overrides({}, ["with=kuhn-tiny"])
    with pytest.raises(ConfigError, match=r"There is no file 'no.yaml'"):
        apply_overrides({}, ["with=no.yaml"])


ALIAS_BOMB = (
    "{a0: &a0 [x, x, x, x, x, x, x, x], "
    + ", ".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 12))
    + "}"
)
MERGE_BOMB = (
    "{m0: &m0 {x: 1, y: 2}, "
    + ", ".join(f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}]}}" for i in range(1, 9))
    + "}"
)
ALIAS_CHAIN = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 3000))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("-3e+2", -300.0),
        ("+1e2", 100.0),
        (".5e3", 500.0),
        ("1.5e3", 1500.0),
        ("3.e2", 300.0),
        (
            "{learning_rate: {schedule: linear, start: 3e-3, end: 0.0}}",
            {"learning_rate": {"schedule": "linear", "start": 3e-3, "end": 0.0}},
        ),
        ("[1e-8, 2]", [1e-8, 2]),
    ],
)
def test_numbers_with_exponents_are_numbers(text, value):
    assert parse_yaml(text, "x") == value


@pytest.mark.parametrize(
    "text", ["1e4x", "e4", "1e", "1e-", "12e5f", "0x1e5z", "1_e", "'1e5'", '"12e5"', "1e5.0", "a1e5", "1-e5", "1e5e5"]
)
def test_text_that_only_looks_like_a_number_stays_text(text):
    assert parse_yaml(text, "x") == text.strip("'\"")


@pytest.mark.parametrize(
    "text",
    ["1", "1.5", "true", "off", "null", "~", "0x1f", "1_000", "1:30", ".5", "a: {b: [c, 1]}", "plain words", "''", "-"],
)
def test_other_values_are_read_as_by_pyyaml(text):
    assert parse_yaml(text, "x") == yaml.safe_load(text)


def test_dates_are_read_as_text_and_unreadable_files_are_refused(tmp_path):
    assert parse_yaml("[2001-01-01, 2001-99-99, 2001-01-01 10:00:00]", "x") == [
        "2001-01-01",
        "2001-99-99",
        "2001-01-01 10:00:00",
    ]
    assert [quoted(value) for value in ("a b", 3, 1.5, None, [1, "x"], {"a": 1})] == [
        "'a b'",
        "3",
        "1.5",
        "None",
        "[1, 'x']",
        "{'a': 1}",
    ]
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff")
    (tmp_path / "mark.yaml").write_bytes(b"\xef\xbb\xbfname: x")
    (tmp_path / "large.yaml").write_bytes(b"#" * 10_000_001)
    assert read_text(tmp_path / "mark.yaml", "x") == "name: x"
    for name, message in (
        ("latin.yaml", "not UTF-8 text: byte 0xff at position 6"),
        (".", "directory"),
        ("large.yaml", "bytes"),
        ("none", "No such"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_text(tmp_path / name, "Recipe 'r'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 2000, "more than 50 nested levels"),
        ("- " * 200 + "x", "more than 50 nested levels"),
        ("!!int x", "does not fit its kind"),
        ("!!timestamp x", "tag"),
        ("!!python/object/apply:os.getcwd []", "tag"),
        ("!mine {a: 1}", "tag"),
        (ALIAS_BOMB, "aliases"),
        (MERGE_BOMB, "<<"),
        (ALIAS_CHAIN, "aliases"),
        ("&a [*a]", "aliases"),
        ("&a {b: *a}", "aliases"),
        ("*a", "alias"),
        ("1" * 5000, "does not fit its kind"),
        ("0x" + "f" * 9000, "36000 bits"),
        ("{[1]: 2}", "unhashable"),
        ("a: [1", "line 1"),
        ("\x00", "unacceptable"),
        ("a: b: c", "mapping values"),
    ],
    ids=lambda text: quoted(text, 30),
)
def test_yaml_that_cannot_be_read_is_refused_with_one_short_line(text, message):
    for parse in (lambda: parse_yaml(text, "Recipe 'r'"), lambda: parse_value(text, "Override 'k=v'", "k")):
        with pytest.raises(ConfigError) as error:
            parse()
        assert message in str(error.value)
        assert "\n" not in str(error.value) and len(str(error.value)) < 500


@given(
    st.recursive(
        st.text(st.characters(codec="utf-8", exclude_categories=["C"]))
        | st.integers(-(2**63), 2**63)
        | st.floats()
        | st.booleans()
        | st.none(),
        lambda x: st.lists(x) | st.dictionaries(st.text("ab1e.-"), x),
    )
)
def test_written_yaml_is_read_back_equal(value):
    assert repr(parse_yaml(dump_yaml(value), "x")) == repr(value)


@pytest.mark.parametrize("text", ["1e5", "12e5", "1e-4", "+1E2", "2001-01-01", "yes", "0x1", "1_0e3"])
def test_texts_that_look_like_numbers_are_quoted(text):
    assert parse_yaml(dump_yaml({"name": text}), "x") == {"name": text}
    assert yaml.safe_load(dump_yaml({"name": text})) == {"name": text}  # PyYAML reads YAML 1.1


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10_000,
        list(range(10_000)),
        {str(i): i for i in range(9999)},
        10**5000,
        -(10**400),
        [[[[[[1]]]]]],
        b"x" * 999,
        {1: {"a": ["b" * 500] * 500}},
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_quote_large_values_shortened(value):
    assert len(quoted(value)) <= 130 and "\n" not in quoted(value)


def test_cached_yaml_is_returned_as_a_copy_and_long_text_is_not_cached(monkeypatch):
    text, long_text = "a: [1, {b: 2}]", f"a: {'x' * yaml_text.MAX_CACHED}"
    value, _ = parse_yaml(text, "x"), parse_yaml(long_text, "x")
    monkeypatch.setattr(yaml_text, "_parse_uncached", lambda text: text)
    value["a"][1]["b"] = 3
    assert parse_yaml(text, "x") == {"a": [1, {"b": 2}]}
    assert parse_yaml(long_text, "x") == long_text


OLD_FILES = json.loads((Path(__file__).parent.parent / "data" / "recipes_v0.json").read_text(encoding="utf-8"))
RECIPES = sorted(
    name.removeprefix("recipes/").removesuffix(".yaml") for name in OLD_FILES if name.startswith("recipes/")
)
SUITES = sorted(name for name in OLD_FILES if name.startswith("suites/"))


@pytest.fixture(scope="module")
def old_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    for name, text in OLD_FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", [name for name in RECIPES if not name.rpartition("/")[2].startswith("_")])
def test_an_old_recipe_still_resolves(old_folder, monkeypatch, name):
    monkeypatch.setattr(recipe, "FOLDER", old_folder / "recipes")
    assert resolve(recipe.load_recipe(name)).environments


@pytest.mark.parametrize("name", SUITES)
def test_an_old_suite_equals_the_current_one(old_folder, name):
    old_suite, current_suite = load_suite(str(old_folder / name))[1], load_suite(Path(name).stem)[1]
    assert [row.model_dump() for row in old_suite.rows] == [row.model_dump() for row in current_suite.rows]


PLUG_INS_AS_TEXT = {  # text -> the equivalent mapping
    "mirror": {"name": "mirror"},
    "mars:as_released": {"name": "mars", "preset": "as_released"},
    "mars gamma=0.9 by_role=false": {"name": "mars", "gamma": 0.9, "by_role": False},
    "grpo:dr_grpo over=turns": {"name": "grpo", "preset": "dr_grpo", "over": "turns"},
    "package.module.function most=3": {"name": "package.module.function", "most": 3},
    "llm_judge system='You play games.'": {"name": "llm_judge", "system": "You play games."},
}


@pytest.mark.parametrize("text", PLUG_INS_AS_TEXT)
def test_a_plug_in_as_text_equals_its_mapping(text):
    assert PluginConfig.model_validate(text) == PluginConfig.model_validate(PLUG_INS_AS_TEXT[text])


def test_recipes_accept_plug_ins_as_text():
    loss = LossConfig.model_validate("entropy_bonus weight=0.25")
    assert (loss.name, loss.weight, loss.options) == ("entropy_bonus", 0.25, {})
    text_overrides = [
        "credit=grpo:dr_grpo",
        "losses=[ppo_clip, entropy_bonus weight=0.1]",
        "selection=variance_filter",
        "rollout.group_size=8",
    ]
    text_overrides += [
        "evaluation.opponents=[random games_per_seat=5]",
        "environments.0.oracle='cfr iterations=50'",
        "bots.b=random",
    ]
    mapping_overrides = [
        "credit={name: grpo, preset: dr_grpo}",
        "losses=[{name: ppo_clip}, {name: entropy_bonus, weight: 0.1}]",
    ]
    mapping_overrides += [
        "selection={name: variance_filter}",
        "rollout.group_size=8",
        "evaluation.opponents=[{name: random, games_per_seat: 5}]",
    ]
    mapping_overrides += ["environments.0.oracle={name: cfr, iterations: 50}", "bots.b={name: random}"]
    from_text, from_mappings = (
        resolve(apply_overrides(load_recipe("kuhn-tiny"), overrides))
        for overrides in (text_overrides, mapping_overrides)
    )
    assert from_text == from_mappings
    with pytest.raises(ValueError, match="Out of range"):
        to_option_text("x", {"a": float("inf")})
    row = {
        "name": "k",
        "game": "kuhn_poker",
        "role": "trained",
        "kind": "match",
        "opponent": {"name": "cfr", "iteration": 7},
    }
    with pytest.raises(ConfigError, match="iterations"):
        check_suite("x", {"rows": [row]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        ("mars 'gamma", "cannot be read"),
        ("mars gamma", "'gamma' is not an option; write key=value"),
        ("mars:as_released preset=x", "gives the name or preset twice"),
        ("marz", "Did you mean 'mars'"),
        ("mars gamma=[", "is not a value"),
    ],
)
def test_a_text_that_names_no_plug_in_is_refused_with_one_line(text, message):
    with pytest.raises(ConfigError) as error:
        resolve({"environments": [{"name": "kuhn_poker"}], "credit": text})
    assert message in str(error.value) and "\n" not in str(error.value)


@given(st.text(max_size=40))
def test_any_text_names_a_plug_in_or_is_refused_with_one_line(text):
    try:
        resolve({"environments": [{"name": "kuhn_poker"}], "credit": text})
    except ConfigError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("entry", [OpponentEntry, OracleEntry])
def test_a_suite_accepts_options_beside_the_name_nested_or_as_text(entry):
    forms = ({"name": "cfr", "iterations": 7}, {"name": "cfr", "options": {"iterations": 7}}, "cfr iterations=7")
    assert [entry.model_validate(form).model_dump() for form in forms] == [
        {"name": "cfr", "options": {"iterations": 7}}
    ] * 3
    with pytest.raises(ValueError, match="iterations is both beside the name and under options"):
        entry.model_validate({"name": "cfr", "iterations": 7, "options": {"iterations": 8}})


@pytest.mark.parametrize("name", suite_names())
def test_opponents_of_suites_can_be_written_as_text(name):
    for row in load_suite(name)[1].rows:
        for entry in filter(None, (row.opponent, row.oracle)):
            text = " ".join([entry.name, *(f"{key}={value!r}" for key, value in entry.options.items())])
            assert parse_named(text, "x", "x")[1] == entry.options
            if entry is row.opponent:
                assert parse_agent(text) == entry.spec


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e6, 1e6) | st.text(),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=4,
)


@given(st.text(min_size=1), st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), VALUES, max_size=4))
@example("my player", {"system": "\U0001f600 \u00e9\n\x85\x7f"})
def test_a_written_plug_in_is_read_back_equal(name, options):
    assert parse_named(to_option_text(name, options), "x", "x") == (name, options)
    assert to_option_text(name if name.isascii() else "x", options).isascii()
